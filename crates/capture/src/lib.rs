//! `cdc_raw` to change events to topics.
//!
//! So far it can say which segments a node has left to be read; see [`segments`].

pub mod segments;
