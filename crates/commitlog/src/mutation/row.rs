//! Rows: clustering, marker, deletion, the columns present, their cells.

use helenus_cql::schema::{Column, Table};
use helenus_cql::update::{
    Cell, Clustering, ColumnUpdate, Content, Element, Expiry, Liveness, RowUpdate,
};
use helenus_cql::wire::Reader;

use super::ErrorKind;
use super::partition::{Context, Outcome, Shape};

const HAS_TIMESTAMP: u8 = 0x04;
const HAS_TTL: u8 = 0x08;
const HAS_DELETION: u8 = 0x10;
const HAS_ALL_COLUMNS: u8 = 0x20;
const HAS_COMPLEX_DELETION: u8 = 0x40;
const HAS_EXTENSION: u8 = 0x80;

const EXTENSION_IS_STATIC: u8 = 0x01;
/// A deletion that a newer row marker lifts; deprecated views had them.
const EXTENSION_SHADOWABLE: u8 = 0x02;

const CELL_DELETED: u8 = 0x01;
const CELL_EXPIRING: u8 = 0x02;
const CELL_EMPTY: u8 = 0x04;
const CELL_ROW_TIMESTAMP: u8 = 0x08;
const CELL_ROW_TTL: u8 = 0x10;

/// From this many columns on, a row lists its columns instead of masking them.
const MASK_COLUMNS_MAX: usize = 64;
/// Clustering values under one header.
const CLUSTERING_GROUP: usize = 32;

/// The row before all others, which has no clustering.
pub(super) fn static_row<'a>(
    reader: &mut Reader<'a>,
    context: &Context<'a>,
) -> Outcome<RowUpdate<'a>> {
    let flags = reader.u8()?;
    let extension = if flags & HAS_EXTENSION == 0 { 0 } else { reader.u8()? };
    if extension != EXTENSION_IS_STATIC || flags & 0x03 != 0 {
        return Err(ErrorKind::Flags { what: "static row", flags }.into());
    }
    body(reader, flags, Vec::new(), &context.statics, context)
}

/// A row whose first flags have been read.
pub(super) fn row<'a>(
    reader: &mut Reader<'a>,
    flags: u8,
    context: &Context<'a>,
) -> Outcome<RowUpdate<'a>> {
    if flags & HAS_EXTENSION != 0 {
        let extension = reader.u8()?;
        if extension & !EXTENSION_SHADOWABLE != 0 {
            return Err(ErrorKind::Flags { what: "extended row", flags: extension }.into());
        }
    }
    let values = clustering(reader, context.table, context.table.clustering.len())?;
    body(reader, flags, values, &context.regulars, context)
}

/// `size` clustering values: a header of two bits a value for every 32 of them.
pub(super) fn clustering<'a>(
    reader: &mut Reader<'a>,
    table: &'a Table,
    size: usize,
) -> Outcome<Clustering<'a>> {
    let columns = table.clustering.len();
    if size > columns {
        return Err(ErrorKind::Clustering { found: size, columns }.into());
    }
    let mut values = Vec::with_capacity(size);
    let mut header = 0;
    for (index, column) in table.clustering.iter().take(size).enumerate() {
        if index % CLUSTERING_GROUP == 0 {
            header = reader.unsigned_vint()?;
        }
        let (empty, null) = (header & 1 != 0, header & 2 != 0);
        header >>= 2;
        values.push(match (null, empty) {
            (true, _) => None,
            (false, true) => Some(&[][..]),
            (false, false) => Some(match column.ty.fixed_length() {
                Some(length) => reader.take(length)?,
                None => reader.vint_bytes()?,
            }),
        });
    }
    Ok(values)
}

fn body<'a>(
    reader: &mut Reader<'a>,
    flags: u8,
    clustering: Clustering<'a>,
    columns: &[(&'a Column, Shape)],
    context: &Context<'a>,
) -> Outcome<RowUpdate<'a>> {
    let liveness = liveness(reader, flags, context)?;
    let deletion = if flags & HAS_DELETION == 0 { None } else { context.deletion(reader)? };
    let mut row = RowUpdate { clustering, liveness, deletion, columns: Vec::new() };
    let present = if flags & HAS_ALL_COLUMNS == 0 {
        Present::read(reader, columns.len())?
    } else {
        Present::All
    };
    row.columns.reserve_exact(present.count(columns.len()));
    let cells = Cells { context, liveness, deletions: flags & HAS_COMPLEX_DELETION != 0 };
    match present {
        Present::All => {
            for (column, shape) in columns {
                cells.column(reader, column, *shape, &mut row.columns)?;
            }
        }
        Present::Mask(mut mask) => {
            for (column, shape) in columns {
                if mask & 1 != 0 {
                    cells.column(reader, column, *shape, &mut row.columns)?;
                }
                mask >>= 1;
            }
        }
        Present::List(indexes) => {
            for index in indexes {
                let (column, shape) = columns.get(index).ok_or(ErrorKind::Columns)?;
                cells.column(reader, column, *shape, &mut row.columns)?;
            }
        }
    }
    Ok(row)
}

