//! `[outbox]` and `[inbox]`: how messages are spread and how long they and their receipts are kept.

use std::time::Duration;

use helenus::StoreOptions;
use helenus::cassandra::Options;
use serde::{Deserialize, Deserializer, de};

use super::values;

/// Shards a store may have; `helenus outbox reshard` takes as many.
const SHARDS_MAX: u16 = 1024;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Outbox {
    #[serde(deserialize_with = "values::flag")]
    pub(crate) register: bool,
    #[serde(deserialize_with = "shards")]
    shards: Option<u16>,
    #[serde(deserialize_with = "values::duration")]
    pub(crate) keep_done: Duration,
    #[serde(deserialize_with = "values::duration")]
    pub(super) bucket_ttl: Duration,
    #[serde(deserialize_with = "values::duration")]
    pub(super) bucket_look_back: Duration,
}

impl Default for Outbox {
    fn default() -> Self {
        let Options { bucket_ttl, bucket_look_back, .. } = Options::default();
        Outbox { register: true, shards: None, keep_done: 30 * DAY, bucket_ttl, bucket_look_back }
    }
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Inbox {
    #[serde(deserialize_with = "values::flag")]
    pub(crate) register: bool,
    #[serde(deserialize_with = "values::duration")]
    pub(crate) receipt_ttl: Duration,
    #[serde(deserialize_with = "values::words")]
    pub(crate) topics: Vec<String>,
}

impl Default for Inbox {
    fn default() -> Self {
        let Options { receipt_ttl, .. } = Options::default();
        Inbox { register: true, receipt_ttl, topics: Vec::new() }
    }
}

/// The options of a store with what these sections say of its messages.
pub(super) fn applied(outbox: &Outbox, inbox: &Inbox, options: StoreOptions) -> StoreOptions {
    let Outbox { shards, bucket_ttl, bucket_look_back, .. } = *outbox;
    let receipt_ttl = inbox.receipt_ttl;
    let cassandra = Options { bucket_ttl, bucket_look_back, receipt_ttl, ..options.cassandra };
    StoreOptions { shards, cassandra, ..options }
}

fn shards<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u16>, D::Error> {
    let shards: u16 = values::count(deserializer)?;
    if shards > SHARDS_MAX {
        return Err(de::Error::custom(format!("{shards} are more than {SHARDS_MAX} shards")));
    }
    Ok(Some(shards))
}
