//! Programs that do what ours do, for benches to compare with.

use std::process::{Command, Stdio};

use super::wheels::{self, Needs};
use super::{Result, java17, maven, versions};

/// The DataStax bulk loader; the caller adds its arguments.
pub fn dsbulk() -> Result<Command> {
    let group = "com.datastax.oss";
    let modules = [
        "dsbulk-runner",
        "dsbulk-workflow-load",
        "dsbulk-connectors-csv",
        "dsbulk-connectors-json",
        "dsbulk-executor-reactor",
        "dsbulk-batcher-reactor",
        "dsbulk-codecs-text",
        "dsbulk-codecs-jdk",
    ];
    let artifacts = modules.map(|module| (group, module, versions::DSBULK));
    let classpath = maven::classpath(&format!("dsbulk-{}", versions::DSBULK), &artifacts)?;
    let mut command = Command::new(java17()?);
    command.args(["-cp", &classpath, "com.datastax.oss.dsbulk.runner.DataStaxBulkLoader"]);
    command.stdin(Stdio::null());
    Ok(command)
}

/// Cassandra's shell, whose `COPY` loads files; the caller adds its arguments.
pub fn cqlsh() -> Result<Command> {
    let directory = wheels::package(&format!("cqlsh=={}", versions::CQLSH), Needs::Included)?;
    let mut command = Command::new("python3");
    command.env("PYTHONPATH", directory).args(["-m", "cqlshlib"]).stdin(Stdio::null());
    Ok(command)
}
