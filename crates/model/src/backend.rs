//! Backend URLs: one configuration key says which backend a part runs on, and where it is.
//!
//! | key | embedded | real |
//! |---|---|---|
//! | `store.url` | `sqlite:helenus.db` | `cassandra://node1,node2:9042/shop` |
//! | `broker.url` | `embedded:` | `kafka://broker1:9092,broker2` |
//! | `metadata.url` | `embedded:` | `redis://host:6379/0` |
//! | `target.url` | `sqlite:target.db` | `postgres://user@host/db` |
//! | `registry.url` | | `http://host:8081/path` |
//!
//! A new backend is one variant here and one folder beside its siblings. Passwords are kept as
//! secrets: neither `Debug` nor `Display` shows them.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use secrecy::SecretString;

use crate::{Failure, Kind};

mod endpoint;
mod probe;

pub use endpoint::{Endpoint, Host, without_password};
pub use probe::{Reached, Unreachable};

/// Where messages, receipts and events are kept.
#[derive(Clone, Debug)]
pub enum StoreUrl {
    /// A file on this machine.
    Sqlite(PathBuf),
    /// A Cassandra cluster; the path names the keyspace.
    Cassandra(Endpoint),
}

/// Where messages are published to.
#[derive(Clone, Debug)]
pub enum BrokerUrl {
    /// Topics in the store's SQLite file.
    Embedded,
    /// A Kafka cluster.
    Kafka(Endpoint),
}

/// Where checkpoints, heartbeats and locks are shown.
#[derive(Clone, Debug)]
pub enum MetadataUrl {
    /// Tables in the store's SQLite file.
    Embedded,
    /// A Redis server; the path is the database number.
    Redis(Endpoint),
}

/// Where changes are replicated to.
#[derive(Clone, Debug)]
pub enum TargetUrl {
    /// A file on this machine.
    Sqlite(PathBuf),
    /// A PostgreSQL server; the path names the database.
    Postgres(Endpoint),
}

/// Where Avro schemas are kept: any registry that speaks Confluent's API.
#[derive(Clone, Debug)]
pub struct RegistryUrl(pub Endpoint);

/// A backend URL that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UrlError {
    /// There is no `scheme:` in front.
    #[error("'{text}' is not a URL: it must start with one of {schemes}")]
    NoScheme {
        /// What was given, without a password.
        text: String,
        /// What may stand in front.
        schemes: String,
    },
    /// The scheme is not one of this key's.
    #[error("unknown scheme '{scheme}:' in '{text}': expected one of {schemes}")]
    UnknownScheme {
        /// What was given, without a password.
        text: String,
        /// Its scheme.
        scheme: String,
        /// What may stand in front.
        schemes: String,
    },
    /// The rest of the URL is wrong.
    #[error("'{text}' is not usable: {reason}")]
    Malformed {
        /// What was given, without a password.
        text: String,
        /// What is wrong with it.
        reason: String,
    },
}

impl Failure for UrlError {
    fn kind(&self) -> Kind {
        Kind::Invalid
    }

    fn code(&self) -> &'static str {
        "invalid"
    }
}

/// Scheme and what follows its colon.
struct Split<'a> {
    text: &'a str,
    scheme: &'a str,
    rest: &'a str,
    schemes: &'static [&'static str],
}

