//! What must hold once the pipeline has ended, looked up in the file after opening it again.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use helenus::broker::{Broker as _, Offset, Position, Record};
use helenus::store::{Dispatch, Inbox};
use helenus::{Broker, MessageId, Ports};
use helenus_server::Check;

use super::ledger;
use super::pipeline::{Counters, GROUP, PARTITIONS, Run, count};
use crate::exit::Failed;

pub(super) async fn examine(
    path: &Path,
    counters: &Counters,
    run: &Run,
    staged: u64,
) -> Result<Vec<Check>, Failed> {
    let ports = Ports::system();
    let store = super::open(path, &ports).await?;
    let broker = Broker::open(&helenus::backend::BrokerUrl::Embedded, &store)?;
    let backlog = store.backlog(ports.clock.now()).await?;

    let mut published = HashSet::new();
    let mut records = 0_u64;
    let mut disorder = 0_u64;
    let mut unread = 0_u64;
    let mut without_receipt = 0_u64;
    for partition in 0..PARTITIONS {
        let found = read_all(&broker, &run.topic, partition).await?;
        let committed = broker.committed(GROUP, &run.topic, partition).await?;
        let next = committed.unwrap_or(Offset::START);
        unread += found.iter().filter(|record| record.position.offset >= next).count() as u64;
        disorder += out_of_order(&found);
        for record in found {
            records += 1;
            let id = id_of(&record);
            if store.receipt(&MessageId::new(id.as_str())?).await?.is_none() {
                without_receipt += 1;
            }
            published.insert(id);
        }
    }
    let events = Box::pin(ledger::examine(path, &store, counters, run)).await?;
    store.close().await;

    let check = |name, ok, detail: String| Check { name, ok, detail };
    let processed = count(&counters.processed);
    let mut checks = vec![
        check("messages flowed", staged > 0, format!("{staged} staged")),
        check(
            "every staged message is in the topic, once",
            published.len() as u64 == staged && records == staged,
            format!("{records} records, {} distinct, {staged} staged", published.len()),
        ),
        check("each key is in order", disorder == 0, format!("{disorder} out of order")),
        check(
            "nothing is left in the outbox",
            backlog.unpublished == 0,
            format!("{} pending after reopening", backlog.unpublished),
        ),
        check(
            "staging twice staged once",
            count(&counters.staged_twice) > 0,
            format!("{} repeats recognised", count(&counters.staged_twice)),
        ),
        check(
            "other content under a known id was refused",
            count(&counters.impostors_refused) > 0,
            format!("{} refused", count(&counters.impostors_refused)),
        ),
        check(
            "the consumer took each message once",
            processed == staged && without_receipt == 0 && unread == 0,
            format!("{processed} taken, {} repeats dropped", count(&counters.repeats_dropped)),
        ),
    ];
    checks.extend(events);
    Ok(checks)
}

async fn read_all(broker: &Broker, topic: &str, partition: u32) -> Result<Vec<Record>, Failed> {
    let mut all: Vec<Record> = Vec::new();
    loop {
        let offset = all.last().map_or(Offset::START, |last| last.position.offset.next());
        let from = Position { topic: topic.into(), partition, offset };
        let page = broker.read(from, 1_000).await?;
        if page.is_empty() {
            return Ok(all);
        }
        all.extend(page);
    }
}

fn id_of(record: &Record) -> String {
    let id = record.headers.iter().find(|(name, _)| name == "ce_id");
    id.map(|(_, value)| String::from_utf8_lossy(value).into_owned()).unwrap_or_default()
}

/// How often a key's number is not above the one before it.
fn out_of_order(records: &[Record]) -> u64 {
    let mut last: HashMap<&[u8], i64> = HashMap::new();
    let mut disorder = 0;
    for record in records {
        let body: serde_json::Value = serde_json::from_slice(&record.payload).unwrap_or_default();
        let number = body.get("number").and_then(serde_json::Value::as_i64).unwrap_or(-1);
        let before = last.insert(record.key.as_deref().unwrap_or_default(), number);
        if before.is_some_and(|before| before >= number) {
            disorder += 1;
        }
    }
    disorder
}

#[cfg(test)]
mod tests {
    use helenus::Timestamp;

    use super::*;

    #[test]
    fn disorder_is_counted_per_key() {
        let record = |key: &str, number: i64| Record {
            position: Position { topic: "t".into(), partition: 0, offset: Offset(number) },
            key: Some(key.as_bytes().to_vec()),
            headers: vec![("ce_id".into(), b"m-1".as_slice().into())],
            payload: serde_json::json!({ "number": number }).to_string().into_bytes(),
            timestamp: Timestamp::EPOCH,
        };
        let fine = [record("a", 1), record("b", 1), record("a", 2), record("b", 5)];
        assert_eq!(out_of_order(&fine), 0);
        let swapped_and_doubled = [record("a", 2), record("a", 1), record("b", 3), record("b", 3)];
        assert_eq!(out_of_order(&swapped_and_doubled), 2);
        assert_eq!(id_of(&fine[0]), "m-1");
    }
}
