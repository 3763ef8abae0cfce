//! What `/engine/snapshot` says a running service is.

use serde::Serialize;

/// A service's own description: what it can do, on what, configured how, and what it promises.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Manifest {
    /// The program.
    pub engine: &'static str,
    /// Its version.
    pub version: &'static str,
    /// Keys of what it can do.
    pub capabilities: Vec<String>,
    /// What it offers to whoever integrates with it.
    pub technologies: Technologies,
    /// How it is configured, without secrets.
    pub config: serde_json::Value,
    /// What it promises as configured.
    pub guarantees: Vec<Guarantee>,
}

/// The technologies that are active.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Technologies {
    /// Outbox and inbox.
    pub event_driven_integration: Integration,
}

/// Where messages come from and where receipts are kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Integration {
    /// Outboxes.
    pub outbox_producers: Vec<OutboxProducer>,
    /// Inboxes.
    pub inbox_stores: Vec<InboxStore>,
}

/// An outbox.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct OutboxProducer {
    /// Its name.
    pub id: String,
    /// What it is kept in.
    pub provider: &'static str,
    /// How a message is staged.
    pub mode: &'static str,
}

/// An inbox.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct InboxStore {
    /// Its name.
    pub id: String,
    /// What it is kept in.
    pub provider: &'static str,
}

/// A promise, and the test that holds it to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Guarantee {
    /// Its name.
    pub id: &'static str,
    /// What is promised.
    pub text: &'static str,
    /// The test, as `FILE::NAME` in the source repository.
    pub test: &'static str,
}
