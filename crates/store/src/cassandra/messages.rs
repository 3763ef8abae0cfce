//! Outbox, dispatch store, inbox and leases on a cluster.
//!
//! Two tables hold a message: `outbox_messages` is what is true of it, `outbox_pending_dispatch` is
//! how it is found. Whatever makes a message findable is written before what makes it true, and
//! readers look at what is true, so a crash anywhere leaves a message that is found or one that
//! never was.

mod begin;
mod dispatch;
mod enqueue;
mod fold;
mod inbox;
mod leases;
mod memory;
mod read;
mod reconcile;
mod report;
mod reshard;
mod rows;
mod scan;
mod stamp;
mod statements;
mod suspects;
mod sweep;
mod tables;
mod upkeep;
mod watermark;

use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};

use scylla::client::session::Session;
use uuid::Uuid;

use super::conditional::select;
use super::options::Names;
use super::{Error, Options};
use crate::Ports;
use crate::contract::Identity;
use memory::Memory;
use rows::{MessageRow, StateRow};
use stamp::Stamps;
use statements::Statements;

/// The messaging tables, ready for use.
#[derive(Debug)]
pub(super) struct Messages {
    session: Arc<Session>,
    statements: Statements,
    store_id: Uuid,
    shards: AtomicU16,
    stamps: Stamps,
    memory: Memory,
    leases: leases::Statements,
    inbox: inbox::Statements,
    upkeep: upkeep::Statements,
}

impl Messages {
    pub(super) async fn open(
        session: Arc<Session>,
        names: &Names,
        options: &Options,
        ports: &Ports,
    ) -> Result<Self, Error> {
        let identity = tables::bootstrap(&session, names, options, &*ports.random).await?;
        let statements = Statements::prepare(&session, names, options).await?;
        let Identity { store_id, shards } = identity;
        let (shards, memory) = (AtomicU16::new(shards), Memory::default());
        let stamps = Stamps::new(&*ports.random);
        let leases = leases::Statements::prepare(&session, names, options).await?;
        let inbox = inbox::Statements::prepare(&session, names, options).await?;
        let upkeep = upkeep::Statements::prepare(&session, names, options).await?;
        Ok(Messages {
            session,
            statements,
            store_id,
            shards,
            stamps,
            memory,
            leases,
            inbox,
            upkeep,
        })
    }

    fn shards(&self) -> u16 {
        self.shards.load(Ordering::Relaxed)
    }

    /// Reads how many shards there are: another process may have changed it.
    async fn look_at_identity(&self) -> Result<Identity, Error> {
        let rows = select(&self.session, &self.upkeep.shards, ()).await?;
        let row = rows.maybe_first_row::<(Option<String>,)>();
        let row = row.map_err(|error| Error::corrupt(error.to_string()))?;
        let recorded = row.and_then(|(value,)| value?.parse().ok());
        let shards = recorded.ok_or_else(|| Error::corrupt("setting shards has no value"))?;
        if self.shards.swap(shards, Ordering::Relaxed) != shards {
            self.memory.clear();
        }
        Ok(Identity { store_id: self.store_id, shards })
    }

    /// What is true of a message.
    async fn message(&self, message_id: &str) -> Result<Option<MessageRow>, Error> {
        let rows = select(&self.session, &self.statements.message, (message_id,)).await?;
        rows.maybe_first_row().map_err(|error| Error::corrupt(error.to_string()))
    }

    /// The same, without its content.
    async fn state(&self, message_id: &str) -> Result<Option<StateRow>, Error> {
        let rows = select(&self.session, &self.statements.state, (message_id,)).await?;
        rows.maybe_first_row().map_err(|error| Error::corrupt(error.to_string()))
    }
}
