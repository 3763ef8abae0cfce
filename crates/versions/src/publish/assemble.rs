//! From the events of a source to chunks of rows, with everything that is known on the way: counts,
//! the checksum, nulls, a sample. Pure.

use std::collections::BTreeMap;
use std::sync::Arc;

use helenus_cql::token::Token;

use super::checks::ratio;
use crate::TableSchema;
use crate::row::{Mapping, MappingError, MappingOptions, Row};
use crate::source::Event;
use crate::tables::{Chunk, Mark};

/// Rows of a chunk.
const CHUNK_ROWS: usize = 1_000;

/// Bytes of a chunk.
const CHUNK_BYTES: usize = 1024 * 1024;

/// A record that is left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct BadRow {
    pub(super) line: u64,
    pub(super) reason: String,
    pub(super) text: String,
}

/// Turns records into rows.
#[derive(Debug)]
pub(super) struct Assembler {
    schema: Arc<TableSchema>,
    options: MappingOptions,
    mapping: Option<Mapping>,
    /// Why the fields do not fit, where the next records may bring others.
    unmapped: Option<String>,
    /// Records before this are durable already.
    skip: u64,
    mark: Mark,
    /// The sum at [`Self::skip`], once that is reached.
    skipped_checksum: Option<i64>,
    rows: Vec<Row>,
    bytes: usize,
    nulls: Vec<u64>,
    sample: Sample,
}

impl Assembler {
    pub(super) fn new(
        schema: Arc<TableSchema>,
        options: MappingOptions,
        skip: u64,
        sample: usize,
    ) -> Self {
        let nulls = vec![0; schema.columns.len()];
        Assembler {
            schema,
            options,
            mapping: None,
            unmapped: None,
            skip,
            mark: Mark::default(),
            skipped_checksum: (skip == 0).then_some(0),
            rows: Vec::new(),
            bytes: 0,
            nulls,
            sample: Sample { keys: BTreeMap::new(), size: sample },
        }
    }

    /// Takes in an event; `Some` for a record that is bad.
    pub(super) fn take(&mut self, event: Event<'_>) -> Result<Option<BadRow>, MappingError> {
        match event {
            Event::Fields { names, partitions, open, .. } => {
                let schema = Arc::clone(&self.schema);
                match Mapping::new(schema, names, partitions, &self.options) {
                    Ok(mapping) => (self.mapping, self.unmapped) = (Some(mapping), None),
                    Err(error @ MappingError::KeyMissing { .. }) if open => {
                        (self.mapping, self.unmapped) = (None, Some(error.to_string()));
                    }
                    Err(error) => return Err(error),
                }
                Ok(None)
            }
            Event::Record { line, fields } => {
                let made = match &self.mapping {
                    Some(mapping) => {
                        mapping.row(self.mark.records, fields).map_err(|error| error.to_string())
                    }
                    None => Err(self.unmapped.clone().unwrap_or_default()),
                };
                match made {
                    Ok(row) => {
                        self.good(row);
                        Ok(None)
                    }
                    Err(reason) => {
                        let text: Vec<String> = fields.iter().map(ToString::to_string).collect();
                        Ok(Some(self.bad(BadRow { line, reason, text: text.join(", ") })))
                    }
                }
            }
            Event::Bad { line, reason, text } => Ok(Some(self.bad(BadRow { line, reason, text }))),
        }
    }

    fn good(&mut self, row: Row) {
        for (count, value) in self.nulls.iter_mut().zip(row.values()) {
            *count += u64::from(value.is_none());
        }
        if let Some(mapping) = &self.mapping {
            self.sample.add(mapping.key_cells(&row), &row);
        }
        self.mark.rows += 1;
        self.mark.checksum = self.mark.checksum.wrapping_add(row.checksum());
        if row.ordinal >= self.skip {
            self.bytes += row.cells.len();
            self.rows.push(row);
        }
        self.step();
    }

    fn bad(&mut self, bad: BadRow) -> BadRow {
        self.mark.bad += 1;
        self.step();
        bad
    }

    fn step(&mut self) {
        self.mark.records += 1;
        if self.mark.records == self.skip {
            self.skipped_checksum = Some(self.mark.checksum);
        }
    }

