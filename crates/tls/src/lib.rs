//! One way to encrypt and to trust, for every backend that speaks through rustls.
//!
//! Trust is the system's certificate authorities plus a PEM file where the URL names one
//! (`?ca_file=PATH`). Kafka is not here: librdkafka brings OpenSSL (feature `kafka-tls`).

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};

/// Why there is nothing to trust.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file of certificate authorities cannot be read.
    #[error("the certificate authorities in {} cannot be read", path.display())]
    CaFile {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: rustls::pki_types::pem::Error,
    },
    /// A certificate in the file is not one.
    #[error("a certificate in {} is not usable", path.display())]
    Certificate {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: rustls::Error,
    },
    /// Neither the system nor a file names an authority.
    #[error("the system has no certificate authorities, and no ca_file is given")]
    NothingTrusted,
    /// The library refused its own defaults.
    #[error("TLS cannot be set up")]
    Setup(#[source] rustls::Error),
}

/// A client that trusts the system's authorities and those in `ca_file`.
pub fn client_config(ca_file: Option<&Path>) -> Result<Arc<ClientConfig>, Error> {
    let provider = Arc::new(ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(Error::Setup)?
        .with_root_certificates(roots(ca_file)?)
        .with_no_client_auth();
    Ok(Arc::new(config))
}

/// Names ring for libraries that take the process's default; one set by the host stays.
pub fn install_default() {
    if CryptoProvider::get_default().is_none() {
        // Lost only to another thread that set one at this moment: then there is one.
        drop(ring::default_provider().install_default());
    }
}

fn roots(ca_file: Option<&Path>) -> Result<RootCertStore, Error> {
    let mut roots = RootCertStore::empty();
    // What of the system's store cannot be parsed is of no use to anybody; the rest is.
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if let Some(path) = ca_file {
        let read = |source| Error::CaFile { path: path.to_owned(), source };
        for certificate in CertificateDer::pem_file_iter(path).map_err(read)? {
            let refused = |source| Error::Certificate { path: path.to_owned(), source };
            roots.add(certificate.map_err(read)?).map_err(refused)?;
        }
    }
    if roots.is_empty() { Err(Error::NothingTrusted) } else { Ok(roots) }
}
