//! A schema from the data: the narrowest of a few types that every value seen fits.
//!
//! What the first records do not show is not known: a later value that does not fit is a bad row,
//! with its reason, and never changes the schema.

use helenus_cql::datatype::CqlType;

use crate::row::{Field, cast};
use crate::schema::Column;
use crate::{SchemaError, TableSchema};

/// Types that text may turn out to be, the narrowest first.
const GUESSES: [CqlType; 6] = [
    CqlType::BigInt,
    CqlType::Double,
    CqlType::Boolean,
    CqlType::Uuid,
    CqlType::Date,
    CqlType::Timestamp,
];

/// What has been seen of each field.
#[derive(Clone, Debug, Default)]
pub struct Inference {
    fields: Vec<Seen>,
}

#[derive(Clone, Debug)]
struct Seen {
    name: String,
    /// What the format says, where it does.
    declared: Option<CqlType>,
    /// Which of the guesses every value fitted.
    fits: [bool; GUESSES.len()],
    any: bool,
}

impl Inference {
    /// Takes in the fields of the records that follow.
    pub fn fields(&mut self, names: &[String], types: &[CqlType]) {
        for (place, name) in names.iter().enumerate() {
            if !self.fields.iter().any(|seen| seen.name == *name) {
                let declared = types.get(place).cloned();
                let fits = [true; GUESSES.len()];
                self.fields.push(Seen { name: name.clone(), declared, fits, any: false });
            }
        }
    }

    /// Takes in a record whose fields have these names.
    pub fn record(&mut self, names: &[String], record: &[Field<'_>]) {
        let mut scratch = Vec::new();
        for (name, field) in names.iter().zip(record) {
            if *field == Field::Null {
                continue;
            }
            let seen = self.fields.iter_mut().find(|seen| seen.name == *name);
            let Some(seen) = seen.filter(|seen| seen.declared.is_none()) else { continue };
            seen.any = true;
            for (fits, guess) in seen.fits.iter_mut().zip(&GUESSES) {
                scratch.clear();
                *fits = *fits && could_be(field, guess) && cast(field, guess, &mut scratch).is_ok();
            }
        }
    }

    /// The schema, with `key` as its primary key, the first as partition key; the first field where
    /// none is named.
    pub fn schema(&self, key: &[String]) -> Result<TableSchema, SchemaError> {
        let mut columns: Vec<Column> = Vec::new();
        for seen in &self.fields {
            // Unquoted names fold, and so do those of columns that nobody wants to quote.
            let name = seen.name.to_ascii_lowercase();
            if columns.iter().any(|column| column.name == name) {
                return Err(SchemaError::Twice { column: name.into() });
            }
            columns.push(Column { name, ty: seen.ty(), is_static: false });
        }
        for (place, name) in key.iter().enumerate() {
            let rest = columns.iter().skip(place);
            let found = rest.clone().position(|column| column.name == name.to_ascii_lowercase());
            let found = found.ok_or_else(|| SchemaError::Key { column: name.as_str().into() })?;
            let column = columns.remove(place + found);
            columns.insert(place, column);
        }
        if columns.is_empty() {
            return Err(SchemaError::Key { column: "the first field".into() });
        }
        Ok(TableSchema::simple(columns, key.len()))
    }
}

impl Seen {
    fn ty(&self) -> CqlType {
        if let Some(ty) = &self.declared {
            return ty.clone();
        }
        let guess = self.fits.iter().zip(&GUESSES).find(|(fits, _)| **fits && self.any);
        guess.map_or(CqlType::Text, |(_, guess)| guess.clone())
    }
}

/// Whether somebody who reads the value would call it that. A time may be written as a number, and
/// a truth value as 1, but a column of such is one of numbers.
fn could_be(field: &Field<'_>, guess: &CqlType) -> bool {
    match (field, guess) {
        (Field::Text(text), CqlType::Timestamp) => text.contains('-') && text.contains(':'),
        (Field::Text(text), CqlType::Boolean) => {
            ["true", "false"].iter().any(|word| text.eq_ignore_ascii_case(word))
        }
        // A leading zero is part of a code, not of a number.
        (Field::Text(text), CqlType::BigInt | CqlType::Double) => {
            let digits = text.trim_start_matches('-');
            !(digits.len() > 1 && digits.starts_with('0') && !digits.starts_with("0."))
        }
        (Field::Text(_), _) => true,
        (Field::Json(json), CqlType::BigInt | CqlType::Double) => json.is_number(),
        (Field::Json(json), CqlType::Boolean) => json.is_boolean(),
        (Field::Bool(_), CqlType::Boolean) => true,
        (Field::Int(_), CqlType::BigInt | CqlType::Double) => true,
        (Field::Float(_), CqlType::Double) => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_narrowest_type_that_fits_is_taken() {
        let names: Vec<String> = ["Id", "n", "x", "flag", "day", "at", "code", "void", "mixed"]
            .map(str::to_owned)
            .into();
        let mut inference = Inference::default();
        inference.fields(&names, &[]);
        let records = [
            [
                "550e8400-e29b-41d4-a716-446655440000",
                "1",
                "1",
                "true",
                "2026-11-15",
                "2026-11-15T12:00:00Z",
                "007",
                "",
                "1",
            ],
            [
                "550e8400-e29b-41d4-a716-446655440001",
                "-2",
                "2.5",
                "FALSE",
                "2026-11-16",
                "2026-11-15 12:00:00",
                "008",
                "",
                "one",
            ],
        ];
        for record in records {
            let field = |text: &'static str| match text {
                "" => Field::Null,
                text => Field::Text(text.into()),
            };
            inference.record(&names, &record.map(field));
        }
        let schema = inference.schema(&["day".to_owned(), "id".to_owned()]).unwrap();
        assert_eq!(
            schema.create_cql("k", "t", None),
            "CREATE TABLE k.t (day date, id uuid, n bigint, x double, flag boolean, at timestamp, \
             code text, void text, mixed text, PRIMARY KEY ((day), id))"
        );
        inference.schema(&["absent".to_owned()]).unwrap_err();
        Inference::default().schema(&[]).unwrap_err();
    }
}
