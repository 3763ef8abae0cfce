//! Configuration as users write it, right and wrong.

use std::collections::BTreeMap;
use std::time::Duration;

use helenus::StoreOptions;
use helenus::cassandra::{Consistency, Replication, SerialConsistency};
use secrecy::ExposeSecret;

use super::super::{LogFormat, template};
use super::*;

fn parse_with(text: &str, variables: &[(&str, &str)]) -> Result<Config, ConfigError> {
    let variables = variables.iter().map(|(name, value)| (name.into(), value.into()));
    parse(Path::new("helenus.toml"), text, variables)
}

fn refused(text: &str, variables: &[(&str, &str)]) -> String {
    parse_with(text, variables).unwrap_err().to_string()
}

#[test]
fn what_init_writes_is_the_default_configuration() {
    let written = parse_with(&template(), &[]).unwrap();
    assert_eq!(format!("{written:?}"), format!("{:?}", Config::default()));
}

#[test]
fn every_key_init_explains_exists() {
    // With its examples switched on, the template must still be readable.
    let examples: String = template()
        .lines()
        .map(|line| match line.strip_prefix("# ") {
            Some(rest) if rest.contains(" = ") && !rest.contains(". ") => format!("{rest}\n"),
            _ => format!("{line}\n"),
        })
        .collect();
    let config = parse_with(&examples, &[]).unwrap();
    assert!(config.target.url.is_some() && config.registry.url.is_some(), "{examples}");
    assert!(config.capture.cdc_raw.is_some() && config.store.password.is_some(), "{examples}");
}

#[test]
fn the_environment_overrides_the_file() {
    let text = "[store]\nurl = \"sqlite:file.db\"\n[log]\nformat = \"text\"";
    let variables = [
        ("HELENUS_STORE__URL", "sqlite:other.db"),
        ("HELENUS_LOG__FORMAT", "json"),
        ("HELENUS_STORE__PASSWORD", "hush"),
        ("HELENUS_CONFIG", "ignored"),
        ("PATH", "ignored"),
    ];
    let config = parse_with(text, &variables).unwrap();
    assert_eq!(config.store.url.to_string(), "sqlite:other.db");
    assert_eq!(config.log.format, LogFormat::Json);
    let password = config.store.password.as_ref().unwrap().reveal().unwrap();
    assert_eq!(password.expose_secret(), "hush");
    assert!(!format!("{config:?}").contains("hush"));
}

#[test]
fn an_unknown_key_is_refused_with_the_nearest_one() {
    for (text, words) in [
        ("[store]\nulr = \"x\"", "unknown key store.ulr in helenus.toml; did you mean store.url?"),
        ("[stroe]\nurl = \"x\"", "unknown key stroe in helenus.toml; did you mean store?"),
        ("[log]\nzzzzzzzzzzzzzzz = 1", "unknown key log.zzzzzzzzzzzzzzz in helenus.toml"),
    ] {
        assert_eq!(refused(text, &[]), words);
    }
    assert_eq!(
        refused("", &[("HELENUS_STORE__UR", "x")]),
        "unknown key store.ur in HELENUS_STORE__UR; did you mean store.url?"
    );
    assert_eq!(
        refused("", &[("HELENUS_LOG__PASSWORD", "x")]),
        "unknown key log.password in HELENUS_LOG__PASSWORD"
    );
    assert_eq!(
        refused("", &[("HELENUS_STORE_URL", "x")]),
        "unknown key HELENUS_STORE_URL in the environment; did you mean HELENUS_STORE__URL?"
    );
}

