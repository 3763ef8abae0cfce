//! `helenus segments stat`: how much of what is in them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use helenus::capture::commitlog::Record;
use helenus::capture::cql::change::{Origin, split};
use helenus::capture::cql::update::PartitionUpdate;
use helenus::capture::offline::{Found, Scanned, Wanted};
use helenus::capture::schema::History;
use serde::Serialize;

use super::{Complaint, Reading, Refused, each_node};
use crate::exit::{Failed, Outcome};
use crate::output::Output;

#[derive(Debug, Default, Serialize)]
struct Report {
    segments: Vec<SegmentReport>,
    tables: BTreeMap<String, TableReport>,
    refused: Vec<Refused>,
}

#[derive(Debug, Serialize)]
struct SegmentReport {
    id: i64,
    file: String,
    version: i32,
    compression: &'static str,
    records: u64,
    bytes: u64,
    end: u64,
    damage: Vec<DamageReport>,
}

#[derive(Debug, Serialize)]
struct DamageReport {
    offset: u64,
    reason: String,
}

#[derive(Debug, Default, Serialize)]
struct TableReport {
    changes: u64,
    first_write_us: Option<i64>,
    last_write_us: Option<i64>,
}

const WITHOUT_SCHEMA: &str = "
Each record counts once, under the id of its first table: names and write times
need --schema with the file that `helenus capture schema` writes.";

/// Without a schema records are counted by the id of their table.
pub(super) fn run(
    groups: &[Vec<PathBuf>],
    schema: Option<&Path>,
    output: &Output,
) -> Result<Outcome, Failed> {
    let beginning = schema.map_or_else(|| Ok(History::empty()), History::open)?;
    let wanted = if schema.is_some() { Wanted::Everything } else { Wanted::Nothing };
    // What cannot be read is reported even if there is nothing else.
    let mut reading = Reading { alone: false, ..Reading::new(groups, false, output) };
    let mut report = Report::default();
    each_node(groups, &beginning, |group, history| {
        for path in group {
            let mut damage = Vec::new();
            let tables = &mut report.tables;
            let scanned = reading.scan(path, history, &wanted, &mut |found| match found {
                Found::Mutation(record, mutation) => {
                    let counted = mutation.updates.into_iter().try_for_each(|update| {
                        count(tables, update).map_err(|reason| Complaint::at(record, reason))
                    });
                    if let Err(complaint) = &counted {
                        let reason = complaint.reason.clone();
                        damage.push(DamageReport { offset: record.start, reason });
                    }
                    counted
                }
                Found::Undecoded(record) => {
                    count_undecoded(tables, record);
                    Ok(())
                }
                Found::Damage(found, _) => {
                    let reason = found.reason.to_string();
                    damage.push(DamageReport { offset: found.offset, reason });
                    Ok(())
                }
                Found::Schema(record, error) => {
                    let reason = error.to_string();
                    damage.push(DamageReport { offset: record.start, reason });
                    Ok(())
                }
            })?;
            report.segments.extend(scanned.map(|scanned| segment(path, scanned, damage)));
        }
        Ok(())
    })?;
    let outcome = reading.outcome();
    report.refused = reading.refused;
    print(&report, output);
    if schema.is_none() && !report.tables.is_empty() {
        output.line(WITHOUT_SCHEMA);
    }
    Ok(outcome)
}

fn segment(path: &Path, scanned: Scanned, damage: Vec<DamageReport>) -> SegmentReport {
    SegmentReport {
        id: scanned.header.id.0,
        file: path.display().to_string(),
        version: scanned.header.version.number(),
        compression: scanned.header.compression.name(),
        records: scanned.records,
        bytes: scanned.bytes,
        end: scanned.end,
        damage,
    }
}

fn count(
    tables: &mut BTreeMap<String, TableReport>,
    update: PartitionUpdate<'_>,
) -> Result<(), String> {
    let name = format!("{}.{}", update.table.keyspace, update.table.name);
    let times = update.write_times();
    let changes = split(update, &Origin::default()).map_err(|error| error.to_string())?.len();
    let table = tables.entry(name).or_default();
    table.changes += changes as u64;
    if let Some((first, last)) = times {
        table.first_write_us =
            Some(table.first_write_us.map_or(first.0, |known| known.min(first.0)));
        table.last_write_us = Some(table.last_write_us.map_or(last.0, |known| known.max(last.0)));
    }
    Ok(())
}

fn count_undecoded(tables: &mut BTreeMap<String, TableReport>, record: &Record<'_>) {
    if let Some(id) = record.first_table() {
        tables.entry(id.to_string()).or_default().changes += 1;
    }
}

fn print(report: &Report, output: &Output) {
    output.document(report);
    if report.segments.is_empty() {
        return;
    }
    let segments = report.segments.iter().map(|segment| {
        [
            segment.id.to_string(),
            segment.version.to_string(),
            segment.compression.to_owned(),
            segment.records.to_string(),
            segment.bytes.to_string(),
            segment.end.to_string(),
            segment.damage.len().to_string(),
        ]
    });
    let head = ["segment", "version", "compression", "records", "bytes", "end", "damaged"];
    output.table(head, segments.collect());
    output.line("");
    let time = |micros: Option<i64>| {
        micros
            .map_or_else(String::new, |micros| helenus::Timestamp::from_micros(micros).to_string())
    };
    let tables = report.tables.iter().map(|(name, table)| {
        let (first, last) = (time(table.first_write_us), time(table.last_write_us));
        [name.clone(), table.changes.to_string(), first, last]
    });
    output.table(["table", "changes", "first write", "last write"], tables.collect());
}
