//! `helenus segments cat`: every change, with everything its cells carry.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::Arc;

use helenus::capture::commitlog::{Mutation, Record};
use helenus::capture::cql::change::{ChangeEvent, Origin, json, schema_version, split_from};
use helenus::capture::cql::schema::{Table, TableId};
use helenus::capture::cql::update::PartitionUpdate;
use helenus::capture::offline::{Found, Wanted};
use helenus::capture::schema::History;
use serde_json::Value;

use super::{Complaint, Reading, each_node};
use crate::args::TableName;
use crate::exit::{Failed, Outcome};
use crate::output::{Lines, Output};

/// Prints the changes.
pub(super) fn run(
    groups: &[Vec<PathBuf>],
    beginning: History,
    table: Option<&TableName>,
    output: &Output,
) -> Result<Outcome, Failed> {
    let mut reading = Reading::new(groups, true, output);
    let wanted = match table {
        Some(table) => Wanted::Table(&table.keyspace, &table.name),
        None => Wanted::Everything,
    };
    let mut printer = Printer {
        output,
        table,
        lines: output.lines(),
        text: String::new(),
        versions: HashMap::new(),
        found: false,
    };
    let newest = each_node(groups, &beginning, |group, history| {
        printer.versions.clear();
        for path in group {
            reading.scan(path, history, &wanted, &mut |found| match found {
                Found::Mutation(record, mutation) => printer.print(record, mutation),
                Found::Undecoded(_) | Found::Damage(..) | Found::Schema(..) => Ok(()),
            })?;
        }
        Ok(())
    })?;
    let found = printer.found;
    drop(printer);
    if let Some(table) = table {
        reading.tell_missing(table, found, &newest)?;
    }
    Ok(reading.outcome())
}

struct Printer<'a> {
    output: &'a Output,
    table: Option<&'a TableName>,
    lines: Lines<'a>,
    text: String,
    /// The number of each table's definition, as long as the schema stays as it is.
    versions: HashMap<TableId, u32>,
    found: bool,
}

impl Printer<'_> {
    fn print(&mut self, record: &Record<'_>, mutation: Mutation<'_>) -> Result<(), Complaint> {
        let changes_schema = mutation.updates.iter().any(|update| is_schema(update.table));
        let mut next = 0;
        let mut updates = mutation.updates.into_iter();
        let printed = updates.try_for_each(|update| self.update(record, update, &mut next));
        if changes_schema {
            self.versions.clear();
        }
        printed
    }

    fn update(
        &mut self,
        record: &Record<'_>,
        update: PartitionUpdate<'_>,
        next: &mut u32,
    ) -> Result<(), Complaint> {
        if !is_shown(update.table, self.table) {
            return Ok(());
        }
        self.found = true;
        let version = self.versions.entry(update.table.id);
        let origin = Origin {
            node: Arc::default(),
            segment: record.segment.0,
            offset: record.end,
            schema_version: *version.or_insert_with(|| schema_version(update.table)),
        };
        let events = split_from(update, &origin, next);
        let events = events.map_err(|error| Complaint::at(record, error.to_string()))?;
        for event in events {
            self.text.clear();
            json::write(&event, &json::Policy::default(), &mut self.text);
            if self.output.is_json() {
                self.lines.push(&self.text);
            } else {
                self.lines.push(&line(&event, &self.text));
            }
        }
        Ok(())
    }
}

/// Cassandra's own tables are shown to who names them.
pub(super) fn is_shown(table: &Table, wanted: Option<&TableName>) -> bool {
    match wanted {
        Some(wanted) => *table.keyspace == *wanted.keyspace && *table.name == *wanted.name,
        None => !is_internal(&table.keyspace),
    }
}

/// Whether a change of this table changes the schema.
pub(super) fn is_schema(table: &Table) -> bool {
    &*table.keyspace == "system_schema"
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
