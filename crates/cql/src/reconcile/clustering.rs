//! Places in a partition: rows, and the cuts between rows at which ranges begin and end.

use std::cmp::Ordering;
use std::sync::Arc;

use super::Error;
use crate::compare::compare;
use crate::schema::{ClusteringOrder, Table};
use crate::update::{Bound, Side};
use crate::value::Value;

/// Clustering values, ordered as the table orders its rows.
#[derive(Debug, Clone)]
pub struct ClusteringKey {
    order: Arc<[ClusteringOrder]>,
    values: Box<[Option<Box<[u8]>>]>,
}

impl ClusteringKey {
    /// Takes clustering values, or the first few of them, if they are values of their columns.
    pub fn new(table: &Table, values: &[Option<&[u8]>]) -> Result<Self, Error> {
        for (column, value) in table.clustering.iter().zip(values) {
            if let Some(bytes) = value {
                Value::decode(&column.ty, bytes)
                    .map_err(|error| Error::value(&column.name, error))?;
            }
        }
        let values = values.iter().map(|value| value.map(Into::into)).collect();
        Ok(Self { order: Arc::clone(table.clustering_order()), values })
    }

    /// The values; `None` is a null.
    pub fn values(&self) -> impl Iterator<Item = Option<&[u8]>> {
        self.values.iter().map(Option::as_deref)
    }

    /// Compares as many values as both have.
    fn compare_common(&self, other: &Self) -> Ordering {
        let pairs = self.values().zip(other.values()).zip(self.order.iter());
        let orders = pairs.map(|((left, right), column)| match (left, right) {
            (Some(left), Some(right)) if column.descending => compare(&column.ty, right, left),
            (Some(left), Some(right)) => compare(&column.ty, left, right),
            // Nulls come first in either direction.
            (left, right) => left.is_some().cmp(&right.is_some()),
        });
        orders.fold(Ordering::Equal, Ordering::then)
    }
}

impl Ord for ClusteringKey {
    fn cmp(&self, other: &Self) -> Ordering {
        self.compare_common(other).then_with(|| self.values.len().cmp(&other.values.len()))
    }
}

impl PartialOrd for ClusteringKey {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for ClusteringKey {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for ClusteringKey {}

/// A point between rows: before or behind all that begin with the same values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cut {
    prefix: ClusteringKey,
    side: Side,
}

impl Cut {
    /// The point a range marker stands for.
    pub fn new(table: &Table, bound: &Bound<'_>) -> Result<Self, Error> {
        Ok(Self { prefix: ClusteringKey::new(table, &bound.values)?, side: bound.side })
    }

    /// Where the cut lies seen from a row: `Less` if it is before the row.
    #[must_use]
    pub fn compare_row(&self, row: &ClusteringKey) -> Ordering {
        self.prefix.compare_common(row).then(self.towards_longer())
    }

    /// Where this cut lies seen from what begins with its own values.
    const fn towards_longer(&self) -> Ordering {
        match self.side {
            Side::Before => Ordering::Less,
            Side::After => Ordering::Greater,
        }
    }
}

impl Ord for Cut {
    fn cmp(&self, other: &Self) -> Ordering {
        let by_length = match self.prefix.values.len().cmp(&other.prefix.values.len()) {
            Ordering::Less => self.towards_longer(),
            Ordering::Equal => self.side.cmp(&other.side),
            Ordering::Greater => other.towards_longer().reverse(),
        };
        self.prefix.compare_common(&other.prefix).then(by_length)
    }
}

impl PartialOrd for Cut {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
