//! `helenus.toml`: defaults, then the file, then the environment.
//!
//! `HELENUS_STORE__URL` overrides `store.url`, and so on for every key. A key nobody knows is
//! refused with the nearest one that exists. Secrets come from the environment or from files of
//! their own and are never printed.

mod broker;
mod capture;
mod effective;
mod keys;
mod load;
mod messaging;
mod relay;
mod secret;
mod serve;
mod store;
mod values;

use std::path::PathBuf;

use helenus::StoreOptions;
use helenus::backend::{MetadataUrl, RegistryUrl, TargetUrl};
use serde::{Deserialize, Deserializer, de};

pub(crate) use broker::Broker;
pub(crate) use capture::Capture;
pub(crate) use keys::template;
pub(crate) use load::{ConfigError, load};
pub(crate) use messaging::{Inbox, Outbox};
pub(crate) use relay::Relay;
pub(crate) use secret::Secret;
pub(crate) use serve::{Auth, Serve};
pub(crate) use store::Store;
pub(crate) use values::parse_duration;

/// Who runs the command: user and machine, as far as the system says.
pub(crate) fn who() -> String {
    let user = std::env::var_os("USER").or_else(|| std::env::var_os("LOGNAME"));
    let user =
        user.map_or_else(|| "somebody".to_owned(), |user| user.to_string_lossy().into_owned());
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    format!("{user}@{}", host.trim())
}

/// Everything that can be configured; see [`template`] for what each key means.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[derive(Default)]
pub(crate) struct Config {
    pub(crate) store: Store,
    pub(crate) outbox: Outbox,
    pub(crate) inbox: Inbox,
    pub(crate) broker: Broker,
    pub(crate) relay: Relay,
    pub(crate) serve: Serve,
    pub(crate) auth: Auth,
    pub(crate) metadata: Metadata,
    pub(crate) target: Target,
    pub(crate) registry: Registry,
    pub(crate) capture: Capture,
    pub(crate) log: Log,
    /// The file it came from, if there was one.
    #[serde(skip)]
    pub(crate) file: Option<PathBuf>,
    #[serde(skip)]
    effective: effective::Effective,
}

impl Config {
    /// How the store is used, its outbox and inbox included.
    pub(crate) fn store_options(&self) -> StoreOptions {
        messaging::applied(&self.outbox, &self.inbox, self.store.options())
    }
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Metadata {
    #[serde(deserialize_with = "parsed")]
    pub(crate) url: MetadataUrl,
    pub(crate) username: Option<String>,
    pub(crate) password: Option<Secret>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Target {
    #[serde(deserialize_with = "parsed_option")]
    pub(crate) url: Option<TargetUrl>,
    pub(crate) username: Option<String>,
    pub(crate) password: Option<Secret>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Registry {
    #[serde(deserialize_with = "parsed_option")]
    pub(crate) url: Option<RegistryUrl>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Log {
    #[serde(deserialize_with = "log_level")]
    pub(crate) level: String,
    pub(crate) format: LogFormat,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub(crate) enum LogFormat {
    Text,
    Json,
}

impl Default for Metadata {
    fn default() -> Self {
        Metadata { url: MetadataUrl::Embedded, username: None, password: None }
    }
}

impl Default for Log {
    fn default() -> Self {
        Log { level: "warn".to_owned(), format: LogFormat::Text }
    }
}

fn parsed<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: std::str::FromStr<Err: std::fmt::Display>,
{
    String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
}

fn parsed_option<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: std::str::FromStr<Err: std::fmt::Display>,
{
    parsed(deserializer).map(Some)
}

/// A level, or levels per part: `info,helenus_relay=debug`.
fn log_level<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];
    let text = String::deserialize(deserializer)?;
    for part in text.split(',') {
        let level = part.rsplit('=').next().unwrap_or(part).trim();
        if !LEVELS.contains(&level) {
            let levels = LEVELS.join(", ");
            return Err(de::Error::custom(format!("'{level}' is not a level; those are {levels}")));
        }
    }
    Ok(text)
}
