//! Passwords and tokens: where they are, not what they are.

use std::borrow::Cow;
use std::fmt;
use std::path::PathBuf;

use helenus::{Failure, Kind};
use secrecy::SecretString;
use serde::de::{self, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

/// A password, by where it is kept.
#[derive(Clone, Debug)]
pub(crate) enum Secret {
    /// The file's text, without the line's end.
    File(PathBuf),
    /// The variable's value.
    Environment(String),
    /// Given directly by an overriding variable, as `HELENUS_STORE__PASSWORD`.
    Given(SecretString),
}

/// A secret that is not where it should be.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SecretError {
    #[error("the secret in {} cannot be read", path.display())]
    File {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error("the environment variable {name}, which should hold a secret, is not set")]
    Environment { name: String },
}

impl Failure for SecretError {
    fn kind(&self) -> Kind {
        Kind::Invalid
    }

    fn code(&self) -> &'static str {
        "invalid"
    }

    fn remedy(&self) -> Option<Cow<'static, str>> {
        Some("put it where the configuration says it is".into())
    }
}

impl Secret {
    /// Goes and gets it.
    #[expect(clippy::disallowed_methods, reason = "configuration may read the environment")]
    pub(crate) fn reveal(&self) -> Result<SecretString, SecretError> {
        match self {
            Secret::File(path) => std::fs::read_to_string(path)
                .map(|text| SecretString::from(text.trim_end_matches(['\r', '\n'])))
                .map_err(|source| SecretError::File { path: path.clone(), source }),
            Secret::Environment(name) => std::env::var(name)
                .map(SecretString::from)
                .map_err(|_| SecretError::Environment { name: name.clone() }),
            Secret::Given(secret) => Ok(secret.clone()),
        }
    }
}

/// Keys whose value is a secret, in whatever section.
pub(super) const KEYS: &[&str] = &["password", "mask_salt", "tokens"];

/// What the environment overlay puts in place of a given password.
pub(super) const GIVEN: &str = "given";

impl<'de> Deserialize<'de> for Secret {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(SecretVisitor)
    }
}

struct SecretVisitor;

impl<'de> Visitor<'de> for SecretVisitor {
    type Value = Secret;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("{ file = \"PATH\" } or { env = \"NAME\" }")
    }

    // Says nothing of the value: it is a password.
    fn visit_str<E: de::Error>(self, _: &str) -> Result<Secret, E> {
        Err(E::custom(
            "a password must not stand in the file; write { file = \"PATH\" } or { env = \"NAME\" }",
        ))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Secret, A::Error> {
        let Some((key, value)) = map.next_entry::<String, String>()? else {
            return Err(de::Error::invalid_length(0, &self));
        };
        let secret = match key.as_str() {
            "file" => Secret::File(PathBuf::from(value)),
            "env" => Secret::Environment(value),
            GIVEN => Secret::Given(SecretString::from(value)),
            other => return Err(de::Error::unknown_field(other, &["file", "env"])),
        };
        match map.next_key::<String>()? {
            None => Ok(secret),
            Some(_) => Err(de::Error::custom("a password is in one place, not in two")),
        }
    }
}
