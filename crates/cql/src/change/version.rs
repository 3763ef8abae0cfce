//! What the definition of a table is known by.

use uuid::Uuid;

use crate::datatype::CqlType;
use crate::schema::{Column, Table};

/// The namespace of the versions of tables.
const VERSIONS: Uuid = Uuid::from_u128(0x6f2d_54b1_7a0e_4c55_9a37_1d0f_5be2_c8a4);

/// A number for the table as it is defined now: the same wherever the definition is the same, down
/// to the fields of the user-defined types in it.
#[must_use]
pub fn schema_version(table: &Table) -> u32 {
    let mut definition = Definition(table.id.0.as_bytes().to_vec());
    let own = table.columns().iter().filter(|column| column.current);
    for column in table.partition_key.iter().chain(&table.clustering).chain(own) {
        definition.column(column);
    }
    let [a, b, c, d, ..] = *Uuid::new_v5(&VERSIONS, &definition.0).as_bytes();
    // Without its sign, so that it fits the integers of every language.
    u32::from_be_bytes([a, b, c, d]) >> 1
}

/// A definition in one fixed form: every field behind a tag or a length.
struct Definition(Vec<u8>);

impl Definition {
    fn tag(&mut self, tag: u8) {
        self.0.push(tag);
    }

    fn length(&mut self, length: usize) {
        self.0.extend((length as u64).to_be_bytes());
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.length(bytes.len());
        self.0.extend(bytes);
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
                self.length(user.fields.len());
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
