//! How the store uses a cluster.

use std::collections::BTreeMap;
use std::time::Duration;

use helenus_model::limits::RECEIPT_TTL;
pub use helenus_tls::ClientCertificate;

use super::Error;
use crate::Bounds;

/// How the store uses a cluster. The defaults suit one data centre in development.
#[derive(Clone, Debug)]
pub struct Options {
    /// The keyspace, where the URL names none; `helenus` where neither does.
    pub keyspace: Option<String>,
    /// What table names start with.
    pub prefix: String,
    /// The table of events, where it is not `{prefix}event_streams`.
    pub events_table: Option<String>,
    /// How a keyspace that does not exist yet is made.
    pub replication: Replication,
    /// How many replicas a read or a committed write needs.
    pub consistency: Consistency,
    /// Whether Paxos spans data centres. One keyspace, one level: it is recorded and checked.
    pub serial_consistency: SerialConsistency,
    /// The data centre whose nodes are asked first.
    pub local_dc: Option<String>,
    /// How long one request may take.
    pub request_timeout: Duration,
    /// How long a connection may take to open.
    pub connect_timeout: Duration,
    /// A certificate to show to nodes that ask for one; TLS itself is the URL's `?tls=true`.
    pub client_certificate: Option<ClientCertificate>,
    /// Over how many shards messages are spread, 16 unless said; what was recorded first stands,
    /// and another number is refused.
    pub shards: Option<u16>,
    /// How long messages in time buckets are kept.
    pub bucket_ttl: Duration,
    /// How far back time buckets are looked at for messages that were not published.
    pub bucket_look_back: Duration,
    /// How long receipts of processed messages are kept: longer than any broker keeps the messages.
    pub receipt_ttl: Duration,
    /// What an append may be, and how long operations are remembered.
    pub bounds: Bounds,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            keyspace: None,
            prefix: "helenus_".to_owned(),
            events_table: None,
            replication: Replication::Simple(1),
            consistency: Consistency::Quorum,
            serial_consistency: SerialConsistency::Serial,
            local_dc: None,
            request_timeout: Duration::from_secs(5),
            connect_timeout: Duration::from_secs(5),
            client_certificate: None,
            shards: None,
            bucket_ttl: Duration::from_secs(24 * 60 * 60),
            bucket_look_back: Duration::from_secs(60 * 60),
            receipt_ttl: RECEIPT_TTL,
            bounds: Bounds::default(),
        }
    }
}

/// Where copies of a keyspace are kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Replication {
    /// So many copies, wherever the ring puts them: for one data centre.
    Simple(u8),
    /// So many copies in each of these data centres.
    PerDataCentre(BTreeMap<String, u8>),
}

/// How many replicas must answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Consistency {
    /// One.
    One,
    /// A majority of all.
    Quorum,
    /// A majority in the local data centre.
    LocalQuorum,
    /// Every one.
    All,
}

/// How far a Paxos round reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SerialConsistency {
    /// All data centres.
    Serial,
    /// The local data centre: every writer of the keyspace must be there.
    LocalSerial,
}

impl Consistency {
    /// The driver's word for it.
    pub fn level(self) -> scylla::statement::Consistency {
        use scylla::statement::Consistency as Level;
        match self {
            Consistency::One => Level::One,
            Consistency::Quorum => Level::Quorum,
            Consistency::LocalQuorum => Level::LocalQuorum,
            Consistency::All => Level::All,
        }
    }
}

impl SerialConsistency {
    /// The driver's word for it.
    pub fn level(self) -> scylla::statement::SerialConsistency {
        use scylla::statement::SerialConsistency as Level;
        match self {
            SerialConsistency::Serial => Level::Serial,
            SerialConsistency::LocalSerial => Level::LocalSerial,
        }
    }