/// The row's marker; here the TTL comes before the expiry.
fn liveness(
    reader: &mut Reader<'_>,
    flags: u8,
    context: &Context<'_>,
) -> Outcome<Option<Liveness>> {
    if flags & HAS_TIMESTAMP == 0 {
        return if flags & HAS_TTL == 0 {
            Ok(None)
        } else {
            Err(ErrorKind::Flags { what: "row", flags }.into())
        };
    }
    let timestamp = context.timestamp(reader)?;
    let expiry = if flags & HAS_TTL == 0 {
        None
    } else {
        let ttl = context.ttl(reader)?;
        Some(Expiry { at: context.local_time(reader)?, ttl })
    };
    Ok(Some(Liveness { timestamp, expiry }))
}

/// Which of the update's columns a row has.
enum Present {
    /// Every one.
    All,
    /// A bit a column, the first column lowest.
    Mask(u64),
    /// Their indexes.
    List(Vec<usize>),
}

impl Present {
    fn read(reader: &mut Reader<'_>, columns: usize) -> Outcome<Self> {
        let encoded = reader.unsigned_vint()?;
        if encoded == 0 {
            return Ok(Self::All);
        }
        if columns < MASK_COLUMNS_MAX {
            let all = !(u64::MAX << columns);
            // The record masks what is missing.
            return if encoded & !all == 0 {
                Ok(Self::Mask(all & !encoded))
            } else {
                Err(ErrorKind::Columns.into())
            };
        }
        let missing = usize::try_from(encoded).map_err(|_| ErrorKind::Columns)?;
        let present = columns.checked_sub(missing).ok_or(ErrorKind::Columns)?;
        // The shorter of the two lists is written.
        if present < columns / 2 {
            return Ok(Self::List(ascending(reader, present, columns)?));
        }
        let mut absent = ascending(reader, missing, columns)?.into_iter().peekable();
        let listed = (0..columns).filter(|index| absent.next_if_eq(index).is_none());
        Ok(Self::List(listed.collect()))
    }

    fn count(&self, columns: usize) -> usize {
        match self {
            Self::All => columns,
            Self::Mask(mask) => usize::try_from(mask.count_ones()).unwrap_or(0),
            Self::List(indexes) => indexes.len(),
        }
    }
}

/// So many indexes below `limit`, each larger than the one before.
fn ascending(reader: &mut Reader<'_>, count: usize, limit: usize) -> Outcome<Vec<usize>> {
    let mut indexes = Vec::with_capacity(count);
    let mut smallest = 0;
    for _ in 0..count {
        let index = usize::try_from(reader.unsigned_vint()?).map_err(|_| ErrorKind::Columns)?;
        if index < smallest || index >= limit {
            return Err(ErrorKind::Columns.into());
        }
        smallest = index + 1;
        indexes.push(index);
    }
    Ok(indexes)
}

/// What the cells of one row share.
struct Cells<'c, 'a> {
    context: &'c Context<'a>,
    liveness: Option<Liveness>,
    deletions: bool,
}

impl<'a> Cells<'_, 'a> {
    #[inline]
    fn column(
        &self,
        reader: &mut Reader<'a>,
        column: &'a Column,
        shape: Shape,
        columns: &mut Vec<ColumnUpdate<'a>>,
    ) -> Outcome<()> {
        if !matches!(shape, Shape::Complex) {
            columns.push(ColumnUpdate::Simple(column, self.cell(reader, shape)?.1));
            return Ok(());
        }
        let deletion = if self.deletions { self.context.deletion(reader)? } else { None };
        let count = reader.unsigned_vint()?;
        let mut elements = Vec::with_capacity(usize::try_from(count.min(16)).unwrap_or(0));
        for _ in 0..count {
            elements.push(self.cell(reader, shape)?);
        }
        columns.push(ColumnUpdate::Complex(column, deletion, elements));
        Ok(())
    }

    /// A cell and its path; here the expiry comes before the TTL.
    #[inline(always)]
    fn cell(&self, reader: &mut Reader<'a>, shape: Shape) -> Outcome<Element<'a>> {
        let flags = reader.u8()?;
        let malformed = || ErrorKind::Flags { what: "cell", flags };
        let (deleted, expiring) = (flags & CELL_DELETED != 0, flags & CELL_EXPIRING != 0);
        if flags & 0xe0 != 0 || deleted && expiring {
            return Err(malformed().into());
        }
        let timestamp = if flags & CELL_ROW_TIMESTAMP == 0 {
            self.context.timestamp(reader)?
        } else {
            self.liveness.ok_or_else(malformed)?.timestamp
        };
        let expiry = if flags & CELL_ROW_TTL != 0 {
            Some(self.liveness.and_then(|liveness| liveness.expiry).ok_or_else(malformed)?)
        } else if deleted || expiring {
            let at = self.context.local_time(reader)?;
            let ttl =
                if expiring { self.context.ttl(reader)? } else { helenus_cql::update::Ttl(0) };
            Some(Expiry { at, ttl })
        } else {
            None
        };
        let path = if matches!(shape, Shape::Complex) { reader.vint_bytes()? } else { &[] };
        let value = match shape {
            _ if flags & CELL_EMPTY != 0 => &[],
            Shape::Fixed(length) => reader.take(length)?,
            Shape::Prefixed | Shape::Complex => reader.vint_bytes()?,
        };
        let content = match expiry {
            Some(expiry) if deleted => Content::Deleted(expiry.at),
            Some(expiry) if expiring => Content::Expiring(value, expiry),
            _ => Content::Live(value),
        };
        Ok((path, Cell { timestamp, content }))
    }
}
