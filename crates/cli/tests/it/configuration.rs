//! `init`, `doctor`, and every way a configuration can be wrong.

use std::fs;
use std::path::Path;

use serde_json::Value;

use super::{ended, helenus, run};

fn doctor(folder: &Path) -> (Option<i32>, Value) {
    let (code, out, err) = run(folder, &["doctor", "--json"]);
    let document = serde_json::from_str(&out).unwrap_or_else(|_| panic!("{out}{err}"));
    (code, document)
}

fn finding(document: &Value, check: &str) -> (String, String) {
    let checks = document["checks"].as_array().unwrap();
    let found = checks.iter().find(|found| found["check"] == check).unwrap();
    let text = |key: &str| found[key].as_str().unwrap_or_default().to_owned();
    (text("status"), text("detail"))
}

#[test]
fn init_writes_a_file_that_doctor_likes_and_does_not_overwrite_it() {
    let dir = tempfile::tempdir().unwrap();
    let (code, out, _) = run(dir.path(), &["init"]);
    assert_eq!((code, out.as_str()), (Some(0), "wrote helenus.toml\n"));
    let written = fs::read_to_string(dir.path().join("helenus.toml")).unwrap();

    fs::write(dir.path().join("helenus.toml"), "# mine").unwrap();
    let (code, _, err) = run(dir.path(), &["init"]);
    assert_eq!(code, Some(1));
    assert!(err.contains("helenus.toml exists already"), "{err}");
    assert!(err.contains("nothing was applied") && err.contains("--force"), "{err}");
    assert_eq!(fs::read_to_string(dir.path().join("helenus.toml")).unwrap(), "# mine");

    let (code, ..) = run(dir.path(), &["init", "--force"]);
    assert_eq!(code, Some(0));
    assert_eq!(fs::read_to_string(dir.path().join("helenus.toml")).unwrap(), written);
    let (code, document) = doctor(dir.path());
    assert_eq!((code, &document["healthy"]), (Some(0), &Value::Bool(true)));
    let (status, detail) = finding(&document, "store");
    assert_eq!(
        (status.as_str(), detail.as_str()),
        ("ok", "helenus.db will be created when first used")
    );
    assert!(!dir.path().join("helenus.db").try_exists().unwrap(), "doctor created the store");
}

#[test]
fn doctor_says_whether_an_agent_could_remember_where_it_is() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("file"), "").unwrap();
    for (state, status) in [("new/state", "ok"), (".", "ok"), ("file", "failed")] {
        let text = format!("[capture]\ncdc_raw = \".\"\nstate = \"{state}\"");
        fs::write(dir.path().join("helenus.toml"), text).unwrap();
        let (code, document) = doctor(dir.path());
        assert_eq!(finding(&document, "capture state").0, status, "{state}: {document}");
        assert_eq!(code, Some(i32::from(status == "failed")), "{state}: {document}");
    }
    assert!(!dir.path().join("new").try_exists().unwrap(), "doctor made the folder");
}

#[test]
fn doctor_names_what_is_wrong_with_the_configuration() {
    let dir = tempfile::tempdir().unwrap();
    for (text, words) in [
        ("[store", "is not valid TOML: line 1"),
        ("[store]\nulr = 1", "did you mean store.url?"),
        ("[store]\nurl = \"oracle://x\"", "unknown scheme 'oracle:'"),
        ("[store]\npassword = \"hush\"", "a password must not stand in the file"),
    ] {
        fs::write(dir.path().join("helenus.toml"), text).unwrap();
        let (code, document) = doctor(dir.path());
        let (status, detail) = finding(&document, "configuration");
        assert_eq!((code, status.as_str()), (Some(1), "failed"));
        assert!(detail.contains(words) && !detail.contains("hush"), "{detail}");
    }
    let (code, out, _) = run(dir.path(), &["doctor", "-c", "no/such.toml"]);
    assert_eq!(code, Some(1));
    assert!(out.contains("no/such.toml cannot be read"), "{out}");
}

