//! What became of records that were handed to the library together.
//!
//! One of these serves a whole request: a channel for each record, which is how the library's own
//! future works, takes longer than sending it.

use std::sync::{Arc, Mutex, PoisonError};

use rdkafka::Message as _;
use rdkafka::error::KafkaError;
use rdkafka::producer::DeliveryResult;
use tokio::sync::Notify;

use super::error::{code_of, is_refusal};

/// The records of a request, until each of them is delivered or given up.
pub(super) struct Deliveries {
    state: Mutex<State>,
    ended: Notify,
}

struct State {
    left: usize,
    places: Vec<Option<Place>>,
    failure: Option<KafkaError>,
    may_have_arrived: bool,
}

/// The partition and the offset of a record.
pub(super) type Place = (i32, i64);

/// What all deliveries came to.
pub(super) struct Outcome {
    /// Where each record is, if it was delivered.
    pub(super) places: Vec<Option<Place>>,
    /// Why the first one that was not, was not.
    pub(super) failure: Option<KafkaError>,
    /// Whether one that is not known to be delivered may be there all the same.
    pub(super) may_have_arrived: bool,
}

/// Goes with a record through the library and comes back when it is delivered.
pub(super) struct Receipt {
    deliveries: Arc<Deliveries>,
    index: usize,
}

impl Deliveries {
    /// Of so many records.
    pub(super) fn new(records: usize) -> Arc<Self> {
        let state = State {
            left: records,
            places: vec![None; records],
            failure: None,
            may_have_arrived: false,
        };
        Arc::new(Deliveries { state: Mutex::new(state), ended: Notify::new() })
    }

    /// The receipt of the record at `index`.
    pub(super) fn receipt(self: &Arc<Self>, index: usize) -> Box<Receipt> {
        Box::new(Receipt { deliveries: Arc::clone(self), index })
    }

    fn with<T>(&self, look: impl FnOnce(&mut State) -> T) -> T {
        look(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The records from `index` on were not handed over, because of this.
    pub(super) fn not_sent(&self, index: usize, why: KafkaError) {
        self.with(|state| {
            state.left = state.left.saturating_sub(state.places.len().saturating_sub(index));
            state.failure.get_or_insert(why);
        });
    }

    /// How many are under way.
    fn left(&self) -> usize {
        self.with(|state| state.left)
    }

    /// Waits until nothing is under way.
    pub(super) async fn over(&self) {
        while self.left() > 0 {
            self.ended.notified().await;
        }
    }

    /// What is known now; a record under way may arrive.
    pub(super) fn outcome(&self) -> Outcome {
        self.with(|state| Outcome {
            places: std::mem::take(&mut state.places),
            failure: state.failure.take(),
            may_have_arrived: state.may_have_arrived || state.left > 0,
        })
    }
}

impl Receipt {
    /// Takes down what became of the record.
    pub(super) fn ended(self, result: &DeliveryResult<'_>) {
        let is_last = self.deliveries.with(|state| {
            match result {
                Ok(message) => {
                    if let Some(place) = state.places.get_mut(self.index) {
                        *place = Some((message.partition(), message.offset()));
                    }
                }
                Err((error, _)) => {
                    state.may_have_arrived |= !code_of(error).is_some_and(is_refusal);
                    state.failure.get_or_insert_with(|| error.clone());
                }
            }
            state.left = state.left.saturating_sub(1);
            state.left == 0
        });
        if is_last {
            self.deliveries.ended.notify_one();
        }
    }
}
