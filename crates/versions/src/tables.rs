//! What is promised of the tables that hold versions, whatever they lie in.

use std::future::Future;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use helenus_cql::rewrite::TableName;
use helenus_model::{BackendError, Timestamp};
use tokio::sync::mpsc;
use uuid::Uuid;

use crate::TableSchema;
use crate::row::Row;

/// Creates, loads, reads back and drops the tables of versions.
pub trait Tables: Send + Sync {
    /// Whether a table has the name that readers use: then it is not a versioned one.
    fn is_taken(
        &self,
        table: &TableName,
    ) -> impl Future<Output = Result<bool, BackendError>> + Send;

    /// Creates the version's table, marked as the run's; the same run twice creates one.
    fn create(&self, target: &Target)
    -> impl Future<Output = Result<Created, BackendError>> + Send;

    /// Writes chunks until there are no more. A row's write time comes from its ordinal, so the
    /// same rows may be written again, in any order, by anybody, with the same result.
    fn load(
        &self,
        target: &Target,
        options: &LoadOptions,
        chunks: mpsc::Receiver<Chunk>,
        progress: &Progress,
    ) -> impl Future<Output = Result<(), BackendError>> + Send;

    /// How many rows the table has.
    fn count(&self, target: &Target) -> impl Future<Output = Result<u64, BackendError>> + Send;

    /// The row of a key, both as [`Row::cells`] are.
    fn fetch(
        &self,
        target: &Target,
        key: &[u8],
    ) -> impl Future<Output = Result<Option<Vec<u8>>, BackendError>> + Send;

    /// Drops a version's table, if it is there and marked as the run's: whoever else has a table of
    /// that name keeps it.
    fn drop_table(
        &self,
        table: &TableName,
        version_name: &str,
        run_id: &str,
    ) -> impl Future<Output = Result<(), BackendError>> + Send;

    /// Every table that is marked as a version, with its run.
    fn marked(
        &self,
        table: &TableName,
    ) -> impl Future<Output = Result<Vec<(String, String)>, BackendError>> + Send;
}

/// What came of creating a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Created {
    /// It is the run's; its id, where tables have one.
    Ours(Option<Uuid>),
    /// Somebody else's table has the name.
    Taken,
}

/// The table of a version, and who loads it.
#[derive(Clone, Debug)]
pub struct Target {
    /// The name that readers use.
    pub table: TableName,
    /// The table.
    pub version_name: String,
    /// The run.
    pub run_id: String,
    /// The publisher.
    pub publisher: Uuid,
    /// What the table is.
    pub schema: Arc<TableSchema>,
    /// What write times count from.
    pub data_ts: Timestamp,
    /// Whether one key may come twice; then a null overwrites.
    pub duplicates: bool,
}

impl Target {
    /// The write time of a record, in microseconds.
    pub fn write_time(&self, ordinal: u64) -> i64 {
        let ordinal = i64::try_from(ordinal).unwrap_or(i64::MAX);
        self.data_ts.as_micros().saturating_add(ordinal)
    }
}

/// How fast a table is loaded.
#[derive(Clone, Copy, Debug)]
pub struct LoadOptions {
    /// Rows a second at most.
    pub rows_per_second: Option<u32>,
    /// Requests under way at once, at most; how many there are adapts to the cluster.
    pub in_flight_max: usize,
    /// A write is tried for so long.
    pub give_up_after: Duration,
}

impl Default for LoadOptions {
    fn default() -> Self {
        LoadOptions {
            rows_per_second: None,
            in_flight_max: 256,
            give_up_after: Duration::from_secs(120),
        }
    }
}

/// Rows that follow each other in the source.
#[derive(Clone, Debug)]
pub struct Chunk {
    /// The rows; records that are bad or durable already are left out.
    pub rows: Vec<Row>,
    /// Where the source is after them.
    pub end: Mark,
}

/// A place in the source, and what has come until there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mark {
    /// Records.
    pub records: u64,
    /// Rows among them.
    pub rows: u64,
    /// The sum of their checksums.
    pub checksum: i64,
    /// Records that are bad.
    pub bad: u64,
    /// Bytes of the source that were read for them; what is read ahead is among it.
    pub bytes: u64,
}

