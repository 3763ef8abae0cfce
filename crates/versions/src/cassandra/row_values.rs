//! Rows as the driver binds them: their bytes, as they are.

use scylla::serialize::SerializationError;
use scylla::serialize::row::{RowSerializationContext, SerializeRow};
use scylla::serialize::writers::{CellWriter, RowWriter};

use crate::row::{Cells, Row};

/// A row and its write time.
#[derive(Debug)]
pub(super) struct BoundRow<'a> {
    pub(super) row: &'a Row,
    pub(super) write_time: i64,
    /// A null leaves the column alone, and leaves no tombstone.
    pub(super) unset_nulls: bool,
}

impl SerializeRow for BoundRow<'_> {
    fn serialize(
        &self,
        _: &RowSerializationContext<'_>,
        writer: &mut RowWriter<'_>,
    ) -> Result<(), SerializationError> {
        for value in self.row.values() {
            let cell = writer.make_cell_writer();
            match value {
                None if self.unset_nulls => {
                    cell.set_unset();
                }
                value => bind(value, cell)?,
            }
        }
        bind(Some(&self.write_time.to_be_bytes()), writer.make_cell_writer())
    }

    fn is_empty(&self) -> bool {
        false
    }
}

/// The values of a key.
#[derive(Debug)]
pub(super) struct BoundKey<'a>(pub(super) &'a [u8]);

impl SerializeRow for BoundKey<'_> {
    fn serialize(
        &self,
        _: &RowSerializationContext<'_>,
        writer: &mut RowWriter<'_>,
    ) -> Result<(), SerializationError> {
        Cells(self.0).try_for_each(|value| bind(value, writer.make_cell_writer()))
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

fn bind(value: Option<&[u8]>, cell: CellWriter<'_>) -> Result<(), SerializationError> {
    match value {
        Some(value) => {
            cell.set_value(value).map_err(SerializationError::new)?;
        }
        None => {
            cell.set_null();
        }
    }
    Ok(())
}