#[test]
fn the_environment_is_read_and_its_mistakes_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let asked = |name: &str, value: &str| {
        let mut command = helenus(dir.path(), &["doctor"]);
        ended(&command.env(name, value).output().unwrap())
    };
    let (code, out, _) = asked("HELENUS_STORE__URL", "sqlite:other.db");
    assert_eq!(code, Some(0));
    assert!(out.contains("other.db will be created"), "{out}");
    let (code, out, _) = asked("HELENUS_STORE__ULR", "sqlite:other.db");
    assert_eq!(code, Some(1));
    assert!(out.contains("did you mean store.url?"), "{out}");
}

#[test]
fn doctor_examines_the_store_file_and_leaves_it_alone() {
    let dir = tempfile::tempdir().unwrap();
    let store = dir.path().join("helenus.db");
    let demo = ["demo", "--seconds", "1", "--keep", "helenus.db"];
    assert_eq!(run(dir.path(), &demo).0, Some(0));
    let (code, document) = doctor(dir.path());
    let (status, detail) = finding(&document, "store");
    assert_eq!((code, status.as_str()), (Some(0), "ok"));
    assert!(detail.contains("is sound"), "{detail}");

    for (bytes, words) in [
        (b"just text".to_vec(), "it is not a SQLite file"),
        (newer(&fs::read(&store).unwrap()), "was written by a newer release"),
    ] {
        fs::write(&store, &bytes).unwrap();
        let (code, document) = doctor(dir.path());
        let (status, detail) = finding(&document, "store");
        assert_eq!((code, status.as_str()), (Some(1), "failed"));
        assert!(detail.contains(words), "{detail}");
        assert_eq!(fs::read(&store).unwrap(), bytes, "doctor changed the file");

        let (code, _, err) = run(dir.path(), &demo);
        assert_eq!(code, Some(1));
        assert!(err.contains(words) && err.contains("nothing was applied"), "{err}");
        assert_eq!(fs::read(&store).unwrap(), bytes, "the demo changed the file");
    }
}

/// The same store, as a later release would mark it (user_version, offset 60 of the header).
fn newer(store: &[u8]) -> Vec<u8> {
    let mut bytes = store.to_vec();
    bytes[60..64].copy_from_slice(&99_u32.to_be_bytes());
    bytes
}

#[test]
fn failures_are_json_on_stderr_when_asked() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("taken"), "text").unwrap();
    let (code, out, err) = run(dir.path(), &["demo", "--keep", "taken", "--json"]);
    assert_eq!((code, out.as_str()), (Some(1), ""));
    let document: Value = serde_json::from_str(&err).unwrap();
    let error = &document["error"];
    assert_eq!((&error["kind"], &error["class"]), (&"not_ours".into(), &"invalid".into()));
    assert_eq!(error["applied"], false);
    assert!(error["message"].as_str().unwrap().contains("taken is not a Helenus store"));
}

#[test]
fn a_store_that_cannot_be_written_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(run(dir.path(), &["demo", "--seconds", "1", "--keep", "store.db"]).0, Some(0));
    let mut permissions = fs::metadata(dir.path().join("store.db")).unwrap().permissions();
    permissions.set_readonly(true);
    fs::set_permissions(dir.path().join("store.db"), permissions).unwrap();
    let before = fs::read(dir.path().join("store.db")).unwrap();

    let (code, _, err) = ended(&as_nobody(dir.path(), &["demo", "--keep", "store.db"]));
    assert_eq!(code, Some(1));
    assert!(err.contains("store.db cannot be written"), "{err}");
    assert_eq!(fs::read(dir.path().join("store.db")).unwrap(), before);
}

/// The command without root's right to write everything.
fn as_nobody(folder: &Path, arguments: &[&str]) -> std::process::Output {
    let is_root =
        fs::metadata("/proc/self").is_ok_and(|own| std::os::unix::fs::MetadataExt::uid(&own) == 0);
    if !is_root {
        return helenus(folder, arguments).output().unwrap();
    }
    // Nobody must be able to enter the folder and to run the program.
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(folder, open).unwrap();
    let program = folder.join("helenus");
    fs::copy(env!("CARGO_BIN_EXE_helenus"), &program).unwrap();
    std::process::Command::new("setpriv")
        .args(["--reuid", "65534", "--regid", "65534", "--clear-groups"])
        .arg(program)
        .args(arguments)
        .current_dir(folder)
        .env("TMPDIR", "/tmp")
        .output()
        .unwrap()
}

