//! Queries on versioned tables in a file.

use helenus_cql::json;
use helenus_cql::lexer::quoted;
use helenus_cql::parser::{self, TableRef, Visit};
use helenus_model::BackendError;
use helenus_sqlite::Error;
use rusqlite::types::ValueRef;

use super::{SqliteVersions, tables};
use crate::TableName;
use crate::catalog::Catalog;
use crate::query::{QueryRefused, only_select};

impl SqliteVersions {
    /// Runs a `SELECT` on the versions readers get; each row is a JSON object.
    ///
    /// Names of tables are CQL's, the rest is SQLite's: values that are neither numbers nor truth
    /// values are written in single quotes.
    pub async fn query(&self, cql: &str) -> Result<Vec<String>, BackendError> {
        only_select(cql)?;
        let mut found = Tables(Vec::new());
        parser::walk(cql, &mut found).map_err(|syntax| QueryRefused::syntax(&syntax))?;
        let mut sql = String::new();
        let mut copied = 0;
        for table in found.0 {
            let Some(keyspace) = table.keyspace else { return Err(QueryRefused::no_keyspace()) };
            let name = TableName::new(&keyspace.folded(), &table.table.folded());
            let snapshot = self.snapshot(&name).await?;
            let routed = snapshot.routed().ok_or_else(|| QueryRefused::no_version(&name))?;
            sql.push_str(cql.get(copied..keyspace.span().start).unwrap_or_default());
            sql.push_str(&quoted(&tables::table_name(&name, &routed.version_name)));
            copied = table.table.span().end;
        }
        sql.push_str(cql.get(copied..).unwrap_or_default());
        let sql = sql.trim_end().trim_end_matches(';').to_owned();
        self.engine.read(move |db| Ok(rows(db, &sql)?)).await
    }
}

fn rows(db: &rusqlite::Connection, sql: &str) -> Result<Vec<String>, Error> {
    let mut query = db.prepare(sql)?;
    let columns: Vec<(String, String)> = query
        .columns()
        .map(|column| (column.name().to_owned(), column.decl_type().unwrap_or("").to_owned()))
        .collect();
    let mut found = Vec::new();
    let mut rows = query.query([])?;
    while let Some(row) = rows.next()? {
        let mut line = String::from("{");
        for (place, (name, ty)) in columns.iter().enumerate() {
            line.push_str(if place == 0 { "" } else { ", " });
            json::write_string(name, &mut line);
            line.push_str(": ");
            write(row.get_ref(place)?, ty, &mut line);
        }
        line.push('}');
        found.push(line);
    }
    Ok(found)
}

fn write(value: ValueRef<'_>, ty: &str, line: &mut String) {
    match value {
        ValueRef::Null => line.push_str("null"),
        ValueRef::Integer(number) if ty == "boolean" => {
            line.push_str(if number == 0 { "false" } else { "true" });
        }
        ValueRef::Integer(number) => line.push_str(&number.to_string()),
        ValueRef::Real(number) => line.push_str(&format!("{number:?}")),
        ValueRef::Text(text) => {
            let text = String::from_utf8_lossy(text);
            match ty {
                "json TEXT" | "number TEXT" | "decimal TEXT" => line.push_str(&text),
                _ => json::write_string(&text, line),
            }
        }
        ValueRef::Blob(bytes) => {
            line.push_str("\"0x");
            bytes.iter().for_each(|byte| line.push_str(&format!("{byte:02x}")));
            line.push('"');
        }
    }
}

struct Tables<'a>(Vec<TableRef<'a>>);

impl<'a> Visit<'a> for Tables<'a> {
    fn table(&mut self, table: TableRef<'a>) {
        self.0.push(table);
    }
}
