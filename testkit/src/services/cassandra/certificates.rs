//! An authority of a private node's own, with a certificate for the node and one for a client.
//!
//! Made by `openssl`, which every Debian with a Java runtime has.

use std::process::{Command, Stdio};

use crate::services::start::Plan;
use crate::services::{Context, Error, Result};

/// The authority's certificate: what clients trust.
pub const CA_FILE: &str = "conf/ca.pem";
/// A client's certificate, and its key.
pub const CLIENT_FILES: (&str, &str) = ("conf/client.pem", "conf/client.key");

/// What `cassandra.yaml` says of it; files are relative to the node's directory, where it runs.
pub(in crate::services) fn options(require_client: bool) -> String {
    format!(
        "{{enabled: true, optional: false, require_client_auth: {require_client}, \
         keystore: conf/node.both.pem, truststore: {CA_FILE}, ssl_context_factory: \
         {{class_name: org.apache.cassandra.security.PEMBasedSslContextFactory}}}}"
    )
}

/// Makes the files, once for a node's directory.
pub(super) fn write(plan: &Plan<'_>) -> Result<()> {
    if plan.directory.join(CA_FILE).is_file() {
        return Ok(());
    }
    let config = format!(
        "[req]\ndistinguished_name = name\n[name]\n\
         [ca]\nbasicConstraints = critical, CA:TRUE\n\
         [node]\nbasicConstraints = critical, CA:FALSE\nsubjectAltName = IP:{}\n\
         [client]\nbasicConstraints = critical, CA:FALSE\nextendedKeyUsage = clientAuth\n",
        plan.host
    );
    plan.write("conf/openssl.cnf", &config)?;
    certify(plan, "ca", &[])?;
    for name in ["node", "client"] {
        certify(plan, name, &["-CA", CA_FILE, "-CAkey", "conf/ca.key"])?;
    }
    // Cassandra wants certificate and key in one file.
    let read = |name: &str| {
        let path = plan.directory.join(name);
        std::fs::read_to_string(&path).or_fail(|| format!("read {}", path.display()))
    };
    let both = read("conf/node.key")? + &read("conf/node.pem")?;
    plan.write("conf/node.both.pem", &both).map(drop)
}

fn certify(plan: &Plan<'_>, name: &str, signed_by: &[&str]) -> Result<()> {
    let output = Command::new("openssl")
        .args(["req", "-x509", "-config", "conf/openssl.cnf", "-extensions", name, "-nodes"])
        .args(["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-days", "30"])
        .args(["-subj", &format!("/CN=helenus test {name}")])
        .args(["-keyout", &format!("conf/{name}.key"), "-out", &format!("conf/{name}.pem")])
        .args(signed_by)
        .current_dir(plan.directory)
        .stdin(Stdio::null())
        .output()
        .or_fail(|| "run openssl (`apt-get install openssl`)".to_owned())?;
    if output.status.success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&output.stderr);
    Err(Error::new(format!("openssl made no certificate: {}", text.trim_end())))
}
