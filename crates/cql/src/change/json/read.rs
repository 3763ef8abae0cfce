//! An event's JSON back to the event.

use serde_json::{Map, Value as Json};
use thiserror::Error;
use uuid::Uuid;

use super::super::{Change, ChangeEvent, Origin, RangeDeletion};
use crate::datatype::CqlType;
use crate::exact;
use crate::schema::{Column, ColumnKind, Lookup, Table, TableId};
use crate::update::{
    Bound, Cell, ColumnUpdate, Content, Deletion, Expiry, Liveness, RowUpdate, Seconds, Side,
    Timestamp, Ttl,
};

/// Why a text is no event.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ReadError {
    /// Not JSON.
    #[error("the event is not JSON: {0}")]
    Json(#[from] serde_json::Error),
    /// The schema does not have the table.
    #[error("the event's table {0} is not in the schema")]
    UnknownTable(TableId),
    /// A column that the table does not have.
    #[error("the event's column {0:?} is not in the schema")]
    UnknownColumn(Box<str>),
    /// A field is missing or of another kind.
    #[error("the event's field {0:?} is missing or malformed")]
    Field(&'static str),
    /// A value that is none of its type; masked ones are not.
    #[error("the event's column {column:?}: {error}")]
    Value {
        /// The column.
        column: Box<str>,
        /// What is wrong.
        error: exact::ReadError,
    },
}

type Outcome<T> = Result<T, ReadError>;
type Object = Map<String, Json>;

/// An event that was read; it owns its bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadEvent<'t> {
    table: &'t Table,
    event_id: Uuid,
    trace_id: Uuid,
    key: Vec<u8>,
    change: Owned<'t>,
    origin: Origin,
    index: u32,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Owned<'t> {
    Partition(Deletion),
    Range((OwnedValues, Side), (OwnedValues, Side), Deletion),
    Static(OwnedRow<'t>),
    Row(OwnedRow<'t>),
}

type OwnedValues = Vec<Option<Vec<u8>>>;

#[derive(Debug, Clone, PartialEq, Eq)]
struct OwnedRow<'t> {
    clustering: OwnedValues,
    liveness: Option<Liveness>,
    deletion: Option<Deletion>,
    columns: Vec<(&'t Column, OwnedColumn)>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum OwnedColumn {
    Simple(Cell<Vec<u8>>),
    Complex(Option<Deletion>, Vec<(Vec<u8>, Cell<Vec<u8>>)>),
}

/// Reads an event; its table is looked up by id.
pub fn read<'t>(text: &str, schema: &'t impl Lookup) -> Outcome<ReadEvent<'t>> {
    let event: Object = serde_json::from_str(text)?;
    let id = TableId(uuid(&event, "table_id")?);
    let table = schema.table(id).ok_or(ReadError::UnknownTable(id))?;
    let key = object(&event, "primary_key")?;
    let position = object(&event, "position")?;
    let reader = Reader { table, event: &event, key };
    Ok(ReadEvent {
        table,
        event_id: uuid(&event, "event_id")?,
        trace_id: uuid(&event, "trace_id")?,
        key: reader.partition_key()?,
        change: reader.change()?,
        origin: Origin {
            node: text_of(&event, "cassandra_node")?.into(),
            segment: integer(position, "segment")?,
            offset: narrow(position, "offset")?,
            schema_version: narrow(&event, "schema_version")?,
        },
        index: narrow(position, "index")?,
    })
}

impl ReadEvent<'_> {
    /// The event, as [`super::super::split`] gave it.
    #[must_use]
    pub fn event(&self) -> ChangeEvent<'_> {
        ChangeEvent {
            event_id: self.event_id,
            table: self.table,
            key: &self.key,
            change: match &self.change {
                Owned::Partition(deletion) => Change::Partition(*deletion),
                Owned::Range(start, end, deletion) => Change::Range(RangeDeletion {
                    start: Bound { values: borrowed(&start.0), side: start.1 },
                    end: Bound { values: borrowed(&end.0), side: end.1 },
                    deletion: *deletion,
                }),
                Owned::Static(row) => Change::Static(row.borrowed()),
                Owned::Row(row) => Change::Row(row.borrowed()),
            },
            trace_id: self.trace_id,
            origin: self.origin.clone(),
            index: self.index,
        }
    }
}

fn borrowed(values: &OwnedValues) -> Vec<Option<&[u8]>> {
    values.iter().map(Option::as_deref).collect()
}

