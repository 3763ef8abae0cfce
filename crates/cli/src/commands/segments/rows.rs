//! `helenus segments rows`: a table as the node would show it.

use std::collections::HashMap;
use std::path::PathBuf;

use helenus::capture::commitlog::Record;
use helenus::capture::cql::reconcile::TableState;
use helenus::capture::cql::schema::TableId;
use helenus::capture::cql::update::{PartitionUpdate, Seconds};
use helenus::capture::offline::{Found, Truncation, Wanted, find_truncations};
use helenus::capture::schema::History;
use helenus::{Ports, Timestamp};

use super::{Complaint, Reading, UnknownTable, each_node};
use crate::args::TableName;
use crate::exit::{Failed, Outcome};
use crate::output::Output;

pub(super) fn run(
    groups: &[Vec<PathBuf>],
    beginning: History,
    wanted: &TableName,
    at: Option<Timestamp>,
    output: &Output,
) -> Result<Outcome, Failed> {
    let mut reading = Reading::new(groups, false, output);
    // By id: a table that was dropped and created again is another one.
    let mut states = HashMap::<TableId, TableState>::new();
    let history = each_node(groups, &beginning, |group, history| {
        let truncated = find_truncations(group, &mut history.clone());
        let table = Wanted::Table(&wanted.keyspace, &wanted.name);
        for path in group {
            reading.scan(path, history, &table, &mut |found| {
                let Found::Mutation(record, mutation) = found else { return Ok(()) };
                for update in &mutation.updates {
                    if !is_wanted(update, wanted) {
                        continue;
                    }
                    let state = states.entry(update.table.id).or_default();
                    if !is_truncated(record, update, &truncated) {
                        let applied = state.apply(update);
                        applied.map_err(|error| Complaint::at(record, error.to_string()))?;
                    }
                }
                Ok(())
            })?;
        }
        Ok(())
    })?;
    let table = history.table(&wanted.keyspace, &wanted.name);
    let table = table.ok_or_else(|| UnknownTable { table: wanted.to_string() })?;
    let now = at.unwrap_or_else(|| Ports::system().clock.now());
    reading.tell_missing(wanted, states.contains_key(&table.id), &history)?;
    let state = states.remove(&table.id).unwrap_or_default();
    let mut lines = output.lines();
    let mut sound = true;
    for row in state.select(&table, Seconds(now.as_micros().div_euclid(1_000_000))) {
        match row {
            Ok(row) => lines.push(&row),
            Err(error) => {
                sound = false;
                let reason = error.to_string();
                let details = serde_json::json!({ "damage": { "reason": reason } });
                output.complain(&format!("damaged: a row of {wanted}: {reason}"), &details);
            }
        }
    }
    Ok(if sound { reading.outcome() } else { Outcome::ChecksFailed })
}

fn is_wanted(update: &PartitionUpdate<'_>, wanted: &TableName) -> bool {
    *update.table.keyspace == *wanted.keyspace && *update.table.name == *wanted.name
}

/// Whether the node has since emptied the table.
fn is_truncated(
    record: &Record<'_>,
    update: &PartitionUpdate<'_>,
    truncated: &HashMap<TableId, Truncation>,
) -> bool {
    truncated
        .get(&update.table.id)
        .is_some_and(|last| (record.segment, record.end) <= (last.segment, last.offset))
}
