//! The catalog's contract, kept by a cluster.
//!
//! A change is one conditional batch in one partition: the static epoch and every row it touches.

use helenus_cql::rewrite::TableName;
use helenus_model::{BackendError, Timestamp};
use helenus_store::cassandra::Error;
use helenus_store::cassandra::link::{read_error, request_error};
use scylla::DeserializeRow;
use scylla::response::query_result::QueryResult;
use scylla::serialize::row::SerializeRow;
use scylla::statement::batch::{Batch, BatchType};
use scylla::statement::prepared::PreparedStatement;
use scylla::value::{CqlTimestamp, CqlValue, Row};
use serde::de::DeserializeOwned;
use uuid::Uuid;

use super::{CassandraVersions, Shared};
use crate::catalog::{Catalog, Edit, Snapshot, Status, Story, TableVersion, ViewLease};

impl Catalog for CassandraVersions {
    async fn snapshot(&self, table: &TableName) -> Result<Snapshot, BackendError> {
        let values = (table.keyspace(), table.table());
        let rows = self.shared.read(&self.shared.statements.snapshot, values).await?;
        let rows = rows.into_rows_result().map_err(damaged)?;
        let mut snapshot = Snapshot { next_version: 1, ..Snapshot::default() };
        for row in rows.rows::<CatalogRow>().map_err(damaged)? {
            let row = row.map_err(damaged)?;
            snapshot.epoch = row.catalog_epoch;
            snapshot.next_version = row.next_version.map_or(1, number);
            snapshot.pinned = row.pinned.map(number);
            // A partition without rows shows its statics alone.
            if row.run_id.is_some() {
                snapshot.versions.push(row.version()?);
            }
        }
        snapshot.versions.sort_by_key(|version| version.number);
        Ok(snapshot)
    }

    async fn tables(&self) -> Result<Vec<TableName>, BackendError> {
        let rows = self.shared.read(&self.shared.statements.tables, ()).await?;
        let rows = rows.into_rows_result().map_err(damaged)?;
        let mut tables = Vec::new();
        for row in rows.rows::<(String, String)>().map_err(damaged)? {
            let (keyspace, table) = row.map_err(damaged)?;
            tables.push(TableName::new(&keyspace, &table));
        }
        tables.sort();
        Ok(tables)
    }

    async fn commit(&self, table: &TableName, edit: Edit) -> Result<bool, BackendError> {
        let shared = &self.shared;
        let mut batch = Batch::new(BatchType::Unlogged);
        batch.set_consistency(shared.options.consistency.level());
        batch.set_serial_consistency(Some(shared.options.serial_consistency.level()));
        batch.set_request_timeout(Some(shared.options.request_timeout));
        let fallthrough = scylla::policies::retry::FallthroughRetryPolicy;
        batch.set_retry_policy(Some(std::sync::Arc::new(fallthrough)));
        let key = [text(table.keyspace()), text(table.table())];
        batch.append_statement(shared.statements.move_epoch.clone());
        let epoch = Some(CqlValue::BigInt(edit.epoch()));
        let next = Some(CqlValue::Int(signed(edit.next_version)));
        let pinned = edit.pinned.map(|number| CqlValue::Int(signed(number)));
        let was = edit.epoch_was.map(CqlValue::BigInt);
        let [keyspace, name] = key.clone();
        let mut values = vec![vec![epoch, next, pinned, keyspace, name, was]];
        for (row, was) in &edit.rows {
            let mut cells = cells(row);
            match was {
                None => {
                    batch.append_statement(shared.statements.insert.clone());
                    cells.extend(key.clone());
                }
                Some(status) => {
                    batch.append_statement(shared.statements.update.clone());
                    cells.pop();
                    cells.extend(key.clone());
                    cells.extend([text(&row.run_id), text(&status.to_string())]);
                }
            }
            values.push(cells);
        }
        let sent = Box::pin(shared.session.batch(&batch, values)).await;
        applied(sent.map_err(|error| request_error("change the catalog", error))?)
    }

