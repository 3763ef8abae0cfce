//! Versions as the command prints them: the catalog's columns under their own names.

use helenus::versions::{ChangeError, CheckResult, Snapshot, Story, TableName, TableVersion};
use serde_json::{Value, json};

use crate::exit::Failed;
use crate::output::Output;

pub(super) fn list(table: &TableName, snapshot: &Snapshot, output: &Output) {
    let rows: Vec<Value> =
        snapshot.versions.iter().map(|row| brief(table, snapshot, row)).collect();
    output.document(&rows);
    let line = |row: &TableVersion| {
        let marks = [
            (is_routed(snapshot, row), "routed"),
            (snapshot.pinned == Some(row.number), "pinned"),
            (row.excluded, "excluded"),
            (row.story.failure.is_some(), "failed"),
        ];
        let marks: Vec<&str> = marks.iter().filter(|mark| mark.0).map(|mark| mark.1).collect();
        [
            row.version_name.clone(),
            row.status.to_string(),
            marks.join(", "),
            row.data_ts.to_string(),
            row.story.rows.to_string(),
            row.run_id.clone(),
        ]
    };
    if snapshot.versions.is_empty() {
        output.line(format!("{table} has no versions"));
        return;
    }
    let lines = snapshot.versions.iter().map(line).collect();
    output.table(["version", "status", "", "data_ts", "rows", "run"], lines);
}

pub(super) fn one(
    table: &TableName,
    snapshot: &Snapshot,
    version: Option<&str>,
    output: &Output,
) -> Result<(), Failed> {
    let found = match version {
        Some(name) => snapshot.named(name),
        None => snapshot.routed(),
    };
    let Some(row) = found else {
        let (table, version) = (Box::new(table.clone()), version.unwrap_or("to read").into());
        return Err(ChangeError::NoVersion { table, version }.into());
    };
    let mut shown = brief(table, snapshot, row);
    let story = serde_json::to_value(&row.story).unwrap_or_default();
    if let (Some(shown), Value::Object(story)) = (shown.as_object_mut(), story) {
        shown.extend(story);
        shown.insert("heartbeat_ts".to_owned(), json!(row.heartbeat_ts));
        shown.insert("deleting_ts".to_owned(), json!(row.deleting_ts));
    }
    output.document(&shown);
    let rows = shown.as_object().into_iter().flatten();
    let rows = rows.filter(|(name, value)| !value.is_null() && !TOLD.contains(&name.as_str()));
    let plain = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let mut rows: Vec<[String; 2]> =
        rows.map(|(name, value)| [name.clone(), plain(value)]).collect();
    rows.extend(told(&row.story));
    output.table(["", ""], rows);
    Ok(())
}

/// What is told in words, not as JSON.
const TOLD: [&str; 3] = ["checks", "forced", "null_rates"];

fn told(story: &Story) -> Vec<[String; 2]> {
    let mut rows = Vec::new();
    for (column, share) in &story.null_rates {
        rows.push(["nulls".to_owned(), format!("{:.1} % of {column}", share * 100.0)]);
    }
    for CheckResult { name, ok, detail } in &story.checks {
        let word = if *ok { "ok" } else { "VETO" };
        rows.push(["check".to_owned(), format!("{name} {word}: {detail}")]);
    }
    if let Some(forced) = &story.forced {
        let over = forced.checks.join(", ");
        rows.push(["forced".to_owned(), format!("by {} over {over}", forced.by)]);
    }
    rows
}

fn brief(table: &TableName, snapshot: &Snapshot, row: &TableVersion) -> Value {
    json!({
        "key_space": table.keyspace(),
        "table": table.table(),
        "run_id": row.run_id,
        "data_ts": row.data_ts,
        "create_ts": row.create_ts,
        "version_name": row.version_name,
        "status": row.status,
        "routed": is_routed(snapshot, row),
        "pinned": snapshot.pinned == Some(row.number),
        "excluded": row.excluded,
        "version": row.number,
        "rows": row.story.rows,
        "failure": row.story.failure,
    })
}

fn is_routed(snapshot: &Snapshot, row: &TableVersion) -> bool {
    snapshot.routed().is_some_and(|routed| routed.number == row.number)
}
