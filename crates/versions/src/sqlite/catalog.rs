//! The catalog's contract, kept by a file: what is a conditional batch on Cassandra is a transaction
//! that looks before it writes.

use helenus_cql::rewrite::TableName;
use helenus_model::{BackendError, Timestamp};
use helenus_sqlite::Error;
use rusqlite::{Connection, OptionalExtension, Row, params};
use uuid::Uuid;

use super::SqliteVersions;
use crate::catalog::{Catalog, Edit, Snapshot, Status, Story, TableVersion, ViewLease};

impl Catalog for SqliteVersions {
    async fn snapshot(&self, table: &TableName) -> Result<Snapshot, BackendError> {
        let table = table.clone();
        self.engine.read(move |db| Ok(snapshot(db, &table)?)).await
    }

    async fn tables(&self) -> Result<Vec<TableName>, BackendError> {
        self.engine
            .read(|db| {
                let mut query = db
                    .prepare_cached(
                        "SELECT key_space, \"table\" FROM helenus_table_catalogs ORDER BY 1, 2",
                    )
                    .map_err(Error::from)?;
                let name = |row: &Row<'_>| -> rusqlite::Result<TableName> {
                    let (keyspace, table): (String, String) = (row.get(0)?, row.get(1)?);
                    Ok(TableName::new(&keyspace, &table))
                };
                let rows = query.query_map([], name).map_err(Error::from)?;
                let rows = rows.collect::<Result<Vec<_>, _>>().map_err(Error::from)?;
                Ok(rows)
            })
            .await
    }

    async fn commit(&self, table: &TableName, edit: Edit) -> Result<bool, BackendError> {
        let table = table.clone();
        self.engine.write(move |db| Ok(commit(db, &table, &edit)?)).await
    }

    async fn beat(
        &self,
        table: &TableName,
        run_id: &str,
        publisher: Uuid,
        story: &Story,
    ) -> Result<bool, BackendError> {
        let (table, run_id, now) = (table.clone(), run_id.to_owned(), self.ports.clock.now());
        let story = json(story)?;
        self.engine
            .write(move |db| {
                let mut update = db
                    .prepare_cached(
                        "UPDATE helenus_table_versions SET heartbeat_ts = ?1, story = ?2
                     WHERE key_space = ?3 AND \"table\" = ?4 AND run_id = ?5
                       AND status = 'PENDING' AND publisher = ?6",
                    )
                    .map_err(Error::from)?;
                let publisher = publisher.to_string();
                let (keyspace, name) = (table.keyspace(), table.table());
                let values = params![now.as_millis(), story, keyspace, name, run_id, publisher];
                Ok(update.execute(values).map_err(Error::from)? == 1)
            })
            .await
    }

    async fn hold(&self, table: &TableName, lease: &ViewLease) -> Result<(), BackendError> {
        let (table, lease) = (table.clone(), lease.clone());
        self.engine
            .write(move |db| {
                let mut upsert = db
                    .prepare_cached(
                        "INSERT OR REPLACE INTO helenus_version_leases VALUES (?1, ?2, ?3, ?4, ?5)",
                    )
                    .map_err(Error::from)?;
                let (keyspace, name, id) = (table.keyspace(), table.table(), lease.lease_id);
                let expires = lease.expires_at.as_millis();
                let values = params![keyspace, name, lease.version, id.to_string(), expires];
                upsert.execute(values).map_err(Error::from)?;
                Ok(())
            })
            .await
    }

    async fn release(&self, table: &TableName, lease: &ViewLease) -> Result<(), BackendError> {
        let (table, lease) = (table.clone(), lease.clone());
        self.engine
            .write(move |db| {
                let mut delete = db
                    .prepare_cached(
                        "DELETE FROM helenus_version_leases
                     WHERE key_space = ?1 AND \"table\" = ?2 AND version = ?3 AND lease_id = ?4",
                    )
                    .map_err(Error::from)?;
                let id = lease.lease_id.to_string();
                let values = params![table.keyspace(), table.table(), lease.version, id];
                delete.execute(values).map_err(Error::from)?;
                Ok(())
            })
            .await
    }

    async fn leases(&self, table: &TableName) -> Result<Vec<ViewLease>, BackendError> {
        let table = table.clone();
        self.engine
            .read(move |db| {
                let mut query = db
                    .prepare_cached(
                        "SELECT version, lease_id, expires_at FROM helenus_version_leases
                     WHERE key_space = ?1 AND \"table\" = ?2",
                    )
                    .map_err(Error::from)?;
                let lease = |row: &Row<'_>| {
                    Ok(ViewLease {
                        version: row.get(0)?,
                        lease_id: id(row, 1)?,
                        expires_at: Timestamp::from_millis(row.get(2)?),
                    })
                };
                let rows = query.query_map([table.keyspace(), table.table()], lease);
                let rows = rows.map_err(Error::from)?.collect::<Result<Vec<_>, _>>();
                Ok(rows.map_err(Error::from)?)
            })
            .await
    }
}

