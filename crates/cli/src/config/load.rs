//! Reading the file and laying the environment over it.

use std::borrow::Cow;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use helenus::backend::{BrokerUrl, MetadataUrl, StoreUrl, TargetUrl};
use helenus::{Failure, Kind};
use toml::{Table, Value};

use super::effective::Effective;
use super::{Config, keys, secret};

/// The file that is read when none is named.
const DEFAULT_FILE: &str = "helenus.toml";

/// Variables beside `HELENUS_SECTION__KEY` that are ours.
const NOT_KEYS: &[&str] = &["HELENUS_CONFIG"];

/// Why the configuration cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum ConfigError {
    #[error("the configuration {} cannot be read", path.display())]
    Unreadable {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("the configuration {} is not valid TOML: {message}", path.display())]
    Syntax { path: PathBuf, message: String },
    #[error("unknown key {key} in {place}{}", suggestion(nearest.as_deref()))]
    UnknownKey { key: String, place: String, nearest: Option<String> },
    #[error("{place}: {message}")]
    Value { place: String, message: String },
}

fn suggestion(nearest: Option<&str>) -> String {
    nearest.map(|name| format!("; did you mean {name}?")).unwrap_or_default()
}

impl Failure for ConfigError {
    fn kind(&self) -> Kind {
        Kind::Invalid
    }

    fn code(&self) -> &'static str {
        "config"
    }

    fn remedy(&self) -> Option<Cow<'static, str>> {
        Some(match self {
            ConfigError::Unreadable { .. } => {
                "check the path, or write one with `helenus init`".into()
            }
            _ => "mend the key; `helenus init` writes a file with every key explained".into(),
        })
    }
}

/// Reads `named`, or `helenus.toml` if it is there, and the environment.
pub(crate) fn load(named: Option<&Path>) -> Result<Config, ConfigError> {
    let path = named.unwrap_or(Path::new(DEFAULT_FILE));
    let (text, file) = match std::fs::read_to_string(path) {
        Ok(text) => (text, Some(path.to_owned())),
        Err(error) if named.is_none() && error.kind() == io::ErrorKind::NotFound => {
            (String::new(), None)
        }
        Err(source) => return Err(ConfigError::Unreadable { path: path.to_owned(), source }),
    };
    let config = parse(path, &text, std::env::vars_os())?;
    Ok(Config { file, ..config })
}

fn parse(
    path: &Path,
    text: &str,
    variables: impl Iterator<Item = (OsString, OsString)>,
) -> Result<Config, ConfigError> {
    let file = path.display().to_string();
    let mut table: Table = text.parse().map_err(|error: toml::de::Error| ConfigError::Syntax {
        path: path.to_owned(),
        message: located(text, &error),
    })?;
    refuse_unknown(&table, &file)?;
    // The file alone first, so that a wrong value is blamed on where it stands.
    refuse_passwords(&read(table.clone(), &file)?, &file)?;
    let mut overridden = Vec::new();
    for (name, value) in variables {
        let (Some(name), value) = (name.to_str(), value.to_string_lossy()) else { continue };
        if !name.starts_with("HELENUS_") || NOT_KEYS.contains(&name) {
            continue;
        }
        let rest = name.trim_start_matches("HELENUS_").to_lowercase();
        let dotted = rest.replace("__", ".");
        let Some((section, key)) = dotted.rsplit_once('.') else {
            refuse_single_underscore(name, &rest)?;
            continue;
        };
        lay_over(&mut table, name, section, key, &value)?;
        overridden.push(name.to_owned());
    }
    let place = format!("the environment ({})", overridden.join(", "));
    let effective = Effective::of(&table);
    let config = read(table, &place)?;
    let place = if overridden.is_empty() { &file } else { &place };
    refuse_half_a_certificate(&config, place)?;
    refuse_long_look_back(&config, place)?;
    Ok(Config { effective, ..config })
}

fn read(table: Table, place: &str) -> Result<Config, ConfigError> {
    serde_path_to_error::deserialize(table).map_err(|error| ConfigError::Value {
        message: format!("{}: {}", error.path(), error.inner().message()),
        place: place.to_owned(),
    })
}

/// A password in a URL of the file is one that stands in the file.
fn refuse_passwords(config: &Config, place: &str) -> Result<(), ConfigError> {
    let store = match &config.store.url {
        StoreUrl::Cassandra(endpoint) => Some(endpoint),
        StoreUrl::Sqlite(_) => None,
    };
    let broker = match &config.broker.url {
        BrokerUrl::Kafka(endpoint) => Some(endpoint),
        BrokerUrl::Embedded => None,
    };
    let metadata = match &config.metadata.url {
        MetadataUrl::Redis(endpoint) => Some(endpoint),
        MetadataUrl::Embedded => None,
    };
    let target = match &config.target.url {
        Some(TargetUrl::Postgres(endpoint)) => Some(endpoint),
        _ => None,
    };
    let registry = config.registry.url.as_ref().map(|url| &url.0);
    let endpoints = [
        ("store", store),
        ("broker", broker),
        ("metadata", metadata),
        ("target", target),
        ("registry", registry),
    ];
    for (section, endpoint) in endpoints {
        if endpoint.is_some_and(|endpoint| endpoint.password.is_some()) {
            let message = format!(
                "{section}.url: a password must not stand in the file; \
                 give the URL by HELENUS_{}__URL, or the password by its own key",
                section.to_uppercase()
            );
            return Err(ConfigError::Value { place: place.to_owned(), message });
        }
    }
    Ok(())
}

