//! Publishing under a name: the epoch is checked in the transaction that publishes.

use helenus_sqlite::Engine;
use rusqlite::{Connection, OptionalExtension};

use super::records;
use crate::contract::{Error, Publisher, Transaction};

/// The publisher of a name in the file.
#[derive(Debug)]
pub struct EmbeddedPublisher {
    engine: Engine,
    name: String,
    epoch: i64,
    /// Partitions of topics that are made on the way.
    create_topics: Option<u32>,
}

impl EmbeddedPublisher {
    pub(super) async fn take(
        engine: Engine,
        name: String,
        create_topics: Option<u32>,
    ) -> Result<Self, Error> {
        let taken = name.clone();
        let epoch = engine
            .write(move |db| -> Result<i64, Error> {
                let mut raise = db.prepare_cached(
                    "INSERT INTO helenus_publishers VALUES (?1, 1)
                     ON CONFLICT DO UPDATE SET epoch = epoch + 1 RETURNING epoch",
                )?;
                Ok(raise.query_row([&taken], |row| row.get(0))?)
            })
            .await?;
        Ok(EmbeddedPublisher { engine, name, epoch, create_topics })
    }
}

impl Publisher for EmbeddedPublisher {
    async fn publish(&mut self, transaction: Transaction) -> Result<(), Error> {
        let (name, epoch, create) = (self.name.clone(), self.epoch, self.create_topics);
        self.engine
            .write(move |db| {
                check(db, &name, epoch)?;
                for record in &transaction.records {
                    records::append(db, record, create)?;
                }
                match &transaction.marker {
                    Some(marker) => records::mark(db, marker),
                    None => Ok(()),
                }
            })
            .await
    }

    async fn finish(self) -> Result<(), Error> {
        Ok(())
    }
}

fn check(db: &Connection, name: &str, epoch: i64) -> Result<(), Error> {
    let mut query = db.prepare_cached("SELECT epoch FROM helenus_publishers WHERE name = ?1")?;
    let current: Option<i64> = query.query_row([name], |row| row.get(0)).optional()?;
    if current == Some(epoch) {
        return Ok(());
    }
    Err(Error::Fenced { name: name.to_owned(), committing: false })
}
