//! Tables of versions in a file.

use std::borrow::Cow;
use std::sync::Arc;

use helenus_cql::datatype::CqlType;
use helenus_cql::json;
use helenus_cql::lexer::quoted;
use helenus_cql::rewrite::TableName;
use helenus_cql::value::Value;
use helenus_model::{BackendError, Failure, Kind};
use helenus_sqlite::Error;
use rusqlite::types::{Value as SqlValue, ValueRef};
use rusqlite::{Connection, OptionalExtension, params_from_iter};
use tokio::sync::mpsc;

use super::SqliteVersions;
use crate::TableSchema;
use crate::row::{Cells, Field, Row, cast, push};
use crate::tables::{Chunk, Created, LoadOptions, Progress, Tables, Target};

/// The table of a version in the file.
pub(super) fn table_name(table: &TableName, version_name: &str) -> String {
    format!("{}.{version_name}", table.keyspace())
}

/// Another publisher has taken the run over.
#[derive(Debug, thiserror::Error)]
#[error("run {run_id} is no longer this publisher's")]
struct Fenced {
    run_id: String,
}

impl Failure for Fenced {
    fn kind(&self) -> Kind {
        Kind::Conflict
    }

    fn code(&self) -> &'static str {
        "fenced"
    }
}

impl Tables for SqliteVersions {
    async fn is_taken(&self, table: &TableName) -> Result<bool, BackendError> {
        let name = format!("{}.{}", table.keyspace(), table.table());
        self.engine.read(move |db| Ok(definition(db, &name)?.is_some())).await
    }

    async fn create(&self, target: &Target) -> Result<Created, BackendError> {
        let name = table_name(&target.table, &target.version_name);
        let mark = mark(&target.run_id);
        let create = create_sql(&name, &mark, &target.schema);
        // A schema change is not counted as a change of the transaction, so one that failed after
        // it would be kept; this is one statement, which fails as a whole.
        self.engine
            .write(move |db| -> Result<(), BackendError> {
                db.execute(&create, []).map_err(Error::from)?;
                Ok(())
            })
            .await?;
        let name = table_name(&target.table, &target.version_name);
        let found = self.engine.read(move |db| definition(db, &name)).await?;
        let is_ours = found.is_some_and(|sql| sql.contains(&mark));
        Ok(if is_ours { Created::Ours(None) } else { Created::Taken })
    }

    async fn load(
        &self,
        target: &Target,
        options: &LoadOptions,
        mut chunks: mpsc::Receiver<Chunk>,
        progress: &Progress,
    ) -> Result<(), BackendError> {
        let target = Arc::new(target.clone());
        let insert: Arc<str> = insert_sql(&target).into();
        while let Some(chunk) = chunks.recv().await {
            let (rows, end) = (chunk.rows.len(), chunk.end);
            let began = self.ports.clock.elapsed();
            let (target, insert) = (Arc::clone(&target), Arc::clone(&insert));
            self.engine.write(move |db| write(db, &target, &insert, &chunk.rows)).await?;
            let took = self.ports.clock.elapsed().saturating_sub(began);
            progress.wrote(rows, took);
            progress.reached(end);
            if let Some(rate) = options.rows_per_second {
                let rows = u32::try_from(rows).unwrap_or(u32::MAX);
                let share =
                    std::time::Duration::from_secs_f64(f64::from(rows) / f64::from(rate.max(1)));
                tokio::time::sleep(share.saturating_sub(took)).await;
            }
        }
        Ok(())
    }

    async fn count(&self, target: &Target) -> Result<u64, BackendError> {
        let name = quoted(&table_name(&target.table, &target.version_name));
        self.engine
            .read(move |db| {
                let sql = format!("SELECT count(*) FROM {name}");
                let count: i64 = db.query_row(&sql, [], |row| row.get(0)).map_err(Error::from)?;
                Ok(u64::try_from(count).unwrap_or(0))
            })
            .await
    }

