//! Projections written in SQL.
//!
//! The text is tried on an empty database in memory before it gets near the store: there it sees
//! nothing but its own tables, and SQLite's authorizer says what each statement would touch.

mod scratch;

use helenus_model::RecordedEvent;
use rusqlite::types::{ToSqlOutput, Value};
use rusqlite::{CachedStatement, ToSql};
use uuid::Uuid;

use super::generation::is_reserved;
use super::{Output, Projection, ProjectionError, physical};
use crate::contract::SubscriptionName;
use crate::subscription::BoxError;

/// What a statement may use of an event.
const PARAMETERS: [&str; 14] = [
    ":stream_id",
    ":stream_version",
    ":event_type",
    ":payload",
    ":position",
    ":occurred_at_utc",
    ":appended_at_utc",
    ":event_id",
    ":schema_version",
    ":content_type",
    ":correlation_id",
    ":causation_id",
    ":tenant_id",
    ":metadata",
];

/// A projection of one file of SQL: a part that creates tables, and a statement for each type of
/// event. Names of its own tables, indexes and triggers stand in braces.
///
/// ```
/// use helenus_store::sqlite::SqlProjection;
///
/// let text = "
/// -- create
/// CREATE TABLE {balances} (account TEXT PRIMARY KEY, cents INTEGER NOT NULL) STRICT;
///
/// -- on account.booked
/// INSERT INTO {balances} VALUES (:stream_id, json_extract(:payload, '$.cents'))
/// ON CONFLICT DO UPDATE SET cents = cents + excluded.cents;
///
/// -- on account.closed
/// DELETE FROM {balances} WHERE account = :stream_id;
/// ";
/// SqlProjection::new("balances".parse()?, text)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SqlProjection {
    name: SubscriptionName,
    version: String,
    create: String,
    statements: Vec<Statement>,
}

/// A statement for events of one type.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Statement {
    /// `*` is every type.
    event_type: String,
    text: String,
    /// Where it begins in the file, for messages.
    line: usize,
}

impl SqlProjection {
    /// The projection that `text` describes. Its version is the text: whatever changes in it needs a
    /// rebuild.
    pub fn new(name: SubscriptionName, text: &str) -> Result<Self, ProjectionError> {
        let (create, statements) = parts(text)?;
        let version = Uuid::new_v5(&Uuid::NAMESPACE_OID, text.as_bytes()).simple().to_string();
        let projection = SqlProjection { name, version, create, statements };
        scratch::check(&projection)?;
        Ok(projection)
    }
}

impl Projection for SqlProjection {
    fn name(&self) -> SubscriptionName {
        self.name.clone()
    }

    fn version(&self) -> String {
        self.version.clone()
    }

    fn create(&self, output: &Output<'_>) -> Result<(), BoxError> {
        Ok(output.db.execute_batch(&expanded(&self.create, output.generation))?)
    }

    fn apply(&self, output: &Output<'_>, event: &RecordedEvent) -> Result<(), BoxError> {
        for statement in &self.statements {
            if statement.event_type == "*" || statement.event_type == event.event_type {
                let text = expanded(&statement.text, output.generation);
                let mut statement = output.db.prepare_cached(&text)?;
                bind(&mut statement, output.position, event)?;
                statement.raw_execute()?;
            }
        }
        Ok(())
    }
}

fn invalid(problem: impl Into<Box<str>>) -> ProjectionError {
    ProjectionError::InvalidSql { problem: problem.into() }
}

