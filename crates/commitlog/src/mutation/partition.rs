//! One partition update: flags, bases of the deltas, columns, then rows and range markers.

use helenus_cql::schema::{Column, ColumnKind, Table};
use helenus_cql::update::{
    Bound, Deletion, Item, Marker, PartitionUpdate, Seconds, Side, Timestamp, Ttl,
};
use helenus_cql::wire::{Reader, low_i32};

use super::{ErrorKind, row};
use crate::header::Version;

const IS_EMPTY: u8 = 0x01;
const HAS_PARTITION_DELETION: u8 = 0x04;
const HAS_STATIC_ROW: u8 = 0x08;
const HAS_ROW_ESTIMATE: u8 = 0x10;

const END_OF_PARTITION: u8 = 0x01;
const IS_MARKER: u8 = 0x02;

/// 2015-09-22, from which the bases count.
const TIMESTAMP_EPOCH: i64 = 1_442_880_000_000_000;
const LOCAL_EPOCH: i32 = 1_442_880_000;

/// Boxed, because a large error makes every good value be copied out of its result.
pub(super) type Outcome<T> = Result<T, Box<ErrorKind>>;

/// How the values of a column are written.
#[derive(Debug, Clone, Copy)]
pub(super) enum Shape {
    /// Without a length.
    Fixed(usize),
    /// Behind their length.
    Prefixed,
    /// As cells with paths.
    Complex,
}

/// What the rows of an update share.
#[derive(Debug)]
pub(super) struct Context<'a> {
    pub(super) table: &'a Table,
    pub(super) statics: Vec<(&'a Column, Shape)>,
    pub(super) regulars: Vec<(&'a Column, Shape)>,
    version: Version,
    timestamp: i64,
    local: i32,
    ttl: i32,
}

impl Context<'_> {
    /// All differences wrap: the bases need not be smaller than what is counted from them.
    #[inline]
    pub(super) fn timestamp(&self, reader: &mut Reader<'_>) -> Outcome<Timestamp> {
        let delta = reader.unsigned_vint()?.cast_signed();
        Ok(Timestamp(self.timestamp.wrapping_add(delta)))
    }

    pub(super) fn ttl(&self, reader: &mut Reader<'_>) -> Outcome<Ttl> {
        Ok(Ttl(self.ttl.wrapping_add(low_i32(reader.unsigned_vint()?))))
    }

    /// A server time; version 8 reads the same 32 bits without a sign, to get beyond 2038.
    pub(super) fn local_time(&self, reader: &mut Reader<'_>) -> Outcome<Seconds> {
        let seconds = self.local.wrapping_add(low_i32(reader.unsigned_vint()?));
        Ok(Seconds(match self.version {
            Version::V6 | Version::V7 => i64::from(seconds),
            Version::V8 => i64::from(seconds.cast_unsigned()),
        }))
    }

    /// A deletion; the smallest timestamp stands for none, whatever the second field says.
    pub(super) fn deletion(&self, reader: &mut Reader<'_>) -> Outcome<Option<Deletion>> {
        let timestamp = self.timestamp(reader)?;
        let at = self.local_time(reader)?;
        Ok((timestamp.0 != i64::MIN).then_some(Deletion { timestamp, at }))
    }
}

/// Decodes an update whose table id has been read.
pub(super) fn decode<'a>(
    reader: &mut Reader<'a>,
    table: &'a Table,
    version: Version,
) -> Outcome<PartitionUpdate<'a>> {
    let key = reader.vint_bytes()?;
    let flags = reader.u8()?;
    let mut update =
        PartitionUpdate { table, key, deletion: None, static_row: None, items: Vec::new() };
    if flags & IS_EMPTY != 0 {
        return Ok(update);
    }
    let known = HAS_PARTITION_DELETION | HAS_STATIC_ROW | HAS_ROW_ESTIMATE;
    if flags & !known != 0 {
        return Err(ErrorKind::Flags { what: "partition", flags }.into());
    }
    let timestamp = TIMESTAMP_EPOCH.wrapping_add(reader.unsigned_vint()?.cast_signed());
    let local = LOCAL_EPOCH.wrapping_add(low_i32(reader.unsigned_vint()?));
    let ttl = low_i32(reader.unsigned_vint()?);
    let has_static = flags & HAS_STATIC_ROW != 0;
    let statics = if has_static { columns(reader, table, ColumnKind::Static)? } else { Vec::new() };
    let regulars = columns(reader, table, ColumnKind::Regular)?;
    let context = Context { table, statics, regulars, version, timestamp, local, ttl };
    if flags & HAS_PARTITION_DELETION != 0 {
        update.deletion = context.deletion(reader)?;
    }
    if has_static {
        update.static_row = Some(row::static_row(reader, &context)?);
    }
    let estimate = if flags & HAS_ROW_ESTIMATE == 0 { 0 } else { reader.unsigned_vint()? };
    // The estimate is taken for what it is, and not beyond what ordinary writes have or what is left
    // of the record could hold.
    let estimate = usize::try_from(estimate.min(128)).unwrap_or(0).min(reader.rest().len());
    update.items.reserve_exact(estimate);
    items(reader, &context, &mut update.items)?;
    // Nodes count their rows. What claims more than it has must not keep the room: a record of many
    // tiny updates would take hundreds of times its own size.
    if update.items.len() < estimate {
        update.items.shrink_to_fit();
    }
    Ok(update)
}

