//! A cluster's outbox: staging to consumer beside the node's own conditional insert, a backlog beside
//! the bare reading of its rows, and a read after a history.

use std::time::Instant;

use futures_util::{StreamExt, TryStreamExt, stream};
use helenus_broker::kafka::KafkaBroker;
use helenus_cql::token::Token;
use helenus_model::backend::StoreUrl;
use helenus_model::{MessageId, Timestamp};
use helenus_relay::{Mode, Options, Relay};
use helenus_store::Ports;
use helenus_store::cassandra::{CassandraStore, Options as CassandraOptions};
use helenus_store::contract::{Dispatch, Outcome, Report};
use helenus_testkit::isolated::Keyspace;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::pending::{median, millis};
use crate::throughput::{BATCH, print_profile};
use crate::{Result, Size, latency, pending, topic};

/// Requests under way at the same time, as many as the store has.
const AT_ONCE: usize = 64;
const INSERTS: usize = 500;
const RATE: usize = 200;

pub(crate) async fn run(broker: &KafkaBroker, address: &str, size: Size) -> Result<()> {
    println!("one Cassandra node, {AT_ONCE} requests at a time");
    latencies(broker, address, size).await?;
    throughput(broker, size.cluster_backlog).await?;
    after_history(size.dispatched.1).await
}

/// A store with its tables, in a keyspace of its own.
async fn open() -> Result<(Keyspace, CassandraStore)> {
    let keyspace = Keyspace::create().await;
    let StoreUrl::Cassandra(endpoint) = keyspace.url().parse()? else {
        return Err("not a Cassandra URL".into());
    };
    let store = CassandraStore::new(endpoint, CassandraOptions::default(), Ports::system())?;
    store.identity().await?;
    Ok((keyspace, store))
}

async fn latencies(broker: &KafkaBroker, address: &str, size: Size) -> Result<()> {
    let lwt = conditional_insert().await?;
    println!("conditional insert of one row, one at a time, p50           {lwt:>6.1} ms");
    for mode in [Mode::AtLeastOnce, Mode::ExactlyOnce] {
        let (_keyspace, store) = open().await?;
        let topic = topic(broker).await?;
        let options = Options { mode, ..Options::default() };
        let relay = Relay::new(store.clone(), broker.clone(), options, Ports::system());
        let pace = latency::Pace { rate: RATE, messages: RATE * size.seconds };
        let latency = latency::measure(&relay, &store, address, &topic, pace).await?;
        println!(
            "Cassandra, enqueue to consumer, {RATE} msg/s, {:<15} {latency}",
            format!("{mode:?}")
        );
    }
    Ok(())
}

/// The node's own time for what every staging needs.
async fn conditional_insert() -> Result<f64> {
    let keyspace = Keyspace::create().await;
    keyspace
        .session
        .query_unpaged("CREATE TABLE plain (id text PRIMARY KEY, body text)", ())
        .await?;
    let insert = "INSERT INTO plain (id, body) VALUES (?, ?) IF NOT EXISTS";
    let insert = keyspace.session.prepare(insert).await?;
    let body = "7".repeat(256);
    let mut times = Vec::new();
    for number in 0..INSERTS {
        let started = Instant::now();
        keyspace.session.execute_unpaged(&insert, (format!("m-{number}"), &body)).await?;
        times.push(started.elapsed());
    }
    Ok(millis(median(times)))
}

