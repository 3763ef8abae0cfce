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

/// Records a number of shards; from then on it was chosen.
pub(super) fn record_shards(db: &Connection, shards: u16) -> Result<(), Error> {
    db.prepare_cached("UPDATE helenus_settings SET value = ?1 WHERE name = 'shards'")?
        .execute([shards.to_string()])?;
    db.prepare_cached("INSERT OR IGNORE INTO helenus_settings VALUES ('shards_chosen', 'yes')")?
        .execute([])?;
    Ok(())
}

/// The number of shards that stands, if it was chosen.
///
/// Every file begins with the usual number. It stands once somebody has opened the file, or staged
/// anything: changing it below others would hide messages from them.
pub(super) fn chosen_shards(db: &Connection) -> Result<Option<u16>, Error> {
    let mut query = db.prepare_cached(
        "SELECT EXISTS (SELECT 1 FROM helenus_settings WHERE name = 'shards_chosen')
             OR EXISTS (SELECT 1 FROM helenus_outbox_messages)",
    )?;
    let is_chosen: bool = query.query_row([], |row| row.get(0))?;
    is_chosen.then(|| setting(db, "shards")).transpose()
}

/// Chooses, unless somebody has; gives the number that stands.
pub(super) fn choose_shards(db: &Connection, wanted: Option<u16>) -> Result<u16, Error> {
    let stands = chosen_shards(db)?;
    let shards = match stands.or(wanted) {
        Some(shards) => shards,
        None => setting(db, "shards")?,
    };
    record_shards(db, shards)?;
    Ok(shards)
}