    async fn beat(
        &self,
        table: &TableName,
        run_id: &str,
        publisher: Uuid,
        story: &Story,
    ) -> Result<bool, BackendError> {
        let shared = &self.shared;
        let now = CqlTimestamp(shared.ports.clock.now().as_millis());
        let values = (
            now,
            long(story.progress),
            story.progress_checksum,
            long(story.rows),
            long(story.bad_rows),
            story.table_id,
            table.keyspace(),
            table.table(),
            run_id,
            publisher,
        );
        let sent = shared.session.execute_unpaged(&shared.statements.beat, values);
        let sent = Box::pin(sent).await;
        applied(sent.map_err(|error| request_error("record a heartbeat", error))?)
    }

    async fn hold(&self, table: &TableName, lease: &ViewLease) -> Result<(), BackendError> {
        let expires = CqlTimestamp(lease.expires_at.as_millis());
        let (keyspace, name) = (table.keyspace(), table.table());
        let values = (keyspace, name, signed(lease.version), lease.lease_id, expires);
        self.shared.write(&self.shared.statements.hold, values).await
    }

    async fn release(&self, table: &TableName, lease: &ViewLease) -> Result<(), BackendError> {
        let (keyspace, name) = (table.keyspace(), table.table());
        let values = (keyspace, name, signed(lease.version), lease.lease_id);
        self.shared.write(&self.shared.statements.release, values).await
    }

    async fn leases(&self, table: &TableName) -> Result<Vec<ViewLease>, BackendError> {
        let values = (table.keyspace(), table.table());
        let rows = self.shared.read(&self.shared.statements.leases, values).await?;
        let rows = rows.into_rows_result().map_err(damaged)?;
        let mut leases = Vec::new();
        for row in rows.rows::<(i32, Uuid, Option<CqlTimestamp>)>().map_err(damaged)? {
            let (version, lease_id, expires_at) = row.map_err(damaged)?;
            let expires_at = time(expires_at).unwrap_or(Timestamp::EPOCH);
            leases.push(ViewLease { version: number(version), lease_id, expires_at });
        }
        Ok(leases)
    }
}

impl Shared {
    async fn read(
        &self,
        statement: &PreparedStatement,
        values: impl SerializeRow,
    ) -> Result<QueryResult, BackendError> {
        let read = Box::pin(self.session.execute_unpaged(statement, values)).await;
        Ok(read.map_err(read_error)?)
    }

    async fn write(
        &self,
        statement: &PreparedStatement,
        values: impl SerializeRow,
    ) -> Result<(), BackendError> {
        let written = Box::pin(self.session.execute_unpaged(statement, values)).await;
        written.map_err(|error| request_error("write a lease", error))?;
        Ok(())
    }
}

