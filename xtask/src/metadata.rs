//! What `cargo metadata` says, cut down to what the checks ask for.

use anyhow::{Context, bail};
use serde_json::Value;

/// A package of the dependency graph.
#[derive(Debug, Clone, Default)]
pub(crate) struct Package {
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) licence: Option<String>,
    pub(crate) in_workspace: bool,
    pub(crate) dependencies: Vec<Dependency>,
    pub(crate) features: Vec<String>,
    pub(crate) binaries: Vec<String>,
}

/// A dependency as a manifest declares it.
#[derive(Debug, Clone)]
pub(crate) struct Dependency {
    pub(crate) name: String,
    /// Only for tests, examples and benches.
    pub(crate) is_dev: bool,
}

/// Every package that a build for this machine may use, with all features.
pub(crate) fn packages() -> anyhow::Result<Vec<Package>> {
    let output = crate::cargo()
        .args(["metadata", "--format-version", "1", "--locked", "--all-features"])
        .args(["--filter-platform", &host()?])
        .stderr(std::process::Stdio::inherit())
        .output()
        .context("cannot run cargo metadata")?;
    if !output.status.success() {
        bail!("cargo metadata failed");
    }
    let metadata: Value = serde_json::from_slice(&output.stdout)?;
    let members: Vec<&str> = strings(&metadata["workspace_members"]).collect();
    let packages = metadata["packages"].as_array().context("cargo metadata without packages")?;
    Ok(packages.iter().map(|package| read(package, &members)).collect())
}

fn read(package: &Value, members: &[&str]) -> Package {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let dependencies = package["dependencies"].as_array().into_iter().flatten();
    let targets = package["targets"].as_array().into_iter().flatten();
    Package {
        name: text(&package["name"]),
        version: text(&package["version"]),
        licence: package["license"].as_str().map(str::to_owned),
        in_workspace: package["id"].as_str().is_some_and(|id| members.contains(&id)),
        dependencies: dependencies
            .map(|dependency| Dependency {
                name: text(&dependency["name"]),
                is_dev: dependency["kind"] == "dev",
            })
            .collect(),
        features: package["features"]
            .as_object()
            .into_iter()
            .flatten()
            .map(|(f, _)| f.clone())
            .collect(),
        binaries: targets
            .filter(|target| strings(&target["kind"]).any(|kind| kind == "bin"))
            .map(|target| text(&target["name"]))
            .collect(),
    }
}

fn strings(value: &Value) -> impl Iterator<Item = &str> {
    value.as_array().into_iter().flatten().filter_map(Value::as_str)
}

fn host() -> anyhow::Result<String> {
    let output =
        std::process::Command::new("rustc").arg("-vV").output().context("cannot run rustc")?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let host = text.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned).context("rustc names no host")
}
