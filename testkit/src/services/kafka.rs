//! Kafka 4 in KRaft mode: one process, broker and controller.

use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, Stdio};

use super::start::Plan;
use super::{Context, Error, Result, java, maven, versions};

const LOG4J: &str = "\
Configuration:
  Appenders:
    Console:
      name: STDOUT
      PatternLayout: { pattern: \"%d %-5p %c{1} - %m%n\" }
  Loggers:
    Root:
      level: INFO
      AppenderRef: { ref: STDOUT }
";

/// Writes the configuration, formats the storage once, and returns the command.
pub(super) fn prepare(plan: &Plan<'_>) -> Result<Vec<OsString>> {
    let classpath = maven::classpath(
        &format!("kafka-{}", versions::KAFKA),
        &[
            ("org.apache.kafka", "kafka_2.13", versions::KAFKA),
            ("org.apache.kafka", "kafka-tools", versions::KAFKA),
            ("org.apache.logging.log4j", "log4j-core", versions::LOG4J),
            ("org.apache.logging.log4j", "log4j-slf4j-impl", versions::LOG4J),
        ],
    )?;
    let properties = plan.write("server.properties", &properties(plan))?;
    let log4j = plan.write("log4j2.yaml", LOG4J)?;
    let mut command: Vec<OsString> = vec![java::java17()?.into()];
    command.extend(["-XX:+UseSerialGC", "-XX:-UsePerfData"].map(Into::into));
    // A heap that grows does so in full collections, each a pause that a client sees.
    command.push(format!("-Xms{}", plan.spec.heap).into());
    command.push(format!("-Xmx{}", plan.spec.heap).into());
    command.push(format!("-Dlog4j2.configurationFile={}", log4j.display()).into());
    if plan.spec.quick_compiler {
        command.push("-XX:TieredStopAtLevel=1".into());
    }
    command.extend(["-cp".into(), classpath.into()]);
    if !plan.directory.join("data/meta.properties").is_file() {
        format_storage(&command, &properties, plan.directory)?;
    }
    command.extend(["kafka.Kafka".into(), properties.into()]);
    Ok(command)
}

/// Kafka listens before it is ready; it says so when it is.
pub(super) const READY_LINE: &str = "Kafka Server started";

fn properties(plan: &Plan<'_>) -> String {
    let (port, controller) = (plan.port("kafka"), plan.port("controller"));
    let host = plan.host;
    let mut properties = vec![
        ("process.roles", "broker,controller".to_owned()),
        ("node.id", "1".to_owned()),
        ("controller.quorum.voters", format!("1@{host}:{controller}")),
        ("listeners", format!("PLAINTEXT://{host}:{port},CONTROLLER://{host}:{controller}")),
        ("advertised.listeners", format!("PLAINTEXT://{host}:{port}")),
        ("inter.broker.listener.name", "PLAINTEXT".to_owned()),
        ("controller.listener.names", "CONTROLLER".to_owned()),
        ("listener.security.protocol.map", "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT".to_owned()),
        ("log.dirs", plan.directory.join("data").display().to_string()),
        ("log.segment.bytes", "67108864".to_owned()),
        ("num.partitions", "1".to_owned()),
        ("auto.create.topics.enable", "true".to_owned()),
        ("group.initial.rebalance.delay.ms", "0".to_owned()),
    ];
    // One broker cannot hold three copies of the internal topics.
    for key in [
        "default.replication.factor",
        "offsets.topic.replication.factor",
        "transaction.state.log.replication.factor",
        "transaction.state.log.min.isr",
        "share.coordinator.state.topic.replication.factor",
        "share.coordinator.state.topic.min.isr",
    ] {
        properties.push((key, "1".to_owned()));
    }
    // Fifty partitions each are the default; creating them is most of a first transaction.
    for key in ["offsets.topic.num.partitions", "transaction.state.log.num.partitions"] {
        properties.push((key, "4".to_owned()));
    }
    let settings = &plan.spec.settings;
    let own = properties.into_iter().filter(|(key, _)| !settings.contains_key(*key));
    let own: String = own.map(|(key, value)| format!("{key}={value}\n")).collect();
    let overrides: String =
        settings.iter().map(|(key, value)| format!("{key}={value}\n")).collect();
    own + &overrides
}

fn format_storage(java: &[OsString], properties: &Path, directory: &Path) -> Result<()> {
    let Some((program, arguments)) = java.split_first() else {
        return Err(Error::new("no java command"));
    };
    let output = Command::new(program)
        .arg("-XX:TieredStopAtLevel=1")
        .args(arguments)
        .args(["kafka.tools.StorageTool", "format", "-t", &cluster_id()?, "-c"])
        .arg(properties)
        .current_dir(directory)
        .stdin(Stdio::null())
        .output()
        .or_fail(|| "run java".to_owned())?;
    if output.status.success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    Err(Error::new(format!("cannot format Kafka's storage: {}", text.trim_end())))
}

/// 16 random bytes in unpadded base64url, of which the last of 22 characters carries two bits.
fn cluster_id() -> Result<String> {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let uuid = std::fs::read_to_string("/proc/sys/kernel/random/uuid")
        .or_fail(|| "read random bytes".to_owned())?;
    let bits = u128::from_str_radix(&uuid.trim().replace('-', ""), 16)
        .or_fail(|| "read random bytes".to_owned())?;
    // An id that starts with a dash would be taken for an option; the first half of the alphabet
    // holds letters only.
    let bits = bits & !(1 << 127);
    let id = (0..22).map(|position: u32| {
        let index = if position < 21 { bits >> (122 - 6 * position) } else { bits << 4 } & 63;
        usize::try_from(index).map_or('A', |index| char::from(ALPHABET[index]))
    });
    Ok(id.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cluster_ids_have_the_length_kafka_wants_and_differ() {
        let (one, two) = (cluster_id().expect("an id"), cluster_id().expect("an id"));
        assert_eq!(one.len(), 22);
        assert_ne!(one, two);
        assert!((0..200).all(|_| !cluster_id().expect("an id").starts_with('-')));
        assert!(one.ends_with(['A', 'Q', 'g', 'w']), "two bits remain: {one}");
    }
}
