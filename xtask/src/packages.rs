//! System packages the full test run needs: found by what they provide, installed by apt where
//! missing, named exactly where there is no apt.
//!
//! Debian's server packages start their server on installation. Ours are started by us, so for
//! the time of the installation a `policy-rc.d` forbids it, and PostgreSQL is told not to create
//! its main cluster. Neither is touched when the machine's owner has already decided.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, bail};
use helenus_testkit::services::{chromium, find_program, java17, postgres_bin_directory};

/// What is needed, the Debian packages that bring it, and how to see whether it is there.
struct Need {
    what: &'static str,
    packages: &'static [&'static str],
    is_there: fn() -> bool,
}

const NEEDS: &[Need] = &[
    Need { what: "Java 17", packages: &["openjdk-17-jre-headless"], is_there: || java17().is_ok() },
    Need { what: "Maven", packages: &["maven"], is_there: || on_path("mvn") },
    Need {
        what: "the PostgreSQL server",
        packages: &["postgresql"],
        is_there: || postgres_bin_directory().is_some(),
    },
    Need {
        what: "the Redis server",
        packages: &["redis-server"],
        is_there: || on_path("redis-server"),
    },
    Need { what: "Chromium", packages: &["chromium"], is_there: || chromium().is_ok() },
    Need { what: "pip for Python 3", packages: &["python3-pip"], is_there: has_pip },
    Need {
        what: "OpenSSL's headers and pkg-config",
        packages: &["libssl-dev", "pkg-config"],
        is_there: has_openssl,
    },
];

/// Run as root; `"$@"` are the packages.
const INSTALL: &str = r#"
set -e
export DEBIAN_FRONTEND=noninteractive
policy=/usr/sbin/policy-rc.d
mark='written by cargo xtask for the time of an installation'
if [ ! -e "$policy" ] || grep -q "$mark" "$policy"; then
  trap 'rm -f "$policy"' EXIT
  trap 'exit 1' INT TERM HUP
  printf '#!/bin/sh\n# %s: no server starts\nexit 101\n' "$mark" >"$policy"
  chmod 755 "$policy"
fi
apt='apt-get -q -y -o DPkg::Lock::Timeout=300 -o Acquire::Retries=3'
# An earlier installation may have been killed half-way.
dpkg --configure -a
$apt update
case " $* " in *' postgresql '*)
  if [ ! -e /etc/postgresql-common/createcluster.conf ]; then
    $apt install --no-install-recommends postgresql-common
    sed -i 's/^#* *create_main_cluster.*/create_main_cluster = false/' \
      /etc/postgresql-common/createcluster.conf
  fi
esac
$apt install --no-install-recommends "$@"
"#;

/// Installs what is missing; fails with the list where that cannot be done.
pub(crate) fn install_missing() -> anyhow::Result<()> {
    let missing: Vec<&Need> = NEEDS.iter().filter(|need| !(need.is_there)()).collect();
    if missing.is_empty() {
        eprintln!("all system packages are there");
        return Ok(());
    }
    let packages: Vec<&str> =
        missing.iter().flat_map(|need| need.packages.iter().copied()).collect();
    if find_program("apt-get").is_none() {
        let list: String = missing
            .iter()
            .map(|need| format!("\n  {} (Debian: {})", need.what, need.packages.join(", ")))
            .collect();
        bail!("this system has no apt-get; install by hand:{list}");
    }
    eprintln!("installing {}", packages.join(" "));
    let mut command = as_root()?;
    let status = command
        .args(["sh", "-c", INSTALL, "sh"])
        .args(&packages)
        .stdin(Stdio::null())
        .status()
        .context("cannot run apt-get")?;
    if !status.success() {
        bail!("apt-get could not install {}", packages.join(" "));
    }
    match missing.iter().find(|need| !(need.is_there)()) {
        Some(need) => bail!("{} is still not there after {}", need.what, need.packages.join(", ")),
        None => Ok(()),
    }
}

/// `env` as root: by sudo unless we are.
fn as_root() -> anyhow::Result<Command> {
    let output = Command::new("id").arg("-u").output().context("cannot run id")?;
    if output.stdout.trim_ascii() == b"0" {
        return Ok(Command::new("env"));
    }
    let sudo = find_program("sudo").context("installing packages takes root or sudo")?;
    Ok(Command::new(sudo))
}

fn on_path(program: &str) -> bool {
    find_program(program).is_some()
}

fn has_pip() -> bool {
    succeeds("python3", &["-m", "pip", "--version"])
}

fn has_openssl() -> bool {
    let header = Path::new("/usr/include/openssl/ssl.h").is_file();
    on_path("pkg-config") && (header || succeeds("pkg-config", &["--exists", "openssl"]))
}

fn succeeds(program: &str, arguments: &[&str]) -> bool {
    Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}
