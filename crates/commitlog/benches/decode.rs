//! How fast segments are read and decoded, on one core.
//!
//! ```text
//! cargo bench -p helenus-commitlog --bench decode -- SCHEMA SEGMENT…
//! ```
//!
//! Without arguments the segments of `tests/fixtures` are read over and over. The figure counts
//! bytes up to the last sync marker, not the zeros behind it; each line is the median of runs
//! over all files in memory.
#![allow(clippy::print_stdout, clippy::disallowed_methods)]

use std::hint::black_box;
use std::time::Instant;

use helenus_commitlog::{Options, Segment};
use helenus_cql::schema::Catalog;
use helenus_cql::update::Item;

type Failure = Box<dyn std::error::Error>;

const RUNS: usize = 9;
/// Small inputs are repeated until a run is long enough to measure.
const RUN_BYTES_MIN: u64 = 64 << 20;

/// One way of reading a segment, which adds up what it saw.
type Reading<'a> = dyn Fn(&[u8], &mut Totals) -> Result<(), Failure> + 'a;

#[derive(Debug, Default, Clone, Copy)]
struct Totals {
    bytes: u64,
    records: u64,
    rows: u64,
    cells: u64,
}

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> =
        std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let (schema, files) = match arguments.split_first() {
        Some((schema, files)) => (schema.clone(), files.to_vec()),
        None => fixtures()?,
    };
    let catalog = Catalog::from_document(&std::fs::read_to_string(schema)?)?;
    let segments: Result<Vec<Vec<u8>>, _> = files.iter().map(std::fs::read).collect();
    let segments = segments?;
    measure("frame and checksum", &segments, &frame)?;
    measure("decode", &segments, &|bytes, totals| decode(bytes, &catalog, totals))
}

fn fixtures() -> Result<(String, Vec<String>), Failure> {
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures");
    let mut files = Vec::new();
    for entry in std::fs::read_dir(directory)? {
        let path = entry?.path().to_string_lossy().into_owned();
        files.extend(path.ends_with(".log").then_some(path));
    }
    Ok((format!("{directory}/schema.json"), files))
}

fn measure(name: &str, segments: &[Vec<u8>], read: &Reading<'_>) -> Result<(), Failure> {
    let mut once = Totals::default();
    for bytes in segments {
        read(bytes, &mut once)?;
    }
    let repeats = (RUN_BYTES_MIN / once.bytes.max(1)).max(1);
    let mut seconds = Vec::new();
    for _ in 0..RUNS {
        let started = Instant::now();
        for _ in 0..repeats {
            for bytes in segments {
                read(bytes, &mut Totals::default())?;
            }
        }
        seconds.push(started.elapsed().as_secs_f64());
    }
    seconds.sort_by(f64::total_cmp);
    let median = seconds.get(RUNS / 2).copied().unwrap_or(f64::NAN);
    let per_second = |count: u64| count as f64 * repeats as f64 / median;
    println!(
        "{name}: {:.0} MB/s, {:.2} million records/s ({} segments, {:.1} MB, {} records, {} rows, {} cells)",
        per_second(once.bytes) / 1e6,
        per_second(once.records) / 1e6,
        segments.len(),
        once.bytes as f64 / 1e6,
        once.records,
        once.rows,
        once.cells,
    );
    Ok(())
}

fn frame(bytes: &[u8], totals: &mut Totals) -> Result<(), Failure> {
    let segment = Segment::parse(bytes)?;
    let mut records = segment.records(Options::default());
    while let Some(record) = records.next_record() {
        black_box(record?.payload);
        totals.records += 1;
    }
    totals.bytes += records.position().file;
    Ok(())
}

fn decode(bytes: &[u8], catalog: &Catalog, totals: &mut Totals) -> Result<(), Failure> {
    let segment = Segment::parse(bytes)?;
    let mut records = segment.records(Options::default());
    while let Some(record) = records.next_record() {
        let mutation = record?.decode(catalog)?;
        totals.records += 1;
        for item in mutation.updates.iter().flat_map(|update| &update.items) {
            if let Item::Row(row) = item {
                totals.rows += 1;
                totals.cells += row.columns.len() as u64;
            }
        }
        black_box(mutation);
    }
    totals.bytes += records.position().file;
    Ok(())
}