#[test]
fn a_wrong_value_is_refused_with_its_place() {
    let error = refused("[store]\nurl = \"mysql://x\"", &[]);
    assert!(error.starts_with("helenus.toml: store.url: unknown scheme 'mysql:'"), "{error}");
    let error = refused("", &[("HELENUS_BROKER__URL", "rabbit://x")]);
    assert!(
        error.starts_with("the environment (HELENUS_BROKER__URL): broker.url: unknown"),
        "{error}"
    );
    let error = refused("store = 1", &[]);
    assert!(error.contains("write [store]"), "{error}");
    let error = refused("[log]\nformat = \"xml\"", &[]);
    assert!(error.contains("log.format: unknown variant `xml`"), "{error}");
    let error = refused("[log]\nlevel = \"info,helenus_relay=verbose\"", &[]);
    assert!(error.contains("log.level: 'verbose' is not a level"), "{error}");
    let error = refused("[store]\nurl = 9042", &[]);
    assert!(error.contains("store.url: invalid type: integer `9042`"), "{error}");
}

#[test]
fn text_that_is_not_toml_is_refused_with_its_line() {
    let error = refused("[store]\nurl = ", &[]);
    assert!(
        error.starts_with("the configuration helenus.toml is not valid TOML: line 2"),
        "{error}"
    );
    assert!(!error.contains('\n'), "{error}");
}

#[test]
fn a_password_in_the_file_is_refused_and_not_repeated() {
    let error = refused("[store]\npassword = \"hush\"", &[]);
    assert!(error.contains("a password must not stand in the file"), "{error}");
    assert!(!error.contains("hush"), "{error}");
    let error = refused("[target]\nurl = \"postgres://ann:hush@host/db\"", &[]);
    assert!(error.contains("target.url: a password must not stand in the file"), "{error}");
    assert!(!error.contains("hush"), "{error}");
    assert!(parse_with("", &[("HELENUS_TARGET__URL", "postgres://ann:hush@host/db")]).is_ok());
    let error = refused("[store]\npassword = { file = \"a\", env = \"b\" }", &[]);
    assert!(error.contains("in one place, not in two"), "{error}");
    let error = refused("[store]\npassword = { vault = \"a\" }", &[]);
    assert!(error.contains("expected `file` or `env`"), "{error}");
}

#[test]
fn a_password_is_read_from_its_file() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("password");
    let text = format!("[store]\npassword = {{ file = \"{}\" }}", path.display());
    let secret = parse_with(&text, &[]).unwrap().store.password.unwrap();
    assert!(secret.reveal().unwrap_err().to_string().contains("cannot be read"));
    std::fs::write(&path, "hush\n").unwrap();
    assert_eq!(secret.reveal().unwrap().expose_secret(), "hush");
    let missing = super::super::Secret::Environment("HELENUS_TEST_NO_SUCH".to_owned());
    assert!(missing.reveal().unwrap_err().to_string().contains("is not set"));
}

/// The options that `text` under `[store]` gives.
fn options(text: &str) -> StoreOptions {
    parse_with(&format!("[store]\n{text}"), &[]).unwrap().store_options()
}

#[test]
fn every_key_of_a_cluster_takes_effect() {
    let cluster = |text: &str| options(&format!("[store.cassandra]\n{text}")).cassandra;
    let seconds = Duration::from_secs;
    assert_eq!(cluster("prefix = \"shop_\"").prefix, "shop_");
    assert_eq!(cluster("replication = 3").replication, Replication::Simple(3));
    let centres = BTreeMap::from([("dc1".to_owned(), 3), ("dc2".to_owned(), 2)]);
    let replication = cluster("replication = { dc1 = 3, dc2 = \"2\" }").replication;
    assert_eq!(replication, Replication::PerDataCentre(centres));
    assert_eq!(cluster("consistency = \"local_quorum\"").consistency, Consistency::LocalQuorum);
    let serial = cluster("serial_consistency = \"LOCAL_SERIAL\"").serial_consistency;
    assert_eq!(serial, SerialConsistency::LocalSerial);
    assert_eq!(cluster("local_dc = \"dc1\"").local_dc.as_deref(), Some("dc1"));
    assert_eq!(cluster("request_timeout = \"250ms\"").request_timeout, Duration::from_millis(250));
    assert_eq!(cluster("connect_timeout = \"1m\"").connect_timeout, seconds(60));
    let text = "client_certificate_file = \"a.pem\"\nclient_key_file = \"a.key\"";
    let certificate = cluster(text).client_certificate.unwrap();
    assert_eq!(certificate.certificate_file, Path::new("a.pem"));
    assert_eq!(certificate.key_file, Path::new("a.key"));

    let table = options("events_table = \"domain_events\"").cassandra.events_table;
    assert_eq!(table.as_deref(), Some("domain_events"));
    assert_eq!(options("append_bytes_max = 1000").bounds.append_bytes_max, 1_000);
    assert_eq!(options("append_bytes_max = \"2 MiB\"").bounds.append_bytes_max, 2 << 20);
    assert_eq!(options("operation_window = \"2d\"").bounds.operation_window, seconds(172_800));
}

