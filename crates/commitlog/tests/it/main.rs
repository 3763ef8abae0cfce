//! Segments of real nodes, whole and damaged.
//!
//! `tests/fixtures` holds small segments with the schema and with what `SELECT JSON` answered on
//! the node that wrote them; its README says how they were made.

mod damage;
mod ddl;
mod events;
mod fixtures;
mod real;
mod tail;
