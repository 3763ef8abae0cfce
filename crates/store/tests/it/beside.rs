//! Staging together with the application's own statements, on a real cluster.

use std::sync::Arc;
use std::time::Duration;

use helenus_model::{
    ChannelId, Clock, Failure, ManualClock, Message, MessageId, OperationId, Payload, SystemClock,
    SystemRandom,
};
use helenus_store::Ports;
use helenus_store::cassandra::staging::{AfterReconciliation, Aggregate, Bound, Entity, Mark};
use helenus_store::cassandra::{CassandraStore, Options};
use helenus_store::contract::{Dispatch, Outbox, Reconciled, Sweep, Upkeep};
use helenus_store::tending::keep_reconciled;
use scylla::value::CqlValue;
use serde_json::json;
use uuid::Uuid;

use crate::cassandra::Keyspace;
use crate::proxy::{Mode, Proxy};

const PAST_THE_GRACE: Duration = Duration::from_secs(180);

struct Shop {
    keyspace: Keyspace,
    clock: Arc<ManualClock>,
    store: CassandraStore,
    session: scylla::client::session::Session,
}

impl Shop {
    async fn open() -> Shop {
        let keyspace = Keyspace::new();
        let clock = Arc::new(ManualClock::at(SystemClock::new().now()));
        let ports = Ports { clock: Arc::clone(&clock) as _, random: Arc::new(SystemRandom) };
        let store = keyspace.store(Options::default(), ports);
        store.identity().await.unwrap();
        let session = keyspace.session().await;
        session.use_keyspace(keyspace.name(), true).await.unwrap();
        let orders = "CREATE TABLE orders (order_id uuid PRIMARY KEY, status text,
             operation_id uuid, operations map<uuid, timestamp>)";
        session.query_unpaged(orders, ()).await.unwrap();
        Shop { keyspace, clock, store, session }
    }

    fn table(&self) -> String {
        format!("{}.orders", self.keyspace.name())
    }

    fn entity(&self, order: Uuid, mark: Mark) -> Entity {
        let key = vec![("order_id".to_owned(), json!(order))];
        Entity { table: self.table(), key, mark }
    }

    async fn pending(&self) -> Vec<String> {
        let due = self.store.read_pending(self.clock.now(), 100).await.unwrap();
        due.into_iter().map(|pending| pending.message.message_id.to_string()).collect()
    }
}

fn message(id: &str) -> Message {
    Message::new(
        MessageId::new(id).unwrap(),
        ChannelId::new("orders").unwrap(),
        "OrderCreated",
        Payload::json(&json!({ "id": id })),
        SystemClock::new().now(),
    )
}