impl<'a> Split<'a> {
    fn new(text: &'a str, schemes: &'static [&'static str]) -> Result<Self, UrlError> {
        let Some((scheme, rest)) = text.split_once(':') else {
            let (text, schemes) = (endpoint::without_password(text), list(schemes));
            return Err(UrlError::NoScheme { text, schemes });
        };
        Ok(Split { text, scheme, rest, schemes })
    }

    fn unknown(&self) -> UrlError {
        UrlError::UnknownScheme {
            text: endpoint::without_password(self.text),
            scheme: self.scheme.to_owned(),
            schemes: list(self.schemes),
        }
    }

    fn malformed(&self, reason: impl Into<String>) -> UrlError {
        UrlError::Malformed { text: endpoint::without_password(self.text), reason: reason.into() }
    }

    fn file(&self) -> Result<PathBuf, UrlError> {
        let path = self.rest.strip_prefix("//").unwrap_or(self.rest);
        if path.is_empty() {
            return Err(self.malformed("name the file, as in sqlite:helenus.db"));
        }
        Ok(PathBuf::from(path))
    }

    fn embedded(&self) -> Result<(), UrlError> {
        if self.rest.is_empty() {
            Ok(())
        } else {
            Err(self.malformed("write just 'embedded:'; the file is the one of store.url"))
        }
    }

    fn endpoint(&self, default_port: u16) -> Result<Endpoint, UrlError> {
        Endpoint::parse(self.rest, default_port).map_err(|reason| self.malformed(reason))
    }
}

fn list(schemes: &[&str]) -> String {
    let quoted: Vec<String> = schemes.iter().map(|scheme| format!("'{scheme}:'")).collect();
    quoted.join(", ")
}

macro_rules! url {
    ($name:ident, $schemes:expr, |$split:ident| { $($scheme:pat => $parse:expr,)+ }) => {
        impl FromStr for $name {
            type Err = UrlError;

            fn from_str(text: &str) -> Result<Self, UrlError> {
                let $split = Split::new(text, $schemes)?;
                match $split.scheme {
                    $($scheme => $parse,)+
                    _ => Err($split.unknown()),
                }
            }
        }
    };
}

url!(StoreUrl, &["sqlite", "cassandra"], |split| {
    "sqlite" => split.file().map(StoreUrl::Sqlite),
    "cassandra" => split.endpoint(9042).map(StoreUrl::Cassandra),
});
url!(BrokerUrl, &["embedded", "kafka"], |split| {
    "embedded" => split.embedded().map(|()| BrokerUrl::Embedded),
    "kafka" => split.endpoint(9092).map(BrokerUrl::Kafka),
});
url!(MetadataUrl, &["embedded", "redis", "rediss"], |split| {
    "embedded" => split.embedded().map(|()| MetadataUrl::Embedded),
    "redis" => split.endpoint(6379).map(MetadataUrl::Redis),
    "rediss" => split.endpoint(6379).map(|to| MetadataUrl::Redis(to.with_tls())),
});
url!(TargetUrl, &["sqlite", "postgres", "postgresql"], |split| {
    "sqlite" => split.file().map(TargetUrl::Sqlite),
    "postgres" | "postgresql" => split.endpoint(5432).map(TargetUrl::Postgres),
});
url!(RegistryUrl, &["http", "https"], |split| {
    "http" => split.endpoint(80).map(RegistryUrl),
    "https" => split.endpoint(443).map(|to| RegistryUrl(to.with_tls())),
});

impl StoreUrl {
    /// Gives the connection a user and a password from elsewhere than the URL.
    pub fn set_credentials(&mut self, username: Option<String>, password: Option<SecretString>) {
        if let StoreUrl::Cassandra(endpoint) = self {
            endpoint.set_credentials(username, password);
        }
    }
}

impl BrokerUrl {
    /// Gives the connection a user and a password from elsewhere than the URL.
    pub fn set_credentials(&mut self, username: Option<String>, password: Option<SecretString>) {
        if let BrokerUrl::Kafka(endpoint) = self {
            endpoint.set_credentials(username, password);
        }
    }
}

fn show_file(f: &mut fmt::Formatter<'_>, path: &Path) -> fmt::Result {
    write!(f, "sqlite:{}", path.display())
}

impl fmt::Display for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StoreUrl::Sqlite(path) => show_file(f, path),
            StoreUrl::Cassandra(endpoint) => write!(f, "cassandra:{endpoint}"),
        }
    }
}

impl fmt::Display for BrokerUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BrokerUrl::Embedded => f.write_str("embedded:"),
            BrokerUrl::Kafka(endpoint) => write!(f, "kafka:{endpoint}"),
        }
    }
}

impl fmt::Display for MetadataUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MetadataUrl::Embedded => f.write_str("embedded:"),
            MetadataUrl::Redis(endpoint) => write!(f, "redis:{endpoint}"),
        }
    }
}

impl fmt::Display for TargetUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TargetUrl::Sqlite(path) => show_file(f, path),
            TargetUrl::Postgres(endpoint) => write!(f, "postgres:{endpoint}"),
        }
    }
}

impl fmt::Display for RegistryUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The scheme already says whether the connection is encrypted.
        let scheme = if self.0.tls { "https" } else { "http" };
        write!(f, "{scheme}:{}", Endpoint { tls: false, ..self.0.clone() })
    }
}

#[cfg(test)]
mod tests;
