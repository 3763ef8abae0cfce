//! Real services, really started: the shared ones are there, private ones can be disturbed.

#![cfg(feature = "service-tests")]

mod corners;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use helenus_testkit::serial;
use helenus_testkit::services::{
    Endpoint, Instance, Registry, Service, Spec, StartedBy, Up, chromium, up,
};

fn redis(endpoint: &Endpoint, command: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect((endpoint.host.as_str(), endpoint.port))?;
    stream.set_read_timeout(Some(Duration::from_secs(2)))?;
    stream.write_all(format!("{command}\r\n").as_bytes())?;
    let mut answer = [0; 64];
    let length = stream.read(&mut answer)?;
    Ok(String::from_utf8_lossy(answer.get(..length).unwrap_or_default()).into_owned())
}

#[test]
fn every_shared_service_is_up() {
    let services = Registry::new();
    for service in Service::SINGLE_NODE {
        services.record(service).expect("started by `cargo xtask test`");
    }
    chromium().expect("installed by `cargo xtask test`");
}

#[test]
fn up_reuses_what_is_up() {
    let options = Up { started_by: StartedBy::Test, keep_data: false };
    let first = up(&[Spec::redis()], options).expect("starts");
    let second = up(&[Spec::redis()], options).expect("is up");
    assert_eq!(first[0].nodes, second[0].nodes);
}

#[test]
fn a_missing_service_is_an_error_that_says_how_to_start_it() {
    let error = Registry::new().cassandra40().expect_err("not part of the test run").to_string();
    assert_eq!(
        error,
        "cassandra40 is not running; run `cargo xtask services up --only cassandra40`"
    );
}

#[test]
fn a_private_redis_is_killed_paused_and_restarted_alone() {
    let _serial = serial().expect("the serial group");
    let shared = Registry::new().redis().expect("the shared one");
    let mut instance = Instance::start(Spec::redis().name("disturbed")).expect("starts");
    let endpoint = instance.endpoint();
    assert_ne!(endpoint, shared);
    assert_eq!(redis(&endpoint, "SET key value").expect("answers"), "+OK\r\n");
    let first = instance.pid();

    instance.kill().expect("killed");
    assert!(redis(&endpoint, "PING").is_err());
    assert!(instance.kill().is_err(), "it does not run");
    instance.restart().expect("restarted");
    assert_ne!(instance.pid(), first);
    assert_eq!(instance.endpoint(), endpoint);
    assert_eq!(redis(&endpoint, "GET key").expect("answers"), "$-1\r\n");

    instance.pause().expect("paused");
    assert!(redis(&endpoint, "PING").is_err(), "nothing answers");
    instance.resume().expect("resumed");
    assert_eq!(redis(&endpoint, "PING").expect("answers"), "+PONG\r\n");
    assert_eq!(redis(&shared, "PING").expect("answers"), "+PONG\r\n");

    let directory = instance.dir().to_owned();
    drop(instance);
    assert!(!directory.try_exists().expect("readable"));
    assert!(redis(&endpoint, "PING").is_err());
}

#[test]
fn a_private_cassandra_keeps_its_segments_through_a_kill() {
    let _serial = serial().expect("the serial group");
    let spec = Spec::cassandra().name("killed").heap("512M").quick_compiler().commitlog_batch();
    let mut instance = Instance::start(spec).expect("starts");
    let status = instance.nodetool(&["status"]).expect("nodetool answers");
    assert!(status.contains("UN  127.0.0.1"), "{status}");
    let segments = |instance: &Instance| {
        std::fs::read_dir(instance.dir().join("cdc_raw")).expect("readable").count()
    };
    assert!(segments(&instance) > 0);
    instance.kill().expect("killed");
    instance.restart().expect("restarted");
    assert!(segments(&instance) > 0);
}

#[test]
fn settings_of_a_private_kafka_reach_it() {
    let spec = Spec::kafka().name("strict").set("auto.create.topics.enable", "false");
    let instance = Instance::start(spec).expect("starts");
    let properties =
        std::fs::read_to_string(instance.dir().join("server.properties")).expect("readable");
    let lines: Vec<&str> =
        properties.lines().filter(|line| line.starts_with("auto.create")).collect();
    assert_eq!(lines, ["auto.create.topics.enable=false"]);
}
