//! `[broker]`: where messages are published to.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use helenus::BrokerOptions;
use helenus::backend::BrokerUrl;
use serde::Deserialize;

use super::secret::SecretError;
use super::{Secret, parsed, values};

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Broker {
    #[serde(deserialize_with = "parsed")]
    pub(crate) url: BrokerUrl,
    username: Option<String>,
    password: Option<Secret>,
    #[serde(deserialize_with = "values::flag")]
    create_topics: bool,
    #[serde(deserialize_with = "values::count")]
    partitions: u32,
    #[serde(deserialize_with = "values::duration")]
    request_timeout: Duration,
    #[serde(deserialize_with = "values::duration")]
    pub(crate) retention: Duration,
    #[serde(deserialize_with = "values::pairs")]
    settings: BTreeMap<String, Setting>,
}

/// A value of one of librdkafka's settings, which may be a secret.
#[derive(Clone)]
pub(super) struct Setting(String);

impl From<String> for Setting {
    fn from(value: String) -> Self {
        Setting(value)
    }
}

impl fmt::Debug for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("…")
    }
}

impl Default for Broker {
    fn default() -> Self {
        let BrokerOptions { timeout, .. } = BrokerOptions::default();
        Broker {
            url: BrokerUrl::Embedded,
            username: None,
            password: None,
            create_topics: true,
            partitions: 4,
            request_timeout: timeout,
            // What Kafka does unless it is told otherwise.
            retention: Duration::from_secs(7 * 24 * 60 * 60),
            settings: BTreeMap::new(),
        }
    }
}

impl Broker {
    /// The URL with the user and the password that are kept apart from it.
    pub(crate) fn url_with_login(&self) -> Result<BrokerUrl, SecretError> {
        let mut url = self.url.clone();
        let password = self.password.as_ref().map(Secret::reveal).transpose()?;
        url.set_credentials(self.username.clone(), password);
        Ok(url)
    }

    /// How the broker is used.
    pub(crate) fn options(&self) -> BrokerOptions {
        let settings = self.settings.iter().map(|(key, value)| (key.clone(), value.0.clone()));
        BrokerOptions {
            create_topics: self.create_topics.then_some(self.partitions),
            timeout: self.request_timeout,
            settings: settings.collect(),
        }
    }
}