/// Line and what is wrong there, in one line of text.
fn located(text: &str, error: &toml::de::Error) -> String {
    let message = error.message().replace('\n', ", ");
    match error.span().and_then(|span| text.get(..span.start)) {
        Some(before) => format!("line {}: {message}", before.matches('\n').count() + 1),
        None => message,
    }
}

/// A certificate without its key, or a key without its certificate.
fn refuse_half_a_certificate(config: &Config, place: &str) -> Result<(), ConfigError> {
    let cassandra = &config.store.cassandra;
    let missing = match (&cassandra.client_certificate_file, &cassandra.client_key_file) {
        (Some(_), None) => "client_key_file",
        (None, Some(_)) => "client_certificate_file",
        _ => return Ok(()),
    };
    let message = format!("store.cassandra.{missing} is missing: a certificate needs its key");
    Err(ConfigError::Value { place: place.to_owned(), message })
}

/// Buckets that are gone cannot be looked at.
fn refuse_long_look_back(config: &Config, place: &str) -> Result<(), ConfigError> {
    if config.outbox.bucket_look_back <= config.outbox.bucket_ttl {
        return Ok(());
    }
    let message = "outbox.bucket_look_back must not be longer than outbox.bucket_ttl".to_owned();
    Err(ConfigError::Value { place: place.to_owned(), message })
}

fn refuse_unknown(table: &Table, place: &str) -> Result<(), ConfigError> {
    refuse_unknown_below(None, table, place)
}

/// The same for the keys and sections of a section.
fn refuse_unknown_below(
    above: Option<&keys::Section>,
    table: &Table,
    place: &str,
) -> Result<(), ConfigError> {
    for (name, value) in table {
        let path = above.map_or_else(|| name.clone(), |above| format!("{}.{name}", above.name));
        if let Some(section) = keys::SECTIONS.iter().find(|known| known.name == path) {
            let Some(table) = value.as_table() else {
                let message = format!("{path} is a section: write [{path}] and its keys below");
                return Err(ConfigError::Value { place: place.to_owned(), message });
            };
            refuse_unknown_below(Some(section), table, place)?;
        } else if !keys::names().any(|known| known == path) {
            return Err(unknown(&path, place, keys::beside(above)));
        }
    }
    Ok(())
}

fn unknown(key: &str, place: &str, names: impl Iterator<Item = String>) -> ConfigError {
    let nearest = names
        .map(|name| (strsim::damerau_levenshtein(key, &name), name))
        .min()
        .filter(|(distance, name)| *distance <= name.len() / 2)
        .map(|(_, name)| name);
    ConfigError::UnknownKey { key: key.to_owned(), place: place.to_owned(), nearest }
}

/// `HELENUS_STORE_URL` would otherwise be ignored without a word. Variables that begin with no
/// section's name belong to others.
fn refuse_single_underscore(variable: &str, rest: &str) -> Result<(), ConfigError> {
    let meant = keys::names().find(|name| name.replace('.', "_") == rest);
    match meant {
        Some(name) => {
            let nearest = format!("HELENUS_{}", name.replace('.', "__").to_uppercase());
            let place = "the environment".to_owned();
            Err(ConfigError::UnknownKey { key: variable.to_owned(), place, nearest: Some(nearest) })
        }
        None => Ok(()),
    }
}

fn lay_over(
    table: &mut Table,
    variable: &str,
    section: &str,
    key: &str,
    value: &str,
) -> Result<(), ConfigError> {
    let name = format!("{section}.{key}");
    if !keys::names().any(|known| known == name) {
        // Of the same section, if there is one: another part's key would do another thing.
        let own: Vec<String> =
            keys::names().filter(|known| known.starts_with(&format!("{section}."))).collect();
        let names = if own.is_empty() { keys::names().collect() } else { own };
        return Err(unknown(&name, variable, names.into_iter()));
    }
    let value = if secret::KEYS.contains(&key) {
        Value::Table(Table::from_iter([(secret::GIVEN.to_owned(), Value::from(value))]))
    } else {
        Value::from(value)
    };
    let mut inner = table;
    for part in section.split('.') {
        let entry = inner.entry(part).or_insert_with(|| Value::Table(Table::new()));
        // What the file has there is a section: it was looked at before.
        let Some(section) = entry.as_table_mut() else { return Ok(()) };
        inner = section;
    }
    inner.insert(key.to_owned(), value);
    Ok(())
}

#[cfg(test)]
mod tests;
