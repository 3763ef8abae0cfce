//! What a change is known by.
//!
//! Ids are UUIDv5 over the decoded content in one fixed form, not over a record's bytes: how a node
//! packed the record does not matter, what it says does.

use sha1::{Digest as _, Sha1};
use uuid::Uuid;

use super::Change;
use crate::datatype::CqlType;
use crate::schema::{Column, Table, TableId};
use crate::update::{
    Bound, Cell, Clustering, ColumnUpdate, Content, Deletion, Expiry, RowUpdate, Side,
};

/// The namespace of the ids of changes.
const CHANGES: Uuid = Uuid::from_u128(0x6f2d_54b1_7a0e_4c55_9a37_1d0f_5be2_c8a4);

/// The id of a change.
pub(super) fn event_id(table: TableId, key: &[u8], change: &Change<'_>) -> Uuid {
    let mut content = Digest(Vec::with_capacity(256));
    content.0.extend(table.0.as_bytes());
    content.bytes(key);
    match change {
        Change::Partition(deletion) => {
            content.tag(b'p');
            content.deletion(Some(*deletion));
        }
        Change::Range(range) => {
            content.tag(b'g');
            content.bound(&range.start);
            content.bound(&range.end);
            content.deletion(Some(range.deletion));
        }
        Change::Static(row) => {
            content.tag(b's');
            content.row(row);
        }
        Change::Row(row) => {
            content.tag(b'r');
            content.row(row);
        }
    }
    named(&content.0)
}

/// The UUIDv5 of a content. Every change is hashed once, and `uuid` hashes without the processor's
/// instructions for it, which takes as long as all of the decoding.
fn named(content: &[u8]) -> Uuid {
    let hash = Sha1::new_with_prefix(CHANGES.as_bytes()).chain_update(content).finalize();
    let mut first = [0; 16];
    first.iter_mut().zip(hash).for_each(|(byte, hashed)| *byte = hashed);
    uuid::Builder::from_sha1_bytes(first).into_uuid()
}

/// A number for the table as it is defined now: the same wherever the definition is the same, down
/// to the fields of the user-defined types in it.
#[must_use]
pub fn schema_version(table: &Table) -> u32 {
    let mut content = Digest(table.id.0.as_bytes().to_vec());
    let own = table.columns().iter().filter(|column| column.current);
    for column in table.partition_key.iter().chain(&table.clustering).chain(own) {
        content.column(column);
    }
    let [a, b, c, d, ..] = *named(&content.0).as_bytes();
    // Without its sign, so that it fits the integers of every language.
    u32::from_be_bytes([a, b, c, d]) >> 1
}

/// Content in one fixed form: every field behind a tag or a length.
struct Digest(Vec<u8>);

impl Digest {
    fn tag(&mut self, tag: u8) {
        self.0.push(tag);
    }

    fn number(&mut self, number: i64) {
        self.0.extend(number.to_be_bytes());
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.0.extend((bytes.len() as u64).to_be_bytes());
        self.0.extend(bytes);
    }

    fn deletion(&mut self, deletion: Option<Deletion>) {
        let Some(deletion) = deletion else { return self.tag(b'-') };
        self.tag(b'd');
        self.number(deletion.timestamp.0);
        self.number(deletion.at.0);
    }

    fn expiry(&mut self, expiry: Option<Expiry>) {
        let Some(expiry) = expiry else { return self.tag(b'-') };
        self.tag(b'e');
        self.number(expiry.at.0);
        self.number(i64::from(expiry.ttl.0));
    }

