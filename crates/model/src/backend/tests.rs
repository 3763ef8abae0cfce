//! Backend URLs as users write them, right and wrong.

use secrecy::ExposeSecret;

use super::*;

fn endpoint(text: &str) -> Endpoint {
    match text.parse::<StoreUrl>().unwrap() {
        StoreUrl::Cassandra(endpoint) => endpoint,
        StoreUrl::Sqlite(path) => panic!("a file: {}", path.display()),
    }
}

#[test]
fn urls_print_as_they_were_written() {
    for text in [
        "sqlite:helenus.db",
        "cassandra://node1:9042,node2:9043/shop",
        "cassandra://[::1]:9042/shop?tls=true",
    ] {
        assert_eq!(text.parse::<StoreUrl>().unwrap().to_string(), text);
    }
    for text in ["embedded:", "kafka://broker:9092"] {
        assert_eq!(text.parse::<BrokerUrl>().unwrap().to_string(), text);
    }
    for text in ["embedded:", "redis://host:6379/0"] {
        assert_eq!(text.parse::<MetadataUrl>().unwrap().to_string(), text);
    }
    for text in ["sqlite:target.db", "postgres://me@host:5432/db"] {
        assert_eq!(text.parse::<TargetUrl>().unwrap().to_string(), text);
    }
    let registry = "https://host:8443/apis/ccompat/v7";
    assert_eq!(registry.parse::<RegistryUrl>().unwrap().to_string(), registry);
}

#[test]
fn ports_have_their_defaults() {
    assert_eq!(endpoint("cassandra://a,b:1").addresses(), ["a:9042", "b:1"]);
    assert_eq!(endpoint("cassandra://[::1]").addresses(), ["[::1]:9042"]);
}

#[test]
fn a_password_is_read_and_never_shown() {
    let endpoint = endpoint("cassandra://ann:p%40ss@host/shop");
    assert_eq!(endpoint.password.as_ref().unwrap().expose_secret(), "p@ss");
    let shown = format!("{endpoint} {endpoint:?}");
    assert!(!shown.contains("p@ss") && !shown.contains("p%40ss"), "{shown}");
    assert!(shown.starts_with("//ann:***@host:9042/shop"), "{shown}");

    for text in ["cassandra://ann:secret@host:x/shop", "casandra://ann:secret@host/shop"] {
        let error = text.parse::<StoreUrl>().unwrap_err().to_string();
        assert!(!error.contains("secret"), "{error}");
    }
}

#[test]
fn a_url_that_cannot_be_used_says_why() {
    fn check<T: FromStr<Err = UrlError> + fmt::Debug>(text: &str, words: &str) {
        let error = text.parse::<T>().unwrap_err().to_string();
        assert!(error.contains(words), "{text}: {error}");
    }
    check::<StoreUrl>("helenus.db", "must start with one of 'sqlite:', 'cassandra:'");
    check::<StoreUrl>("mysql://x/y", "unknown scheme 'mysql:'");
    check::<StoreUrl>("sqlite:", "name the file");
    check::<StoreUrl>("cassandra:host", "expected // after the scheme");
    check::<StoreUrl>("cassandra:///shop", "a host name is missing");
    check::<StoreUrl>("cassandra://a,,b/shop", "a host name is missing");
    check::<StoreUrl>("cassandra://a:99999/shop", "'99999' is not a port");
    check::<StoreUrl>("cassandra://[::1/shop", "closing bracket");
    check::<StoreUrl>("cassandra://a?ssl=yes", "unknown parameter 'ssl'");
    check::<StoreUrl>("cassandra://a?tls=maybe", "tls is true or false, not 'maybe'");
    check::<StoreUrl>("cassandra://u:%zz@a", "two hexadecimal digits");
    check::<BrokerUrl>("embedded:file.db", "write just 'embedded:'");
    check::<TargetUrl>("postgre://x", "'sqlite:', 'postgres:', 'postgresql:'");
}

#[test]
fn credentials_from_elsewhere_win_over_the_url() {
    let mut url: StoreUrl = "cassandra://ann:old@host".parse().unwrap();
    url.set_credentials(None, Some(SecretString::from("new")));
    let StoreUrl::Cassandra(endpoint) = url else { panic!("not Cassandra") };
    assert_eq!(endpoint.username.as_deref(), Some("ann"));
    assert_eq!(endpoint.password.unwrap().expose_secret(), "new");
}