#[test]
fn the_environment_reaches_a_section_of_a_section() {
    let variables = [
        ("HELENUS_STORE__CASSANDRA__REPLICATION", "dc1=3, dc2=2"),
        ("HELENUS_STORE__CASSANDRA__LOCAL_DC", "dc2"),
        ("HELENUS_STORE__APPEND_BYTES_MAX", "64KiB"),
    ];
    let text = "[store.cassandra]\nlocal_dc = \"dc1\"\nprefix = \"shop_\"";
    let options = parse_with(text, &variables).unwrap().store_options();
    let centres = BTreeMap::from([("dc1".to_owned(), 3), ("dc2".to_owned(), 2)]);
    assert_eq!(options.cassandra.replication, Replication::PerDataCentre(centres));
    assert_eq!(options.cassandra.local_dc.as_deref(), Some("dc2"));
    assert_eq!(options.cassandra.prefix, "shop_");
    assert_eq!(options.bounds.append_bytes_max, 64 << 10);
    assert_eq!(
        refused("", &[("HELENUS_STORE__CASSANDRA__LOCAL_DCS", "x")]),
        "unknown key store.cassandra.local_dcs in HELENUS_STORE__CASSANDRA__LOCAL_DCS; \
         did you mean store.cassandra.local_dc?"
    );
}

#[test]
fn a_wrong_value_of_a_cluster_is_refused_with_what_it_should_be() {
    for (text, words) in [
        (
            "replcation = 3",
            "unknown key store.cassandra.replcation in helenus.toml; did you mean store.cassandra.replication?",
        ),
        ("replication = 0", "store.cassandra.replication: '0' is not a number of copies"),
        ("replication = {}", "a number of copies, or { DATA_CENTRE = NUMBER }"),
        (
            "consistency = \"two\"",
            "store.cassandra.consistency: 'two' is none of one, quorum, local_quorum, all",
        ),
        ("request_timeout = 5", "store.cassandra.request_timeout: '5' is not a duration"),
        ("connect_timeout = \"0s\"", "'0s' is not a duration"),
        ("client_key_file = \"a.key\"", "store.cassandra.client_certificate_file is missing"),
    ] {
        let error = refused(&format!("[store.cassandra]\n{text}"), &[]);
        assert!(error.contains(words), "{error}");
    }
    let error = refused("[store]\nappend_bytes_max = \"4 MB\"", &[]);
    assert!(error.contains("store.append_bytes_max: '4 MB' is not a size"), "{error}");
    let error = refused("[store]\ncassandra = 3", &[]);
    assert!(error.contains("write [store.cassandra] and its keys below"), "{error}");
    let error = refused("[store.casandra]\nprefix = \"x\"", &[]);
    assert!(error.ends_with("did you mean store.cassandra?"), "{error}");
}

