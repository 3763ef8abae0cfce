//! `cargo xtask ci`: what a change must pass, the same here as on the server.

use std::process::{Command, ExitCode};

use anyhow::{Context, bail};
use helenus_testkit::services::{find_program, workspace};

use crate::arguments::{Arguments, unknown};
use crate::metadata::Package;
use crate::phases::Phases;
use crate::{metadata, packages, test, tidy};

pub(crate) const HELP: &str = "\
Usage: cargo xtask ci

Everything a change must pass, stopping at the first failure: format, tidy, clippy, documentation,
each feature of the library alone, licences and advisories where cargo-deny is installed, all tests
against real services (as `cargo xtask test`), the examples that check themselves, and the
demonstration.
";

/// The library that applications depend on; each of its features must build alone.
const FACADE: &str = "helenus";
/// The program.
const BINARY: &str = "helenus";

/// Runs the command.
pub(crate) fn run(mut arguments: Arguments) -> anyhow::Result<ExitCode> {
    if let Some(word) = arguments.next() {
        return Err(unknown("option", &word, ["--help"]));
    }
    let mut phases = Phases::begin();
    let outcome = all(&mut phases);
    eprintln!("\n{}", phases.table());
    outcome
}

fn all(phases: &mut Phases) -> anyhow::Result<ExitCode> {
    phases.run("format", || cargo(&["fmt", "--all", "--check"]))?;
    phases.run("tidy", tidy::check)?;
    phases.run("system packages", packages::install_missing)?;
    phases.run("clippy", || {
        let scope = ["clippy", "--workspace", "--all-targets", "--all-features", "--locked"];
        cargo(&[&scope[..], &["--", "-D", "warnings"]].concat())
    })?;
    phases.run("documentation", documentation)?;
    let members = metadata::packages()?;
    phases.run("features alone", || features_alone(&members))?;
    phases.run("licences and advisories", deny)?;
    let code = test::full(phases, &[])?;
    if code != ExitCode::SUCCESS {
        return Ok(code);
    }
    phases.run("examples", examples)?;
    phases.run("demonstration", || demonstration(&members))?;
    Ok(ExitCode::SUCCESS)
}

fn documentation() -> anyhow::Result<()> {
    let mut command = crate::cargo();
    command.args(["doc", "--workspace", "--no-deps", "--all-features", "--locked"]);
    finish(command.env("RUSTDOCFLAGS", "-D warnings"))
}

fn features_alone(packages: &[Package]) -> anyhow::Result<()> {
    let Some(facade) = packages.iter().find(|p| p.in_workspace && p.name == FACADE) else {
        eprintln!("there is no package {FACADE} yet");
        return Ok(());
    };
    for feature in facade.features.iter().filter(|feature| *feature != "default") {
        eprintln!("--- {feature}");
        let only = ["--no-default-features", "--features", feature.as_str()];
        cargo(&[&["check", "-p", FACADE, "--locked"], &only[..]].concat())?;
    }
    Ok(())
}

fn deny() -> anyhow::Result<()> {
    if find_program("cargo-deny").is_some() {
        return cargo(&["deny", "--locked", "check"]);
    }
    eprintln!("tidy has checked the licences; advisories need cargo-deny, which is not installed");
    Ok(())
}

/// Examples that fail when what they show is not so, each on a new file.
const EXAMPLES: &[&str] = &["feature_store_day"];

fn examples() -> anyhow::Result<()> {
    // The tests have built them, beside this program; `cargo run` would build them again, with the
    // features of their own package alone.
    let own = std::env::current_exe().context("cannot find this program")?;
    let built = own.with_file_name("examples");
    let folder = workspace().join("target/examples");
    for example in EXAMPLES {
        let folder = folder.join(example);
        if folder.try_exists()? {
            std::fs::remove_dir_all(&folder)?;
        }
        std::fs::create_dir_all(&folder)?;
        let store = format!("sqlite:{}", folder.join("store.db").display());
        finish(Command::new(built.join(example)).arg(&store))?;
    }
    Ok(())
}

fn demonstration(packages: &[Package]) -> anyhow::Result<()> {
    let has_binary = |p: &Package| p.in_workspace && p.binaries.iter().any(|name| name == BINARY);
    if !packages.iter().any(has_binary) {
        eprintln!("there is no binary {BINARY} yet");
        return Ok(());
    }
    let mut command = crate::cargo();
    command.args(["run", "--release", "--locked", "--", "demo", "--seconds", "5"]);
    // To optimize takes a quarter of the whole run, and what the demonstration checks does not depend on it.
    let quickly = [("LTO", "off"), ("OPT_LEVEL", "1"), ("CODEGEN_UNITS", "16")];
    command.envs(quickly.map(|(key, value)| (format!("CARGO_PROFILE_RELEASE_{key}"), value)));
    finish(&mut command)
}

fn cargo(arguments: &[&str]) -> anyhow::Result<()> {
    finish(crate::cargo().args(arguments))
}

fn finish(command: &mut Command) -> anyhow::Result<()> {
    let words: Vec<_> = [command.get_program()].into_iter().chain(command.get_args()).collect();
    let words = words.join(" ".as_ref()).to_string_lossy().into_owned();
    let status = command.status().with_context(|| format!("cannot run `{words}`"))?;
    if !status.success() {
        bail!("`{words}` ended with {status}");
    }
    Ok(())
}
