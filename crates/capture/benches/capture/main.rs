//! What capturing a node's log costs: decoding, the whole agent, the same by the Debezium connector,
//! memory, and the time from the node's sync to Kafka.
//!
//! `cargo xtask bench capture [decode|debezium|memory|live]… [ROWS]`. The rows are written once, to a
//! node of its own, and everything but `live` reads the same segments. Figures are printed, never
//! asserted: compare the ratios, which come from one run on one machine.

#![allow(
    clippy::print_stdout,
    clippy::disallowed_methods,
    clippy::indexing_slicing,
    reason = "a benchmark measures and prints"
)]

/// As the command has it.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

mod agent;
mod decode;
mod live;
mod load;
mod peer;

use std::error::Error;

use helenus_testkit::serial;

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

/// Rows that are written unless told otherwise.
const ROWS: usize = 200_000;
/// Runs whose median is printed.
const RUNS: usize = 5;

const PARTS: [&str; 4] = ["decode", "debezium", "memory", "live"];

fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| word != "--bench").collect();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    if let Some((first, rest)) = words.split_first()
        && first == agent::CHILD
    {
        return runtime.block_on(agent::run(rest));
    }
    let mut rows = ROWS;
    let mut chosen = Vec::new();
    for word in &words {
        match word.parse() {
            Ok(number) => rows = number,
            Err(_) if PARTS.contains(&word.as_str()) => chosen.push(word.as_str()),
            Err(_) => return Err(format!("'{word}' is none of {}", PARTS.join(", ")).into()),
        }
    }
    if chosen.is_empty() {
        chosen.extend(PARTS);
    }
    let _alone = serial()?;
    runtime.block_on(bench(&chosen, rows))
}

async fn bench(chosen: &[&str], rows: usize) -> Result<()> {
    if chosen.iter().any(|part| *part != "live") {
        let saved = load::save(rows).await?;
        println!("{saved}");
        if chosen.contains(&"decode") {
            decode::measure(&saved)?;
        }
        if chosen.contains(&"debezium") {
            peer::compare(&saved).await?;
        } else if chosen.contains(&"memory") {
            agent::measure(&saved).await?;
        }
    }
    if chosen.contains(&"live") {
        live::measure(rows.min(10_000)).await?;
    }
    Ok(())
}

/// The middle of some numbers.
fn median(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_by(f64::total_cmp);
    numbers.get(numbers.len() / 2).copied().unwrap_or(f64::NAN)
}
