//! Consumers of the feed: they share a subscription's lanes, retry, park, and keep each stream's
//! order.
//!
//! A [`Consumer`] competes for lanes by lease and works on each it holds; what is to be done with an
//! event is an [`Effect`]. [`Each`] runs a handler of the application and moves the checkpoint
//! afterwards: at least once. An effect that writes its output and the checkpoint in one transaction
//! is once; projections in a SQLite file are that.

mod consumer;
mod effect;
mod error;
mod lane;
mod meters;

pub use consumer::{CaughtUp, Consumer, ConsumerOptions};
#[cfg(feature = "sqlite")]
pub(crate) use effect::told;
pub use effect::{BoxError, Carried, Delivery, Each, Effect, Task, Work};
pub use error::ConsumeError;
pub use meters::describe;
