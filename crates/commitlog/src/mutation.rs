//! The payload of a record: one mutation, that is one or more partition updates.
//!
//! Nothing in a payload says how long an update is, so an update can only be passed over by
//! decoding it, and a table or column that the schema does not know ends the mutation there. The
//! error says where, so that the caller can keep the bytes, learn the schema and come back.

mod partition;
mod row;

use helenus_cql::schema::{Lookup, TableId};
use helenus_cql::update::PartitionUpdate;
use helenus_cql::wire::{Reader, Short};
use thiserror::Error;

use crate::header::Version;

/// A mutation, decoded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mutation<'a> {
    /// What it does, table by table; all in one keyspace and under one partition key.
    pub updates: Vec<PartitionUpdate<'a>>,
}

/// Why a mutation could not be decoded.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{kind} (at byte {offset} of the mutation{})", .table.map_or_else(String::new, |id| format!(", table {id}")))]
pub struct Error {
    /// Where in the payload the decoding stopped.
    pub offset: usize,
    /// The table whose update it was in.
    pub table: Option<TableId>,
    /// What is wrong.
    pub kind: ErrorKind,
}

/// What is wrong with a mutation.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The payload ends inside a field.
    #[error("the record is cut short: {0}")]
    Short(#[from] Short),
    /// A table the schema does not have.
    #[error("the table is not in the schema")]
    UnknownTable,
    /// A column the schema does not have, not even as a dropped one.
    #[error("column {0:?} is not in the schema of its table")]
    UnknownColumn(Box<str>),
    /// Flags that contradict each other or the format.
    #[error("{what} flags {flags:#04x} make no sense")]
    Flags {
        /// Of what.
        what: &'static str,
        /// The byte.
        flags: u8,
    },
    /// A range marker of no known kind.
    #[error("{0} is no kind of range marker")]
    MarkerKind(u8),
    /// More clustering values than the table has columns.
    #[error("{found} clustering values in a table with {columns}")]
    Clustering {
        /// Values in the record.
        found: usize,
        /// Clustering columns of the table.
        columns: usize,
    },
    /// A set of columns that names columns which are not there.
    #[error("the set of columns is malformed")]
    Columns,
    /// A second row in a table that can have one.
    #[error("a second row in a table without clustering columns")]
    SecondRow,
    /// A mutation without updates.
    #[error("the mutation has no updates")]
    NoUpdates,
    /// Bytes behind the last update.
    #[error("{0} bytes are left over")]
    Leftover(usize),
}

impl From<Short> for Box<ErrorKind> {
    fn from(short: Short) -> Self {
        Self::new(short.into())
    }
}

/// Decodes the payload of a record, to its last byte.
///
/// The first example of the format: table `ks.t` with the key `id` and nothing else, a row
/// marker and no columns.
///
/// ```
/// use helenus_commitlog::{Version, mutation};
/// use helenus_cql::schema::Catalog;
///
/// let schema = Catalog::from_document(r#"{
///     "tables": [{"keyspace_name": "ks", "table_name": "t", "flags": ["compound"],
///                 "id": "00000000-0000-0000-0000-000000000001"}],
///     "columns": [{"keyspace_name": "ks", "table_name": "t", "column_name": "id",
///                  "kind": "partition_key", "position": 0, "type": "int"}]
/// }"#)?;
/// let payload = [
///     1, // updates
///     0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, // table id
///     4, 0, 0, 0, 7, // key
///     0x10, 5, 0, 0, // flags, smallest timestamp, deletion time and TTL
///     0, 1, // columns, estimate of rows
///     0x24, 0, // a row with a timestamp and all of its columns
///     1, // end
/// ];
/// let mutation = mutation::decode(&payload, Version::V7, &schema)?;
/// assert_eq!(mutation.updates.len(), 1);
/// assert_eq!(mutation.updates[0].key, [0, 0, 0, 7]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn decode<'a>(
    payload: &'a [u8],
    version: Version,
    schema: &'a impl Lookup,
) -> Result<Mutation<'a>, Box<Error>> {
    let mut updates = Updates::new(payload, version, schema)?;
    let mut decoded = Vec::with_capacity(1);
    for update in updates.by_ref() {
        decoded.push(update?);
    }
    updates.finish()?;
    Ok(Mutation { updates: decoded })
}

/// The updates of a mutation one by one: what comes before an unknown table can be had.
#[derive(Debug)]
pub struct Updates<'a, L> {
    reader: Reader<'a>,
    version: Version,
    schema: &'a L,
    left: u64,
}

impl<'a, L: Lookup> Updates<'a, L> {
    /// Reads the number of updates.
    pub fn new(payload: &'a [u8], version: Version, schema: &'a L) -> Result<Self, Box<Error>> {
        let mut reader = Reader::new(payload);
        let kind = match reader.unsigned_vint() {
            Ok(0) => ErrorKind::NoUpdates,
            Ok(left) => return Ok(Self { reader, version, schema, left }),
            Err(short) => short.into(),
        };
        Err(Error { offset: reader.position(), table: None, kind }.into())
    }

    /// Checks that nothing is left over.
    fn finish(&self) -> Result<(), Box<Error>> {
        let left = self.reader.rest().len();
        if left == 0 {
            return Ok(());
        }
        let kind = ErrorKind::Leftover(left);
        Err(Error { offset: self.reader.position(), table: None, kind }.into())
    }

    fn next_update(&mut self) -> Result<PartitionUpdate<'a>, Box<Error>> {
        let offset = self.reader.position();
        let fail = |table, kind| Box::new(Error { offset, table, kind });
        let id = self.reader.array().map_err(|short| fail(None, short.into()))?;
        let id = TableId::from_bytes(id);
        let table = self.schema.table(id);
        let table = table.ok_or_else(|| fail(Some(id), ErrorKind::UnknownTable))?;
        partition::decode(&mut self.reader, table, self.version).map_err(|kind| {
            Box::new(Error { offset: self.reader.position(), table: Some(id), kind: *kind })
        })
    }
}

impl<'a, L: Lookup> Iterator for Updates<'a, L> {
    type Item = Result<PartitionUpdate<'a>, Box<Error>>;

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        let update = self.next_update();
        if update.is_err() {
            self.left = 0;
        }
        Some(update)
    }
}

#[cfg(test)]
mod tests;
