//! Outbox, dispatch store, inbox and leases on a cluster.
//!
//! Two tables hold a message: `outbox_messages` is what is true of it, `outbox_pending_dispatch` is
//! how it is found. Whatever makes a message findable is written before what makes it true, and
//! readers look at what is true, so a crash anywhere leaves a message that is found or one that
//! never was.

mod dispatch;
mod enqueue;
mod fold;
mod inbox;
mod leases;
mod memory;
mod read;
mod report;
mod rows;
mod stamp;
mod statements;
mod suspects;
mod tables;
mod watermark;

use std::sync::Arc;

use scylla::client::session::Session;

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
    identity: Identity,
    stamps: Stamps,
    memory: Memory,
    leases: leases::Statements,
    inbox: inbox::Statements,
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
        let (stamps, memory) = (Stamps::new(&*ports.random), Memory::new(identity.shards));
        let leases = leases::Statements::prepare(&session, names, options).await?;
        let inbox = inbox::Statements::prepare(&session, names, options).await?;
        Ok(Messages { session, statements, identity, stamps, memory, leases, inbox })
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
