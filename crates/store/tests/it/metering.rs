//! What a recorder of metrics is told about a subscription.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use helenus_model::{Backoff, Expected, NewEvent, Payload, StreamId};
use helenus_store::Ports;
use helenus_store::contract::{Append, EventStore, NewSubscription, Subscriptions};
use helenus_store::sqlite::SqliteStore;
use helenus_store::subscription::{Consumer, ConsumerOptions, Delivery, Each, describe};
use metrics::{Counter, Gauge, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit};

/// Keeps every value under its metric's name and label.
#[derive(Clone, Default)]
struct Kept {
    values: Arc<Mutex<BTreeMap<String, Arc<AtomicU64>>>>,
    described: Arc<Mutex<Vec<String>>>,
}

impl Kept {
    fn at(&self, key: &Key) -> Arc<AtomicU64> {
        let labels: Vec<&str> = key.labels().map(metrics::Label::value).collect();
        let name = format!("{} {}", key.name(), labels.join(" "));
        Arc::clone(self.values.lock().unwrap().entry(name).or_default())
    }

    fn bits(&self, name: &str, subscription: &str) -> u64 {
        let name = format!("helenus_subscription_{name} {subscription}");
        let values = self.values.lock().unwrap();
        values.get(&name).unwrap_or_else(|| panic!("no {name}")).load(Ordering::SeqCst)
    }

    fn gauge(&self, name: &str, subscription: &str) -> f64 {
        f64::from_bits(self.bits(name, subscription))
    }
}

impl Recorder for Kept {
    fn describe_counter(&self, key: KeyName, _: Option<Unit>, _: SharedString) {
        self.described.lock().unwrap().push(key.as_str().to_owned());
    }

    fn describe_gauge(&self, key: KeyName, _: Option<Unit>, _: SharedString) {
        self.described.lock().unwrap().push(key.as_str().to_owned());
    }

    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        Counter::from_arc(self.at(key))
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::from_arc(self.at(key))
    }

    fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::noop()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn lag_work_and_failures_are_measured() {
    let kept = Kept::default();
    assert!(metrics::set_global_recorder(kept.clone()).is_ok(), "the only one of these tests");
    describe();
    assert_eq!(kept.described.lock().unwrap().len(), 6);

    let dir = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(dir.path().join("store.db"), Ports::system()).await.unwrap();
    for stream in ["ill", "well"] {
        let event = NewEvent::new("e", Payload::json(&serde_json::json!({})));
        let stream = StreamId::new(stream).unwrap();
        store.append(Append::new(stream, Expected::Any, vec![event; 3])).await.unwrap();
    }
    let new = NewSubscription::new("metered".parse().unwrap());
    store.subscribe(new.clone()).await.unwrap();
    let handler = |delivery: Delivery| {
        let is_ill = delivery.event.stream_id.as_str() == "ill";
        std::future::ready(if is_ill { Err("no ink".into()) } else { Ok(()) })
    };
    let backoff = Backoff { first: Duration::from_millis(1), longest: Duration::from_millis(1) };
    let options = ConsumerOptions { attempts_max: 2, backoff, ..ConsumerOptions::default() };
    let each = Each::new(store.clone(), handler);
    let consumer = Consumer::new(store.clone(), new.name, each, Ports::system()).with(options);
    consumer.catch_up(&Default::default()).await.unwrap();

    assert_eq!(kept.bits("processed_total", "metered"), 3);
    assert_eq!(kept.bits("failures_total", "metered"), 2);
    assert_eq!(kept.bits("parked_total", "metered"), 3);
    assert_eq!(kept.gauge("parked_events", "metered"), 3.0);
    assert_eq!(kept.gauge("lag_events", "metered"), 0.0);
    assert_eq!(kept.gauge("lag_seconds", "metered"), 0.0);
}