impl OwnedRow<'_> {
    fn borrowed(&self) -> RowUpdate<'_> {
        let columns = self.columns.iter().map(|(column, owned)| match owned {
            OwnedColumn::Simple(cell) => ColumnUpdate::Simple(column, borrowed_cell(cell)),
            OwnedColumn::Complex(deletion, elements) => ColumnUpdate::Complex(
                column,
                *deletion,
                elements.iter().map(|(path, cell)| (&**path, borrowed_cell(cell))).collect(),
            ),
        });
        RowUpdate {
            clustering: borrowed(&self.clustering),
            liveness: self.liveness,
            deletion: self.deletion,
            columns: columns.collect(),
        }
    }
}

fn borrowed_cell(cell: &Cell<Vec<u8>>) -> Cell<&[u8]> {
    let content = match &cell.content {
        Content::Live(bytes) => Content::Live(&**bytes),
        Content::Expiring(bytes, expiry) => Content::Expiring(&**bytes, *expiry),
        Content::Deleted(at) => Content::Deleted(*at),
    };
    Cell { timestamp: cell.timestamp, content }
}

struct Reader<'t, 'e> {
    table: &'t Table,
    event: &'e Object,
    key: &'e Object,
}

impl<'t> Reader<'t, '_> {
    fn partition_key(&self) -> Outcome<Vec<u8>> {
        let parts = self.table.partition_key.iter().map(|column| {
            let value = self.key.get(&*column.name);
            value_of(column, &column.ty, value.ok_or(ReadError::Field("primary_key"))?)
        });
        let parts = parts.collect::<Outcome<Vec<_>>>()?;
        Table::key_of(&parts).ok_or(ReadError::Field("primary_key"))
    }

    fn change(&self) -> Outcome<Owned<'t>> {
        let deletion = || deletion(self.event, "deletion")?.ok_or(ReadError::Field("deletion"));
        Ok(match text_of(self.event, "scope")? {
            "partition" => Owned::Partition(deletion()?),
            "range" => {
                let range = object(self.event, "range")?;
                let start = self.bound(range, "start", Side::Before, Side::After)?;
                let end = self.bound(range, "end", Side::After, Side::Before)?;
                Owned::Range(start, end, deletion()?)
            }
            "static" => Owned::Static(self.row(ColumnKind::Static, Vec::new())?),
            "row" | "column" | "element" => {
                let clustering = self.table.clustering.iter().map(|column| {
                    let value = self.key.get(&*column.name);
                    nullable(column, value.ok_or(ReadError::Field("primary_key"))?)
                });
                Owned::Row(self.row(ColumnKind::Regular, clustering.collect::<Outcome<_>>()?)?)
            }
            _ => return Err(ReadError::Field("scope")),
        })
    }

    fn bound(
        &self,
        range: &Object,
        name: &'static str,
        inclusive: Side,
        exclusive: Side,
    ) -> Outcome<(OwnedValues, Side)> {
        let bound = object(range, name)?;
        let values = bound.get("values").and_then(Json::as_array).ok_or(ReadError::Field(name))?;
        let values =
            self.table.clustering.iter().zip(values).map(|(column, value)| nullable(column, value));
        let is_inclusive = bound.get("inclusive").and_then(Json::as_bool);
        let is_inclusive = is_inclusive.ok_or(ReadError::Field("inclusive"))?;
        Ok((values.collect::<Outcome<_>>()?, if is_inclusive { inclusive } else { exclusive }))
    }

    fn row(&self, kind: ColumnKind, clustering: OwnedValues) -> Outcome<OwnedRow<'t>> {
        let empty = Object::new();
        let after = self.event.get("after_data").and_then(Json::as_object).unwrap_or(&empty);
        let liveness = match self.event.get("liveness") {
            None => None,
            Some(Json::Object(liveness)) => Some(Liveness {
                timestamp: Timestamp(integer(liveness, "timestamp")?),
                expiry: expiry(liveness)?,
            }),
            Some(_) => return Err(ReadError::Field("liveness")),
        };
        let mut columns = Vec::new();
        for (name, told) in object(self.event, "columns")? {
            let unknown = || ReadError::UnknownColumn(name.as_str().into());
            let column = self.table.column(name.as_bytes(), kind).ok_or_else(unknown)?;
            let told = told.as_object().ok_or(ReadError::Field("columns"))?;
            columns.push((column, column_of(column, told, after.get(name))?));
        }
        let deletion = deletion(self.event, "row_deletion")?;
        Ok(OwnedRow { clustering, liveness, deletion, columns })
    }
}