    /// The level of a read that finishes what is under way first.
    pub(super) fn read_level(self) -> scylla::statement::Consistency {
        use scylla::statement::Consistency as Level;
        match self {
            SerialConsistency::Serial => Level::Serial,
            SerialConsistency::LocalSerial => Level::LocalSerial,
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            SerialConsistency::Serial => "SERIAL",
            SerialConsistency::LocalSerial => "LOCAL_SERIAL",
        }
    }
}

/// The names the store uses, checked: they stand in statements as they are.
#[derive(Clone, Debug)]
pub(super) struct Names {
    pub(super) keyspace: String,
    pub(super) events: String,
    pub(super) archive: String,
    pub(super) snapshots: String,
    pub(super) settings: String,
    prefix: String,
}

impl Names {
    /// The keyspace, given the one in the URL.
    pub(super) fn keyspace_of<'a>(options: &'a Options, in_url: Option<&'a str>) -> &'a str {
        in_url.or(options.keyspace.as_deref()).unwrap_or("helenus")
    }

    pub(super) fn new(options: &Options, keyspace: Option<&str>) -> Result<Names, Error> {
        let keyspace = Self::keyspace_of(options, keyspace);
        let prefix = &options.prefix;
        let usual = || format!("{prefix}event_streams");
        if let Replication::PerDataCentre(copies) = &options.replication {
            for name in copies.keys() {
                checked("data centre", name, |byte| {
                    byte.is_ascii_alphanumeric() || b"_-. ".contains(&byte)
                })?;
            }
        }
        let word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        // Two tables of events in one keyspace have an archive and snapshots each.
        let beside = |name: &str| match &options.events_table {
            None => format!("{prefix}event_{name}"),
            Some(table) => format!("{table}_{name}"),
        };
        Ok(Names {
            keyspace: checked("keyspace", keyspace, word)?,
            events: checked("table", &options.events_table.clone().unwrap_or_else(usual), word)?,
            archive: checked("table", &beside("archive"), word)?,
            snapshots: checked("table", &beside("snapshots"), word)?,
            settings: checked("table", &format!("{prefix}settings"), word)?,
            // The longest name there is must fit.
            prefix: checked("table", &format!("{prefix}outbox_pending_dispatch"), word)
                .map(|_| prefix.clone())?,
        })
    }

    /// The table of events, as statements name it.
    pub(super) fn events(&self) -> String {
        self.quoted(&self.events)
    }

    /// A table, as statements name it.
    pub(super) fn quoted(&self, table: &str) -> String {
        format!("\"{}\".\"{table}\"", self.keyspace)
    }

    /// A table's name with the prefix.
    pub(super) fn plain(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }

    /// The same, as statements name it.
    pub(super) fn table(&self, name: &str) -> String {
        format!("\"{}\".\"{}\"", self.keyspace, self.plain(name))
    }

    /// The table of settings, as statements name it.
    pub(super) fn settings(&self) -> String {
        self.quoted(&self.settings)
    }
}

fn checked(what: &'static str, name: &str, taken: impl Fn(u8) -> bool) -> Result<String, Error> {
    if name.is_empty() || name.len() > 48 || !name.bytes().all(taken) {
        return Err(Error::Name { what, name: name.to_owned() });
    }
    Ok(name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_could_leave_their_quotes_are_refused() {
        let options = Options::default();
        assert_eq!(
            Names::new(&options, Some("shop")).unwrap().events(),
            "\"shop\".\"helenus_event_streams\""
        );
        for name in ["", "a\"; DROP", "a.b", &"x".repeat(49)] {
            Names::new(&options, Some(name)).unwrap_err();
            let prefixed = Options { prefix: format!("{name}\""), ..Options::default() };
            Names::new(&prefixed, None).unwrap_err();
        }
        let centres = BTreeMap::from([("dc'1".to_owned(), 3)]);
        let replication = Replication::PerDataCentre(centres);
        Names::new(&Options { replication, ..Options::default() }, None).unwrap_err();
    }
}
