//! Classpaths and archives from Maven repositories, through `mvn` itself so that a machine's own
//! mirrors and credentials are honoured.
//!
//! The jars stay in Maven's local repository; the cache holds only the pom that was resolved and
//! the classpath that came out. One resolve runs at a time: Maven's local repository does not
//! take two writers well.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::{Context, Error, Result, cache, find_program, versions};

/// A download may fail for a moment; a wrong version fails every time.
const ATTEMPTS: u32 = 3;
const PAUSE: Duration = Duration::from_secs(2);

static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// A dependency: group, artifact, version.
pub(super) type Coordinate<'a> = (&'a str, &'a str, &'a str);

/// The runtime classpath of these artifacts and all they need, colon-separated.
pub(super) fn classpath(name: &str, artifacts: &[Coordinate<'_>]) -> Result<String> {
    resolve(name, &pom_text(name, artifacts))
}

/// The same of a whole pom, for what Maven by itself would put together wrongly.
pub(super) fn resolve(name: &str, pom: &str) -> Result<String> {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let directory = cache().join("maven").join(name);
    std::fs::create_dir_all(&directory).or_fail(|| format!("create {}", directory.display()))?;
    let resolved_pom = directory.join("resolved.xml");
    let classpath_file = directory.join("classpath");
    if std::fs::read_to_string(&resolved_pom).is_ok_and(|text| text == pom)
        && let Ok(classpath) = std::fs::read_to_string(&classpath_file)
        && !classpath.is_empty()
        && classpath.split(':').all(|jar| Path::new(jar).is_file())
    {
        return Ok(classpath);
    }
    eprintln!("{name:<24} resolving with Maven");
    let pom_file = directory.join("pom.xml");
    std::fs::write(&pom_file, pom).or_fail(|| format!("write {}", pom_file.display()))?;
    run(&[
        "-f".to_owned(),
        pom_file.display().to_string(),
        plugin_goal("build-classpath"),
        "-DincludeScope=runtime".to_owned(),
        format!("-Dmdep.outputFile={}", classpath_file.display()),
    ])?;
    std::fs::rename(&pom_file, &resolved_pom).or_fail(|| "finish a resolve".to_owned())?;
    std::fs::read_to_string(&classpath_file)
        .or_fail(|| format!("read {}", classpath_file.display()))
}

/// An archive, copied to the cache; `artifact` is `group:artifact:version:type:classifier`.
pub(super) fn archive(name: &str, artifact: &str) -> Result<PathBuf> {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let directory = cache().join("archives").join(name);
    eprintln!("{name:<24} fetching with Maven");
    run(&[
        plugin_goal("copy"),
        format!("-Dartifact={artifact}"),
        format!("-DoutputDirectory={}", directory.display()),
    ])?;
    let mut files = std::fs::read_dir(&directory)
        .or_fail(|| format!("read {}", directory.display()))?
        .filter_map(std::result::Result::ok);
    files
        .next()
        .map(|file| file.path())
        .ok_or_else(|| Error::new(format!("Maven copied nothing for {artifact}")))
}

fn plugin_goal(goal: &str) -> String {
    let version = versions::MAVEN_DEPENDENCY_PLUGIN;
    format!("org.apache.maven.plugins:maven-dependency-plugin:{version}:{goal}")
}

fn run(arguments: &[String]) -> Result<()> {
    let mvn = find_program("mvn").ok_or_else(|| {
        Error::new("mvn is not installed: `apt-get install maven`, or run `cargo xtask test` once")
    })?;
    let mut last = String::new();
    for attempt in 1..=ATTEMPTS {
        let output = Command::new(&mvn)
            .args(["-B", "-q", "-Dstyle.color=never"])
            .args(arguments)
            .stdin(Stdio::null())
            .output()
            .or_fail(|| "run mvn".to_owned())?;
        if output.status.success() {
            return Ok(());
        }
        last = String::from_utf8_lossy(&output.stdout).into_owned();
        last.push_str(&String::from_utf8_lossy(&output.stderr));
        if attempt < ATTEMPTS {
            std::thread::sleep(PAUSE);
        }
    }
    Err(Error::new(format!("Maven failed {ATTEMPTS} times:\n{}", last.trim_end())))
}

fn pom_text(name: &str, artifacts: &[Coordinate<'_>]) -> String {
    let dependencies: String = artifacts
        .iter()
        .map(|(group, artifact, version)| {
            format!(
                "    <dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId>\
                 <version>{version}</version></dependency>\n"
            )
        })
        .collect();
    format!(
        "<project>\n  <modelVersion>4.0.0</modelVersion>\n  <groupId>helenus.services</groupId>\n  \
         <artifactId>{name}</artifactId>\n  <version>1</version>\n  <packaging>pom</packaging>\n  \
         <dependencies>\n{dependencies}  </dependencies>\n</project>\n"
    )
}
