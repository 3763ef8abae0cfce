//! Cassandra from its jars: the daemon's own main class, a written-out `cassandra.yaml`, and
//! `nodetool` from the same classpath.

pub(super) mod certificates;
mod jvm;
mod yaml;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use super::start::Plan;
use super::{Context, Error, Result, Service, java, maven};

pub(super) const LOGBACK: &str = "\
<configuration>
  <appender name=\"STDOUT\" class=\"ch.qos.logback.core.ConsoleAppender\">
    <encoder><pattern>%date{ISO8601} %-5level [%thread] %logger{0} - %msg%n</pattern></encoder>
  </appender>
  <root level=\"INFO\"><appender-ref ref=\"STDOUT\"/></root>
</configuration>
";

const LOGBACK_TOOLS: &str = "\
<configuration>
  <appender name=\"STDERR\" class=\"ch.qos.logback.core.ConsoleAppender\">
    <target>System.err</target>
    <encoder><pattern>%-5level %logger{0} - %msg%n</pattern></encoder>
  </appender>
  <root level=\"WARN\"><appender-ref ref=\"STDERR\"/></root>
</configuration>
";

/// Skips the waits that only matter when other nodes may be gossiping about us.
const NO_WAITING: [&str; 2] =
    ["-Dcassandra.skip_wait_for_gossip_to_settle=0", "-Dcassandra.superuser_setup_delay_ms=0"];

/// Writes the configuration and returns the command.
pub(super) fn prepare(plan: &Plan<'_>) -> Result<Vec<OsString>> {
    let (java, classpath) = (runtime(plan)?, classpath(plan)?);
    let conf = plan.directory.join("conf");
    for name in ["conf", "tmp", "cdc_raw"] {
        let directory = plan.directory.join(name);
        std::fs::create_dir_all(&directory)
            .or_fail(|| format!("create {}", directory.display()))?;
    }
    if plan.spec.settings.contains_key("client_encryption_options") {
        certificates::write(plan)?;
    }
    let config = plan.write("conf/cassandra.yaml", &yaml::text(plan))?;
    let logback = plan.write("conf/logback.xml", LOGBACK)?;
    let agent = classpath
        .split(':')
        .find(|jar| jar.contains("/jamm-"))
        .ok_or_else(|| Error::new("Cassandra's classpath has no jamm"))?;

    let mut command: Vec<OsString> = vec![java.into()];
    command.extend(jvm::flags(plan.spec.service).map(Into::into));
    command.extend(NO_WAITING.map(Into::into));
    // As root the daemon locks its initial heap into memory, so that one stays small.
    command.extend(["-ea", "-Xms128M", "-Xss512k", "-XX:+UseG1GC"].map(Into::into));
    command.extend(["-XX:+ExitOnOutOfMemoryError", "-XX:-UsePerfData"].map(Into::into));
    if plan.spec.quick_compiler {
        command.push("-XX:TieredStopAtLevel=1".into());
    }
    let directory = plan.directory.display();
    // Whoever joins others gives up when none answers for so long: on a busy machine they are slow to.
    let ring_delay_ms = if plan.index == 0 { 0 } else { 10_000 };
    for word in [
        format!("-Dcassandra.ring_delay_ms={ring_delay_ms}"),
        format!("-Xmx{}", plan.spec.heap),
        format!("-javaagent:{agent}"),
        format!("-Djava.io.tmpdir={directory}/tmp"),
        format!("-Dcassandra.config=file://{}", config.display()),
        format!("-Dcassandra.storagedir={directory}"),
        format!("-Dlogback.configurationFile={}", logback.display()),
        format!("-Dcassandra.jmx.local.port={}", jmx_port(plan)),
        "-Dcassandra-foreground=yes".to_owned(),
        "-cp".to_owned(),
        format!("{}:{classpath}", conf.display()),
        "org.apache.cassandra.service.CassandraDaemon".to_owned(),
    ] {
        command.push(word.into());
    }
    Ok(command)
}

/// What a Java 17 program needs that has Cassandra's classes in it.
pub(super) fn java_flags() -> impl Iterator<Item = &'static str> {
    jvm::flags(Service::Cassandra)
}

/// Runs `nodetool` against the node and returns what it printed.
pub(super) fn nodetool(plan: &Plan<'_>, arguments: &[&str]) -> Result<String> {
    let logback = plan.write("conf/logback-tools.xml", LOGBACK_TOOLS)?;
    let output = Command::new(runtime(plan)?)
        .args(jvm::flags(plan.spec.service))
        .args(["-Xmx128M", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData"])
        .arg(format!("-Dlogback.configurationFile={}", logback.display()))
        .arg(format!("-Dcassandra.storagedir={}", plan.directory.display()))
        .args(["-cp", &classpath(plan)?, "org.apache.cassandra.tools.NodeTool"])
        .args(["-h", "127.0.0.1", "-p", &jmx_port(plan).to_string()])
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .or_fail(|| "run nodetool".to_owned())?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let text = String::from_utf8_lossy(&output.stderr);
    Err(Error::new(format!("nodetool {}: {}", arguments.join(" "), text.trim_end())))
}

fn runtime(plan: &Plan<'_>) -> Result<PathBuf> {
    match plan.spec.service {
        Service::Cassandra41 | Service::Cassandra40 => java::java11(),
        _ => java::java17(),
    }
}

fn classpath(plan: &Plan<'_>) -> Result<String> {
    let version = plan.spec.service.pinned_version().unwrap_or_default();
    maven::classpath(
        &format!("cassandra-{version}"),
        &[("org.apache.cassandra", "cassandra-all", version)],
    )
}

fn jmx_port(plan: &Plan<'_>) -> u16 {
    plan.port(["jmx", "jmx2", "jmx3"][plan.index])
}