fn fresh() -> OperationId {
    OperationId::from(Uuid::new_v4())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_beside_its_entity_is_one_mutation_with_it() {
    let shop = Shop::open().await;
    let outbox = shop.store.entity_outbox(&shop.table(), &[("order_id", "uuid")]).await.unwrap();
    let order = Uuid::new_v4();
    let insert = "INSERT INTO orders (order_id, status) VALUES (?, 'new')";
    let statement = shop.session.prepare(insert).await.unwrap();
    let bound = Bound { statement, values: vec![Some(CqlValue::Uuid(order))] };
    let key = [json!(order)];
    let staged = shop.store.stage_beside(&outbox, &key, message("m-1"), vec![bound]).await.unwrap();
    assert!(staged.is_enqueued);
    assert_eq!(shop.pending().await, ["m-1"]);
    let published = "SELECT published, event_type FROM orders_outbox WHERE order_id = ?";
    let rows = shop.session.query_unpaged(published, (order,)).await.unwrap();
    let row = rows.into_rows_result().unwrap().single_row::<(bool, String)>().unwrap();
    assert_eq!(row, (true, "OrderCreated".to_owned()));
    assert_eq!(shop.store.reconcile(false).await.unwrap(), Reconciled::default());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_is_staged_if_and_only_if_the_transaction_is_applied() {
    let shop = Shop::open().await;
    let create = "INSERT INTO orders (order_id, status, operation_id) VALUES (?, 'new', ?)
         IF NOT EXISTS";
    let create = shop.session.prepare(create).await.unwrap();
    let order = Uuid::new_v4();
    for (id, expected) in
        [("first", AfterReconciliation::Staged), ("second", AfterReconciliation::Refused)]
    {
        let (operation, entity) = (fresh(), shop.entity(order, Mark::OperationId));
        let values = (order, operation.as_uuid());
        let staged =
            shop.store.stage_conditional(message(id), entity, operation, &create, values).await;
        assert_eq!(staged.unwrap(), expected);
    }
    assert_eq!(shop.pending().await, ["first"]);
    shop.clock.advance(PAST_THE_GRACE);
    assert_eq!(shop.store.reconcile(false).await.unwrap(), Reconciled::default());
}

/// Loses what `mode` loses of a conditional staging, then lets the reconciler find out.
async fn lost(mode: Mode, mark: Mark) -> (Reconciled, Vec<String>) {
    let shop = Shop::open().await;
    let proxy = Proxy::start(shop.keyspace.address()).await;
    let ports = Ports { clock: Arc::clone(&shop.clock) as _, random: Arc::new(SystemRandom) };
    let store = shop.keyspace.store_with(proxy.address(), Options::default(), ports);
    store.identity().await.unwrap();
    let session = scylla::client::session_builder::SessionBuilder::new()
        .known_node(shop.keyspace.address())
        .build()
        .await
        .unwrap();
    let cql = match mark {
        Mark::OperationId => "INSERT INTO {} (order_id, operation_id) VALUES (?, ?) IF NOT EXISTS",
        Mark::Operations => "INSERT INTO {} (order_id, operations) VALUES (?, ?) IF NOT EXISTS",
    };
    let create = session.prepare(cql.replace("{}", &shop.table())).await.unwrap();
    let (order, operation) = (Uuid::new_v4(), fresh());
    let mark_value = match mark {
        Mark::OperationId => CqlValue::Uuid(operation.as_uuid()),
        Mark::Operations => {
            let now = scylla::value::CqlTimestamp(shop.clock.now().as_millis());
            CqlValue::Map(vec![(CqlValue::Uuid(operation.as_uuid()), CqlValue::Timestamp(now))])
        }
    };
    let mut create = create;
    create.set_request_timeout(Some(Duration::from_millis(500)));
    let values = (order, mark_value);
    let entity = shop.entity(order, mark);
    // The intent passes; of the transaction only what the mode lets through.
    proxy.set_after(1, mode);
    let staging = store.stage_conditional(message("m-1"), entity, operation, &create, values);
    let staged = tokio::time::timeout(Duration::from_secs(20), staging).await.unwrap();
    assert_eq!(staged.unwrap_err().applied(), None);
    proxy.set(Mode::Forward);
    assert_eq!(shop.store.reconcile(false).await.unwrap().open, 1, "it may be under way");
    shop.clock.advance(PAST_THE_GRACE);
    let dry = shop.store.reconcile(true).await.unwrap();
    let done = shop.store.reconcile(false).await.unwrap();
    assert_eq!(dry, done);
    assert_eq!(shop.store.reconcile(false).await.unwrap(), Reconciled::default());
    (done, shop.pending().await)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_whose_answer_was_lost_is_completed() {
    for mark in [Mark::OperationId, Mark::Operations] {
        let (done, pending) = lost(Mode::DropAnswers, mark).await;
        assert_eq!((done.examined, done.completed), (1, 1));
        assert_eq!(pending, ["m-1"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_that_never_arrived_is_dropped() {
    let (done, pending) = lost(Mode::DropRequests, Mark::OperationId).await;
    assert_eq!((done.examined, done.dropped), (1, 1));
    assert_eq!(pending, [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bucket_is_brought_into_the_outbox_once() {
    let shop = Shop::open().await;
    let aggregate = Aggregate { aggregate_type: "Order", aggregate_id: "o-1" };
    for id in ["m-1", "m-2"] {
        shop.store.stage_in_bucket(&message(id), aggregate).await.unwrap();
    }
    assert_eq!(shop.pending().await, [""; 0]);
    assert_eq!(shop.store.extend_ttl(Duration::from_secs(3600)).await.unwrap(), 2);
    for (dry_run, completed) in [(true, 2), (false, 2), (false, 0)] {
        let done = shop.store.reconcile(dry_run).await.unwrap();
        assert_eq!((done.examined, done.completed), (completed, completed));
    }
    let mut pending = shop.pending().await;
    pending.sort();
    assert_eq!(pending, ["m-1", "m-2"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bucket_that_was_published_is_dropped_and_one_that_was_not_stays() {
    const HOUR: Duration = Duration::from_secs(3600);
    let shop = Shop::open().await;
    let aggregate = Aggregate { aggregate_type: "Order", aggregate_id: "o-1" };
    shop.store.stage_in_bucket(&message("m-1"), aggregate).await.unwrap();
    shop.store.reconcile(false).await.unwrap();
    shop.clock.advance(3 * HOUR);
    shop.store.stage_in_bucket(&message("m-2"), aggregate).await.unwrap();
    shop.clock.advance(3 * HOUR);
    let before = shop.clock.now().minus(HOUR);
    let sweep =
        |dry_run| Sweep { done_before: before, processed_before: before, limit: 10, dry_run };
    let rows = async |table: &str| {
        let rows = format!("SELECT event_id FROM helenus_{table}");
        let rows = shop.session.query_unpaged(rows, ()).await.unwrap();
        rows.into_rows_result().unwrap().rows_num()
    };
    assert_eq!(shop.store.sweep(sweep(true)).await.unwrap().buckets, 1);
    assert_eq!((rows("outbox_buckets").await, rows("outbox_published").await), (2, 1));
    for buckets in [1, 0] {
        assert_eq!(shop.store.sweep(sweep(false)).await.unwrap().buckets, buckets);
    }
    assert_eq!((rows("outbox_buckets").await, rows("outbox_published").await), (1, 0));
    // Too long ago for a usual look; a look at everything finds it.
    assert_eq!(shop.store.reconcile(false).await.unwrap().completed, 0);
    assert_eq!(shop.store.scan(false).await.unwrap().completed, 1);
    let mut pending = shop.pending().await;
    pending.sort();
    assert_eq!(pending, ["m-1", "m-2"]);
}

/// Removes what tells of a message, so that only reading everything finds it.
async fn hide(shop: &Shop, table: &str) {
    let rows = format!("TRUNCATE helenus_{table}");
    shop.session.query_unpaged(rows, ()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_scan_finds_what_no_index_tells_of() {
    let shop = Shop::open().await;
    shop.store.enqueue(message("m-1")).await.unwrap();
    hide(&shop, "outbox_pending_dispatch").await;
    assert_eq!(shop.pending().await, [""; 0]);
    assert_eq!(shop.store.reconcile(false).await.unwrap(), Reconciled::default());
    for (dry_run, completed) in [(true, 1), (false, 1), (false, 0)] {
        let done = shop.store.scan(dry_run).await.unwrap();
        assert_eq!((done.examined, done.completed), (completed, completed));
    }
    assert_eq!(shop.pending().await, ["m-1"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_scan_finds_a_batch_whose_trace_is_gone() {
    let shop = Shop::open().await;
    let outbox = shop.store.entity_outbox(&shop.table(), &[("order_id", "uuid")]).await.unwrap();
    let order = Uuid::new_v4();
    let key = [json!(order)];
    shop.store.stage_beside(&outbox, &key, message("m-1"), vec![]).await.unwrap();
    // As if the batch had come long after whoever sent it, and its trace, were gone.
    let unpublish =
        "UPDATE orders_outbox SET published = false WHERE order_id = ? AND event_id = ?";
    let id = "SELECT event_id FROM orders_outbox WHERE order_id = ?";
    let id = shop.session.query_unpaged(id, (order,)).await.unwrap().into_rows_result().unwrap();
    let (id,) = id.single_row::<(scylla::value::CqlTimeuuid,)>().unwrap();
    shop.session.query_unpaged(unpublish, (order, id)).await.unwrap();
    hide(&shop, "outbox_pending_dispatch").await;
    hide(&shop, "outbox_messages").await;
    assert_eq!(shop.store.reconcile(false).await.unwrap(), Reconciled::default());
    for (dry_run, completed) in [(true, 1), (false, 1), (false, 0)] {
        let done = shop.store.scan(dry_run).await.unwrap();
        assert_eq!((done.examined, done.completed), (completed, completed));
    }
    assert_eq!(shop.pending().await, ["m-1"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_in_a_bucket_is_brought_in_by_whoever_keeps_the_store_reconciled() {
    let shop = Shop::open().await;
    let (told, mut rounds) = tokio::sync::mpsc::unbounded_channel();
    let keeping = keep_reconciled(&shop.store, Duration::from_millis(1), |round| {
        told.send(round.unwrap().completed).unwrap();
    });
    let staging = async {
        assert_eq!(rounds.recv().await, Some(0));
        let aggregate = Aggregate { aggregate_type: "Order", aggregate_id: "o-1" };
        shop.store.stage_in_bucket(&message("m-1"), aggregate).await.unwrap();
        while rounds.recv().await.unwrap() == 0 {}
    };
    tokio::select! {
        () = keeping => panic!("it goes on until it is dropped"),
        () = staging => {}
    }
    assert_eq!(shop.pending().await, ["m-1"]);
}