/// Stages `messages` by plain writes of both rows, due from `first` on.
async fn seed(
    keyspace: &Keyspace,
    store: &CassandraStore,
    topic: &str,
    messages: usize,
) -> Result<Vec<String>> {
    let shards = i64::from(store.identity().await?.shards);
    let insert = |table: &str| format!("INSERT INTO helenus_{table} JSON ? DEFAULT UNSET");
    let truth = keyspace.session.prepare(insert("outbox_messages")).await?;
    let index = keyspace.session.prepare(insert("outbox_pending_dispatch")).await?;
    let now = Ports::system().clock.now();
    let ids: Vec<String> = (0..messages).map(|number| format!("{topic}-{number}")).collect();
    let work = ids.iter().enumerate().map(|(number, id)| {
        let (truth, index, session) = (&truth, &index, &keyspace.session);
        async move {
            let key = format!("order-{}", number % 1_000);
            // Ten a millisecond, so that the index is as long as it would be.
            let due = now.minus(std::time::Duration::from_millis(((messages - number) / 10) as u64));
            let mut row = json!({
                "message_id": id, "channel_id": topic, "message_type": "order.placed",
                "payload": "7".repeat(256), "content_type": "application/json",
                "correlation_id": "request-1", "tenant_id": "shop",
                "occurred_at_utc": due.as_millis(), "created_at_utc": due.as_millis(),
                "dispatch_attempt_count": 0,
                "headers_json": "{\"traceparent\":\"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01\"}",
                "metadata_json": "{}", "ordering_key": key, "staged_seq": stamp(due, number),
            });
            let mut pending = row.clone();
            row["next_attempt_at_utc"] = json!(due.as_millis());
            row["state"] = json!("pending");
            row["content_hash"] = json!("0x00");
            pending["shard_id"] = json!(Token::of(key.as_bytes()).0.rem_euclid(shards));
            pending["eligible_at_utc"] = json!(due.as_millis());
            pending["kind"] = json!("message");
            session.execute_unpaged(index, (pending.to_string(),)).await?;
            session.execute_unpaged(truth, (row.to_string(),)).await?;
            Ok::<_, Box<dyn std::error::Error + Send + Sync>>(())
        }
    });
    stream::iter(work).buffer_unordered(AT_ONCE).try_collect::<Vec<()>>().await?;
    Ok(ids)
}

/// A time-based UUID that rises with `number`.
fn stamp(at: Timestamp, number: usize) -> String {
    const GREGORIAN: u64 = 0x01B2_1DD2_1381_4000;
    let ticks = u64::try_from(at.as_micros()).unwrap_or_default() * 10 + number as u64 % 10;
    let builder = uuid::Builder::from_gregorian_timestamp(ticks + GREGORIAN, 0, &[1; 6]);
    builder.into_uuid().to_string()
}

async fn throughput(broker: &KafkaBroker, messages: usize) -> Result<()> {
    let (keyspace, store) = open().await?;
    let topic = topic(broker).await?;
    let ids = seed(&keyspace, &store, &topic, messages).await?;
    let raw = read_rows(&keyspace, &ids).await?;
    println!("reading the {messages} rows by their ids                  {raw:>9.0} rows/s");
    let options = Options { batch: BATCH, catch_up_batch: BATCH, ..Options::default() };
    let relay = Relay::new(store, broker.clone(), options, Ports::system());
    let started = Instant::now();
    let totals = relay.run_until_empty(CancellationToken::new()).await?;
    let took = started.elapsed();
    let rate = totals.published as f64 / took.as_secs_f64();
    println!(
        "relay from a backlog of {messages} on Cassandra, exactly once {rate:>9.0} msg/s   {:.0} % of reading",
        100.0 * rate / raw
    );
    print_profile(relay.profile(), took, messages);
    Ok(())
}

async fn read_rows(keyspace: &Keyspace, ids: &[String]) -> Result<f64> {
    let select = "SELECT * FROM helenus_outbox_messages WHERE message_id = ?";
    let select = keyspace.session.prepare(select).await?;
    let started = Instant::now();
    let work = ids.iter().map(|id| keyspace.session.execute_unpaged(&select, (id.as_str(),)));
    stream::iter(work).buffer_unordered(AT_ONCE).try_for_each(|_| async { Ok(()) }).await?;
    Ok(ids.len() as f64 / started.elapsed().as_secs_f64())
}

async fn after_history(dispatched: usize) -> Result<()> {
    let (fresh_keyspace, fresh) = open().await?;
    let (old_keyspace, old) = open().await?;
    let ids = seed(&old_keyspace, &old, "history", dispatched).await?;
    let now = Ports::system().clock.now();
    for chunk in ids.chunks(BATCH) {
        let done =
            |id: &String| Ok(Report::new(MessageId::new(id.as_str())?, now, Outcome::Succeeded));
        let reports: Result<Vec<Report>> = chunk.iter().map(done).collect();
        old.apply_reports(reports?).await?;
    }
    for (keyspace, store) in [(&fresh_keyspace, &fresh), (&old_keyspace, &old)] {
        seed(keyspace, store, "due", 100).await?;
    }
    pending::compare("Cassandra", &fresh, &old, dispatched).await
}