/// The columns this update writes, in the order all its rows refer to them.
fn columns<'a>(
    reader: &mut Reader<'a>,
    table: &'a Table,
    kind: ColumnKind,
) -> Outcome<Vec<(&'a Column, Shape)>> {
    let claimed = reader.unsigned_vint()?;
    // No column is listed twice, so what the schema knows bounds what is set aside.
    let known = |count: &usize| *count <= table.columns().len();
    let Some(count) = usize::try_from(claimed).ok().filter(known) else {
        return Err(too_many_columns(reader, claimed, table, kind)?.into());
    };
    let mut columns = Vec::with_capacity(count);
    let mut hint = 0;
    for _ in 0..count {
        let name = reader.vint_bytes()?;
        let column = table.next_column(name, kind, &mut hint);
        let column = column.ok_or_else(|| unknown_column(name))?;
        columns.push((column, shape(column)));
    }
    Ok(columns)
}

fn unknown_column(name: &[u8]) -> ErrorKind {
    ErrorKind::UnknownColumn(String::from_utf8_lossy(name).into())
}

/// More columns than the schema knows: names the first unknown one, if there is one.
fn too_many_columns(
    reader: &mut Reader<'_>,
    count: u64,
    table: &Table,
    kind: ColumnKind,
) -> Outcome<ErrorKind> {
    for _ in 0..count {
        let name = reader.vint_bytes()?;
        if table.column(name, kind).is_none() {
            return Ok(unknown_column(name));
        }
    }
    Ok(ErrorKind::Columns)
}

fn shape(column: &Column) -> Shape {
    if column.is_complex() {
        return Shape::Complex;
    }
    column.ty.fixed_length().map_or(Shape::Prefixed, Shape::Fixed)
}

fn items<'a>(
    reader: &mut Reader<'a>,
    context: &Context<'a>,
    items: &mut Vec<Item<'a>>,
) -> Outcome<()> {
    loop {
        let flags = reader.u8()?;
        if flags & END_OF_PARTITION != 0 {
            return Ok(());
        }
        if context.table.clustering.is_empty() && !items.is_empty() {
            return Err(ErrorKind::SecondRow.into());
        }
        items.push(if flags & IS_MARKER == 0 {
            Item::Row(row::row(reader, flags, context)?)
        } else if flags == IS_MARKER {
            Item::Marker(marker(reader, context)?)
        } else {
            return Err(ErrorKind::Flags { what: "marker", flags }.into());
        });
    }
}

fn marker<'a>(reader: &mut Reader<'a>, context: &Context<'a>) -> Outcome<Marker<'a>> {
    let kind = reader.u8()?;
    // Kinds 3 and 4 stand for rows elsewhere in Cassandra and never open or close a range.
    let (side, ends, starts) = match kind {
        0 => (Side::Before, true, false),
        1 => (Side::Before, false, true),
        2 => (Side::Before, true, true),
        5 => (Side::After, true, true),
        6 => (Side::After, true, false),
        7 => (Side::After, false, true),
        other => return Err(ErrorKind::MarkerKind(other).into()),
    };
    let size = usize::from(reader.u16()?);
    let values = row::clustering(reader, context.table, size)?;
    let end = if ends { context.deletion(reader)? } else { None };
    let start = if starts { context.deletion(reader)? } else { None };
    Ok(Marker { bound: Bound { values, side }, end, start })
}
