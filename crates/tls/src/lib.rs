//! One way to encrypt and to trust, for every backend that speaks through rustls.
//!
//! Trust is the system's certificate authorities plus a PEM file where the URL names one
//! (`?ca_file=PATH`). Kafka is not here: librdkafka brings OpenSSL (feature `kafka-tls`).

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};

/// Why there is nothing to trust.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file of certificates cannot be read.
    #[error("the certificates in {} cannot be read", path.display())]
    Certificates {
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
    /// The file of the client's own key cannot be read.
    #[error("the private key in {} cannot be read", path.display())]
    Key {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: rustls::pki_types::pem::Error,
    },
    /// Neither the system nor a file names an authority.
    #[error("the system has no certificate authorities, and no ca_file is given")]
    NothingTrusted,
    /// The library refused its own defaults.
    #[error("TLS cannot be set up")]
    Setup(#[source] rustls::Error),
}

/// Who a client says it is, where a server asks: files in PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientCertificate {
    /// The certificate, followed by those that lead to its authority.
    pub certificate_file: PathBuf,
    /// Its private key, not encrypted.
    pub key_file: PathBuf,
}

/// A client that trusts the system's authorities and those in `ca_file`.
pub fn client_config(ca_file: Option<&Path>) -> Result<Arc<ClientConfig>, Error> {
    client_config_as(ca_file, None)
}

/// The same for a client that can say who it is.
pub fn client_config_as(
    ca_file: Option<&Path>,
    own: Option<&ClientCertificate>,
) -> Result<Arc<ClientConfig>, Error> {
    let provider = Arc::new(ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(Error::Setup)?
        .with_root_certificates(roots(ca_file)?);
    let config = match own {
        None => config.with_no_client_auth(),
        Some(ClientCertificate { certificate_file, key_file }) => {
            let chain = certificates(certificate_file)?;
            let key = PrivateKeyDer::from_pem_file(key_file)
                .map_err(|source| Error::Key { path: key_file.clone(), source })?;
            config
                .with_client_auth_cert(chain, key)
                .map_err(|source| Error::Certificate { path: certificate_file.clone(), source })?
        }
    };
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
        for certificate in certificates(path)? {
            let refused = |source| Error::Certificate { path: path.to_owned(), source };
            roots.add(certificate).map_err(refused)?;
        }
    }
    if roots.is_empty() { Err(Error::NothingTrusted) } else { Ok(roots) }
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, Error> {
    let read = |source| Error::Certificates { path: path.to_owned(), source };
    CertificateDer::pem_file_iter(path).map_err(read)?.map(|found| found.map_err(read)).collect()
}