#[test]
fn wrong_usage_ends_with_2() {
    let dir = tempfile::tempdir().unwrap();
    for arguments in [&["demoo"][..], &["demo", "--seconds", "0"], &["demo", "--port", "x"], &[]] {
        let (code, _, err) = run(dir.path(), arguments);
        assert_eq!(code, Some(2), "{arguments:?}: {err}");
        assert!(err.contains("Usage") || err.contains("error"), "{err}");
    }
}

#[test]
fn wrong_usage_is_json_when_asked() {
    let dir = tempfile::tempdir().unwrap();
    let (code, out, err) = run(dir.path(), &["demo", "--json", "--kep"]);
    assert_eq!((code, out.as_str()), (Some(2), ""));
    let document: Value = serde_json::from_str(&err).unwrap();
    assert_eq!(document["error"]["kind"], "usage");
    assert!(document["error"]["message"].as_str().unwrap().contains("--kep"), "{err}");
}

#[test]
fn a_usage_error_says_what_is_missing_and_shows_no_password() {
    let dir = tempfile::tempdir().unwrap();
    let message = |arguments: &[&str]| {
        let (code, _, err) = run(dir.path(), arguments);
        assert_eq!(code, Some(2), "{arguments:?}: {err}");
        assert!(!err.contains("hunter2"), "{err}");
        err
    };
    for url in ["kafka://u:hunter2@host:99999", "http://u:hunter2@host"] {
        for words in
            [&["topics", "list", "--broker", url][..], &["relay", "status", "--store", url]]
        {
            assert!(message(words).contains("//u:***@host"), "{words:?}");
            let shown = message(&[words, &["--json"]].concat());
            assert!(
                serde_json::from_str::<Value>(&shown).is_ok() && shown.contains("***"),
                "{shown}"
            );
        }
    }
    assert!(message(&["outbox", "extend-ttl", "--json"]).contains("--by"));
    assert!(message(&["outbox", "list", "--state", "x", "--json"]).contains("parked"));
}

#[test]
fn doctor_looks_for_the_tokens_that_serve_asks_for() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("helenus.toml"), "[auth]\ntokens = { file = \"tokens\" }\n").unwrap();
    let (code, document) = doctor(dir.path());
    assert_eq!((code, finding(&document, "tokens").0.as_str()), (Some(1), "failed"));
    fs::write(dir.path().join("tokens"), "viewer 0123456789abcdef0123456789abcdef\n").unwrap();
    let (code, document) = doctor(dir.path());
    assert_eq!((code, finding(&document, "tokens").0.as_str()), (Some(0), "ok"), "{document}");
}

#[test]
fn doctor_says_what_a_folder_or_a_missing_service_lacks() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(
        dir.path().join("helenus.toml"),
        "[store]\nurl = \"cassandra://127.0.0.1:9/shop\"\n[metadata]\nurl = \"redis://127.0.0.1:9\"",
    )
    .unwrap();
    let (code, out, err) = run(dir.path(), &["doctor"]);
    assert_eq!((code, err.as_str()), (Some(1), ""), "the driver's own log lines stay away");
    assert_eq!(out.matches("Connection refused").count(), 2, "each cause once: {out}");
    assert!(out.contains("the embedded broker lives in the store's file"), "{out}");

    let sealed = dir.path().join("sealed");
    fs::create_dir(&sealed).unwrap();
    let readable: fs::Permissions = std::os::unix::fs::PermissionsExt::from_mode(0o555);
    fs::set_permissions(&sealed, readable).unwrap();
    fs::write(dir.path().join("sealed.toml"), "[store]\nurl = \"sqlite:sealed/store.db\"").unwrap();
    let (code, out, _) = ended(&as_nobody(dir.path(), &["doctor", "-c", "sealed.toml"]));
    assert_eq!(code, Some(1), "{out}");
    assert!(out.contains("sealed/store.db cannot be created"), "{out}");
}