/// The part that creates tables, and the statements.
fn parts(text: &str) -> Result<(String, Vec<Statement>), ProjectionError> {
    let mut create: Option<String> = None;
    let mut statements: Vec<Statement> = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words.as_slice() {
            ["--", "create"] if create.is_some() => {
                return Err(invalid(format!("line {}: there is a '-- create' already", index + 1)));
            }
            ["--", "create"] => create = Some(String::new()),
            ["--", "on", event_type] => {
                if create.is_none() {
                    return Err(invalid("the file must begin with a '-- create' part"));
                }
                let event_type = (*event_type).to_owned();
                statements.push(Statement { event_type, text: String::new(), line: index + 1 });
            }
            ["--", "on", ..] => {
                return Err(invalid(format!(
                    "line {}: write '-- on TYPE' or '-- on *'",
                    index + 1
                )));
            }
            words => {
                let is_comment = words.first().is_none_or(|word| word.starts_with("--"));
                let part = match statements.last_mut() {
                    Some(statement) => Some(&mut statement.text),
                    None => create.as_mut(),
                };
                match part {
                    Some(part) => {
                        part.push_str(line);
                        part.push('\n');
                    }
                    None if is_comment => {}
                    None => return Err(invalid("the file must begin with a '-- create' part")),
                }
            }
        }
    }
    let create = create.ok_or_else(|| invalid("the file has no '-- create' part"))?;
    if statements.is_empty() {
        return Err(invalid("the file has no '-- on TYPE' part"));
    }
    Ok((create, statements))
}

/// The text with every `{name}` as a generation's own.
fn expanded(text: &str, generation: i64) -> String {
    let mut expanded = String::with_capacity(text.len() + 32);
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('{') {
        expanded.push_str(before);
        match after.split_once('}') {
            Some((name, after)) if is_name(name) => {
                expanded.push_str(&physical(name, generation));
                rest = after;
            }
            _ => {
                expanded.push('{');
                rest = after;
            }
        }
    }
    expanded.push_str(rest);
    expanded
}

/// The names in braces.
fn names(text: &str) -> impl Iterator<Item = &str> {
    let pieces = text.split('{').skip(1);
    pieces.filter_map(|piece| piece.split_once('}')).map(|(name, _)| name).filter(|n| is_name(n))
}

fn is_name(text: &str) -> bool {
    let mut characters = text.chars();
    characters.next().is_some_and(|first| first.is_ascii_alphabetic() || first == '_')
        && characters.all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// Gives a statement what it asks for of the event.
fn bind(
    statement: &mut CachedStatement<'_>,
    position: i64,
    event: &RecordedEvent,
) -> Result<(), BoxError> {
    for index in 1..=statement.parameter_count() {
        let name = statement.parameter_name(index).unwrap_or_default().to_owned();
        let value = value(&name, position, event).ok_or_else(|| format!("unknown {name}"))?;
        statement.raw_bind_parameter(index, value)?;
    }
    Ok(())
}

fn value<'a>(name: &str, position: i64, event: &'a RecordedEvent) -> Option<ToSqlOutput<'a>> {
    let payload = &event.payload;
    let text = |text: &'a str| text.to_sql().ok();
    let optional = |text: &'a Option<String>| text.to_sql().ok();
    match name {
        ":stream_id" => text(event.stream_id.as_str()),
        ":stream_version" => Some(event.version.as_i64().into()),
        ":event_type" => text(&event.event_type),
        ":payload" => payload.text().map_or_else(|| payload.bytes.to_sql().ok(), text),
        ":position" => Some(position.into()),
        ":occurred_at_utc" => Some(event.occurred_at.as_millis().into()),
        ":appended_at_utc" => Some(event.appended_at.as_millis().into()),
        ":event_id" => Some(event.event_id.to_string().into()),
        ":schema_version" => Some(event.schema_version.into()),
        ":content_type" => text(&payload.content_type),
        ":correlation_id" => optional(&event.correlation_id),
        ":causation_id" => optional(&event.causation_id),
        ":tenant_id" => optional(&event.tenant_id),
        ":metadata" => Some(match &event.metadata {
            Some(metadata) => serde_json::to_string(metadata).unwrap_or_default().into(),
            None => ToSqlOutput::Owned(Value::Null),
        }),
        _ => None,
    }
}

/// Refuses names that belong to others.
fn refuse_reserved(text: &str) -> Result<(), ProjectionError> {
    match names(text).find(|name| is_reserved(name)) {
        Some(name) => Err(invalid(format!("the name '{name}' is reserved"))),
        None => Ok(()),
    }
}
