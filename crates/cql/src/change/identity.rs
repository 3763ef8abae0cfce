//! What a change is known by.
//!
//! Ids are hashes of the decoded content in one fixed form, not of a record's bytes: how a node
//! packed the record does not matter, what it says does.

use uuid::Uuid;

use super::Change;
use crate::schema::TableId;
use crate::update::{
    Bound, Cell, Clustering, ColumnUpdate, Content, Deletion, Expiry, RowUpdate, Side, Timestamp,
};

/// The id of a change.
pub(super) fn event_id(table: TableId, key: &[u8], change: &Change<'_>) -> Uuid {
    let mut digest = Digest { content: Vec::with_capacity(500), told: None };
    digest.content.extend(table.0.as_bytes());
    digest.bytes(key);
    match change {
        Change::Partition(deletion) => {
            digest.tag(b'p');
            digest.deletion(Some(*deletion));
        }
        Change::Range(range) => {
            digest.tag(b'g');
            digest.bound(&range.start);
            digest.bound(&range.end);
            digest.deletion(Some(range.deletion));
        }
        Change::Static(row) => {
            digest.tag(b's');
            digest.row(row);
        }
        Change::Row(row) => {
            digest.tag(b'r');
            digest.row(row);
        }
    }
    let hash = blake3::hash(&digest.content);
    let mut first = [0; 16];
    first.iter_mut().zip(hash.as_bytes()).for_each(|(byte, hashed)| *byte = *hashed);
    uuid::Builder::from_custom_bytes(first).into_uuid()
}

/// In place of a length: one that takes eight bytes, and no value at all.
const LONG: u8 = u8::MAX;
const NONE: u8 = u8::MAX - 1;

/// Content in one fixed form: every field behind a tag or a length. It is short, because hashing takes as
/// long as there is content.
struct Digest {
    content: Vec<u8>,
    /// The write time that was told last: most of a change have the same.
    told: Option<Timestamp>,
}

impl Digest {
    fn tag(&mut self, tag: u8) {
        self.content.push(tag);
    }

    fn number(&mut self, number: i64) {
        self.content.extend(number.to_be_bytes());
    }

    fn length(&mut self, length: usize) {
        match u8::try_from(length) {
            Ok(short) if short < NONE => self.tag(short),
            _ => {
                self.tag(LONG);
                self.content.extend((length as u64).to_be_bytes());
            }
        }
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.length(bytes.len());
        self.content.extend(bytes);
    }

    fn time(&mut self, time: Timestamp) {
        if self.told == Some(time) {
            return self.tag(b'=');
        }
        self.told = Some(time);
        self.tag(b'@');
        self.number(time.0);
    }

    fn deletion(&mut self, deletion: Option<Deletion>) {
        let Some(deletion) = deletion else { return self.tag(b'-') };
        self.tag(b'd');
        self.time(deletion.timestamp);
        self.number(deletion.at.0);
    }

    fn expiry(&mut self, expiry: Option<Expiry>) {
        let Some(expiry) = expiry else { return self.tag(b'-') };
        self.tag(b'e');
        self.number(expiry.at.0);
        self.number(i64::from(expiry.ttl.0));
    }

    fn clustering(&mut self, values: &Clustering<'_>) {
        self.length(values.len());
        for value in values {
            match value {
                Some(bytes) => self.bytes(bytes),
                None => self.tag(NONE),
            }
        }
    }

    fn bound(&mut self, bound: &Bound<'_>) {
        self.clustering(&bound.values);
        self.tag(match bound.side {
            Side::Before => b'<',
            Side::After => b'>',
        });
    }

    fn row(&mut self, row: &RowUpdate<'_>) {
        self.clustering(&row.clustering);
        match row.liveness {
            Some(liveness) => {
                self.tag(b'l');
                self.time(liveness.timestamp);
                self.expiry(liveness.expiry);
            }
            None => self.tag(b'-'),
        }
        self.deletion(row.deletion);
        for update in &row.columns {
            self.bytes(&update.column().name_bytes);
            match update {
                ColumnUpdate::Simple(_, cell) => self.cell(cell),
                ColumnUpdate::Complex(_, deletion, elements) => {
                    self.tag(b'c');
                    self.deletion(*deletion);
                    self.length(elements.len());
                    for (path, cell) in elements {
                        self.bytes(path);
                        self.cell(cell);
                    }
                }
            }
        }
    }

