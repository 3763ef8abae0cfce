//! What the file says about itself.

use helenus_sqlite::Error;
use rusqlite::{Connection, OptionalExtension};

use crate::contract::Identity;

pub(super) fn identity(db: &Connection) -> Result<Identity, Error> {
    Ok(Identity { store_id: setting(db, "store_id")?, shards: setting(db, "shards")? })
}

fn setting<T>(db: &Connection, name: &str) -> Result<T, Error>
where
    T: std::str::FromStr<Err: std::fmt::Display>,
{
    let mut query = db.prepare_cached("SELECT value FROM helenus_settings WHERE name = ?1")?;
    let value: Option<String> = query.query_row([name], |row| row.get(0)).optional()?;
    let value = value.ok_or_else(|| Error::Corrupt { message: format!("no setting {name}") })?;
    value.parse().map_err(|error| Error::Corrupt { message: format!("setting {name}: {error}") })
}

pub(super) fn record_shards(db: &Connection, shards: u16) -> Result<(), Error> {
    db.prepare_cached("UPDATE helenus_settings SET value = ?1 WHERE name = 'shards'")?
        .execute([shards.to_string()])?;
    Ok(())
}
