//! A bound for everything that could grow. Those a user may want to move are configuration keys
//! with these values as their defaults.

use std::time::Duration;

/// Bytes in an id. Cassandra allows 64 KiB in a key; ids that long are mistakes.
pub const ID_BYTES_MAX: usize = 512;

/// Headers of one message.
pub const HEADERS_MAX: usize = 64;

/// Bytes of one message's payload. Kafka's default limit for a record is 1 MiB.
pub const PAYLOAD_BYTES_MAX: usize = 1024 * 1024;

/// Write requests that may wait for the embedded engine's writer; more wait outside its queue.
pub const WRITE_QUEUE_MAX: usize = 8_192;

/// Write requests the embedded engine puts into one commit. Larger groups save disk syncs, but the
/// callers of a group can only ask again once it is answered: with more waiting than fit, one half
/// is answered and queued again while the other is committed (measured: 512 is the best of 256,
/// 512 and 2,048 with 1,024 writes in flight).
pub const GROUP_COMMIT_MAX: usize = 512;

/// How long the embedded engine waits for another process's write lock.
pub const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// Connections the embedded engine reads with.
pub const READERS: usize = 4;

/// Messages one read of the dispatch store may return.
pub const DISPATCH_BATCH_MAX: usize = 10_000;

/// Shards messages are spread over unless a store was first used with another number.
pub const OUTBOX_SHARDS: u16 = 16;

/// How long staging a message tries before its outcome is left open.
pub const ENQUEUE_DEADLINE: Duration = Duration::from_secs(10);

/// How long a row of the pending index may go without the message it tells of before it is settled.
/// Well past [`ENQUEUE_DEADLINE`] and what a node's own time-outs add to it.
pub const ORPHAN_GRACE: Duration = Duration::from_secs(60);

/// How far reads of pending messages trail the clock, for those staged slowly or by a slow clock.
pub const WATERMARK_LAG: Duration = Duration::from_secs(10 * 60);

/// How often a shard is read from its start, for those staged later than the lag allows.
pub const FULL_READ_EVERY: Duration = Duration::from_secs(5 * 60);

/// How long receipts of processed messages are kept. Kafka keeps messages for seven days unless told
/// otherwise; a message that outlives its receipt is processed again.
pub const RECEIPT_TTL: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// Requests one call on the messaging tables has under way at once.
pub const REQUESTS_MAX: usize = 64;

/// Records one read of a topic may return.
pub const TOPIC_READ_MAX: usize = 10_000;

/// Bytes of one append, its events' own fields included. A Cassandra node refuses a mutation over
/// half a commit log segment, 16 MiB by default; this leaves room for what it adds.
pub const APPEND_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Events of one append. Cassandra takes 65,535 statements in a batch.
pub const APPEND_EVENTS_MAX: usize = 10_000;

/// Times an append that expects no particular version is tried again at the version it lost to.
pub const APPEND_ATTEMPTS_MAX: u32 = 64;

/// Appends to one stream that share a batch on Cassandra.
pub const APPEND_GROUP_MAX: usize = 128;

/// How long an append tries where the caller gives no deadline.
pub const APPEND_DEADLINE: Duration = Duration::from_secs(10);

/// How long the id of an operation is remembered. Ids older than half of it are refused.
pub const OPERATION_WINDOW: Duration = Duration::from_secs(24 * 60 * 60);

/// Events a reader of a stream holds at once; on Cassandra a second page is fetched meanwhile.
pub const EVENT_PAGE_MAX: u32 = 500;

/// Bytes of payload after which a page of events ends early, where the backend lets it.
pub const EVENT_PAGE_BYTES: usize = 1024 * 1024;

/// Lanes of one subscription.
pub const SUBSCRIPTION_LANES_MAX: u32 = 256;

/// Parked events one look at them may return.
pub const PARKED_READ_MAX: usize = 10_000;

/// Events a consumer handles before it moves its checkpoint.
pub const CONSUMER_BATCH_MAX: usize = 500;

/// How long a lease lasts without being renewed.
pub const LEASE_TTL: Duration = Duration::from_secs(15);

/// Events in one partition of the archive on Cassandra, and in one transaction that retires events
/// from a file. Stored: it never changes.
pub const ARCHIVE_CHUNK: u32 = 500;

/// Requests to the archive on Cassandra that one who retires events has under way at a time.
pub const ARCHIVE_REQUESTS_MAX: usize = 32;

/// Bytes of one record in an embedded topic: what a Kafka topic takes by default.
pub const RECORD_BYTES_MAX: usize = 1_048_588;

/// Records that one removal of old ones takes out of the embedded broker at once.
pub const TOPIC_EXPIRE_MAX: usize = 10_000;
