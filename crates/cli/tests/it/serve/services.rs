//! On a cluster and Kafka, which is away at first and goes away again.

use helenus_testkit::isolated::Keyspace;
use helenus_testkit::serial;
use helenus_testkit::services::{Instance, Spec};
use serde_json::json;

use super::{Service, folder, published};
use crate::relay::stage;

#[test]
fn a_broker_that_is_away_is_named_and_everything_goes_on_when_it_is_back() {
    let _serial = serial().unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let store = runtime.block_on(Keyspace::create()).url();
    let mut kafka = Instance::start(Spec::kafka().name("serve").quick_compiler()).unwrap();
    let broker = format!("kafka://{}", kafka.endpoint());
    kafka.stop().unwrap();

    let dir = folder(&format!(
        "[store]\nurl = \"{store}\"\n\
         [broker]\nurl = \"{broker}\"\nrequest_timeout = \"3s\"\n\
         [relay]\nbackoff_longest = \"1s\"\n\
         [serve]\nlook_every = \"200ms\"\n"
    ));
    let mut service = Service::start(dir.path(), &[]);
    let said = service.until_ready_is(503, |body| {
        body.contains("the broker is away") && body.contains("task relay failed")
    });
    let reasons = said["reasons"].to_string();
    assert!(reasons.contains("did not answer") && reasons.contains("no relay holds"), "{said}");
    service.until_metric("helenus_broker_up 0");
    stage(dir.path(), &store, "orders", 0..20);

    kafka.restart().unwrap();
    let ready = service.until_ready_is(200, |_| true);
    assert!(ready["tasks"][0]["restarts"].as_u64().unwrap() > 0, "{ready}");
    service.until_metric("helenus_relay_published_total 20");
    let manifest = service.json("/engine/snapshot");
    let producers = &manifest["technologies"]["event-driven-integration"]["outbox-producers"];
    let expected =
        json!([{"id": "cassandra-outbox", "provider": "cassandra", "mode": "wide-column-lwt"}]);
    assert_eq!(*producers, expected);

    kafka.kill().unwrap();
    service.until_ready_is(503, |body| body.contains("the broker is away"));
    stage(dir.path(), &store, "orders", 20..30);
    kafka.restart().unwrap();
    service.until_ready_is(200, |_| true);
    service.until_metric("helenus_relay_published_total 30");
    service.until_metric("helenus_outbox_unpublished_messages 0");

    service.signal("TERM");
    let (code, _, err) = service.ended();
    assert_eq!(code, Some(0), "{err}");
    assert_eq!(published(dir.path(), &store, &broker, "orders"), 30);
}
