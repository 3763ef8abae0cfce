//! Every step of the ways to stage a message with the application's own statements, and of the
//! reconciler that finishes them, cut off before and after it.

use futures_util::TryStreamExt;
use helenus_model::{Clock, OperationId};
use helenus_store::cassandra::Options;
use helenus_store::cassandra::staging::{Aggregate, Bound, Entity, EntityOutbox, Mark};
use helenus_store::contract::{MessageState, Outcome, Upkeep};
use scylla::client::session::Session;
use scylla::statement::prepared::PreparedStatement;
use scylla::value::CqlValue;
use serde_json::json;
use uuid::Uuid;

use super::{Cut, PAST_EVERY_GRACE, Scene, message};
use crate::proxy::Mode;

const AGGREGATE: Aggregate<'_> = Aggregate { aggregate_type: "Order", aggregate_id: "o-1" };

/// The application's own table, and what it does with it.
struct Orders {
    session: Session,
    table: String,
    outbox: EntityOutbox,
    insert: PreparedStatement,
    create: PreparedStatement,
}

impl Orders {
    async fn open(scene: &Scene) -> Orders {
        let session = scene.keyspace.session().await;
        session.use_keyspace(scene.keyspace.name(), true).await.unwrap();
        let orders = "CREATE TABLE orders (order_id uuid PRIMARY KEY, operation_id uuid)";
        session.query_unpaged(orders, ()).await.unwrap();
        let table = format!("{}.orders", scene.keyspace.name());
        let outbox = scene.mortal.entity_outbox(&table, &[("order_id", "uuid")]).await.unwrap();
        let prepare = |tail: &str| {
            let cql = format!("INSERT INTO {table} (order_id, operation_id) VALUES (?, ?) {tail}");
            let session = &session;
            async move { session.prepare(cql).await.unwrap() }
        };
        let (insert, create) = (prepare("").await, prepare("IF NOT EXISTS").await);
        Orders { session, table, outbox, insert, create }
    }

    async fn stage_beside(&self, scene: &Scene, id: &str, order: Uuid) {
        let values = vec![Some(CqlValue::Uuid(order)), Some(CqlValue::Uuid(order))];
        let bound = Bound { statement: self.insert.clone(), values };
        let key = [json!(order)];
        let staging = scene.mortal.stage_beside(&self.outbox, &key, message(id, None), vec![bound]);
        // Of a process that dies nobody hears.
        drop(staging.await);
    }

    async fn stage_conditional(&self, scene: &Scene, id: &str, order: Uuid) {
        let key = vec![("order_id".to_owned(), json!(order))];
        let entity = Entity { table: self.table.clone(), key, mark: Mark::OperationId };
        let operation = OperationId::from(order);
        let (create, values) = (&self.create, (order, order));
        let message = message(id, None);
        drop(scene.mortal.stage_conditional(message, entity, operation, create, values).await);
    }

    async fn has(&self, order: Uuid) -> bool {
        let cql = "SELECT order_id FROM orders WHERE order_id = ?";
        let rows = self.session.query_unpaged(cql, (order,)).await.unwrap();
        rows.into_rows_result().unwrap().rows_num() == 1
    }

    async fn buckets_have(&self, id: &str) -> bool {
        let cql = "SELECT message_json FROM helenus_outbox_buckets";
        let rows = self.session.query_unpaged(cql, ()).await.unwrap().into_rows_result().unwrap();
        let mut texts = rows.rows::<(String,)>().unwrap().map(|row| row.unwrap().0);
        texts.any(|text| text.contains(&format!("\"{id}\"")))
    }
}

