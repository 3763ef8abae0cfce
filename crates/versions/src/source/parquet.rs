//! Parquet files. What of their types has no counterpart in CQL is refused by name.

use std::borrow::Cow;
use std::io::Read;
use std::ops::ControlFlow;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, LargeListArray, ListArray};
use arrow::datatypes::{
    DataType, Date32Type, Decimal128Type, Field as ArrowField, Float32Type, Float64Type, Int8Type,
    Int16Type, Int32Type, Int64Type, Time64MicrosecondType, Time64NanosecondType, TimeUnit,
    TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType,
    TimestampSecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use bytes::Bytes;
use helenus_cql::datatype::CqlType;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::errors::{ParquetError, Result as ParquetResult};
use parquet::file::reader::{ChunkReader, Length};
use serde_json::Value as Json;

use super::{Blob, Event, File, SourceError, Storage, Visitor, partition_fields};
use crate::row::Field;

/// Rows decoded at a time.
const BATCH_ROWS: usize = 1_024;

pub(super) fn read(
    file: &File,
    storage: &dyn Storage,
    visitor: &mut Visitor<'_>,
) -> Result<ControlFlow<()>, SourceError> {
    let Some(entry) = &file.entry else {
        return Err(SourceError::Standard { reason: "cannot be Parquet" });
    };
    let failed = |error: ParquetError| SourceError::malformed(file, error.to_string());
    let blob = storage.open(entry).map_err(SourceError::io(file))?;
    let builder = ParquetRecordBatchReaderBuilder::try_new(Chunks(blob)).map_err(failed)?;
    let schema = Arc::clone(builder.schema());
    let mut names = Vec::new();
    let mut types = Vec::new();
    for field in schema.fields() {
        let ty = cql_type(field).ok_or_else(|| {
            let (name, ty) = (field.name(), field.data_type());
            let column = format!("column {name} is {ty}").into();
            SourceError::Untyped { path: file.path.clone(), column }
        })?;
        names.push(field.name().clone());
        types.push(ty);
    }
    names.extend(file.partitions.iter().map(|partition| partition.name.clone()));
    types.extend(file.partitions.iter().map(|_| CqlType::Text));
    let partitions = file.partitions.len();
    let event = Event::Fields { names: &names, partitions, types: &types, open: false };
    if visitor(file, event).is_break() {
        return Ok(ControlFlow::Break(()));
    }
    let partitions = partition_fields(file);
    let mut line = 0;
    for batch in builder.with_batch_size(BATCH_ROWS).build().map_err(failed)? {
        let batch = batch.map_err(|error| SourceError::malformed(file, error.to_string()))?;
        for row in 0..batch.num_rows() {
            line += 1;
            let mut fields: Vec<Field<'_>> =
                batch.columns().iter().map(|column| field(column, row)).collect();
            fields.extend(partitions.iter().cloned());
            if visitor(file, Event::Record { line, fields: &fields }).is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
    }
    Ok(ControlFlow::Continue(()))
}

/// The type a column would have that was made for it.
fn cql_type(field: &ArrowField) -> Option<CqlType> {
    Some(match field.data_type() {
        DataType::Boolean => CqlType::Boolean,
        DataType::Int8 => CqlType::TinyInt,
        DataType::Int16 | DataType::UInt8 => CqlType::SmallInt,
        DataType::Int32 | DataType::UInt16 => CqlType::Int,
        DataType::Int64 | DataType::UInt32 => CqlType::BigInt,
        DataType::UInt64 => CqlType::VarInt,
        DataType::Float32 => CqlType::Float,
        DataType::Float64 => CqlType::Double,
        DataType::Utf8 | DataType::LargeUtf8 => CqlType::Text,
        DataType::Binary | DataType::LargeBinary | DataType::FixedSizeBinary(_) => CqlType::Blob,
        DataType::Date32 => CqlType::Date,
        DataType::Time64(_) => CqlType::Time,
        DataType::Timestamp(..) => CqlType::Timestamp,
        DataType::Decimal128(..) => CqlType::Decimal,
        DataType::List(element) | DataType::LargeList(element) => {
            let inner =
                cql_type(element).filter(|ty| !matches!(ty, CqlType::List(_) | CqlType::Blob))?;
            CqlType::List(Arc::new(inner))
        }
        _ => return None,
    })
}

/// The value of a column in a row.
fn field(column: &ArrayRef, row: usize) -> Field<'_> {
    if column.is_null(row) {
        return Field::Null;
    }
    macro_rules! int {
        ($ty:ty) => {
            Field::Int(i64::from(column.as_primitive::<$ty>().value(row)))
        };
    }
    let text = |text: String| Field::Text(Cow::Owned(text));
    match column.data_type() {
        DataType::Boolean => Field::Bool(column.as_boolean().value(row)),
        DataType::Int8 => int!(Int8Type),
        DataType::Int16 => int!(Int16Type),
        DataType::Int32 => int!(Int32Type),
        DataType::Int64 => int!(Int64Type),
        DataType::UInt8 => int!(UInt8Type),
        DataType::UInt16 => int!(UInt16Type),
        DataType::UInt32 => int!(UInt32Type),
        DataType::UInt64 => text(column.as_primitive::<UInt64Type>().value(row).to_string()),
        DataType::Float32 => {
            Field::Float(f64::from(column.as_primitive::<Float32Type>().value(row)))
        }
        DataType::Float64 => Field::Float(column.as_primitive::<Float64Type>().value(row)),
        DataType::Utf8 => Field::Text(Cow::Borrowed(column.as_string::<i32>().value(row))),
        DataType::LargeUtf8 => Field::Text(Cow::Borrowed(column.as_string::<i64>().value(row))),
        DataType::Binary => Field::Bytes(Cow::Borrowed(column.as_binary::<i32>().value(row))),
        DataType::LargeBinary => Field::Bytes(Cow::Borrowed(column.as_binary::<i64>().value(row))),
        DataType::FixedSizeBinary(_) => {
            Field::Bytes(Cow::Borrowed(column.as_fixed_size_binary().value(row)))
        }
        DataType::Date32 => text(date(column.as_primitive::<Date32Type>().value(row))),
        DataType::Decimal128(..) => {
            text(column.as_primitive::<Decimal128Type>().value_as_string(row))
        }
        DataType::Time64(unit) => text(time(match unit {
            TimeUnit::Nanosecond => column.as_primitive::<Time64NanosecondType>().value(row),
            _ => column.as_primitive::<Time64MicrosecondType>().value(row).saturating_mul(1_000),
        })),
        DataType::Timestamp(unit, _) => Field::Int(match unit {
            TimeUnit::Second => {
                column.as_primitive::<TimestampSecondType>().value(row).saturating_mul(1_000)
            }
            TimeUnit::Millisecond => column.as_primitive::<TimestampMillisecondType>().value(row),
            TimeUnit::Microsecond => {
                column.as_primitive::<TimestampMicrosecondType>().value(row).div_euclid(1_000)
            }
            TimeUnit::Nanosecond => {
                column.as_primitive::<TimestampNanosecondType>().value(row).div_euclid(1_000_000)
            }
        }),
        DataType::List(_) | DataType::LargeList(_) => Field::Json(Cow::Owned(list(column, row))),
        _ => Field::Null,
    }
}

/// A list as JSON: what its elements say, in order.
fn list(column: &ArrayRef, row: usize) -> Json {
    let any = column.as_any();
    let values = match (any.downcast_ref::<ListArray>(), any.downcast_ref::<LargeListArray>()) {
        (Some(list), _) => list.value(row),
        (None, Some(list)) => list.value(row),
        _ => return Json::Null,
    };
    let element = |place| match field(&values, place) {
        Field::Null | Field::Bytes(_) => Json::Null,
        Field::Text(text) => Json::String(text.into_owned()),
        Field::Bool(truth) => Json::Bool(truth),
        Field::Int(number) => number.into(),
        Field::Float(number) => number.into(),
        Field::Json(json) => json.into_owned(),
    };
    Json::Array((0..values.len()).map(element).collect())
}

fn date(days: i32) -> String {
    let epoch = jiff::civil::date(1970, 1, 1);
    let day = epoch.checked_add(jiff::Span::new().days(i64::from(days)));
    // Beyond the calendar it is no date: the row is reported with this text.
    day.map_or_else(|_| format!("{days} days since 1970"), |day| day.to_string())
}

fn time(nanoseconds: i64) -> String {
    let seconds = nanoseconds.div_euclid(1_000_000_000);
    let (hour, minute, second) = (seconds / 3_600, seconds / 60 % 60, seconds % 60);
    format!("{hour:02}:{minute:02}:{second:02}.{:09}", nanoseconds.rem_euclid(1_000_000_000))
}

struct Chunks(Blob);

impl Length for Chunks {
    fn len(&self) -> u64 {
        self.0.bytes()
    }
}

impl ChunkReader for Chunks {
    type T = super::storage::BlobReader;

    fn get_read(&self, start: u64) -> ParquetResult<Self::T> {
        Ok(self.0.clone().reader_at(start))
    }

    fn get_bytes(&self, start: u64, length: usize) -> ParquetResult<Bytes> {
        // No more than there is, whatever the file claims.
        let there = self.0.bytes().saturating_sub(start);
        let mut bytes = Vec::new();
        self.get_read(start)?.take(there.min(length as u64)).read_to_end(&mut bytes)?;
        if bytes.len() < length {
            return Err(ParquetError::EOF(format!("{length} bytes at {start} are not there")));
        }
        Ok(bytes.into())
    }
}
