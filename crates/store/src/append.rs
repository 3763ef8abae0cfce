//! The part of an append that every backend shares: values in, values out, nothing sent.
//!
//! [`Plan`] is a checked append with everything assigned that does not depend on the stream;
//! [`Memory`] is what a stream remembers of an operation, and [`Plan::settle`] what follows from
//! it. Both backends answer alike because neither decides anything itself.

mod plan;
mod settle;
#[cfg(test)]
mod tests;

pub use plan::Bounds;
pub(crate) use plan::{Age, Plan, PlannedEvent, Span};
pub(crate) use settle::{Memory, State};
