//! What `helenus serve` does not start with, and whom it does not answer.

use std::net::TcpListener;

use serde_json::Value;

use super::{FILE, Service, folder, get};
use crate::{helenus, run};

fn error_of(config: &str, arguments: &[&str]) -> Value {
    let dir = folder(config);
    let (code, out, err) = run(dir.path(), &[&["--json", "serve"], arguments].concat());
    assert_eq!((code, out.as_str()), (Some(1), ""), "{err}");
    let document: Value = serde_json::from_str(&err).unwrap();
    document["error"].clone()
}

#[test]
fn an_address_others_can_reach_needs_tokens() {
    for (config, arguments) in
        [("", &["--listen", "0.0.0.0:0"][..]), ("[serve]\nlisten = \"[::]:0\"", &[][..])]
    {
        let error = error_of(config, arguments);
        assert_eq!(error["kind"], "unprotected");
        let message = error["message"].as_str().unwrap();
        assert!(message.contains("can be reached from other machines"), "{message}");
        assert!(error["remedy"].as_str().unwrap().contains("auth.tokens"));
    }
}

#[test]
fn a_port_that_is_taken_is_named() {
    let taken = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let error = error_of("", &["--listen", &address]);
    let message = error["message"].as_str().unwrap();
    assert_eq!(message, format!("could not listen on {address}"));
    assert!(error["remedy"].as_str().unwrap().contains("--listen"));
}

#[test]
fn wrong_arguments_and_keys_are_named() {
    let dir = folder("");
    for arguments in [&["--listen", "here"][..], &["--store", "oracle:x"], &["--port", "1"]] {
        let (code, _, err) = run(dir.path(), &[&["serve"], arguments].concat());
        assert_eq!(code, Some(2), "{err}");
        assert!(err.contains(arguments[0]), "{err}");
    }
    for (config, words) in [
        ("[serve]\nrelai = true", "did you mean serve.relay?"),
        ("[serve]\nrelay = \"maybe\"", "serve.relay: 'maybe' is not true or false"),
        ("[serve]\nlisten = \"8642\"", "serve.listen: "),
        ("[auth]\ntokens = \"0123456789abcdef\"", "must not stand in the file"),
    ] {
        let message = error_of(config, &[])["message"].as_str().unwrap().to_owned();
        assert!(message.contains(words), "{message}");
    }
    let away = error_of("[auth]\ntokens = { file = \"no/such/file\" }", &[]);
    assert!(away["message"].as_str().unwrap().contains("no/such/file cannot be read"), "{away}");
}

#[test]
fn only_whoever_shows_a_token_is_answered() {
    let dir = folder(&format!(
        "[store]\nurl = \"{FILE}\"\n[serve]\nlook_every = \"100ms\"\n\
         [auth]\ntokens = {{ file = \"tokens\" }}\n"
    ));
    std::fs::write(dir.path().join("tokens"), "viewer short\n").unwrap();
    let (code, _, err) = run(dir.path(), &["serve"]);
    assert_eq!(code, Some(1));
    assert!(err.contains("token 1 has fewer than 16 characters"), "{err}");
    assert!(!err.contains("short"), "{err}");

    let text = "# of the day\nviewer 0123456789abcdef\noperator fedcba9876543210\n";
    std::fs::write(dir.path().join("tokens"), text).unwrap();
    let service = Service::start(dir.path(), &[]);
    for path in ["/readyz", "/metrics", "/engine/snapshot", "/nothing"] {
        for token in [None, Some("0123456789abcdeg"), Some("")] {
            let (code, body) = get(&service.address, path, token);
            assert_eq!(code, 401, "{path} {token:?}: {body}");
            assert!(!body.contains("abcdef"), "{body}");
        }
        for token in ["0123456789abcdef", "fedcba9876543210"] {
            let (code, body) = get(&service.address, path, Some(token));
            assert_ne!(code, 401, "{path}: {body}");
        }
    }
    assert_eq!(get(&service.address, "/healthz", None).0, 200);
}

#[test]
fn with_tokens_other_machines_are_welcome() {
    let dir = folder(&format!("[store]\nurl = \"{FILE}\"\n"));
    let mut command = helenus(dir.path(), &["serve", "--listen", "0.0.0.0:0"]);
    command.env("HELENUS_AUTH__TOKENS", "viewer 0123456789abcdef, operator fedcba9876543210");
    let mut service = Service::begin(&mut command);
    assert_eq!(get(&service.address, "/metrics", None).0, 401);
    assert_eq!(get(&service.address, "/metrics", Some("fedcba9876543210")).0, 200);
    service.signal("TERM");
    let (code, out, err) = service.ended();
    assert_eq!((code, out.as_str()), (Some(0), "ended; everything begun was finished\n"));
    assert!(err.contains("not encrypted"), "it warns: {err}");
}
