//! The merge seen from outside the crate: its laws on random histories, its rules one by one.

mod history;
mod merge;
mod rules;
mod values;
mod views;