    async fn fetch(&self, target: &Target, key: &[u8]) -> Result<Option<Vec<u8>>, BackendError> {
        let (target, key) = (target.clone(), key.to_vec());
        self.engine
            .read(move |db| {
                let schema = &target.schema;
                let name = quoted(&table_name(&target.table, &target.version_name));
                let names = |places: &mut dyn Iterator<Item = usize>| -> Vec<String> {
                    let columns = places.filter_map(|place| schema.columns.get(place));
                    columns.map(|column| quoted(&column.name)).collect()
                };
                let all = names(&mut (0..schema.columns.len())).join(", ");
                let conditions: Vec<String> =
                    names(&mut schema.key()).iter().map(|name| format!("{name} = ?")).collect();
                let sql = format!("SELECT {all} FROM {name} WHERE {}", conditions.join(" AND "));
                let types = schema.key().filter_map(|place| schema.columns.get(place));
                let values: Vec<SqlValue> = types
                    .zip(Cells(&key))
                    .map(|(column, bytes)| sql_value(&column.ty, bytes))
                    .collect();
                let mut query = db.prepare(&sql).map_err(Error::from)?;
                let row = query.query_row(params_from_iter(values), |row| {
                    let mut cells = Vec::new();
                    for (place, column) in schema.columns.iter().enumerate() {
                        let field = field(row.get_ref(place)?);
                        if cast(&field, &column.ty, &mut cells).is_err() {
                            push(None, &mut cells);
                        }
                    }
                    Ok(cells)
                });
                Ok(row.optional().map_err(Error::from)?)
            })
            .await
    }

    async fn drop_table(
        &self,
        table: &TableName,
        version_name: &str,
        run_id: &str,
    ) -> Result<(), BackendError> {
        let (name, mark) = (table_name(table, version_name), mark(run_id));
        self.engine
            .write(move |db| -> Result<(), BackendError> {
                if definition(db, &name)?.is_some_and(|sql| sql.contains(&mark)) {
                    // One statement, as in `create`.
                    let drop = format!("DROP TABLE IF EXISTS {}", quoted(&name));
                    db.execute(&drop, []).map_err(Error::from)?;
                }
                Ok(())
            })
            .await
    }

    async fn marked(&self, table: &TableName) -> Result<Vec<(String, String)>, BackendError> {
        let start = format!("{}.{}_v", table.keyspace(), table.table());
        let keyspace = table.keyspace().to_owned();
        self.engine
            .read(move |db| {
                let mut query = db
                    .prepare_cached("SELECT name, sql FROM sqlite_schema WHERE type = 'table'")
                    .map_err(Error::from)?;
                let rows = query
                    .query_map([], |row| Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?)));
                let mut marked = Vec::new();
                for row in rows.map_err(Error::from)? {
                    let (name, sql) = row.map_err(Error::from)?;
                    let number = name.strip_prefix(&start);
                    let is_version = number.is_some_and(|number| number.parse::<u32>().is_ok());
                    let run = sql.split_once(MARK).and_then(|(_, rest)| rest.split_once(" */"));
                    if let Some((run, _)) = run.filter(|_| is_version) {
                        let version = name.strip_prefix(&format!("{keyspace}.")).unwrap_or(&name);
                        marked.push((version.to_owned(), run.to_owned()));
                    }
                }
                Ok(marked)
            })
            .await
    }
}

const MARK: &str = "/* helenus version run ";

fn mark(run_id: &str) -> String {
    format!("{MARK}{run_id} */")
}

fn definition(db: &Connection, name: &str) -> Result<Option<String>, BackendError> {
    let mut query = db
        .prepare_cached("SELECT sql FROM sqlite_schema WHERE type = 'table' AND name = ?1")
        .map_err(Error::from)?;
    Ok(query.query_row([name], |row| row.get(0)).optional().map_err(Error::from)?)
}

/// SQLite keeps the text of a definition, its comments included: the mark is one.
fn create_sql(name: &str, mark: &str, schema: &TableSchema) -> String {
    let columns: Vec<String> = schema
        .columns
        .iter()
        .map(|column| format!("{} {}", quoted(&column.name), declared(&column.ty)))
        .collect();
    let key = schema.key().filter_map(|place| schema.columns.get(place));
    let key: Vec<String> = key.map(|column| quoted(&column.name)).collect();
    format!(
        "CREATE TABLE IF NOT EXISTS {} ({mark} {}, PRIMARY KEY ({})) WITHOUT ROWID",
        quoted(name),
        columns.join(", "),
        key.join(", ")
    )
}

