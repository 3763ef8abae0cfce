//! Statements in, outlines and rewritten statements out.
//!
//! One binary for everything that goes through the public interface of the lexer, the parser and
//! the rewriter: tables of examples, and properties over generated CQL.

#![allow(
    clippy::indexing_slicing,
    clippy::string_slice,
    clippy::too_many_lines,
    clippy::unwrap_used,
    reason = "tables of examples are long, and a helper that panics has failed the test"
)]

mod dialect;
mod generator;
mod outline;
mod properties;
mod rewriting;
mod spelling;
