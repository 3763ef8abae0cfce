//! What a service promises as it is configured, each promise with the test that holds it to it.

use helenus::backend::{BrokerUrl, StoreUrl};
use helenus::relay::Mode;
use helenus_server::manifest::Guarantee;

use crate::config::Config;

/// What decides which promises hold.
#[derive(Clone, Copy, Debug)]
pub(super) struct Setup {
    cluster: bool,
    kafka: bool,
    exactly_once: bool,
    outbox: bool,
    inbox: bool,
}

impl Setup {
    pub(super) fn of(config: &Config) -> Self {
        Setup {
            cluster: matches!(config.store.url, StoreUrl::Cassandra(_)),
            kafka: matches!(config.broker.url, BrokerUrl::Kafka(_)),
            exactly_once: config.relay.options().mode == Mode::ExactlyOnce,
            outbox: config.outbox.register,
            inbox: config.inbox.register,
        }
    }
}

/// The promises that hold.
pub(super) fn of(setup: &Setup) -> Vec<Guarantee> {
    let holding = PROMISES.iter().filter(|promise| (promise.holds)(setup));
    holding.map(|promise| promise.guarantee).collect()
}

struct Promise {
    guarantee: Guarantee,
    holds: fn(&Setup) -> bool,
}

const fn promise(
    id: &'static str,
    text: &'static str,
    test: &'static str,
    holds: fn(&Setup) -> bool,
) -> Promise {
    Promise { guarantee: Guarantee { id, text, test }, holds }
}