fn snapshot(db: &Connection, table: &TableName) -> Result<Snapshot, Error> {
    let key = [table.keyspace(), table.table()];
    let mut statics = db.prepare_cached(
        "SELECT catalog_epoch, next_version, pinned FROM helenus_table_catalogs
         WHERE key_space = ?1 AND \"table\" = ?2",
    )?;
    let statics = statics.query_row(key, |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)));
    let (epoch, next_version, pinned) = match statics.optional()? {
        Some((epoch, next_version, pinned)) => (Some(epoch), next_version, pinned),
        None => (None, 1, None),
    };
    let mut query = db.prepare_cached(
        "SELECT * FROM helenus_table_versions WHERE key_space = ?1 AND \"table\" = ?2
         ORDER BY version",
    )?;
    let versions = query.query_map(key, version)?.collect::<Result<Vec<_>, _>>()?;
    Ok(Snapshot { epoch, next_version, pinned, versions })
}

fn commit(db: &Connection, table: &TableName, edit: &Edit) -> Result<bool, Error> {
    let now = snapshot(db, table)?;
    let status = |run_id: &str| now.run(run_id).map(|row| row.status);
    let holds = edit.rows.iter().all(|(row, was)| status(&row.run_id) == *was);
    if now.epoch != edit.epoch_was || !holds {
        return Ok(false);
    }
    let mut statics = db.prepare_cached(
        "INSERT OR REPLACE INTO helenus_table_catalogs VALUES (?1, ?2, ?3, ?4, ?5)",
    )?;
    let (keyspace, name) = (table.keyspace(), table.table());
    statics.execute(params![keyspace, name, edit.next_version, edit.pinned, edit.epoch()])?;
    let mut insert = db.prepare_cached(
        "INSERT OR REPLACE INTO helenus_table_versions
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)",
    )?;
    for (row, _) in &edit.rows {
        insert.execute(params![
            keyspace,
            name,
            row.run_id,
            row.data_ts.as_millis(),
            row.create_ts.as_millis(),
            row.version_name,
            row.status.to_string(),
            row.number,
            row.excluded,
            row.heartbeat_ts.as_millis(),
            row.publisher.to_string(),
            row.deleting_ts.map(Timestamp::as_millis),
            json(&row.story)?,
            row.change_id.to_string(),
        ])?;
    }
    Ok(true)
}

fn version(row: &Row<'_>) -> rusqlite::Result<TableVersion> {
    let time = |name: &str| row.get(name).map(Timestamp::from_millis);
    let status: String = row.get("status")?;
    let story: String = row.get("story")?;
    let deleting: Option<i64> = row.get("deleting_ts")?;
    Ok(TableVersion {
        run_id: row.get("run_id")?,
        number: row.get("version")?,
        version_name: row.get("version_name")?,
        data_ts: time("data_ts")?,
        create_ts: time("create_ts")?,
        status: status.parse::<Status>().map_err(unreadable)?,
        excluded: row.get("excluded")?,
        story: serde_json::from_str(&story).map_err(|error| unreadable(error.to_string()))?,
        publisher: id(row, "publisher")?,
        heartbeat_ts: time("heartbeat_ts")?,
        deleting_ts: deleting.map(Timestamp::from_millis),
        change_id: id(row, "change_id")?,
    })
}

fn id(row: &Row<'_>, column: impl rusqlite::RowIndex) -> rusqlite::Result<Uuid> {
    let text: String = row.get(column)?;
    text.parse().map_err(|error: uuid::Error| unreadable(error.to_string()))
}

fn unreadable(message: String) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(0, rusqlite::types::Type::Text, message.into())
}

fn json(story: &Story) -> Result<String, Error> {
    serde_json::to_string(story).map_err(|error| Error::Corrupt { message: error.to_string() })
}
