//! How a relay works.

use std::collections::BTreeMap;
use std::time::Duration;

use helenus_store::contract::AfterParking;

use crate::Backoff;

/// What a relay promises of each message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// Consumers that read committed records see each message once.
    #[default]
    ExactlyOnce,
    /// Each message is published, after a crash some of them again: no transactions, less delay.
    AtLeastOnce,
}

/// What waits for a message that fails.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ordering {
    /// The later messages of its ordering key.
    #[default]
    Aggregate,
    /// Everything behind it that goes to the same partition of its topic. Takes one lane for all, so
    /// one transaction at a time and no relays beside each other.
    Partition,
    /// Everything behind it. Takes one lane for all.
    Global,
}

/// How often a relay looks for messages that other processes staged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Polling {
    /// At first.
    pub first: Duration,
    /// While there is something to do.
    pub least: Duration,
    /// While there is nothing to do.
    pub most: Duration,
}

/// How a relay works. The defaults suit most.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// What is promised of each message.
    pub mode: Mode,
    /// What waits for a message that fails.
    pub ordering: Ordering,
    /// How many relays can share the work, at most: the store's shards are spread over so many lanes.
    /// All relays of a store need the same number.
    pub lanes: u16,
    /// The topics of channels whose topic has another name.
    pub topics: BTreeMap<String, String>,
    /// Messages in a transaction, at most.
    pub batch: usize,
    /// The same while catching up.
    pub catch_up_batch: usize,
    /// Catching up begins when something has been due for so long, or when a read comes back full.
    pub catch_up_after: Duration,
    /// How long a lane stays with a relay that does not answer.
    pub lease_ttl: Duration,
    /// How often to look for messages.
    pub polling: Polling,
    /// Whether messages staged in this process are noticed at once.
    pub wake_up: bool,
    /// Whether hints are read: capture agents tell through a topic what was staged in a cluster, so
    /// that polling can be slow. A hint only wakes; what is published is what the store says.
    pub hints: bool,
    /// How long to wait after a failure.
    pub backoff: Backoff,
    /// Attempts after which a message that is refused is parked.
    pub max_attempts: u32,
    /// What becomes of the messages behind a parked one.
    pub after_parking: AfterParking,
    /// Whether an event is published once however many messages tell of it. The event is what the
    /// message's metadata name `event_id`, with `aggregate_type` and `aggregate_id`.
    pub deduplicate: bool,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            mode: Mode::default(),
            ordering: Ordering::default(),
            lanes: 4,
            topics: BTreeMap::new(),
            batch: 500,
            catch_up_batch: 5_000,
            catch_up_after: Duration::from_secs(10),
            lease_ttl: Duration::from_secs(10),
            polling: Polling {
                first: Duration::from_millis(100),
                least: Duration::from_millis(5),
                most: Duration::from_secs(1),
            },
            wake_up: true,
            hints: false,
            backoff: Backoff::default(),
            max_attempts: 8,
            after_parking: AfterParking::default(),
            deduplicate: true,
        }
    }
}

impl Options {
    /// Lanes of a store with so many shards.
    pub(crate) fn lanes_of(&self, shards: u16) -> u16 {
        match self.ordering {
            Ordering::Aggregate => self.lanes.clamp(1, shards.max(1)),
            Ordering::Partition | Ordering::Global => 1,
        }
    }
}
