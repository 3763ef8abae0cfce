//! Queries on versioned tables in a cluster, their rows as JSON.

use helenus_cql::datatype::CqlType;
use helenus_cql::json;
use helenus_cql::parser::parse;
use helenus_cql::rewrite::rewrite;
use helenus_cql::value::Value;
use helenus_model::BackendError;
use helenus_store::cassandra::link::read_error;
use scylla::cluster::metadata::{CollectionType, ColumnType, NativeType};
use scylla::deserialize::row::ColumnIterator;
use std::collections::HashMap;
use std::sync::Arc;

use super::CassandraVersions;
use super::catalog::damaged;
use crate::TableName;
use crate::catalog::Catalog;
use crate::query::{QueryRefused, only_select};

impl CassandraVersions {
    /// Runs a `SELECT` on the versions readers get; each row is a JSON object.
    pub async fn query(&self, cql: &str) -> Result<Vec<String>, BackendError> {
        only_select(cql)?;
        let mut routed = HashMap::new();
        for table in parse(cql).map_err(|syntax| QueryRefused::syntax(&syntax))?.tables {
            let Some(keyspace) = table.keyspace else { return Err(QueryRefused::no_keyspace()) };
            let name = TableName::new(&keyspace.folded(), &table.table.folded());
            let snapshot = self.snapshot(&name).await?;
            let version = snapshot.routed().map(|version| version.version_name.clone());
            // A table that was never published is nobody's business here.
            if version.is_none() && !snapshot.versions.is_empty() {
                return Err(QueryRefused::no_version(&name));
            }
            routed.extend(version.map(|version| (name, version)));
        }
        let route = |keyspace: &str, table: &str| routed.get(&TableName::new(keyspace, table));
        let rewritten = rewrite(cql, None, route).map_err(BackendError::new)?;
        let statement = self.shared.prepare(&rewritten.text).await?;
        let session = &self.shared.session;
        let mut lines = Vec::new();
        let mut state = scylla::response::PagingState::start();
        loop {
            let page = Box::pin(session.execute_single_page(&statement, (), state)).await;
            let (rows, next) = page.map_err(read_error)?;
            let rows = rows.into_rows_result().map_err(damaged)?;
            for row in rows.rows::<ColumnIterator<'_, '_>>().map_err(damaged)? {
                lines.push(line(row.map_err(damaged)?)?);
            }
            match next.into_paging_control_flow() {
                std::ops::ControlFlow::Break(()) => return Ok(lines),
                std::ops::ControlFlow::Continue(next) => state = next,
            }
        }
    }
}

fn line(row: ColumnIterator<'_, '_>) -> Result<String, BackendError> {
    let mut line = String::from("{");
    for (place, column) in row.enumerate() {
        let column = column.map_err(damaged)?;
        line.push_str(if place == 0 { "" } else { ", " });
        json::write_string(column.spec.name(), &mut line);
        line.push_str(": ");
        let ty = cql_type(column.spec.typ());
        let value = column.slice.map(|slice| slice.as_slice());
        let value = value.map(|bytes| Value::decode(&ty, bytes)).transpose().map_err(damaged)?;
        json::write(value.as_ref(), &mut line);
    }
    line.push('}');
    Ok(line)
}

/// The driver's word for a type in ours; what has none is printed as bytes.
fn cql_type(ty: &ColumnType<'_>) -> CqlType {
    let inner = |ty: &ColumnType<'_>| Arc::new(cql_type(ty));
    match ty {
        ColumnType::Native(native) => native_type(native),
        ColumnType::Collection { typ, .. } => match typ {
            CollectionType::List(element) => CqlType::List(inner(element)),
            CollectionType::Set(element) => CqlType::Set(inner(element)),
            CollectionType::Map(key, value) => CqlType::Map(inner(key), inner(value)),
            _ => CqlType::Blob,
        },
        ColumnType::Tuple(parts) => CqlType::Tuple(parts.iter().map(cql_type).collect()),
        ColumnType::Vector { typ, dimensions } => {
            CqlType::Vector(inner(typ), u32::from(*dimensions))
        }
        _ => CqlType::Blob,
    }
}

fn native_type(native: &NativeType) -> CqlType {
    match native {
        NativeType::Ascii => CqlType::Ascii,
        NativeType::Boolean => CqlType::Boolean,
        NativeType::Counter => CqlType::BigInt,
        NativeType::Date => CqlType::Date,
        NativeType::Decimal => CqlType::Decimal,
        NativeType::Double => CqlType::Double,
        NativeType::Duration => CqlType::Duration,
        NativeType::Float => CqlType::Float,
        NativeType::Int => CqlType::Int,
        NativeType::BigInt => CqlType::BigInt,
        NativeType::Text => CqlType::Text,
        NativeType::Timestamp => CqlType::Timestamp,
        NativeType::Inet => CqlType::Inet,
        NativeType::SmallInt => CqlType::SmallInt,
        NativeType::TinyInt => CqlType::TinyInt,
        NativeType::Time => CqlType::Time,
        NativeType::Timeuuid => CqlType::TimeUuid,
        NativeType::Uuid => CqlType::Uuid,
        NativeType::Varint => CqlType::VarInt,
        _ => CqlType::Blob,
    }
}
