//! Cassandra's merge: many writes, in any order, any number of times, become one state.
//!
//! Every state here is a join: merging is commutative, associative and idempotent, so segments
//! may be read in any order, twice, or cut into pieces. Rules, from the smallest up:
//!
//! * cells ([`order_cells`]): the higher timestamp wins; at a tie tombstone over expiring over
//!   live, then the later server time, the lower TTL, the larger value;
//! * counters: shard by shard, a tombstone over all increments;
//! * row markers ([`order_liveness`]) and deletions: by timestamp, then by expiry or server time;
//! * a deletion removes what it covers up to and including its own timestamp.
//!
//! Time takes no part in merging. What has expired is decided when rows are read
//! ([`TableState::select`]), so an expired winner still hides what it has beaten. The spelling of
//! clustering values that are equal without being the same (1.0 and 1.00), and of such elements
//! written at one time, is that of the first one applied, as on a node until it flushes the table,
//! which a log does not tell; nothing else depends on the order.
//!
//! ```
//! use helenus_cql::reconcile::TableState;
//! use helenus_cql::schema::Catalog;
//! use helenus_cql::update::{Item, Liveness, PartitionUpdate, RowUpdate, Seconds, Timestamp};
//!
//! let catalog = Catalog::from_document(r#"{
//!     "tables": [{"keyspace_name": "ks", "table_name": "t", "flags": ["compound"],
//!                 "id": "00000000-0000-0000-0000-000000000001"}],
//!     "columns": [{"keyspace_name": "ks", "table_name": "t", "column_name": "id",
//!                  "kind": "partition_key", "position": 0, "type": "int"}]
//! }"#)?;
//! let table = catalog.by_name("ks", "t").expect("the one in the document");
//! let liveness = Some(Liveness { timestamp: Timestamp(1), expiry: None });
//! let row = RowUpdate { liveness, ..RowUpdate::default() };
//! let update = PartitionUpdate {
//!     table, key: &[0, 0, 0, 7], deletion: None, static_row: None, items: vec![Item::Row(row)],
//! };
//! let mut state = TableState::default();
//! state.apply(&update)?;
//! let rows: Result<Vec<_>, _> = state.select(table, Seconds(0)).collect();
//! assert_eq!(rows?, [r#"{"id": 7}"#]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod cell;
mod clustering;
mod column;
mod counter;
mod partition;
mod range;
mod row;
mod select;

use thiserror::Error;

use crate::value::ValueError;

pub use cell::{order_cells, order_liveness};
pub use clustering::{ClusteringKey, Cut};
pub use column::{ColumnKey, ColumnState, ComplexState, ElementKey, Storage};
pub use counter::CounterState;
pub use partition::{PartitionState, TableState};
pub use range::Ranges;
pub use row::{Columns, RowState};
pub use select::Select;

/// Why an update could not be merged, or a state not be shown.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Error {
    /// Bytes that are no value of their column.
    #[error("column {column:?}: {error}")]
    Value {
        /// The column.
        column: Box<str>,
        /// What is wrong with the bytes.
        error: Box<ValueError>,
    },
    /// Range markers that do not pair up.
    #[error("a range marker closes what is not open, or leaves open what it should close")]
    Markers,
    /// A partition key that does not split into the table's columns.
    #[error("the partition key does not fit the table")]
    Key,
}

impl Error {
    fn value(column: &str, error: ValueError) -> Self {
        Self::Value { column: column.into(), error: Box::new(error) }
    }
}