#[test]
fn every_key_of_outbox_and_inbox_takes_effect() {
    let options = |text: &str| parse_with(text, &[]).unwrap().store_options();
    let hours = |hours: u64| Duration::from_secs(hours * 3_600);
    assert_eq!(options("").shards, None);
    assert_eq!(options("[outbox]\nshards = 8").shards, Some(8));
    assert_eq!(options("[outbox]\nbucket_ttl = \"2d\"").cassandra.bucket_ttl, hours(48));
    let look_back = options("[outbox]\nbucket_look_back = \"3h\"").cassandra.bucket_look_back;
    assert_eq!(look_back, hours(3));
    assert_eq!(options("[inbox]\nreceipt_ttl = \"60d\"").cassandra.receipt_ttl, hours(60 * 24));
    let config = parse_with("[inbox]\ntopics = [\"a\", \"b\"]", &[]).unwrap();
    assert_eq!(config.inbox.topics, ["a", "b"]);
    let variables = [
        ("HELENUS_INBOX__TOPICS", "a, b"),
        ("HELENUS_OUTBOX__SHARDS", "32"),
        ("HELENUS_SERVE__SWEEPER", "false"),
    ];
    let config = parse_with("", &variables).unwrap();
    assert_eq!((config.inbox.topics.len(), config.store_options().shards), (2, Some(32)));
    assert!(!config.serve.sweeper && config.serve.relay);
    for (text, words) in [
        ("shards = 0", "outbox.shards: '0' is not a number of at least 1"),
        ("shards = 1025", "1025 are more than 1024 shards"),
        ("bucket_look_back = \"25h\"", "must not be longer than outbox.bucket_ttl"),
    ] {
        let error = refused(&format!("[outbox]\n{text}"), &[]);
        assert!(error.contains(words), "{error}");
    }
}

#[test]
fn what_is_wrong_with_capture_is_said_with_what_to_write() {
    for (text, words) in [
        ("partitions = 0", "capture.partitions: '0' is not a number of at least 1"),
        ("partitions = [1]", "capture.partitions: "),
        ("read_ahead = \"perhaps\"", "'perhaps' is not true or false"),
        ("total_space = \"much\"", "'much' is no size; write it as 4096MiB"),
        ("tables = [\"shop\"]", "'shop' names no tables; write keyspace.table or keyspace.*"),
    ] {
        let error = refused(&format!("[capture]\n{text}"), &[]);
        assert!(error.contains(words), "{error}");
    }
    // No names mean all tables: a variable that is not set must not.
    let error = refused("", &[("HELENUS_CAPTURE__TABLES", "")]);
    assert!(error.contains("an empty text names nothing"), "{error}");
    let variables = [("HELENUS_CAPTURE__TABLES", "shop.*, bank.accounts")];
    assert_eq!(parse_with("", &variables).unwrap().capture.tables.len(), 2);
}

#[test]
fn the_effective_configuration_has_every_key_and_no_secret() {
    let text = "[relay]\nlanes = 2\n[store]\npassword = { file = \"a\" }\n\
                [broker]\nurl = \"kafka://host\"\n";
    let variables = [
        ("HELENUS_BROKER__URL", "kafka://ann:hush@host"),
        ("HELENUS_BROKER__SETTINGS", "sasl.password=hush,client.rack=r1"),
        ("HELENUS_METADATA__PASSWORD", "hush"),
        ("HELENUS_AUTH__TOKENS", "viewer hush-hush-hush-hush"),
        ("HELENUS_CAPTURE__MASK_SALT", "hush"),
    ];
    let shown = parse_with(text, &variables).unwrap().shown();
    assert!(!shown.to_string().contains("hush"), "{shown}");
    assert_eq!((&shown["relay"]["lanes"], &shown["relay"]["batch"]), (&2.into(), &500.into()));
    assert_eq!(shown["store"]["password"]["file"], "a");
    assert_eq!(shown["broker"]["url"], "kafka://ann:***@host:9092");
    assert_eq!(shown["broker"]["settings"]["client.rack"], "***");
    let untouched = Config::default().shown();
    assert_eq!(untouched["serve"]["listen"], "127.0.0.1:8642");
    for name in ["outbox.keep_done", "inbox.receipt_ttl", "store.cassandra.prefix", "log.level"] {
        let path = format!("/{}", name.replace('.', "/"));
        assert!(untouched.pointer(&path).is_some(), "{name}: {untouched}");
    }
}
