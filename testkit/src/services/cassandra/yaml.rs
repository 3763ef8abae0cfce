//! `cassandra.yaml` for a small machine: change data capture on, one-megabyte segments, caches
//! and thread pools cut down, timeouts long enough for a busy build server.
//!
//! Written by the 5.0 names. 4.0 has older names with the unit in the key, 4.1 takes both, and
//! neither knows every key.

use std::collections::BTreeMap;

use crate::services::Service;
use crate::services::start::Plan;

/// Tokens that split the Murmur3 ring into three equal parts.
const TOKENS: [&str; 3] = ["-9223372036854775808", "-3074457345618258603", "3074457345618258602"];

/// How a value changes where 4.0 keeps the unit in the key.
#[derive(Clone, Copy)]
enum Unit {
    None,
    Mebibytes,
    Milliseconds,
}

/// What is the same for every node.
const FIXED: [(&str, &str); 43] = [
    ("partitioner", "org.apache.cassandra.dht.Murmur3Partitioner"),
    ("endpoint_snitch", "SimpleSnitch"),
    ("dynamic_snitch", "false"),
    ("num_tokens", "1"),
    ("auto_bootstrap", "false"),
    ("hinted_handoff_enabled", "true"),
    ("start_native_transport", "true"),
    ("cdc_enabled", "true"),
    ("cdc_total_space", "4096MiB"),
    ("cdc_free_space_check_interval", "250ms"),
    ("cdc_block_writes", "true"),
    ("cdc_on_repair_enabled", "true"),
    ("commitlog_segment_size", "1MiB"),
    ("commitlog_total_space", "256MiB"),
    ("commitlog_sync", "periodic"),
    ("commitlog_sync_period", "1000ms"),
    ("disk_failure_policy", "stop"),
    ("commit_failure_policy", "stop"),
    ("auto_snapshot", "false"),
    ("authenticator", "AllowAllAuthenticator"),
    ("authorizer", "AllowAllAuthorizer"),
    ("materialized_views_enabled", "false"),
    ("user_defined_functions_enabled", "false"),
    ("concurrent_reads", "8"),
    ("concurrent_writes", "16"),
    ("concurrent_counter_writes", "4"),
    ("concurrent_compactors", "1"),
    ("memtable_heap_space", "192MiB"),
    ("memtable_offheap_space", "64MiB"),
    ("memtable_allocation_type", "heap_buffers"),
    ("memtable_flush_writers", "1"),
    ("file_cache_enabled", "false"),
    ("networking_cache_size", "32MiB"),
    ("key_cache_size", "8MiB"),
    ("row_cache_size", "0MiB"),
    ("counter_cache_size", "0MiB"),
    ("read_request_timeout", "10s"),
    ("range_request_timeout", "20s"),
    ("write_request_timeout", "10s"),
    ("counter_write_request_timeout", "10s"),
    ("cas_contention_timeout", "5s"),
    ("truncate_request_timeout", "60s"),
    ("request_timeout", "20s"),
];

/// 5.0 name, 4.0 name, and what happens to the value.
const RENAMED_SINCE_40: [(&str, &str, Unit); 19] = [
    ("cdc_total_space", "cdc_total_space_in_mb", Unit::Mebibytes),
    ("cdc_free_space_check_interval", "cdc_free_space_check_interval_ms", Unit::Milliseconds),
    ("commitlog_segment_size", "commitlog_segment_size_in_mb", Unit::Mebibytes),
    ("commitlog_total_space", "commitlog_total_space_in_mb", Unit::Mebibytes),
    ("commitlog_sync_period", "commitlog_sync_period_in_ms", Unit::Milliseconds),
    ("materialized_views_enabled", "enable_materialized_views", Unit::None),
    ("user_defined_functions_enabled", "enable_user_defined_functions", Unit::None),
    ("memtable_heap_space", "memtable_heap_space_in_mb", Unit::Mebibytes),
    ("memtable_offheap_space", "memtable_offheap_space_in_mb", Unit::Mebibytes),
    ("networking_cache_size", "networking_cache_size_in_mb", Unit::Mebibytes),
    ("key_cache_size", "key_cache_size_in_mb", Unit::Mebibytes),
    ("row_cache_size", "row_cache_size_in_mb", Unit::Mebibytes),
    ("counter_cache_size", "counter_cache_size_in_mb", Unit::Mebibytes),
    ("read_request_timeout", "read_request_timeout_in_ms", Unit::Milliseconds),
    ("range_request_timeout", "range_request_timeout_in_ms", Unit::Milliseconds),
    ("write_request_timeout", "write_request_timeout_in_ms", Unit::Milliseconds),
    ("counter_write_request_timeout", "counter_write_request_timeout_in_ms", Unit::Milliseconds),
    ("truncate_request_timeout", "truncate_request_timeout_in_ms", Unit::Milliseconds),
    ("request_timeout", "request_timeout_in_ms", Unit::Milliseconds),
];