    fn clustering(&mut self, values: &Clustering<'_>) {
        self.number(values.len().try_into().unwrap_or(i64::MAX));
        for value in values {
            match value {
                Some(bytes) => self.bytes(bytes),
                None => self.number(-1),
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
                self.number(liveness.timestamp.0);
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
                    self.number(elements.len().try_into().unwrap_or(i64::MAX));
                    for (path, cell) in elements {
                        self.bytes(path);
                        self.cell(cell);
                    }
                }
            }
        }
    }

    fn cell(&mut self, cell: &Cell<&[u8]>) {
        self.number(cell.timestamp.0);
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

    fn column(&mut self, column: &Column) {
        self.bytes(&column.name_bytes);
        self.ty(&column.ty);
        self.tag(u8::from(column.descending));
    }

    /// A type as it is spelt, and the user-defined types in it, of which that tells only the names.
    fn ty(&mut self, ty: &CqlType) {
        self.bytes(ty.to_string().as_bytes());
        self.user_types(ty);
    }

    fn user_types(&mut self, ty: &CqlType) {
        match ty {
            CqlType::List(inner)
            | CqlType::Set(inner)
            | CqlType::Vector(inner, _)
            | CqlType::Frozen(inner) => self.user_types(inner),
            CqlType::Map(key, value) => {
                self.user_types(key);
                self.user_types(value);
            }
            CqlType::Tuple(parts) => parts.iter().for_each(|part| self.user_types(part)),
            CqlType::User(user) => {
                self.tag(b'u');
                self.number(user.fields.len().try_into().unwrap_or(i64::MAX));
                for (name, ty) in &user.fields {
                    self.bytes(name.as_bytes());
                    self.ty(ty);
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::Catalog;

    /// The number of a table with one column of a type, where `addr` has these fields and `inner`
    /// is a type with one `addr`.
    fn version(ty: &str, fields: &[(&str, &str)]) -> u32 {
        let names: Vec<&str> = fields.iter().map(|(name, _)| *name).collect();
        let types: Vec<&str> = fields.iter().map(|(_, ty)| *ty).collect();
        let text = format!(
            r#"{{
                "tables": [{{"keyspace_name": "ks", "table_name": "t", "flags": ["compound"],
                             "id": "00000000-0000-0000-0000-000000000001"}}],
                "columns": [{{"keyspace_name": "ks", "table_name": "t", "column_name": "id",
                              "kind": "partition_key", "position": 0, "type": "int"}},
                            {{"keyspace_name": "ks", "table_name": "t", "column_name": "v",
                              "kind": "regular", "position": -1, "type": "{ty}"}}],
                "types": [{{"keyspace_name": "ks", "type_name": "addr",
                            "field_names": {names:?}, "field_types": {types:?}}},
                          {{"keyspace_name": "ks", "type_name": "inner",
                            "field_names": ["a"], "field_types": ["frozen<addr>"]}}]
            }}"#
        );
        let catalog = Catalog::from_document(&text).unwrap();
        schema_version(catalog.by_name("ks", "t").unwrap())
    }

    #[test]
    fn a_field_more_in_a_type_is_another_version_of_every_table_that_uses_it() {
        let before = [("street", "text")];
        let changed: [&[(&str, &str)]; 5] = [
            &[("street", "text"), ("zip", "int")],
            &[("zip", "int"), ("street", "text")],
            &[("street", "blob")],
            &[("road", "text")],
            &[],
        ];
        for ty in [
            "addr",
            "frozen<addr>",
            "list<frozen<addr>>",
            "set<frozen<addr>>",
            "map<frozen<addr>, int>",
            "map<int, frozen<addr>>",
            "frozen<tuple<int, addr>>",
            "vector<frozen<addr>, 2>",
            "inner",
            "map<int, frozen<list<frozen<inner>>>>",
        ] {
            assert_eq!(version(ty, &before), version(ty, &before), "{ty}");
            for (index, fields) in changed.iter().enumerate() {
                assert_ne!(version(ty, fields), version(ty, &before), "{ty}: {fields:?}");
                for other in changed.iter().skip(index + 1) {
                    assert_ne!(version(ty, fields), version(ty, other), "{ty}: {fields:?}");
                }
            }
        }
    }

    /// Also not when the way to tell versions changes: consumers hold these numbers.
    #[test]
    fn tables_without_the_type_keep_their_versions() {
        for (ty, number) in [("text", 2_133_107_427), ("map<int, frozen<list<text>>>", 100_718_780)]
        {
            assert_eq!(version(ty, &[("street", "text")]), number, "{ty}");
            assert_eq!(version(ty, &[("street", "text"), ("zip", "int")]), number, "{ty}");
        }
    }
}