/// Lets whoever comes next finish; how often the message is due then. It is settled afterwards.
async fn due_in_the_end(scene: &Scene, id: &str) -> usize {
    scene.clock.advance(PAST_EVERY_GRACE);
    scene.next.reconcile(false).await.unwrap();
    let due = scene.count(id, scene.clock.now()).await;
    scene.report(&scene.next, id, Outcome::Succeeded).await;
    let left = scene.next.reconcile(false).await.unwrap();
    assert_eq!((left.completed, left.open), (0, 0), "{id}: nothing is begun any more");
    due
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_beside_its_entity_is_there_if_and_only_if_the_entity_is() {
    let scene = Scene::open().await;
    let orders = Orders::open(&scene).await;
    // A trace, the batch, the message's two rows, its mark, the trace's end.
    let trial = async |cut: Cut| {
        let (id, order) = (cut.id(), Uuid::new_v4());
        let began = scene.cut_off(cut, orders.stage_beside(&scene, &id, order)).await;
        let due = due_in_the_end(&scene, &id).await;
        assert_eq!(due, usize::from(orders.has(order).await), "{id}");
        began
    };
    scene.at_every_step(12, trial).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_of_a_transaction_is_there_if_and_only_if_it_was_applied() {
    let scene = Scene::open().await;
    let orders = Orders::open(&scene).await;
    // The intent, the transaction, the message's two rows, the intent's end.
    let trial = async |cut: Cut| {
        let (id, order) = (cut.id(), Uuid::new_v4());
        let began = scene.cut_off(cut, orders.stage_conditional(&scene, &id, order)).await;
        let due = due_in_the_end(&scene, &id).await;
        assert_eq!(due, usize::from(orders.has(order).await), "{id}");
        began
    };
    scene.at_every_step(10, trial).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_of_a_bucket_is_brought_in_if_it_is_there() {
    let scene = Scene::open().await;
    let orders = Orders::open(&scene).await;
    let trial = async |cut: Cut| {
        let message = message(&cut.id(), None);
        let staging = scene.mortal.stage_in_bucket(&message, AGGREGATE);
        let began = scene.cut_off(cut, staging).await;
        // Before the hour is too long ago to be looked at.
        scene.next.reconcile(false).await.unwrap();
        let due = scene.count(&cut.id(), scene.clock.now()).await;
        assert_eq!(due, usize::from(orders.buckets_have(&cut.id()).await), "{}", cut.id());
        began
    };
    scene.at_every_step(2, trial).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reconciler_that_dies_anywhere_leaves_the_rest_to_the_next() {
    // One shard, so that steps are of what was begun and not of looking for it.
    let scene = Scene::with(Options { shards: Some(1), ..Options::default() }).await;
    let orders = Orders::open(&scene).await;
    let trial = async |cut: Cut| {
        let ids = ["beside", "conditional", "bucket"].map(|way| format!("{}-{way}", cut.id()));
        let [beside, conditional, bucket] = &ids;
        let order = Uuid::new_v4();
        // Each is cut off right after it has become true.
        let after = |step| Cut::after(step);
        assert!(scene.cut_off(after(1), orders.stage_beside(&scene, beside, order)).await);
        let second = Uuid::new_v4();
        let staging = orders.stage_conditional(&scene, conditional, second);
        assert!(scene.cut_off(after(1), staging).await);
        assert!(orders.has(order).await && orders.has(second).await);
        scene.clock.advance(PAST_EVERY_GRACE);
        scene.next.stage_in_bucket(&message(bucket, None), AGGREGATE).await.unwrap();

        let began = scene.cut_off(cut, scene.mortal.reconcile(false)).await;
        scene.next.reconcile(false).await.unwrap();
        // What the dead one had half staged may still come, for all that anybody knows.
        scene.clock.advance(PAST_EVERY_GRACE);
        let left = scene.next.reconcile(false).await.unwrap();
        assert_eq!((left.completed, left.open), (0, 0), "{}: {left:?}", cut.id());
        let listed: Vec<_> =
            Upkeep::messages(&scene.next, MessageState::Pending).try_collect().await.unwrap();
        for id in &ids {
            let staged = listed.iter().filter(|message| message.message_id.as_str() == id).count();
            assert_eq!((staged, scene.count(id, scene.clock.now()).await), (1, 1), "{id}");
            scene.report(&scene.next, id, Outcome::Succeeded).await;
        }
        began
    };
    // To whoever comes after, dead before a step is dead after the one before it.
    let steps = scene.by_every_step(Mode::DropAnswers, trial).await;
    assert!(steps >= 10, "{steps}");
}
