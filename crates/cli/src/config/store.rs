//! `[store]` and `[store.cassandra]`: where things are kept, and how a cluster is used.

use std::path::PathBuf;
use std::time::Duration;

use helenus::backend::StoreUrl;
use helenus::cassandra::{self, ClientCertificate, Consistency, Replication, SerialConsistency};
use helenus::{Bounds, StoreOptions};
use serde::{Deserialize, Deserializer};

use super::secret::SecretError;
use super::{Secret, parsed, values};

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Store {
    #[serde(deserialize_with = "parsed")]
    pub(crate) url: StoreUrl,
    pub(crate) username: Option<String>,
    pub(crate) password: Option<Secret>,
    events_table: Option<String>,
    #[serde(deserialize_with = "values::bytes")]
    append_bytes_max: usize,
    #[serde(deserialize_with = "values::duration")]
    operation_window: Duration,
    pub(super) cassandra: Cassandra,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Cassandra {
    prefix: String,
    #[serde(deserialize_with = "values::replication")]
    replication: Replication,
    #[serde(deserialize_with = "consistency")]
    consistency: Consistency,
    #[serde(deserialize_with = "serial_consistency")]
    serial_consistency: SerialConsistency,
    local_dc: Option<String>,
    #[serde(deserialize_with = "values::duration")]
    request_timeout: Duration,
    #[serde(deserialize_with = "values::duration")]
    connect_timeout: Duration,
    pub(super) client_certificate_file: Option<PathBuf>,
    pub(super) client_key_file: Option<PathBuf>,
}

impl Default for Store {
    fn default() -> Self {
        let Bounds { append_bytes_max, operation_window } = Bounds::default();
        Store {
            url: StoreUrl::Sqlite("helenus.db".into()),
            username: None,
            password: None,
            events_table: None,
            append_bytes_max,
            operation_window,
            cassandra: Cassandra::default(),
        }
    }
}

impl Default for Cassandra {
    fn default() -> Self {
        let options = cassandra::Options::default();
        Cassandra {
            prefix: options.prefix,
            replication: options.replication,
            consistency: options.consistency,
            serial_consistency: options.serial_consistency,
            local_dc: options.local_dc,
            request_timeout: options.request_timeout,
            connect_timeout: options.connect_timeout,
            client_certificate_file: None,
            client_key_file: None,
        }
    }
}

impl Store {
    /// The URL with the user and the password that are kept apart from it.
    pub(crate) fn url_with_login(&self) -> Result<StoreUrl, SecretError> {
        let mut url = self.url.clone();
        let password = self.password.as_ref().map(Secret::reveal).transpose()?;
        url.set_credentials(self.username.clone(), password);
        Ok(url)
    }

    /// How the store is used, but for its messages.
    pub(super) fn options(&self) -> StoreOptions {
        let Store { append_bytes_max, operation_window, .. } = *self;
        let bounds = Bounds { append_bytes_max, operation_window };
        let Cassandra { client_certificate_file, client_key_file, .. } = &self.cassandra;
        let client_certificate = client_certificate_file.clone().zip(client_key_file.clone());
        let cassandra = cassandra::Options {
            prefix: self.cassandra.prefix.clone(),
            events_table: self.events_table.clone(),
            replication: self.cassandra.replication.clone(),
            consistency: self.cassandra.consistency,
            serial_consistency: self.cassandra.serial_consistency,
            local_dc: self.cassandra.local_dc.clone(),
            request_timeout: self.cassandra.request_timeout,
            connect_timeout: self.cassandra.connect_timeout,
            client_certificate: client_certificate.map(|(certificate_file, key_file)| {
                ClientCertificate { certificate_file, key_file }
            }),
            ..cassandra::Options::default()
        };
        StoreOptions { bounds, cassandra, ..StoreOptions::default() }
    }
}

fn consistency<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Consistency, D::Error> {
    values::named(
        deserializer,
        [
            ("one", Consistency::One),
            ("quorum", Consistency::Quorum),
            ("local_quorum", Consistency::LocalQuorum),
            ("all", Consistency::All),
        ],
    )
}

fn serial_consistency<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<SerialConsistency, D::Error> {
    values::named(
        deserializer,
        [("serial", SerialConsistency::Serial), ("local_serial", SerialConsistency::LocalSerial)],
    )
}
