//! Where rows are replicated to; a folder per backend.

#[cfg(feature = "postgres")]
pub mod postgres;
