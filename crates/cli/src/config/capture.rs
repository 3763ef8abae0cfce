//! `[capture]`: which node, which tables, and where to.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;

use helenus::backend::StoreUrl;
use helenus::capture::cql::change::json::Treatment;
use helenus::capture::options::TablePattern;
use helenus::capture::space::parse_size;
use serde::{Deserialize, Deserializer, de};

use super::values::{count, flag, words};
use super::{Secret, parsed_option};

/// How a node's log is captured.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Capture {
    pub(crate) cdc_raw: Option<PathBuf>,
    #[serde(deserialize_with = "parsed_option")]
    pub(crate) url: Option<StoreUrl>,
    pub(crate) username: Option<String>,
    pub(crate) password: Option<Secret>,
    pub(crate) node: Option<String>,
    pub(crate) state: PathBuf,
    #[serde(deserialize_with = "topic_prefix")]
    pub(crate) topic_prefix: String,
    #[serde(deserialize_with = "count")]
    pub(crate) partitions: u32,
    #[serde(deserialize_with = "patterns")]
    pub(crate) tables: Vec<TablePattern>,
    #[serde(deserialize_with = "treatments")]
    pub(crate) mask: BTreeMap<String, Treatment>,
    pub(crate) mask_salt: Option<Secret>,
    #[serde(deserialize_with = "outboxes")]
    pub(crate) hints: Vec<(String, String)>,
    #[serde(deserialize_with = "flag")]
    pub(crate) read_ahead: bool,
    #[serde(deserialize_with = "size")]
    pub(crate) total_space: Option<u64>,
    #[serde(deserialize_with = "parsed_option")]
    pub(crate) listen: Option<SocketAddr>,
}

impl Default for Capture {
    fn default() -> Self {
        Capture {
            cdc_raw: None,
            url: None,
            username: None,
            password: None,
            node: None,
            state: "helenus-capture".into(),
            topic_prefix: "cassandra".to_owned(),
            partitions: 8,
            tables: Vec::new(),
            mask: BTreeMap::new(),
            mask_salt: None,
            hints: Vec::new(),
            read_ahead: false,
            total_space: None,
            listen: None,
        }
    }
}

/// Bytes, as a node's settings spell them.
fn size<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    let text = String::deserialize(deserializer)?;
    let unknown = || de::Error::custom(format!("'{text}' is no size; write it as 4096MiB"));
    parse_size(&text).map(Some).ok_or_else(unknown)
}

/// What Kafka takes at the beginning of a topic's name.
fn topic_prefix<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let text = String::deserialize(deserializer)?;
    let is_legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    // A keyspace and a table have 48 characters at most, a topic 249.
    if text.is_empty() || text.len() > 150 || !text.chars().all(is_legal) {
        let problem = "a topic begins with 1 to 150 letters, digits, dots, underscores or dashes";
        return Err(de::Error::custom(format!("'{text}' cannot be used: {problem}")));
    }
    if text.starts_with("__") {
        let problem = "topics that begin with two underscores are the broker's own";
        return Err(de::Error::custom(format!("'{text}' cannot be used: {problem}")));
    }
    Ok(text)
}

/// `["shop.*", "bank.accounts"]`
fn patterns<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<TablePattern>, D::Error> {
    let words = words(deserializer)?;
    words.iter().map(|text| text.parse().map_err(de::Error::custom)).collect()
}

/// `["shop.helenus_outbox_messages"]`, as keyspace and table.
fn outboxes<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<(String, String)>, D::Error> {
    let pair = |text: String| match text.split_once('.') {
        Some((keyspace, table)) if !keyspace.is_empty() && table.ends_with("outbox_messages") => {
            Ok((keyspace.to_owned(), table.to_owned()))
        }
        _ => Err(de::Error::custom(format!(
            "'{text}' is no outbox's table of messages; write keyspace.helenus_outbox_messages"
        ))),
    };
    words(deserializer)?.into_iter().map(pair).collect()
}

/// `{ "shop.people.email" = "hash" }`; a column's own name may have dots in it.
fn treatments<'de, D>(deserializer: D) -> Result<BTreeMap<String, Treatment>, D::Error>
where
    D: Deserializer<'de>,
{
    let spelt = BTreeMap::<String, String>::deserialize(deserializer)?;
    let entry = |(column, word): (String, String)| {
        if column.splitn(3, '.').filter(|part| !part.is_empty()).count() != 3 {
            let problem = format!(
                "'{column}' is no column; write keyspace.table.column, or keyspace.table.* for all others"
            );
            return Err(de::Error::custom(problem));
        }
        match word.as_str() {
            "hash" => Ok((column, Treatment::Hash)),
            "drop" => Ok((column, Treatment::Drop)),
            "keep" => Ok((column, Treatment::Keep)),
            _ => Err(de::Error::custom(format!("'{word}' is neither hash nor drop nor keep"))),
        }
    };
    spelt.into_iter().map(entry).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_of_the_broker_s_own_topics_is_refused() {
        let read = |prefix: &str| toml::from_str::<Capture>(&format!("topic_prefix = '{prefix}'"));
        assert_eq!(read("_shop").unwrap().topic_prefix, "_shop");
        let refused = read("__shop").unwrap_err().to_string();
        assert!(
            refused.contains("'__shop' cannot be used: topics that begin with two"),
            "{refused}"
        );
    }
}