/// Whether a conditional statement was applied; the column is found by name, because the others
/// differ with the outcome.
fn applied(result: QueryResult) -> Result<bool, BackendError> {
    let result = result.into_rows_result().map_err(damaged)?;
    let place = result.column_specs().get_by_name("[applied]").map(|(place, _)| place);
    let place =
        place.ok_or_else(|| damaged("a conditional write was answered without its outcome"))?;
    for row in result.rows::<Row>().map_err(damaged)? {
        let row = row.map_err(damaged)?;
        if matches!(row.columns.get(place), Some(Some(CqlValue::Boolean(true)))) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// In the order of [`super::statements::COLUMNS`].
fn cells(row: &TableVersion) -> Vec<Option<CqlValue>> {
    let at = |time: Timestamp| Some(CqlValue::Timestamp(CqlTimestamp(time.as_millis())));
    let count = |number: u64| Some(CqlValue::BigInt(long(number)));
    let json = |text: Result<String, serde_json::Error>| text.ok().map(CqlValue::Text);
    let story = &row.story;
    vec![
        at(row.data_ts),
        at(row.create_ts),
        text(&row.version_name),
        text(&row.status.to_string()),
        Some(CqlValue::Int(signed(row.number))),
        Some(CqlValue::Boolean(row.excluded)),
        at(row.heartbeat_ts),
        Some(CqlValue::Uuid(row.publisher)),
        row.deleting_ts.and_then(at),
        count(story.rows),
        count(story.bad_rows),
        Some(CqlValue::BigInt(story.checksum)),
        count(story.progress),
        Some(CqlValue::BigInt(story.progress_checksum)),
        text(&story.source),
        text(&story.who),
        text(&story.schema),
        json(serde_json::to_string(&story.checks)),
        story.forced.as_ref().and_then(|forced| json(serde_json::to_string(forced))),
        json(serde_json::to_string(&story.null_rates)),
        story.failure.as_deref().and_then(text),
        story.table_id.map(CqlValue::Uuid),
        Some(CqlValue::Uuid(row.change_id)),
        text(&row.run_id),
    ]
}

#[derive(Debug, DeserializeRow)]
struct CatalogRow {
    run_id: Option<String>,
    data_ts: Option<CqlTimestamp>,
    create_ts: Option<CqlTimestamp>,
    version_name: Option<String>,
    status: Option<String>,
    version: Option<i32>,
    excluded: Option<bool>,
    heartbeat_ts: Option<CqlTimestamp>,
    publisher: Option<Uuid>,
    deleting_ts: Option<CqlTimestamp>,
    row_count: Option<i64>,
    bad_rows: Option<i64>,
    checksum: Option<i64>,
    progress: Option<i64>,
    progress_checksum: Option<i64>,
    source: Option<String>,
    who: Option<String>,
    schema_cql: Option<String>,
    checks: Option<String>,
    forced: Option<String>,
    null_rates: Option<String>,
    failure: Option<String>,
    table_id: Option<Uuid>,
    change_id: Option<Uuid>,
    next_version: Option<i32>,
    pinned: Option<i32>,
    catalog_epoch: Option<i64>,
}

impl CatalogRow {
    fn version(self) -> Result<TableVersion, BackendError> {
        let run_id = self.run_id.unwrap_or_default();
        let missing = |column: &str| damaged(format!("run {run_id} has no {column}"));
        let status: Status =
            self.status.ok_or_else(|| missing("status"))?.parse().map_err(damaged::<String>)?;
        let data_ts = time(self.data_ts).ok_or_else(|| missing("data_ts"))?;
        let count = |number: Option<i64>| u64::try_from(number.unwrap_or(0)).unwrap_or(0);
        let story = Story {
            who: self.who.unwrap_or_default(),
            source: self.source.unwrap_or_default(),
            schema: self.schema_cql.unwrap_or_default(),
            progress: count(self.progress),
            progress_checksum: self.progress_checksum.unwrap_or(0),
            rows: count(self.row_count),
            bad_rows: count(self.bad_rows),
            checksum: self.checksum.unwrap_or(0),
            null_rates: from_json(self.null_rates)?.unwrap_or_default(),
            checks: from_json(self.checks)?.unwrap_or_default(),
            forced: from_json(self.forced)?,
            failure: self.failure,
            table_id: self.table_id,
        };
        Ok(TableVersion {
            number: number(self.version.ok_or_else(|| missing("version"))?),
            version_name: self.version_name.ok_or_else(|| missing("version_name"))?,
            data_ts,
            create_ts: time(self.create_ts).unwrap_or(data_ts),
            status,
            excluded: self.excluded.unwrap_or(false),
            story,
            publisher: self.publisher.unwrap_or_default(),
            heartbeat_ts: time(self.heartbeat_ts).unwrap_or(data_ts),
            deleting_ts: time(self.deleting_ts),
            change_id: self.change_id.unwrap_or_default(),
            run_id,
        })
    }
}

fn from_json<T: DeserializeOwned>(text: Option<String>) -> Result<Option<T>, BackendError> {
    text.map(|text| serde_json::from_str(&text)).transpose().map_err(damaged)
}

fn time(time: Option<CqlTimestamp>) -> Option<Timestamp> {
    time.map(|time| Timestamp::from_millis(time.0))
}

fn text(text: &str) -> Option<CqlValue> {
    Some(CqlValue::Text(text.to_owned()))
}

fn number(signed: i32) -> u32 {
    u32::try_from(signed).unwrap_or(0)
}

fn signed(number: u32) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}

fn long(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

pub(super) fn damaged<E: std::fmt::Display>(error: E) -> BackendError {
    Error::Corrupt { message: error.to_string() }.into()
}
