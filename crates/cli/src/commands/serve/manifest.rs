//! What `/engine/snapshot` says of this service.

use helenus::backend::StoreUrl;
use helenus_server::manifest::{InboxStore, Integration, Manifest, OutboxProducer, Technologies};
use serde_json::{Value, json};

use crate::config::Config;

use super::guarantees::{self, Setup};

/// The manifest of a service with this configuration.
pub(super) fn of(config: &Config) -> Value {
    json!(manifest(config))
}

fn manifest(config: &Config) -> Manifest {
    let (provider, mode) = match config.store.url {
        StoreUrl::Cassandra(_) => ("cassandra", "wide-column-lwt"),
        StoreUrl::Sqlite(_) => ("sqlite", "embedded-transaction"),
    };
    let mut capabilities = vec![format!("data.{provider}")];
    if provider == "cassandra" {
        capabilities.push("data.wide-column-store".to_owned());
    }
    let (mut outbox_producers, mut inbox_stores) = (Vec::new(), Vec::new());
    if config.outbox.register {
        capabilities.push(format!("data.outbox.{provider}"));
        outbox_producers.push(OutboxProducer { id: format!("{provider}-outbox"), provider, mode });
    }
    if config.inbox.register {
        capabilities.push(format!("data.inbox.{provider}"));
        inbox_stores.push(InboxStore { id: format!("{provider}-inbox"), provider });
    }
    Manifest {
        engine: "helenus",
        version: env!("CARGO_PKG_VERSION"),
        capabilities,
        technologies: Technologies {
            event_driven_integration: Integration { outbox_producers, inbox_stores },
        },
        config: config.shown(),
        guarantees: guarantees::of(&Setup::of(config)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest_of(store: &str, change: impl FnOnce(&mut Config)) -> Value {
        let mut config = Config::default();
        config.store.url = store.parse().unwrap();
        change(&mut config);
        json!(manifest(&config))
    }

    #[test]
    fn a_cluster_is_named_as_the_seed_names_it() {
        let manifest = manifest_of("cassandra://node1/shop", |_| {});
        assert_eq!(manifest["engine"], "helenus");
        let keys = [
            "data.cassandra",
            "data.wide-column-store",
            "data.outbox.cassandra",
            "data.inbox.cassandra",
        ];
        assert_eq!(manifest["capabilities"], json!(keys));
        let expected = json!({"event-driven-integration": {
            "outbox-producers": [
                {"id": "cassandra-outbox", "provider": "cassandra", "mode": "wide-column-lwt"}
            ],
            "inbox-stores": [{"id": "cassandra-inbox", "provider": "cassandra"}],
        }});
        assert_eq!(manifest["technologies"], expected);
    }

    #[test]
    fn a_file_claims_no_wide_columns_and_what_is_not_registered_is_not_named() {
        let manifest = manifest_of("sqlite:shop.db", |config| config.inbox.register = false);
        assert_eq!(manifest["capabilities"], json!(["data.sqlite", "data.outbox.sqlite"]));
        let integration = &manifest["technologies"]["event-driven-integration"];
        assert_eq!(integration["outbox-producers"][0]["id"], "sqlite-outbox");
        assert_eq!(integration["inbox-stores"], json!([]));
    }
}
