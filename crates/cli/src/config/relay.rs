//! `[relay]`: how messages get from the outbox into topics.

use std::collections::BTreeMap;
use std::time::Duration;

use helenus::relay::{Backoff, DOWN_AFTER, Mode, Options, Ordering, Polling};
use helenus::store::AfterParking;
use serde::{Deserialize, Deserializer};

use super::values;

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Relay {
    #[serde(deserialize_with = "mode")]
    mode: Mode,
    #[serde(deserialize_with = "ordering")]
    ordering: Ordering,
    #[serde(deserialize_with = "values::count")]
    lanes: u16,
    #[serde(deserialize_with = "values::count")]
    batch: usize,
    #[serde(deserialize_with = "values::count")]
    catch_up_batch: usize,
    #[serde(deserialize_with = "values::duration")]
    catch_up_after: Duration,
    #[serde(deserialize_with = "values::duration")]
    lease_ttl: Duration,
    #[serde(deserialize_with = "values::duration")]
    poll_most: Duration,
    #[serde(deserialize_with = "values::flag")]
    hints: bool,
    #[serde(deserialize_with = "values::count")]
    max_attempts: u32,
    #[serde(deserialize_with = "values::duration")]
    backoff_longest: Duration,
    #[serde(deserialize_with = "after_parking")]
    after_parking: AfterParking,
    #[serde(deserialize_with = "values::flag")]
    deduplicate: bool,
    #[serde(deserialize_with = "values::duration")]
    pub(crate) down_after: Duration,
    #[serde(deserialize_with = "values::pairs")]
    topics: BTreeMap<String, String>,
}

impl Default for Relay {
    fn default() -> Self {
        let options = Options::default();
        Relay {
            mode: options.mode,
            ordering: options.ordering,
            lanes: options.lanes,
            batch: options.batch,
            catch_up_batch: options.catch_up_batch,
            catch_up_after: options.catch_up_after,
            lease_ttl: options.lease_ttl,
            poll_most: options.polling.most,
            hints: options.hints,
            max_attempts: options.max_attempts,
            backoff_longest: options.backoff.longest,
            after_parking: options.after_parking,
            deduplicate: options.deduplicate,
            down_after: DOWN_AFTER,
            topics: BTreeMap::new(),
        }
    }
}

impl Relay {
    /// How a relay works.
    pub(crate) fn options(&self) -> Options {
        let usual = Options::default();
        Options {
            mode: self.mode,
            ordering: self.ordering,
            lanes: self.lanes,
            topics: self.topics.clone(),
            batch: self.batch,
            catch_up_batch: self.catch_up_batch,
            catch_up_after: self.catch_up_after,
            lease_ttl: self.lease_ttl,
            polling: Polling { most: self.poll_most, ..usual.polling },
            hints: self.hints,
            backoff: Backoff { longest: self.backoff_longest, ..usual.backoff },
            max_attempts: self.max_attempts,
            after_parking: self.after_parking,
            deduplicate: self.deduplicate,
            ..usual
        }
    }
}

fn mode<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Mode, D::Error> {
    let modes = [("exactly-once", Mode::ExactlyOnce), ("at-least-once", Mode::AtLeastOnce)];
    values::named(deserializer, modes)
}

fn ordering<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Ordering, D::Error> {
    let orderings = [
        ("aggregate", Ordering::Aggregate),
        ("partition", Ordering::Partition),
        ("global", Ordering::Global),
    ];
    values::named(deserializer, orderings)
}

fn after_parking<'de, D: Deserializer<'de>>(deserializer: D) -> Result<AfterParking, D::Error> {
    values::named(deserializer, [("stop", AfterParking::Stop), ("go-on", AfterParking::GoOn)])
}
