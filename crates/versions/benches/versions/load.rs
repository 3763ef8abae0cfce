//! The data set, and publishing it in a process of its own, which has done nothing else.

use std::fmt::Write as _;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::pin::pin;
use std::time::{Duration, Instant};

use helenus_store::Ports;
use helenus_versions::Progress;
use helenus_versions::publish::publish;
use serde_json::json;

use crate::{Result, run_of, versions};

/// The argument that makes this program the loading process.
pub(crate) const CHILD: &str = "--publish-as-a-process";

/// The columns, the key first.
pub(crate) const COLUMNS: [(&str, &str); 10] = [
    ("id", "uuid"),
    ("country", "text"),
    ("age", "int"),
    ("score", "double"),
    ("clicks", "bigint"),
    ("active", "boolean"),
    ("seen", "timestamp"),
    ("segment", "text"),
    ("ratio", "float"),
    ("note", "text"),
];

/// The statement that makes the table.
pub(crate) fn create(table: &str) -> String {
    let columns: Vec<String> = COLUMNS.iter().map(|(name, ty)| format!("{name} {ty}")).collect();
    format!("CREATE TABLE {table} ({}, PRIMARY KEY (id))", columns.join(", "))
}

/// Writes rows that are the same every time; `round` tells one data set from another.
pub(crate) fn write(path: &Path, rows: u64, round: u64) -> Result<()> {
    let mut file = BufWriter::new(std::fs::File::create(path)?);
    let names: Vec<&str> = COLUMNS.iter().map(|(name, _)| *name).collect();
    writeln!(file, "{}", names.join(","))?;
    let mut line = String::new();
    for row in 0..rows {
        let (high, low) = (mixed(row), mixed(row ^ (1 << 63)));
        line.clear();
        write!(line, "{},", key(row))?;
        write!(line, "{},", ["de", "fr", "br", "jp", "us"][(low % 5) as usize])?;
        write!(line, "{},{:.6},{round},", low % 90, high as f64 / u64::MAX as f64)?;
        write!(line, "{},", low % 3 == 0)?;
        write!(line, "2026-11-{:02}T{:02}:{:02}:00Z,", low % 28 + 1, high % 24, low % 60)?;
        write!(line, "segment-{},{}.{},", high % 200, low % 10, high % 100)?;
        writeln!(line, "visitor {low:016x} of round {round}")?;
        file.write_all(line.as_bytes())?;
    }
    file.flush()?;
    Ok(())
}

/// The key of a row.
pub(crate) fn key(row: u64) -> uuid::Uuid {
    uuid::Uuid::from_u64_pair(mixed(row), mixed(row ^ (1 << 63)))
}

/// A number that looks like chance and is the same every time (splitmix64).
fn mixed(number: u64) -> u64 {
    let mut z = number.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// The loading process: prints what it did.
pub(crate) async fn child(address: &str, file: &str) -> Result<()> {
    let versions = versions(address).await?;
    let progress = Progress::default();
    let run = run_of("published", file, 1)?;
    let (began, ports) = (Instant::now(), Ports::system());
    let mut work = pin!(publish(&versions, &ports, run, &progress));
    let mut looks = tokio::time::interval(Duration::from_millis(10));
    let mut loading = Duration::ZERO;
    let done = loop {
        tokio::select! {
            done = &mut work => break done?,
            _ = looks.tick() => if !progress.is_loaded() { loading = began.elapsed() },
        }
    };
    let checked = done.checks.iter().all(|check| check.ok);
    let told = json!({
        "rows": done.rows,
        "checked": checked,
        "p50_ms": progress.latency(0.5).as_secs_f64() * 1e3,
        "p99_ms": progress.latency(0.99).as_secs_f64() * 1e3,
        "retries": progress.retries(),
        "loading_seconds": loading.as_secs_f64(),
        "seconds": done.seconds,
    });
    println!("{told}");
    Ok(())
}