/// Keys that an older version refuses to start with.
const UNKNOWN_TO_41: [&str; 1] = ["cdc_on_repair_enabled"];
const UNKNOWN_TO_40: [&str; 3] =
    ["cdc_on_repair_enabled", "cdc_block_writes", "cas_contention_timeout"];

/// The whole file.
pub(super) fn text(plan: &Plan<'_>) -> String {
    let mut keys: BTreeMap<String, String> =
        FIXED.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
    keys.extend(of_this_node(plan));
    if plan.spec.settings.get("commitlog_sync").is_some_and(|sync| sync != "periodic") {
        keys.remove("commitlog_sync_period");
    }
    keys.extend(plan.spec.settings.clone());
    let service = plan.spec.service;
    keys.into_iter()
        .filter_map(|(key, value)| for_version(service, key, value))
        .map(|(key, value)| format!("{key}: {value}\n"))
        .collect()
}

/// Addresses, ports and directories. Values are YAML in flow style, which JSON strings are.
fn of_this_node(plan: &Plan<'_>) -> Vec<(String, String)> {
    let directory = |name: &str| quoted(&plan.directory.join(name).display().to_string());
    let storage = plan.port("storage");
    let seeds = quoted(&format!("{}:{storage}", plan.spec.service.hosts()[0]));
    let provider = "org.apache.cassandra.locator.SimpleSeedProvider";
    let mut keys = vec![
        ("cluster_name", quoted(plan.spec.service.name())),
        ("listen_address", plan.host.to_owned()),
        ("rpc_address", plan.host.to_owned()),
        ("storage_port", storage.to_string()),
        ("native_transport_port", plan.port("cql").to_string()),
        (
            "seed_provider",
            format!("[{{class_name: {provider}, parameters: [{{seeds: {seeds}}}]}}]"),
        ),
        ("data_file_directories", format!("[{}]", directory("data"))),
        ("commitlog_directory", directory("commitlog")),
        ("hints_directory", directory("hints")),
        ("saved_caches_directory", directory("saved_caches")),
        ("cdc_raw_directory", directory("cdc_raw")),
    ];
    if plan.spec.service == Service::Cluster3 {
        keys.push(("initial_token", quoted(TOKENS[plan.index])));
    }
    keys.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
}

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// The line as that version spells it; None where it has no such key.
fn for_version(service: Service, key: String, value: String) -> Option<(String, String)> {
    match service {
        Service::Cassandra41 => (!UNKNOWN_TO_41.contains(&key.as_str())).then_some((key, value)),
        Service::Cassandra40 => {
            if UNKNOWN_TO_40.contains(&key.as_str()) {
                return None;
            }
            match RENAMED_SINCE_40.into_iter().find(|(new, _, _)| *new == key) {
                Some((_, old, unit)) => Some((old.to_owned(), without_unit(&value, unit))),
                None => Some((key, value)),
            }
        }
        _ => Some((key, value)),
    }
}

/// `16MiB` in mebibytes is `16`, `10s` in milliseconds `10000`. What has no unit stays.
fn without_unit(value: &str, unit: Unit) -> String {
    let factors: &[(&str, u64)] = match unit {
        Unit::None => &[],
        Unit::Mebibytes => &[("MiB", 1), ("GiB", 1024)],
        Unit::Milliseconds => &[("ms", 1), ("s", 1000)],
    };
    factors
        .iter()
        .find_map(|(suffix, factor)| {
            let number: u64 = value.strip_suffix(suffix)?.parse().ok()?;
            Some((number * factor).to_string())
        })
        .unwrap_or_else(|| value.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_lose_their_unit_where_the_key_carries_it() {
        assert_eq!(without_unit("16MiB", Unit::Mebibytes), "16");
        assert_eq!(without_unit("4GiB", Unit::Mebibytes), "4096");
        assert_eq!(without_unit("100ms", Unit::Milliseconds), "100");
        assert_eq!(without_unit("10s", Unit::Milliseconds), "10000");
        assert_eq!(without_unit("false", Unit::None), "false");
    }

    #[test]
    fn each_version_gets_keys_it_knows() {
        let line = |service, key: &str, value: &str| {
            for_version(service, key.to_owned(), value.to_owned())
        };
        let renamed = Some(("commitlog_segment_size_in_mb".to_owned(), "1".to_owned()));
        assert_eq!(line(Service::Cassandra40, "commitlog_segment_size", "1MiB"), renamed);
        let same = Some(("commitlog_segment_size".to_owned(), "1MiB".to_owned()));
        assert_eq!(line(Service::Cassandra, "commitlog_segment_size", "1MiB"), same);
        assert_eq!(line(Service::Cassandra41, "cdc_on_repair_enabled", "true"), None);
    }
}
