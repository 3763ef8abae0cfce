//! Properties of the merge, seen from outside the crate.

mod history;
mod merge;
