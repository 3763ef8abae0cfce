//! Apicurio Registry with its Confluent-compatible interface, schemas in memory.

use std::ffi::OsString;
use std::path::Path;
use std::process::Command;

use super::start::Plan;
use super::{Context, Error, Result, cache, files, java, maven, versions};

/// The base of the Confluent-compatible interface.
pub(super) const BASE_PATH: &str = "/apis/ccompat/v7";

/// Unpacks the archive once and returns the command.
pub(super) fn prepare(plan: &Plan<'_>) -> Result<Vec<OsString>> {
    let version = versions::SCHEMA_REGISTRY;
    let unpacked = cache().join(format!("registry-{version}"));
    let jar = unpacked.join(format!("apicurio-registry-app-{version}-runner.jar"));
    if !jar.is_file() {
        let name = format!("registry-{version}");
        let artifact = format!("io.apicurio:apicurio-registry-app:{version}:tar.gz:all");
        unpack(&maven::archive(&name, &artifact)?, &unpacked)?;
    }
    let mut command: Vec<OsString> = vec![java::java17()?.into()];
    command.extend(["-XX:+UseSerialGC", "-XX:-UsePerfData", "-Xms64M"].map(Into::into));
    command.push(format!("-Xmx{}", plan.spec.heap).into());
    // It serves a handful of schemas: what it compiles in its first seconds is enough.
    command.push("-XX:TieredStopAtLevel=1".into());
    command.push(format!("-Dquarkus.http.host={}", plan.host).into());
    command.push(format!("-Dquarkus.http.port={}", plan.port("http")).into());
    for (key, value) in &plan.spec.settings {
        command.push(format!("-D{key}={value}").into());
    }
    command.extend(["-jar".into(), jar.into()]);
    Ok(command)
}

fn unpack(archive: &Path, target: &Path) -> Result<()> {
    let unfinished = target.with_extension("new");
    files::remove_tree(&unfinished)?;
    std::fs::create_dir_all(&unfinished).or_fail(|| format!("create {}", unfinished.display()))?;
    let status = Command::new("tar")
        .arg("-xzf")
        .arg(archive)
        .arg("-C")
        .arg(&unfinished)
        .status()
        .or_fail(|| "run tar".to_owned())?;
    if !status.success() {
        return Err(Error::new(format!("cannot unpack {}", archive.display())));
    }
    files::remove_tree(target)?;
    std::fs::rename(&unfinished, target).or_fail(|| format!("write {}", target.display()))
}