fn column_of(column: &Column, told: &Object, value: Option<&Json>) -> Outcome<OwnedColumn> {
    let Some(elements) = told.get("elements") else {
        let value = || value_of(column, &column.ty, value.ok_or(ReadError::Field("after_data"))?);
        return Ok(OwnedColumn::Simple(cell(told, value)?));
    };
    let elements = elements.as_array().ok_or(ReadError::Field("elements"))?;
    let elements = elements.iter().map(|element| {
        let element = element.as_object().ok_or(ReadError::Field("elements"))?;
        let path = element.get("path").ok_or(ReadError::Field("path"))?;
        let (path, value_type) = path_of(column, path)?;
        let value = || match (value_type, element.get("value")) {
            (None, _) => Ok(Vec::new()),
            (Some(ty), Some(value)) => value_of(column, ty, value),
            (Some(_), None) => Err(ReadError::Field("value")),
        };
        Ok((path, cell(element, value)?))
    });
    let elements = elements.collect::<Outcome<Vec<_>>>()?;
    Ok(OwnedColumn::Complex(deletion(told, "deletion")?, elements))
}

/// The bytes of an element's path and the type of its value; sets have none.
fn path_of<'c>(column: &'c Column, path: &Json) -> Outcome<(Vec<u8>, Option<&'c CqlType>)> {
    Ok(match &*column.ty {
        CqlType::List(element) => (value_of(column, &CqlType::TimeUuid, path)?, Some(element)),
        CqlType::Set(element) => (value_of(column, element, path)?, None),
        CqlType::Map(key, value) => (value_of(column, key, path)?, Some(value)),
        CqlType::User(user) => {
            let named = user.fields.iter().zip(0_u16..).find(|((name, _), _)| *path == **name);
            match named {
                Some(((_, ty), index)) => (index.to_be_bytes().to_vec(), Some(ty)),
                None => (value_of(column, &CqlType::Empty, path)?, Some(&CqlType::Blob)),
            }
        }
        _ => return Err(ReadError::Field("elements")),
    })
}

fn cell(told: &Object, value: impl Fn() -> Outcome<Vec<u8>>) -> Outcome<Cell<Vec<u8>>> {
    let content = match told.get("deleted_at") {
        Some(_) => Content::Deleted(Seconds(integer(told, "deleted_at")?)),
        None => match expiry(told)? {
            Some(expiry) => Content::Expiring(value()?, expiry),
            None => Content::Live(value()?),
        },
    };
    Ok(Cell { timestamp: Timestamp(integer(told, "timestamp")?), content })
}

fn expiry(told: &Object) -> Outcome<Option<Expiry>> {
    if !told.contains_key("ttl") {
        return Ok(None);
    }
    let at = Seconds(integer(told, "expires_at")?);
    Ok(Some(Expiry { at, ttl: Ttl(narrow(told, "ttl")?) }))
}

fn deletion(told: &Object, field: &'static str) -> Outcome<Option<Deletion>> {
    let Some(deletion) = told.get(field) else { return Ok(None) };
    let deletion = deletion.as_object().ok_or(ReadError::Field(field))?;
    let timestamp = Timestamp(integer(deletion, "timestamp")?);
    Ok(Some(Deletion { timestamp, at: Seconds(integer(deletion, "deleted_at")?) }))
}

fn nullable(column: &Column, value: &Json) -> Outcome<Option<Vec<u8>>> {
    if value.is_null() { Ok(None) } else { value_of(column, &column.ty, value).map(Some) }
}

fn value_of(column: &Column, ty: &CqlType, value: &Json) -> Outcome<Vec<u8>> {
    exact::read(ty, value)
        .map_err(|error| ReadError::Value { column: (&*column.name).into(), error })
}

fn object<'e>(object: &'e Object, field: &'static str) -> Outcome<&'e Object> {
    object.get(field).and_then(Json::as_object).ok_or(ReadError::Field(field))
}

fn text_of<'e>(object: &'e Object, field: &'static str) -> Outcome<&'e str> {
    object.get(field).and_then(Json::as_str).ok_or(ReadError::Field(field))
}

fn uuid(object: &Object, field: &'static str) -> Outcome<Uuid> {
    text_of(object, field)?.parse().map_err(|_| ReadError::Field(field))
}

fn integer(object: &Object, field: &'static str) -> Outcome<i64> {
    object.get(field).and_then(Json::as_i64).ok_or(ReadError::Field(field))
}

fn narrow<T: TryFrom<i64>>(object: &Object, field: &'static str) -> Outcome<T> {
    T::try_from(integer(object, field)?).map_err(|_| ReadError::Field(field))
}
