//! The rows of a table, merged from segments, as `SELECT JSON *` would print them.
//!
//! ```text
//! cargo run --release --example rows -- SCHEMA KEYSPACE.TABLE SECONDS SEGMENT…
//! ```
//!
//! `SCHEMA` is the JSON document that [`Catalog::from_document`] reads, `SECONDS` the moment
//! (since 1970) at which expiring values are looked at. Damage goes to standard error and makes
//! the exit code 1.
#![allow(clippy::print_stderr)]

use std::io::Write as _;
use std::process::ExitCode;

use helenus_commitlog::{Damage, Options, Segment};
use helenus_cql::reconcile::TableState;
use helenus_cql::schema::{Catalog, TableId};
use helenus_cql::update::Seconds;

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<ExitCode, Failure> {
    let mut arguments = std::env::args().skip(1);
    let mut next = |what: &str| arguments.next().ok_or_else(|| format!("{what} is missing"));
    let catalog = Catalog::from_document(&std::fs::read_to_string(next("SCHEMA")?)?)?;
    let name = next("KEYSPACE.TABLE")?;
    let now = Seconds(next("SECONDS")?.parse()?);
    let (keyspace, table) = name.split_once('.').ok_or("KEYSPACE.TABLE has no dot")?;
    let table = catalog.by_name(keyspace, table).ok_or("the schema has no such table")?;
    let mut state = TableState::default();
    let mut damages = 0;
    for path in arguments {
        for damage in fold(&std::fs::read(&path)?, &catalog, table.id, &mut state)? {
            eprintln!("{path}: {damage}");
            damages += 1;
        }
    }
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    for row in state.select(table, now) {
        writeln!(out, "{}", row?)?;
    }
    out.flush()?;
    Ok(if damages == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Merges what one segment says of a table; returns what could not be read.
fn fold(
    bytes: &[u8],
    catalog: &Catalog,
    wanted: TableId,
    state: &mut TableState,
) -> Result<Vec<Damage>, Failure> {
    let segment = Segment::parse(bytes)?;
    let mut records = segment.records(Options { complete: true, ..Options::default() });
    let mut damages = Vec::new();
    while let Some(next) = records.next_record() {
        match next.and_then(|record| record.decode(catalog)) {
            Ok(mutation) => {
                for update in mutation.updates.iter().filter(|update| update.table.id == wanted) {
                    state.apply(update)?;
                }
            }
            Err(damage) => damages.push(damage),
        }
    }
    Ok(damages)
}
