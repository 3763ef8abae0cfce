//! What an agent captures, and how.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use helenus_cql::change::json::Policy;
use helenus_cql::schema::Table;

/// How an agent works.
#[derive(Clone, Debug)]
pub struct Options {
    /// The node's `cdc_raw` folder.
    pub cdc_raw: PathBuf,
    /// Where the agent keeps its position, the schemas it has seen and what it could not decode.
    pub state: PathBuf,
    /// The node's name in events.
    pub node: Arc<str>,
    /// Topics are called `{prefix}.{keyspace}.{table}`.
    pub topic_prefix: String,
    /// Partitions of the topics it makes.
    pub partitions: u32,
    /// Which tables; all that have `cdc = true` if none is named. One that is named must have it too.
    pub tables: Vec<TablePattern>,
    /// Which columns are masked.
    pub policy: Policy,
    /// Outboxes whose relays are told at once what was staged. Their tables are published as change
    /// events only where `tables` names them.
    pub hints: Vec<Outbox>,
    /// Read to the last valid marker, not only to what the node says is durable: sooner, at the price
    /// that a power failure may take from this node what was published.
    pub read_ahead: bool,
    /// How often the folder is looked at while nothing comes.
    pub poll: Duration,
    /// Bytes that `cdc_raw` may hold, where the node does not tell.
    pub total_space: Option<u64>,
}

impl Options {
    /// An agent for this folder, with the defaults for everything else.
    #[must_use]
    pub fn new(cdc_raw: impl Into<PathBuf>, state: impl Into<PathBuf>) -> Self {
        Self {
            cdc_raw: cdc_raw.into(),
            state: state.into(),
            node: "localhost".into(),
            topic_prefix: "cassandra".to_owned(),
            partitions: 8,
            tables: Vec::new(),
            policy: Policy::default(),
            hints: Vec::new(),
            read_ahead: false,
            poll: Duration::from_millis(20),
            total_space: None,
        }
    }

    /// The topic of a table's changes.
    #[must_use]
    pub fn topic(&self, table: &Table) -> Arc<str> {
        format!("{}.{}.{}", self.topic_prefix, table.keyspace, table.name).into()
    }

    /// Whether the changes of this table are published.
    #[must_use]
    pub fn captures(&self, table: &Table) -> bool {
        let is_named = |pattern: &TablePattern| {
            pattern.names_table(table) && (table.cdc || pattern.table.is_some())
        };
        match self.tables.as_slice() {
            [] => table.cdc && self.outbox(table).is_none(),
            patterns => patterns.iter().any(is_named),
        }
    }

    /// Whether they would be, were they logged for readers.
    pub(crate) fn wants(&self, table: &Table) -> bool {
        if self.tables.is_empty() {
            return self.outbox(table).is_none();
        }
        self.tables.iter().any(|pattern| pattern.names_table(table))
    }

    /// The outbox whose messages are in this table.
    #[must_use]
    pub fn outbox(&self, table: &Table) -> Option<&Outbox> {
        self.hints.iter().find(|outbox| outbox.is(table))
    }
}

/// An outbox in this cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outbox {
    /// Its keyspace.
    pub keyspace: String,
    /// Its table of messages; needs `cdc = true`.
    pub table: String,
    /// Where its relays look for hints.
    pub topic: String,
}

impl Outbox {
    fn is(&self, table: &Table) -> bool {
        *table.keyspace == *self.keyspace && *table.name == *self.table
    }
}

/// `keyspace.table`, or `keyspace.*` for all of a keyspace that have `cdc = true`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TablePattern {
    keyspace: String,
    /// Any table of the keyspace if there is none.
    table: Option<String>,
}

/// A text that names no tables.
#[derive(Debug, thiserror::Error)]
#[error("'{0}' names no tables; write keyspace.table or keyspace.*")]
pub struct InvalidPattern(String);

impl std::str::FromStr for TablePattern {
    type Err = InvalidPattern;

    fn from_str(text: &str) -> Result<Self, InvalidPattern> {
        match text.split_once('.') {
            Some((keyspace, table)) if !keyspace.is_empty() && !table.is_empty() => Ok(Self {
                keyspace: keyspace.to_owned(),
                table: (table != "*").then(|| table.to_owned()),
            }),
            _ => Err(InvalidPattern(text.to_owned())),
        }
    }
}

impl TablePattern {
    /// The keyspace, and the table where one is named.
    pub(crate) fn names(&self) -> (&str, Option<&str>) {
        (&self.keyspace, self.table.as_deref())
    }

    /// Whether it names this table.
    pub(crate) fn names_table(&self, table: &Table) -> bool {
        *table.keyspace == *self.keyspace
            && self.table.as_ref().is_none_or(|name| *table.name == **name)
    }
}