/// How far a load is; shared with whoever shows it.
#[derive(Debug, Default)]
pub struct Progress {
    durable: Mutex<Mark>,
    source_bytes: OnceLock<u64>,
    is_loaded: AtomicBool,
    written: AtomicU64,
    retries: AtomicU64,
    latencies: Latencies,
}

impl Progress {
    /// Up to where everything is durable.
    pub fn durable(&self) -> Mark {
        *self.durable.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Everything up to there is durable.
    pub fn reached(&self, mark: Mark) {
        let mut durable = self.durable.lock().unwrap_or_else(PoisonError::into_inner);
        if mark.records >= durable.records {
            *durable = mark;
        }
    }

    /// How long the source is; `None` while that is not known, and for standard input.
    pub fn source_bytes(&self) -> Option<u64> {
        self.source_bytes.get().copied()
    }

    /// The source is so long.
    pub(crate) fn expect(&self, bytes: u64) {
        // One run has one source.
        self.source_bytes.get_or_init(|| bytes);
    }

    /// Whether every row is written: then the checks are under way.
    pub fn is_loaded(&self) -> bool {
        self.is_loaded.load(Ordering::Relaxed)
    }

    pub(crate) fn loaded(&self) {
        self.is_loaded.store(true, Ordering::Relaxed);
    }

    /// Rows written by this process.
    pub fn written(&self) -> u64 {
        self.written.load(Ordering::Relaxed)
    }

    /// Writes that had to be sent again.
    pub fn retries(&self) -> u64 {
        self.retries.load(Ordering::Relaxed)
    }

    /// So many rows were written by one request that took so long.
    pub fn wrote(&self, rows: usize, took: Duration) {
        self.written.fetch_add(rows as u64, Ordering::Relaxed);
        self.latencies.add(took);
    }

    /// A write has to be sent again.
    pub fn retried(&self) {
        self.retries.fetch_add(1, Ordering::Relaxed);
    }

    /// How long a share of the requests took at most: 0.5 for the median.
    pub fn latency(&self, share: f64) -> Duration {
        self.latencies.quantile(share)
    }
}

/// Times in buckets that each are an eighth of a doubling wide.
#[derive(Debug)]
struct Latencies {
    buckets: [AtomicU64; Latencies::BUCKETS],
}

impl Default for Latencies {
    fn default() -> Self {
        Latencies { buckets: [const { AtomicU64::new(0) }; Latencies::BUCKETS] }
    }
}

impl Latencies {
    const BUCKETS: usize = 256;

    fn add(&self, took: Duration) {
        let micros = took.as_secs_f64() * 1e6;
        let bucket = (micros.max(1.0).log2() * 8.0).round();
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to 512")]
        let bucket = (bucket as usize).min(Self::BUCKETS - 1);
        if let Some(count) = self.buckets.get(bucket) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn quantile(&self, share: f64) -> Duration {
        let counts: Vec<u64> =
            self.buckets.iter().map(|count| count.load(Ordering::Relaxed)).collect();
        let total: u64 = counts.iter().sum();
        let wanted = total as f64 * share;
        let mut seen = 0.0;
        for (bucket, count) in counts.iter().enumerate() {
            let (count, place) = (*count as f64, bucket as f64);
            seen += count;
            if count > 0.0 && seen >= wanted {
                return Duration::from_secs_f64((place / 8.0).exp2() / 1e6);
            }
        }
        Duration::ZERO
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_what_was_added() {
        let latencies = Latencies::default();
        assert_eq!(latencies.quantile(0.5), Duration::ZERO);
        for _ in 0..99 {
            latencies.add(Duration::from_millis(1));
        }
        latencies.add(Duration::from_secs(1));
        let near = |found: Duration, wanted: f64| (found.as_secs_f64() / wanted - 1.0).abs() < 0.1;
        assert!(near(latencies.quantile(0.5), 0.001));
        assert!(near(latencies.quantile(1.0), 1.0));
    }

    #[test]
    fn durable_never_goes_back() {
        let progress = Progress::default();
        let mark = |records| Mark { records, ..Mark::default() };
        progress.reached(mark(7));
        progress.reached(mark(3));
        assert_eq!(progress.durable(), mark(7));
    }
}