    /// A chunk, once there is enough for one.
    pub(super) fn chunk(&mut self) -> Option<Chunk> {
        let full = self.rows.len() >= CHUNK_ROWS || self.bytes >= CHUNK_BYTES;
        full.then(|| self.rest())
    }

    /// What is left.
    pub(super) fn rest(&mut self) -> Chunk {
        self.bytes = 0;
        Chunk { rows: std::mem::take(&mut self.rows), end: self.mark }
    }

    /// How far the source was read.
    pub(super) fn mark(&self) -> Mark {
        self.mark
    }

    /// The sum over the records that were durable before; `None` if there were fewer.
    pub(super) fn skipped_checksum(&self) -> Option<i64> {
        self.skipped_checksum
    }

    /// Shares of nulls of the columns that have any.
    pub(super) fn null_rates(&self) -> BTreeMap<String, f64> {
        let columns = self.schema.columns.iter().zip(&self.nulls);
        let some = columns.filter(|(_, nulls)| **nulls > 0);
        some.map(|(column, nulls)| (column.name.clone(), ratio(*nulls, self.mark.rows))).collect()
    }

    /// Keys and rows to be read back.
    pub(super) fn into_sample(self) -> Vec<(Vec<u8>, Vec<u8>)> {
        self.sample.keys.into_values().collect()
    }
}

/// The keys with the smallest hashes. Whichever key is among them at the end was so from its first
/// row on, so the last row of each is the one that is kept.
#[derive(Debug)]
struct Sample {
    keys: BTreeMap<i64, (Vec<u8>, Vec<u8>)>,
    size: usize,
}

impl Sample {
    fn add(&mut self, key: Vec<u8>, row: &Row) {
        let hash = Token::of(&key).0;
        let last = self.keys.last_key_value().map(|(hash, _)| *hash);
        let has_room = self.keys.len() < self.size || last.is_some_and(|last| hash <= last);
        if self.size == 0 || !has_room {
            return;
        }
        self.keys.insert(hash, (key, row.cells.clone()));
        if self.keys.len() > self.size {
            self.keys.pop_last();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use super::*;
    use crate::row::Field;

    fn assembler(skip: u64) -> Assembler {
        let cql = "CREATE TABLE t (id int PRIMARY KEY, v text)";
        let schema = Arc::new(TableSchema::parse(cql).unwrap());
        let mut assembler = Assembler::new(schema, MappingOptions::default(), skip, 2);
        let names = ["id".to_owned(), "v".to_owned()];
        let fields = Event::Fields { names: &names, partitions: 0, types: &[], open: false };
        assembler.take(fields).unwrap();
        assembler
    }

    fn feed(assembler: &mut Assembler, id: &str, v: &str) -> Option<BadRow> {
        let text = |text: &str| match text {
            "" => Field::Null,
            text => Field::Text(Cow::Owned(text.to_owned())),
        };
        let fields = [text(id), text(v)];
        assembler.take(Event::Record { line: 2, fields: &fields }).unwrap()
    }

    #[test]
    fn a_resumed_run_counts_everything_and_sends_the_rest() {
        let records = [("1", "a"), ("x", "b"), ("2", ""), ("1", "c")];
        let run = |skip| {
            let mut assembler = assembler(skip);
            let bad = records.iter().filter_map(|(id, v)| feed(&mut assembler, id, v)).count();
            assert_eq!(bad, 1);
            (assembler.rest(), assembler)
        };
        let (whole, all) = run(0);
        let (rest, resumed) = run(3);
        assert_eq!(whole.rows.len(), 3);
        assert_eq!(rest.rows, whole.rows[2..]);
        assert_eq!(rest.rows[0].ordinal, 3);
        assert_eq!((resumed.mark(), resumed.null_rates()), (all.mark(), all.null_rates()));
        assert_eq!(all.mark().bad, 1);
        assert!((all.null_rates()["v"] - 1.0 / 3.0).abs() < 1e-9);
        let first_two = whole.rows[0].checksum().wrapping_add(whole.rows[1].checksum());
        assert_eq!(resumed.skipped_checksum(), Some(first_two));
        let sample = all.into_sample();
        assert_eq!(sample, resumed.into_sample());
        let last_of_1 = whole.rows[2].cells.clone();
        assert!(sample.iter().any(|(_, row)| *row == last_of_1), "the last row of a key stands");
    }
}