    fn cell(&mut self, cell: &Cell<&[u8]>) {
        self.time(cell.timestamp);
        match cell.content {
            Content::Live(bytes) => {
                self.tag(b'v');
                self.bytes(bytes);
            }
            Content::Expiring(bytes, expiry) => {
                self.tag(b'x');
                self.bytes(bytes);
                self.expiry(Some(expiry));
            }
            Content::Deleted(at) => {
                self.tag(b't');
                self.number(at.0);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;
    use crate::change::RangeDeletion;
    use crate::datatype::CqlType;
    use crate::schema::{Column, ColumnKind};
    use crate::update::{Liveness, Seconds, Ttl};

    const LONG_VALUE: [u8; 300] = [7; 300];

    fn value(length: usize) -> &'static [u8] {
        LONG_VALUE.get(..length).expect("long enough")
    }

    fn column(name: &str) -> Column {
        Column::new(name, name.as_bytes(), ColumnKind::Regular, CqlType::Blob)
    }

    fn deletion(timestamp: i64, at: i64) -> Deletion {
        Deletion { timestamp: Timestamp(timestamp), at: Seconds(at) }
    }

    fn expiry(at: i64, ttl: i32) -> Expiry {
        Expiry { at: Seconds(at), ttl: Ttl(ttl) }
    }

    fn cell(timestamp: i64, content: Content<&[u8]>) -> Cell<&[u8]> {
        Cell { timestamp: Timestamp(timestamp), content }
    }

    fn live(timestamp: i64, length: usize) -> Cell<&'static [u8]> {
        cell(timestamp, Content::Live(value(length)))
    }

    /// Rows that write nothing.
    fn bare_rows() -> Vec<RowUpdate<'static>> {
        let (empty, one, two) = (Some(value(0)), Some(value(1)), Some(value(2)));
        let of = |clustering| RowUpdate { clustering, ..RowUpdate::default() };
        let mut rows = vec![
            of(vec![]),
            of(vec![None]),
            of(vec![None, None]),
            of(vec![empty]),
            of(vec![empty, None]),
            of(vec![None, empty]),
            of(vec![one, two]),
            of(vec![two, one]),
        ];
        for expiry in [None, Some(expiry(1, 2)), Some(expiry(2, 1))] {
            let liveness = Some(Liveness { timestamp: Timestamp(5), expiry });
            rows.push(RowUpdate { liveness, ..RowUpdate::default() });
        }
        for (timestamp, at) in [(1, 2), (2, 1), (1, 1)] {
            let deletion = Some(deletion(timestamp, at));
            rows.push(RowUpdate { deletion, ..RowUpdate::default() });
        }
        rows
    }

    /// What rows may write into two columns.
    fn columns<'c>(a: &'c Column, b: &'c Column) -> Vec<Vec<ColumnUpdate<'c>>> {
        use ColumnUpdate::{Complex, Simple};
        let mut all = vec![vec![Complex(a, Some(deletion(5, 5)), Vec::new())]];
        for length in [0, 1, 253, 254, 255, 256, 300] {
            all.push(vec![Simple(a, live(5, length))]);
            all.push(vec![Complex(a, None, vec![(value(length), live(5, 0))])]);
        }
        for (first, second) in [(5, 5), (5, 6), (6, 5), (6, 6)] {
            all.push(vec![Simple(a, live(first, 1)), Simple(b, live(second, 1))]);
            let elements = vec![(value(1), live(first, 1)), (value(2), live(second, 1))];
            all.push(vec![Complex(a, None, elements.clone())]);
            all.push(vec![Complex(a, Some(deletion(5, 5)), elements)]);
        }
        for content in [
            Content::Deleted(Seconds(1)),
            Content::Deleted(Seconds(2)),
            Content::Expiring(value(1), expiry(1, 2)),
            Content::Expiring(value(1), expiry(2, 2)),
        ] {
            all.push(vec![Simple(a, cell(5, content))]);
            all.push(vec![Simple(b, cell(5, content))]);
        }
        all
    }

    #[test]
    fn what_differs_anywhere_has_another_id() {
        let (a, b) = (column("a"), column("b"));
        let written = columns(&a, &b).into_iter();
        let mut rows = bare_rows();
        rows.extend(written.map(|columns| RowUpdate { columns, ..RowUpdate::default() }));
        let mut changes: Vec<Change<'_>> = rows.iter().cloned().map(Change::Static).collect();
        changes.extend(rows.into_iter().map(Change::Row));
        changes.push(Change::Partition(deletion(1, 2)));

        let mut known = HashMap::new();
        for table in [1, 2].map(|id| TableId(Uuid::from_u128(id))) {
            for key in [value(0), value(1)] {
                for change in &changes {
                    let id = event_id(table, key, change);
                    let same = known.insert(id, (table, key.len(), change));
                    assert!(same.is_none(), "{same:?} and {change:?} of {table:?}, {}", key.len());
                }
            }
        }
    }

    /// Other ids are news for the changelog: an agent of before and one of after tell of the same changes
    /// under different ones while a cluster is brought up to date.
    #[test]
    fn changes_keep_their_ids() {
        let (a, b) = (column("a"), column("b"));
        let id =
            |change: &Change<'_>| event_id(TableId(Uuid::from_u128(1)), b"key", change).to_string();
        let written = RowUpdate {
            clustering: vec![Some(value(2)), None],
            liveness: Some(Liveness { timestamp: Timestamp(5), expiry: Some(expiry(1, 2)) }),
            columns: vec![
                ColumnUpdate::Simple(&a, live(5, 300)),
                ColumnUpdate::Complex(&b, Some(deletion(4, 3)), vec![(value(2), live(5, 1))]),
            ],
            ..RowUpdate::default()
        };
        let bound = |side| Bound { values: vec![Some(value(1))], side };
        let range = RangeDeletion {
            start: bound(Side::Before),
            end: bound(Side::After),
            deletion: deletion(1, 2),
        };
        let changes = [
            Change::Row(written.clone()),
            Change::Static(written),
            Change::Partition(deletion(1, 2)),
            Change::Range(range),
        ];
        assert_eq!(
            changes.map(|change| id(&change)),
            [
                "d3dce53a-9851-8edb-a43c-3935cf6ae063",
                "e544bf91-316e-8b78-a10e-c9a9df4846f9",
                "0909ce01-6263-87ed-a6a0-f032b76e0da7",
                "50f34403-c6ce-8bb4-90fb-21e744da9a12"
            ]
        );
    }
}
