//! Outbox to broker: read what is due, publish it, settle it.
//!
//! [`drain`] does this until nothing is due. Delivery is at least once: a crash between publishing
//! and settling publishes again. Records carry the message id, so a consumer with an inbox takes
//! each once.

mod drain;
mod record;

pub use drain::{DrainError, Drained, drain};
pub use helenus_model::Backoff;
pub use record::record;
