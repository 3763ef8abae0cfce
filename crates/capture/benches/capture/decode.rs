//! Decoding alone, and with change events as JSON, on one core and from memory.

use std::hint::black_box;
use std::time::Instant;

use helenus_commitlog::{Options, Segment};
use helenus_cql::change::{Origin, json, schema_version, split};
use helenus_cql::schema::Catalog;

use crate::load::{Saved, TABLE, bytes};
use crate::{RUNS, Result, median};

/// What was gone through.
#[derive(Debug, Default, Clone, Copy)]
struct Seen {
    /// Up to the last marker, not the zeros behind it.
    bytes: u64,
    rows: u64,
    written: u64,
}

pub(crate) fn measure(saved: &Saved) -> Result<()> {
    let catalog = Catalog::from_document(&std::fs::read_to_string(&saved.schema)?)?;
    let segments = bytes(&saved.folder)?;
    for (name, events) in [("decode", false), ("decode, change events as JSON", true)] {
        let mut seconds = Vec::new();
        let mut seen = Seen::default();
        for _ in 0..RUNS {
            seen = Seen::default();
            let started = Instant::now();
            for segment in &segments {
                read(segment, &catalog, events, &mut seen)?;
            }
            seconds.push(started.elapsed().as_secs_f64());
        }
        let seconds = median(seconds);
        let Seen { bytes, rows, written } = seen;
        println!(
            "{name}: {:.0} MB/s of segment, {:.0} thousand rows/s on one core ({:.1} MB, {rows} rows{})",
            bytes as f64 / seconds / 1e6,
            rows as f64 / seconds / 1e3,
            bytes as f64 / 1e6,
            if events {
                format!(", {:.1} MB of JSON", written as f64 / 1e6)
            } else {
                String::new()
            },
        );
    }
    Ok(())
}

fn read(bytes: &[u8], catalog: &Catalog, events: bool, seen: &mut Seen) -> Result<()> {
    let (keyspace, name) = TABLE.split_once('.').ok_or("no table")?;
    let table = catalog.by_name(keyspace, name).ok_or("the table is not in the schema")?;
    let origin =
        Origin { node: "n1".into(), schema_version: schema_version(table), ..Origin::default() };
    let policy = json::Policy::default();
    let segment = Segment::parse(bytes)?;
    let mut records = segment.records(Options::default());
    let mut text = String::new();
    while let Some(record) = records.next_record() {
        let mutation = record?.decode(catalog)?;
        for update in mutation.updates {
            if update.table.id != table.id {
                continue;
            }
            seen.rows += update.items.len() as u64;
            if !events {
                black_box(update);
                continue;
            }
            for event in split(update, &origin)? {
                text.clear();
                json::write(&event, &policy, &mut text);
                seen.written += text.len() as u64;
                black_box(&text);
            }
        }
    }
    seen.bytes += records.position().file;
    Ok(())
}