#[test]
fn completions_and_manual_are_made_from_the_arguments() {
    let dir = tempfile::tempdir().unwrap();
    for shell in ["bash", "zsh", "fish"] {
        let (code, out, _) = run(dir.path(), &["completions", shell]);
        assert_eq!(code, Some(0));
        assert!(out.contains("doctor"), "{shell}");
    }
    let (code, out, _) = run(dir.path(), &["man"]);
    assert_eq!(code, Some(0));
    assert!(out.contains(".TH helenus 1"), "{out}");
    assert_eq!(run(dir.path(), &["man", "--directory", "pages"]).0, Some(0));
    assert!(dir.path().join("pages/helenus-doctor.1").try_exists().unwrap());
}

#[test]
fn doctor_compares_receipts_with_embedded_topics() {
    let dir = tempfile::tempdir().unwrap();
    let receipts = |config: &str| {
        fs::write(dir.path().join("helenus.toml"), config).unwrap();
        let (code, document) = doctor(dir.path());
        let (status, detail) = finding(&document, "receipts");
        (code, status, detail)
    };
    assert_eq!(receipts("").1, "ok");
    let (code, status, detail) = receipts("[broker]\nretention = \"30d\"\n");
    assert_eq!((code, status.as_str()), (Some(1), "failed"));
    let words = "receipts are kept for 30d, but embedded topics keep messages for 30d";
    assert_eq!(detail, words);
    let longer = receipts("[broker]\nretention = \"30d\"\n[inbox]\nreceipt_ttl = \"31d\"\n");
    assert_eq!((longer.0, longer.1.as_str()), (Some(0), "ok"));
    let (code, _, detail) = receipts("[serve]\ntopic_retention = false\n");
    assert!(code == Some(1) && detail.ends_with("keep messages for ever"), "{detail}");
    assert_eq!(receipts("[serve]\ntopic_retention = false\nsweeper = false\n").1, "ok");
    fs::write(dir.path().join("helenus.toml"), "[inbox]\nregister = false\n").unwrap();
    assert!(!doctor(dir.path()).1.to_string().contains("receipts"));
}

#[cfg(feature = "service-tests")]
#[test]
fn doctor_compares_receipts_with_topics_of_kafka() {
    use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};

    let topics = helenus_testkit::isolated::Topics::reserve();
    let (short, long) = (topics.name("short"), topics.name("long"));
    let client: AdminClient<_> = topics.config().create().unwrap();
    let new = |name, ms| NewTopic::new(name, 1, TopicReplication::Fixed(1)).set("retention.ms", ms);
    let (week, months) = ("604800000", "5184000000");
    let wanted = [new(&short, week), new(&long, months)];
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let made = runtime.block_on(client.create_topics(&wanted, &AdminOptions::new())).unwrap();
    assert!(made.iter().all(Result::is_ok), "{made:?}");

    let dir = tempfile::tempdir().unwrap();
    let receipts = |inbox: &str| {
        let config = format!("[broker]\nurl = \"kafka://{}\"\n[inbox]\n{inbox}", topics.broker);
        fs::write(dir.path().join("helenus.toml"), config).unwrap();
        let (code, document) = doctor(dir.path());
        let (status, detail) = finding(&document, "receipts");
        (code, status, detail)
    };
    let (code, status, detail) = receipts(&format!("topics = [\"{short}\", \"{long}\"]\n"));
    assert_eq!((code, status.as_str()), (Some(1), "failed"));
    let words = format!("receipts are kept for 30d, but topic {long} keeps messages for 60d");
    assert_eq!(detail, words);
    let all = format!("topics = [\"{short}\", \"{long}\"]\nreceipt_ttl = \"61d\"\n");
    assert_eq!(receipts(&all).1, "ok");
    assert_eq!(receipts(&format!("topics = [\"{short}\"]\n")).1, "ok");
    // Of topics that the inbox is not said to receive it only warns.
    let (code, status, _) = receipts("");
    assert_eq!((code, status.as_str()), (Some(0), "warning"));
}
