//! What a plan takes, leaves for later and leaves out.

use helenus_model::{ChannelId, MessageId, Payload, Timestamp};

use super::*;

fn pending(id: &str, key: Option<&str>, bytes: usize) -> Pending {
    let payload = Payload { content_type: "x/y".to_owned(), bytes: vec![0; bytes] };
    let id = MessageId::new(id).unwrap();
    let channel = ChannelId::new("orders").unwrap();
    let message = Message {
        ordering_key: key.map(str::to_owned),
        ..Message::new(id, channel, "order.placed", payload, Timestamp::EPOCH)
    };
    let at = Timestamp::EPOCH;
    Pending { message, shard: 0, attempt_count: 0, created_at: at, eligible_at: at }
}

fn ids(pending: &[Pending]) -> Vec<&str> {
    pending.iter().map(|pending| pending.message.message_id.as_str()).collect()
}

fn planned(due: Vec<Pending>, count: usize) -> Plan {
    plan(due, count, &Options::default(), &Events::default())
}

#[test]
fn a_plan_is_a_prefix_bounded_by_count_and_bytes() {
    let due = || (0..10).map(|n| pending(&format!("m-{n}"), None, 1)).collect::<Vec<_>>();
    assert_eq!(ids(&planned(due(), 3).publish.messages), ["m-0", "m-1", "m-2"]);
    assert_eq!(planned(due(), 100).publish.records.len(), 10);
    let large = (0..40).map(|n| pending(&format!("m-{n}"), None, 1_000_000)).collect();
    assert_eq!(planned(large, 100).publish.records.len(), 16);
    let larger_than_all = vec![pending("m-0", None, 20_000_000), pending("m-1", None, 1)];
    assert_eq!(ids(&planned(larger_than_all, 100).publish.messages), ["m-0"]);
    let long = |n: usize| format!("{n:0>500}");
    let long_ids = (0..2_000).map(|n| pending(&long(n), None, 1)).collect();
    let plan = planned(long_ids, 10_000).publish.messages;
    assert!(plan.len() > 400 && plan.len() * 500 <= MARKER_BYTES, "{}", plan.len());
}

#[test]
fn what_stands_behind_a_refused_message_of_its_key_waits() {
    let due = [("a", Some("k")), ("b", None), ("c", Some("k")), ("d", Some("l")), ("e", None)];
    let due = || planned(due.map(|(id, key)| pending(id, key, 1)).to_vec(), 100).publish;
    let (refused, rest) = without(due(), &HashSet::from([0, 1]), &Lines::default());
    assert_eq!(ids(&refused), ["a", "b"]);
    assert_eq!(ids(&rest.messages), ["d", "e"]);
    let one_line = Lines { all: true, ..Lines::default() };
    let (refused, rest) = without(due(), &HashSet::from([2, 3]), &one_line);
    assert_eq!((ids(&refused), ids(&rest.messages)), (vec!["c", "d"], vec!["a", "b"]));
}

#[test]
fn a_partition_can_be_a_line() {
    let due = (0..20).map(|n| pending(&format!("m-{n}"), None, 1)).collect();
    let lines = Lines { partitions: [("orders".into(), 2)].into(), all: false };
    let (_, rest) = without(planned(due, 100).publish, &HashSet::from([0]), &lines);
    let partition_of = |id: &str| partition::of_key(id.as_bytes(), 2);
    let others = (1..20).map(|n| format!("m-{n}"));
    let others: Vec<String> = others.filter(|id| partition_of(id) != partition_of("m-0")).collect();
    assert!(!others.is_empty());
    assert_eq!(ids(&rest.messages), others);
}

#[test]
fn an_event_is_told_once_to_a_channel() {
    let told = |id: &str, event: &str, channel: &str| {
        let mut pending = pending(id, Some("order-1"), 1);
        pending.message.metadata.insert("event_id".to_owned(), event.to_owned());
        pending.message.channel_id = ChannelId::new(channel).unwrap();
        pending
    };
    let due = || {
        vec![
            told("m-1", "e-1", "orders"),
            told("m-2", "e-1", "orders"),
            told("m-3", "e-1", "billing"),
            told("m-4", "e-2", "orders"),
        ]
    };
    let plan_all = plan(due(), 100, &Options::default(), &Events::default());
    assert_eq!((ids(&plan_all.publish.messages), plan_all.skip.len()), (vec!["m-1"], 0));
    let mut events = Events::default();
    events.remember(event(&due()[0].message, &Options::default()).unwrap());
    let plan_some = plan(due(), 100, &Options::default(), &events);
    assert_eq!((ids(&plan_some.publish.messages), plan_some.skip.len()), (vec!["m-3", "m-4"], 2));
    let options = Options { deduplicate: false, ..Options::default() };
    assert_eq!(plan(due(), 100, &options, &events).publish.records.len(), 4);
}

#[test]
fn a_channel_has_the_topic_it_is_mapped_to() {
    let topics = [("orders".to_owned(), "shop.orders".to_owned())].into();
    let options = Options { topics, ..Options::default() };
    let plan = plan(vec![pending("m-1", None, 1)], 1, &options, &Events::default());
    assert_eq!(&*plan.publish.records[0].topic, "shop.orders");
}

#[test]
fn the_oldest_events_are_forgotten_first() {
    let mut events = Events::default();
    for number in 0..=EVENTS_REMEMBERED {
        events.remember(number.to_string());
    }
    assert!(!events.contains("0") && events.contains("1"));
}