const PROMISES: &[Promise] = &[
    promise(
        "outbox.idempotent",
        "A message id is staged once; the same again is a silent success, other content an error.",
        "crates/store/tests/it/conformance/outbox.rs::staging_twice_stages_once",
        |setup| setup.outbox,
    ),
    promise(
        "outbox.durable",
        "A message that was acknowledged is found and published, whatever is killed and when.",
        "crates/store/tests/it/crashes.rs::a_message_is_staged_or_was_never_there",
        |setup| setup.outbox && setup.cluster,
    ),
    promise(
        "outbox.atomic-with-transaction",
        "A message staged in the caller's own transaction is staged if and only if that commits.",
        "crates/store/tests/it/staging.rs::\
         a_message_is_staged_if_and_only_if_the_callers_transaction_commits",
        |setup| setup.outbox && !setup.cluster,
    ),
    promise(
        "outbox.atomic-with-entity",
        "A message staged beside its entity is one mutation with it.",
        "crates/store/tests/it/beside.rs::a_message_beside_its_entity_is_one_mutation_with_it",
        |setup| setup.outbox && setup.cluster,
    ),
    promise(
        "outbox.reconciled",
        "What a conditional write began is completed or dropped, however its answer was lost.",
        "crates/store/tests/it/beside.rs::a_transaction_whose_answer_was_lost_is_completed",
        |setup| setup.outbox && setup.cluster,
    ),
    promise(
        "relay.exactly-once",
        "A consumer that reads committed messages sees each once, whatever is killed or paused.",
        "crates/relay/tests/it/proof.rs::\
         killed_and_paused_relays_publish_each_message_once_and_in_order",
        |setup| setup.outbox && setup.exactly_once && setup.kafka && !setup.cluster,
    ),
    promise(
        "relay.exactly-once",
        "A consumer that reads committed messages sees each once, whatever is killed or paused.",
        "crates/relay/tests/it/proof.rs::\
         relays_of_a_cluster_that_are_killed_and_paused_publish_each_message_once",
        |setup| setup.outbox && setup.exactly_once && setup.kafka && setup.cluster,
    ),
    promise(
        "relay.exactly-once-at-every-step",
        "A relay that dies between any two steps neither loses nor repeats a message.",
        "crates/relay/tests/it/crash_points.rs::exactly_once_survives_a_death_at_every_step",
        |setup| setup.outbox && setup.exactly_once,
    ),
    promise(
        "relay.at-least-once",
        "Every message is published; after a crash some again.",
        "crates/relay/tests/it/crash_points.rs::at_least_once_survives_a_death_at_every_step",
        |setup| setup.outbox && !setup.exactly_once,
    ),
    promise(
        "relay.order-per-key",
        "Messages of an ordering key are published in the order they were staged, through failures.",
        "crates/relay/tests/it/promises.rs::a_key_waits_for_its_refused_message_and_others_flow",
        |setup| setup.outbox,
    ),
    promise(
        "relay.poison-parked",
        "A message that is refused again and again is parked and kept; only its key waits.",
        "crates/relay/tests/it/promises.rs::of_many_poison_messages_only_their_keys_wait",
        |setup| setup.outbox,
    ),
    promise(
        "relay.take-over",
        "Relays share the work and take over from one that is gone.",
        "crates/relay/tests/it/promises.rs::\
         relays_share_the_lanes_and_take_over_from_one_that_leaves",
        |setup| setup.outbox,
    ),
    promise(
        "inbox.idempotent",
        "A message is marked as processed once; a duplicate gets the first answer.",
        "crates/store/tests/it/conformance/inbox.rs::a_duplicate_gets_the_first_answer",
        |setup| setup.inbox,
    ),
    promise(
        "inbox.exactly-once",
        "An effect in the store's own transaction and its receipt are one: both, or neither.",
        "crates/store/tests/it/staging.rs::effect_and_receipt_are_one_transaction",
        |setup| setup.inbox && !setup.cluster,
    ),
    promise(
        "inbox.one-at-a-time",
        "A message is worked on by one process at a time, which a fencing token tells apart.",
        "crates/store/tests/it/conformance/inbox.rs::a_message_is_worked_on_by_one_at_a_time",
        |setup| setup.inbox,
    ),
    promise(
        "serve.restarts",
        "A task that fails waits and starts again, and the others do not notice.",
        "crates/server/src/supervisor/tests.rs::\
         a_task_that_fails_or_panics_starts_again_and_others_go_on",
        |_| true,
    ),
    promise(
        "serve.drains",
        "Told to end, it finishes what it has begun and gives its leases back.",
        "crates/cli/tests/it/serve.rs::a_file_is_served_until_told_to_end",
        |_| true,
    ),
];

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    /// Whether `name` is a test in `source`: a function with a test's attribute, or one that the
    /// list of a conformance suite names.
    fn is_test(source: &str, suite: &str, name: &str) -> bool {
        let Some((before, _)) = source.split_once(&format!("fn {name}")) else { return false };
        let attributes = before.rsplit("\n\n").next().unwrap_or_default();
        attributes.contains("test]") || attributes.contains("test(") || {
            suite.lines().any(|line| line.trim().trim_end_matches(',') == name)
        }
    }

    #[test]
    fn every_guarantee_names_a_test_that_exists() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let read = |path: &str| std::fs::read_to_string(root.join(path)).unwrap_or_default();
        for Promise { guarantee, .. } in PROMISES {
            let (file, name) = guarantee.test.split_once("::").unwrap();
            // The lists of the suites are beside their functions or in the binary's own file.
            let area = file.split("/tests/it/").next().unwrap();
            let suite = ["conformance.rs", "main.rs"]
                .map(|list| read(&format!("{area}/tests/it/{list}")))
                .concat();
            let missing = format!("{}: {} is no test", guarantee.id, guarantee.test);
            assert!(is_test(&read(file), &suite, name), "{missing}");
        }
        assert!(!is_test(&read("crates/store/tests/it/staging.rs"), "", "no_such_test"));
        assert!(!is_test(&read("crates/store/tests/it/staging.rs"), "", "message"), "no test");
    }

    #[test]
    fn what_is_promised_follows_from_the_setup() {
        let ids = |setup: Setup| of(&setup).into_iter().map(|told| told.id).collect::<Vec<_>>();
        let full =
            Setup { cluster: true, kafka: true, exactly_once: true, outbox: true, inbox: true };
        assert!(ids(full).contains(&"relay.exactly-once"));
        assert!(!ids(full).contains(&"inbox.exactly-once"), "a cluster has no such transaction");
        let modest = ids(Setup { cluster: false, exactly_once: false, ..full });
        assert!(modest.contains(&"relay.at-least-once") && modest.contains(&"inbox.exactly-once"));
        assert!(modest.iter().all(|id| !id.starts_with("relay.exactly")));
        let bare = ids(Setup { outbox: false, inbox: false, ..full });
        assert!(bare.iter().all(|id| id.starts_with("serve.")), "{bare:?}");
        for mut told in [ids(full), modest] {
            let all = told.len();
            told.sort_unstable();
            told.dedup();
            assert_eq!(told.len(), all, "each is told once");
        }
    }
}
