//! What the event store costs over the bare thing beneath it, on either backend.
//!
//! `cargo xtask bench events [sqlite|cassandra|paxos-v2] [--full]`. Figures are printed, never
//! asserted: compare the ratios, which come from alternating runs on one machine.

#![allow(
    clippy::print_stdout,
    clippy::disallowed_methods,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    clippy::large_futures,
    reason = "a benchmark measures and prints"
)]

mod cassandra;
mod measure;
mod memory;
mod node;
mod sqlite;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// How much is measured.
#[derive(Clone, Copy, Debug)]
struct Size {
    /// Alternating runs, of which the median counts.
    rounds: usize,
    /// Appends of one run on Cassandra.
    appends: usize,
    /// Appends of one run on SQLite.
    embedded_appends: usize,
    /// Events of the long stream, on SQLite and on Cassandra.
    long: (usize, usize),
}

const SMALL: Size =
    Size { rounds: 5, appends: 2_000, embedded_appends: 100_000, long: (1_000_000, 200_000) };
const FULL: Size =
    Size { rounds: 9, appends: 6_000, embedded_appends: 200_000, long: (1_000_000, 1_000_000) };

fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| word != "--bench").collect();
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    if let [first, url] = words.as_slice()
        && first == memory::CHILD
    {
        return runtime.block_on(memory::child(url));
    }
    let size = if words.iter().any(|word| word == "--full") { FULL } else { SMALL };
    let named: Vec<&str> =
        words.iter().map(String::as_str).filter(|word| !word.starts_with("--")).collect();
    let wanted = |name: &str| named.is_empty() || named.contains(&name);
    if let Some(unknown) =
        named.iter().find(|name| !["sqlite", "cassandra", "paxos-v2"].contains(name))
    {
        return Err(format!("'{unknown}' is none of sqlite, cassandra, paxos-v2").into());
    }
    if wanted("sqlite") {
        sqlite::run(&runtime, size)?;
    }
    if wanted("cassandra") || wanted("paxos-v2") {
        cassandra::run(&runtime, size, wanted("cassandra"), wanted("paxos-v2"))?;
    }
    Ok(())
}
