//! The tables of outbox, inbox and leases: made once, where they are missing.

use helenus_model::Random;
use helenus_model::limits::OUTBOX_SHARDS;
use scylla::client::session::Session;
use uuid::Uuid;

use crate::cassandra::options::Names;
use crate::cassandra::tables::{make, recorded};
use crate::cassandra::{Error, Options};
use crate::contract::Identity;

/// What every message has, in the order of the seed's columns, then ours.
pub(super) const MESSAGE_COLUMNS: &str = "message_id, channel_id, message_type, payload, \
     content_type, correlation_id, tenant_id, occurred_at_utc, created_at_utc, \
     dispatch_attempt_count, headers_json, metadata_json, payload_bytes, ordering_key, staged_seq";

const MESSAGE_TYPES: &str = "message_id text, channel_id text, message_type text, payload text,
     content_type text, correlation_id text, tenant_id text, occurred_at_utc timestamp,
     created_at_utc timestamp, dispatch_attempt_count int, headers_json text, metadata_json text,
     payload_bytes blob, ordering_key text, staged_seq timeuuid";

/// What is deleted all the time shall be forgotten soon; a row that comes back is seen through
/// because readers look at the authoritative one.
const QUEUE: &str = "gc_grace_seconds = 3600 AND compaction = \
     {'class': 'LeveledCompactionStrategy', 'unchecked_tombstone_compaction': 'true', \
      'tombstone_compaction_interval': '600'}";

/// Expires whole, so nothing in it is ever changed in place.
const BUCKETS: &str = "(bucket text, shard int, event_id timeuuid, aggregate_type text,
     aggregate_id text, event_type text, event_payload blob, created_at timestamp,
     published boolean, message_json text, PRIMARY KEY ((bucket, shard), event_id))
     WITH default_time_to_live = 86400 AND compaction = {'class': 'TimeWindowCompactionStrategy',
     'compaction_window_unit': 'HOURS', 'compaction_window_size': '1'}";

const PUBLISHED: &str = "(bucket text, shard int, event_id timeuuid,
     PRIMARY KEY ((bucket, shard), event_id))
     WITH default_time_to_live = 172800 AND compaction = {'class': 'TimeWindowCompactionStrategy',
     'compaction_window_unit': 'HOURS', 'compaction_window_size': '1'}";

const RECEIPTS: &str = "(message_id text PRIMARY KEY, channel_id text, message_type text,
     correlation_id text, tenant_id text, received_at_utc timestamp, processed_at_utc timestamp,
     state text, owner text, epoch bigint, lease_until_utc timestamp, content_hash blob,
     result blob)";

/// A lease that is given back stays, so that epochs only ever rise.
const LEASES: &str = "(name text PRIMARY KEY, owner text, epoch bigint, expires_at_utc timestamp)";

/// Makes what is missing, and reads or records what stands for ever.
pub(super) async fn bootstrap(
    session: &Session,
    names: &Names,
    options: &Options,
    random: &dyn Random,
) -> Result<Identity, Error> {
    let tables = [
        ("outbox_messages", messages()),
        ("outbox_pending_dispatch", pending()),
        ("outbox_held", held()),
        ("outbox_shards", "(shard_id int PRIMARY KEY, watermark_utc timestamp)".to_owned()),
        ("outbox_buckets", BUCKETS.to_owned()),
        ("outbox_published", PUBLISHED.to_owned()),
        ("inbox_receipts", RECEIPTS.to_owned()),
        ("leases", LEASES.to_owned()),
    ];
    let named: Vec<(String, &str)> =
        tables.iter().map(|(name, rest)| (names.plain(name), rest.as_str())).collect();
    let named: Vec<(&str, &str)> =
        named.iter().map(|(name, rest)| (name.as_str(), *rest)).collect();
    make(session, names, &named).await?;
    let drawn = random.uuid().to_string();
    let store_id = recorded(session, names, "store_id", &drawn).await?;
    let shards = options.shards.unwrap_or(OUTBOX_SHARDS);
    let spread = recorded(session, names, "shards", &shards.to_string()).await?;
    let damaged = |name, value: &str| Error::corrupt(format!("setting {name} is '{value}'"));
    let recorded: u16 = spread.parse().map_err(|_| damaged("shards", &spread))?;
    if let Some(configured) = options.shards
        && configured != recorded
    {
        return Err(Error::Shards { recorded, configured });
    }
    let store_id = Uuid::parse_str(&store_id).map_err(|_| damaged("store_id", &store_id))?;
    Ok(Identity { store_id, shards: recorded })
}

fn messages() -> String {
    format!(
        "({MESSAGE_TYPES}, dispatched_at_utc timestamp, next_attempt_at_utc timestamp,
          deliver_at_utc timestamp, content_hash blob, state text, parked_at_utc timestamp,
          holds_key boolean, last_error text, PRIMARY KEY (message_id))"
    )
}

fn pending() -> String {
    format!(
        "({MESSAGE_TYPES}, shard_id int, eligible_at_utc timestamp, kind text, detail text,
          PRIMARY KEY (shard_id, eligible_at_utc, message_id))
         WITH CLUSTERING ORDER BY (eligible_at_utc ASC, message_id ASC) AND {QUEUE}"
    )
}

fn held() -> String {
    format!(
        "(shard_id int, ordering_key text, staged_seq timeuuid, message_id text,
          until_utc timestamp, PRIMARY KEY (shard_id, ordering_key, staged_seq))
         WITH CLUSTERING ORDER BY (ordering_key ASC, staged_seq ASC) AND {QUEUE}"
    )
}
