//! How a subscription stands, for people and for meters.

use std::time::Duration;

use helenus_model::Timestamp;
use serde::Serialize;

use super::super::Position;
use super::{OnPoison, SubscriptionName};

/// A subscription as it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubscriptionStatus {
    /// Its name.
    pub name: SubscriptionName,
    /// What follows when an event cannot be handled.
    pub on_poison: OnPoison,
    /// Its lanes, by number.
    pub lanes: Vec<LaneStatus>,
    /// Events after the checkpoint of its slowest lane, at most: other lanes may have handled some.
    pub lag_events: u64,
    /// How long ago the first of them was appended.
    pub lag: Duration,
    /// Events set aside.
    pub parked: u64,
    /// The projection it fills, if it fills one.
    pub projection: Option<Generation>,
}

/// A lane as it stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LaneStatus {
    /// Its number.
    pub lane: u32,
    /// The last position its owners are done with.
    pub position: Position,
    /// Who holds its lease, expired or not.
    pub owner: Option<String>,
    /// When others may take it.
    pub expires_at: Option<Timestamp>,
    /// How often the next event has failed.
    pub attempts: u32,
    /// What its handler said last.
    pub error: Option<String>,
}

/// One build of a projection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Generation {
    /// The projection.
    pub projection: SubscriptionName,
    /// The version of the code that fills it.
    pub version: String,
    /// Which build of the store this is; each has tables of its own.
    pub generation: i64,
    /// Whether it is the one that is read, not one being built beside it.
    pub is_live: bool,
    /// Its tables as readers name them.
    pub tables: Vec<String>,
}
