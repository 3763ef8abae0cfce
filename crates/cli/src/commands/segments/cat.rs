//! `helenus segments cat`: every change, or every record as it is.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::Arc;

use helenus::capture::commitlog::Record;
use helenus::capture::cql::change::{ChangeEvent, Origin, json, schema_version, split};
use helenus::capture::cql::schema::{Lookup, Table};
use helenus::capture::offline::{Found, Wanted};
use helenus::capture::schema::History;
use serde_json::{Value, json};

use super::{Complaint, Reading, UnknownTable};
use crate::args::TableName;
use crate::exit::{Failed, Outcome};
use crate::output::Output;

/// Prints the changes, each with everything its cells carry.
pub(super) fn changes(
    groups: &[Vec<PathBuf>],
    mut history: History,
    table: Option<&TableName>,
    output: &Output,
) -> Result<Outcome, Failed> {
    let mut reading = Reading::new(groups, output);
    let wanted = match table {
        Some(table) => Wanted::Table(&table.keyspace, &table.name),
        None => Wanted::Everything,
    };
    let mut lines = output.lines();
    let mut text = String::new();
    let mut versions = HashMap::new();
    for path in groups.iter().flatten() {
        reading.scan(path, &mut history, &wanted, &mut |found| {
            let Found::Mutation(record, mutation) = found else { return Ok(()) };
            for update in mutation.updates {
                if !is_shown(update.table, table) {
                    continue;
                }
                let version =
                    versions.entry(update.table.id).or_insert_with(|| schema_version(update.table));
                let origin = Origin {
                    node: Arc::default(),
                    segment: record.segment.0,
                    offset: record.end,
                    schema_version: *version,
                };
                let events = split(update, &origin);
                let events = events.map_err(|error| Complaint::at(record, error.to_string()))?;
                for event in events {
                    text.clear();
                    json::write(&event, &json::Policy::default(), &mut text);
                    lines.push(&if output.is_json() { text.clone() } else { line(&event, &text) });
                }
            }
            Ok(())
        })?;
    }
    drop(lines);
    if let Some(table) = table.filter(|_| versions.is_empty()) {
        let known = history.table(&table.keyspace, &table.name);
        known.ok_or_else(|| UnknownTable { table: table.to_string() })?;
        reading.nothing_of(table, &history);
    }
    Ok(reading.outcome())
}

/// Prints the records, undecoded.
pub(super) fn raw(
    groups: &[Vec<PathBuf>],
    history: Option<History>,
    table: Option<&TableName>,
    output: &Output,
) -> Result<Outcome, Failed> {
    let mut reading = Reading::new(groups, output);
    let mut history = history.unwrap_or_else(History::empty);
    let catalog = history.catalog();
    let mut lines = output.lines();
    for path in groups.iter().flatten() {
        reading.scan(path, &mut history, &Wanted::Nothing, &mut |found| {
            let Found::Undecoded(record) = found else { return Ok(()) };
            let id = record.first_table();
            let known = id.and_then(|id| catalog.table(id));
            if table.is_some_and(|_| !known.is_some_and(|known| is_shown(known, table))) {
                return Ok(());
            }
            let named = known.map(|known| format!("{}.{}", known.keyspace, known.name));
            lines.push(&raw_line(record, named, output));
            Ok(())
        })?;
    }
    drop(lines);
    Ok(reading.outcome())
}

fn raw_line(record: &Record<'_>, table: Option<String>, output: &Output) -> String {
    let mut bytes = String::with_capacity(2 * record.payload.len() + 2);
    bytes.push_str("0x");
    for byte in record.payload {
        let _infallible = write!(bytes, "{byte:02x}");
    }
    let id = record.first_table().map(|id| id.to_string());
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

/// Cassandra's own tables are shown to who names them.
fn is_shown(table: &Table, wanted: Option<&TableName>) -> bool {
    match wanted {
        Some(wanted) => *table.keyspace == *wanted.keyspace && *table.name == *wanted.name,
        None => !is_internal(&table.keyspace),
    }
}

fn is_internal(keyspace: &str) -> bool {
    keyspace == "system" || keyspace.starts_with("system_")
}

/// A change for people: where, what, of which key, and each column with its time.
fn line(event: &ChangeEvent<'_>, text: &str) -> String {
    let json: Value = serde_json::from_str(text).unwrap_or_default();
    let part = |name: &str| json.get(name).unwrap_or(&Value::Null);
    let mut line = format!(
        "{}@{} {} {} {}.{} {}",
        event.origin.segment,
        event.origin.offset,
        event.operation().name(),
        event.scope().name(),
        event.table.keyspace,
        event.table.name,
        part("primary_key"),
    );
    for field in ["range", "deletion", "row_deletion", "liveness"] {
        if let Some(value) = json.get(field) {
            let _infallible = write!(line, " {field}={value}");
        }
    }
    for (name, told) in part("columns").as_object().into_iter().flatten() {
        let value = part("after_data").get(name).filter(|_| told.get("elements").is_none());
        let _infallible = match value {
            Some(value) => write!(line, " {name}={value} {told}"),
            None => write!(line, " {name} {told}"),
        };
    }
    line
}
