//! Staging inside the caller's own transaction: the embedded store's way to be atomic with it.

use helenus_model::{ChannelId, Failure, Kind, Message, MessageId, Payload, Timestamp};
use helenus_store::Ports;
use helenus_store::contract::{
    Dispatch, EnqueueError, Enqueued, Error, Inbox, Outbox, Received, Upkeep,
};
use helenus_store::once::{ExactlyOnce, OnceError};
use helenus_store::sqlite::{SqliteStore, stage};

#[tokio::test]
async fn a_message_is_staged_if_and_only_if_the_callers_transaction_commits() {
    let dir = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(dir.path().join("shop.db"), Ports::system()).await.unwrap();
    let mut shop = rusqlite::Connection::open(store.engine().path()).unwrap();
    shop.execute_batch("CREATE TABLE orders (id TEXT PRIMARY KEY)").unwrap();

    for (id, commit) in [("kept", true), ("undone", false)] {
        let transaction = shop.transaction().unwrap();
        transaction.execute("INSERT INTO orders VALUES (?1)", [id]).unwrap();
        stage(&transaction, &message(id), Timestamp::EPOCH).unwrap();
        if commit {
            transaction.commit().unwrap();
        } else {
            transaction.rollback().unwrap();
        }
    }

    let pending = store.read_pending(Timestamp::from_millis(1), 10).await.unwrap();
    assert_eq!(pending.len(), 1);
    assert_eq!(pending[0].message.message_id.as_str(), "kept");
    let orders: i64 = shop.query_row("SELECT count(*) FROM orders", [], |row| row.get(0)).unwrap();
    assert_eq!(orders, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_chooses_the_number_of_shards_first_decides() {
    let dir = tempfile::tempdir().unwrap();
    let open =
        async |name: &str| SqliteStore::open(dir.path().join(name), Ports::system()).await.unwrap();
    let (one, other) = (open("raced.db").await, open("raced.db").await);
    let (first, second) = tokio::join!(one.choose_shards(Some(3)), other.choose_shards(Some(5)));
    let chosen = first.unwrap();
    assert_eq!(second.unwrap(), chosen);
    assert_eq!(one.identity().await.unwrap().shards, chosen);
    assert_eq!(open("raced.db").await.choose_shards(Some(9)).await.unwrap(), chosen);

    let usual = open("usual.db").await;
    assert_eq!(usual.choose_shards(None).await.unwrap(), 16);
    assert_eq!(usual.choose_shards(Some(8)).await.unwrap(), 16, "it was used with 16");
    let staged = open("staged.db").await;
    staged.enqueue(message("m")).await.unwrap();
    assert_eq!(staged.choose_shards(Some(8)).await.unwrap(), 16, "it has messages in 16");
    staged.reshard(4).await.unwrap();
    assert_eq!(staged.choose_shards(Some(8)).await.unwrap(), 4);
}

#[tokio::test]
async fn a_transaction_that_ends_after_any_step_leaves_both_or_neither() {
    let dir = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(dir.path().join("shop.db"), Ports::system()).await.unwrap();
    let mut shop = rusqlite::Connection::open(store.engine().path()).unwrap();
    shop.execute_batch("CREATE TABLE orders (id TEXT PRIMARY KEY)").unwrap();
    let steps: [fn(&rusqlite::Connection, &str); 3] = [
        |db, id| assert_eq!(db.execute("INSERT INTO orders VALUES (?1)", [id]).unwrap(), 1),
        |db, id| {
            let staged = stage(db, &message(id), Timestamp::EPOCH).unwrap();
            assert_eq!(staged, Enqueued::Enqueued);
        },
        |db, _| db.execute_batch("COMMIT").unwrap(),
    ];
    for ends_after in 0..=steps.len() {
        let id = ends_after.to_string();
        let transaction = shop.transaction().unwrap();
        steps.iter().take(ends_after).for_each(|step| step(&transaction, &id));
        // A process that ends drops whatever it has not committed.
        drop(transaction);
        let due = store.read_pending(Timestamp::from_millis(1), 10).await.unwrap();
        let staged = due.iter().any(|due| due.message.message_id.as_str() == id);
        let count = "SELECT count(*) FROM orders WHERE id = ?1";
        let orders: i64 = shop.query_row(count, [&id], |row| row.get(0)).unwrap();
        assert_eq!((staged, orders == 1), (ends_after == 3, ends_after == 3), "after {ends_after}");
    }
}

#[tokio::test]
async fn a_damaged_row_is_reported_with_its_message() {
    let dir = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(dir.path().join("shop.db"), Ports::system()).await.unwrap();
    let other = rusqlite::Connection::open(store.engine().path()).unwrap();
    stage(&other, &message("m-1"), Timestamp::EPOCH).unwrap();
    other.execute("UPDATE helenus_outbox_contents SET headers_json = '{'", []).unwrap();
    let error = store.read_pending(Timestamp::from_millis(1), 10).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Corrupt);
    assert!(error.to_string().contains("message m-1: headers_json"), "{error}");
}

#[tokio::test]
async fn effect_and_receipt_are_one_transaction() {
    let dir = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(dir.path().join("shop.db"), Ports::system()).await.unwrap();
    let shop = rusqlite::Connection::open(store.engine().path()).unwrap();
    shop.execute_batch("CREATE TABLE invoices (id TEXT NOT NULL)").unwrap();
    let received = Received {
        message_id: MessageId::new("billing/m-1").unwrap(),
        channel_id: ChannelId::new("orders").unwrap(),
        message_type: "order.placed".to_owned(),
        correlation_id: None,
        tenant_id: None,
        received_at: Timestamp::EPOCH,
    };
    let invoice = |fails: bool| {
        move |db: &rusqlite::Connection| -> Result<Vec<u8>, std::io::Error> {
            db.execute("INSERT INTO invoices VALUES ('i-1')", []).map_err(std::io::Error::other)?;
            if fails { Err(std::io::Error::other("no paper")) } else { Ok(b"i-1".to_vec()) }
        }
    };
    let error = store.once(received.clone(), None, invoice(true)).await.unwrap_err();
    assert_eq!(error.code(), "handler_failed");
    assert_eq!(store.look(&received.message_id).await.unwrap(), None, "both or neither");
    for repeated in [false, true] {
        let done = store.once(received.clone(), None, invoice(false)).await.unwrap();
        assert_eq!(done, ExactlyOnce { result: b"i-1".to_vec(), repeated });
    }
    let count = "SELECT count(*) FROM invoices";
    let invoices: i64 = shop.query_row(count, [], |row| row.get(0)).unwrap();
    assert_eq!(invoices, 1);
}

#[test]
fn errors_stay_small() {
    assert!(size_of::<EnqueueError>() <= 64);
    assert!(size_of::<Error>() <= 64);
    assert!(size_of::<OnceError<std::io::Error>>() <= 64);
}

fn message(id: &str) -> Message {
    Message::new(
        MessageId::new(id).unwrap(),
        ChannelId::new("orders").unwrap(),
        "order.placed",
        Payload::json(&serde_json::json!({})),
        Timestamp::EPOCH,
    )
}
