//! `helenus segments cat --raw`: the records as they are.
//!
//! A record is decoded only as far as it takes to tell what it is about: DDL, to know the tables that
//! come with it, and what has several updates, to find the one that is asked for.

use std::fmt::Write as _;
use std::path::PathBuf;

use helenus::capture::commitlog::Record;
use helenus::capture::commitlog::mutation::Updates;
use helenus::capture::cql::schema::{Catalog, Lookup};
use helenus::capture::offline::{Found, Wanted};
use helenus::capture::schema::History;
use serde_json::json;

use super::cat::{is_schema, is_shown};
use super::{Complaint, Reading, each_node};
use crate::args::TableName;
use crate::exit::{Failed, Outcome};
use crate::output::Output;

/// Prints the records, or those that a table has a part in.
pub(super) fn run(
    groups: &[Vec<PathBuf>],
    beginning: History,
    table: Option<&TableName>,
    output: &Output,
) -> Result<Outcome, Failed> {
    let mut reading = Reading::new(groups, true, output);
    let mut lines = output.lines();
    let mut found_any = false;
    let newest = each_node(groups, &beginning, |group, history| {
        for path in group {
            // The schema is followed here, where it also tells which records to print.
            reading.scan(path, &mut History::empty(), &Wanted::Nothing, &mut |found| {
                let Found::Undecoded(record) = found else { return Ok(()) };
                let catalog = history.catalog();
                let (is_wanted, looked) = look(record, &catalog, history, table);
                if is_wanted {
                    found_any = true;
                    lines.push(&line(record, &catalog, output));
                }
                looked
            })?;
        }
        Ok(())
    })?;
    drop(lines);
    if let Some(table) = table {
        reading.tell_missing(table, found_any, &newest)?;
    }
    Ok(reading.outcome())
}

/// Whether a record is to be printed, and what there is to complain about: of DDL that it cannot be
/// followed, of any other that what it is about cannot be told.
fn look(
    record: &Record<'_>,
    catalog: &Catalog,
    history: &mut History,
    wanted: Option<&TableName>,
) -> (bool, Result<(), Complaint>) {
    let first = record.first_table().and_then(|id| catalog.table(id));
    let is_first = wanted.is_none() || first.is_some_and(|first| is_shown(first, wanted));
    let is_ddl = first.is_some_and(is_schema);
    let is_single = matches!(record.payload, [1, ..]);
    let is_left_out = record.first_table().is_some_and(|id| history.leaves_out(id));
    if is_left_out || !is_ddl && (is_first || is_single) {
        return (is_first, Ok(()));
    }
    match record.decode(catalog) {
        Ok(mutation) => {
            let is_any = mutation.updates.iter().any(|update| is_shown(update.table, wanted));
            let followed = history.follow(&mutation).map(drop);
            let followed = followed.map_err(|error| Complaint::at(record, error.to_string()));
            (is_first || is_any, followed)
        }
        Err(damage) => {
            let last = damage.table.and_then(|id| catalog.table(id));
            let is_any = last.is_some_and(|last| is_shown(last, wanted))
                || Updates::new(record.payload, record.version, catalog).is_ok_and(
                    |mut updates| {
                        updates
                            .any(|update| update.is_ok_and(|update| is_shown(update.table, wanted)))
                    },
                );
            let is_wanted = is_first || is_any;
            let is_fine = is_wanted && !is_ddl;
            (is_wanted, if is_fine { Ok(()) } else { Err(Complaint::of(&damage, catalog)) })
        }
    }
}

/// A record under its first table.
fn line(record: &Record<'_>, catalog: &Catalog, output: &Output) -> String {
    let mut bytes = String::with_capacity(2 * record.payload.len() + 2);
    bytes.push_str("0x");
    for byte in record.payload {
        let _infallible = write!(bytes, "{byte:02x}");
    }
    let id = record.first_table();
    let table = id.and_then(|id| catalog.table(id));
    let table = table.map(|table| format!("{}.{}", table.keyspace, table.name));
    let id = id.map(|id| id.to_string());
    if output.is_json() {
        return json!({
            "segment": record.segment.0, "offset": record.start, "end": record.end,
            "table_id": id, "table": table, "bytes": bytes,
        })
        .to_string();
    }
    let table = table.or(id).unwrap_or_default();
    format!("{}@{} {table} {bytes}", record.segment, record.start)
}