/// A type's name in the file. Numbers that SQLite would shorten are kept as text.
fn declared(ty: &CqlType) -> String {
    match ty.thawed() {
        CqlType::TinyInt | CqlType::SmallInt | CqlType::Int | CqlType::BigInt => ty.to_string(),
        CqlType::Float | CqlType::Double | CqlType::Boolean | CqlType::Blob => ty.to_string(),
        CqlType::VarInt => "number TEXT".to_owned(),
        CqlType::Decimal => "decimal TEXT".to_owned(),
        CqlType::List(_)
        | CqlType::Set(_)
        | CqlType::Map(..)
        | CqlType::Tuple(_)
        | CqlType::Vector(..) => "json TEXT".to_owned(),
        _ => format!("{ty} TEXT"),
    }
}

fn insert_sql(target: &Target) -> String {
    let marks = vec!["?"; target.schema.columns.len()].join(", ");
    let name = quoted(&table_name(&target.table, &target.version_name));
    format!("INSERT OR REPLACE INTO {name} VALUES ({marks})")
}

/// Writes rows in the order of the source, if the run is still the publisher's: then the last row
/// of a key stands, as the latest write time does on Cassandra.
fn write(db: &Connection, target: &Target, insert: &str, rows: &[Row]) -> Result<(), BackendError> {
    let mut owner = db
        .prepare_cached(
            "SELECT publisher FROM helenus_table_versions
             WHERE key_space = ?1 AND \"table\" = ?2 AND run_id = ?3 AND status = 'PENDING'",
        )
        .map_err(Error::from)?;
    let key = [target.table.keyspace(), target.table.table(), &target.run_id];
    let owner: Option<String> =
        owner.query_row(key, |row| row.get(0)).optional().map_err(Error::from)?;
    if owner != Some(target.publisher.to_string()) {
        return Err(BackendError::new(Fenced { run_id: target.run_id.clone() }));
    }
    let mut statement = db.prepare_cached(insert).map_err(Error::from)?;
    for row in rows {
        let columns = target.schema.columns.iter().zip(row.values());
        let values = columns.map(|(column, bytes)| sql_value(&column.ty, bytes));
        statement.execute(params_from_iter(values)).map_err(Error::from)?;
    }
    Ok(())
}

/// A value as the file holds it: what SQLite can compare as it is, the rest as JSON would say it.
fn sql_value(ty: &CqlType, bytes: Option<&[u8]>) -> SqlValue {
    let Some(value) = bytes.and_then(|bytes| Value::decode(ty, bytes).ok()) else {
        return SqlValue::Null;
    };
    match &value {
        Value::Text(text) => SqlValue::Text((*text).to_owned()),
        Value::Blob(bytes) => SqlValue::Blob(bytes.to_vec()),
        Value::Boolean(truth) => SqlValue::Integer(i64::from(*truth)),
        Value::TinyInt(number) => SqlValue::Integer(i64::from(*number)),
        Value::SmallInt(number) => SqlValue::Integer(i64::from(*number)),
        Value::Int(number) => SqlValue::Integer(i64::from(*number)),
        Value::BigInt(number) => SqlValue::Integer(*number),
        Value::Float(number) if number.is_finite() => SqlValue::Real(f64::from(*number)),
        Value::Double(number) if number.is_finite() => SqlValue::Real(*number),
        other => {
            let mut text = String::new();
            json::write(Some(other), &mut text);
            SqlValue::Text(text.trim_matches('"').to_owned())
        }
    }
}

/// The way back, for the read-back of a sample.
fn field(value: ValueRef<'_>) -> Field<'_> {
    match value {
        ValueRef::Null => Field::Null,
        ValueRef::Integer(number) => Field::Int(number),
        ValueRef::Real(number) => Field::Float(number),
        ValueRef::Text(text) => Field::Text(String::from_utf8_lossy(text)),
        ValueRef::Blob(bytes) => Field::Bytes(Cow::Borrowed(bytes)),
    }
}
