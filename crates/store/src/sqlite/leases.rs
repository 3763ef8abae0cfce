//! Leases in the file.

use std::time::Duration;

use helenus_model::Timestamp;
use rusqlite::{Connection, OptionalExtension, params};

use super::SqliteStore;
use crate::contract::{Acquired, Error, Lease, Leases};

impl Leases for SqliteStore {
    async fn acquire(&self, name: &str, owner: &str, ttl: Duration) -> Result<Acquired, Error> {
        let (name, owner) = (name.to_owned(), owner.to_owned());
        let now = self.now();
        self.engine.write(move |db| Ok(take(db, &name, &owner, now, now.plus(ttl))?)).await
    }

    async fn renew(&self, lease: &Lease, ttl: Duration) -> Result<Option<Lease>, Error> {
        let lease = Lease { expires_at: self.now().plus(ttl), ..lease.clone() };
        self.engine.write(move |db| Ok(extend(db, &lease)?.then(|| lease.clone()))).await
    }

    async fn release(&self, lease: &Lease) -> Result<(), Error> {
        let lease = lease.clone();
        self.engine.write(move |db| Ok(give_back(db, &lease)?)).await
    }

    async fn holder(&self, name: &str) -> Result<Option<Lease>, Error> {
        let name = name.to_owned();
        self.engine.read(move |db| Ok(find(db, &name)?)).await
    }
}

fn take(
    db: &Connection,
    name: &str,
    owner: &str,
    now: Timestamp,
    expires_at: Timestamp,
) -> Result<Acquired, helenus_sqlite::Error> {
    let mut upsert = db.prepare_cached(
        "INSERT INTO helenus_leases VALUES (?1, ?2, 1, ?3)
         ON CONFLICT (name) DO UPDATE
         SET owner = ?2, epoch = epoch + 1, expires_at_utc = ?3
         WHERE owner IS NULL OR owner = ?2 OR expires_at_utc <= ?4
         RETURNING epoch",
    )?;
    let times = (expires_at.as_millis(), now.as_millis());
    let epoch = upsert.query_row(params![name, owner, times.0, times.1], |row| row.get(0));
    if let Some(epoch) = epoch.optional()? {
        let (name, owner) = (name.to_owned(), owner.to_owned());
        let expires_at = Timestamp::from_millis(times.0);
        return Ok(Acquired::Held(Lease { name, owner, epoch, expires_at }));
    }
    find(db, name)?.map(Acquired::Taken).ok_or_else(|| helenus_sqlite::Error::Corrupt {
        message: format!("lease {name} is neither free nor held"),
    })
}

fn extend(db: &Connection, lease: &Lease) -> Result<bool, helenus_sqlite::Error> {
    let mut update = db.prepare_cached(
        "UPDATE helenus_leases SET expires_at_utc = ?4
         WHERE name = ?1 AND owner = ?2 AND epoch = ?3",
    )?;
    let expires_at = lease.expires_at.as_millis();
    Ok(update.execute(params![lease.name, lease.owner, lease.epoch, expires_at])? == 1)
}

fn give_back(db: &Connection, lease: &Lease) -> Result<(), helenus_sqlite::Error> {
    let mut update = db.prepare_cached(
        "UPDATE helenus_leases SET owner = NULL WHERE name = ?1 AND owner = ?2 AND epoch = ?3",
    )?;
    update.execute(params![lease.name, lease.owner, lease.epoch])?;
    Ok(())
}

fn find(db: &Connection, name: &str) -> Result<Option<Lease>, helenus_sqlite::Error> {
    let mut query = db.prepare_cached(
        "SELECT owner, epoch, expires_at_utc FROM helenus_leases
         WHERE name = ?1 AND owner IS NOT NULL",
    )?;
    let found = query.query_row([name], |row| {
        Ok(Lease {
            name: name.to_owned(),
            owner: row.get("owner")?,
            epoch: row.get("epoch")?,
            expires_at: Timestamp::from_millis(row.get("expires_at_utc")?),
        })
    });
    Ok(found.optional()?)
}
