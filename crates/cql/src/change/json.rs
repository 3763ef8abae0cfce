//! Change events as JSON; `docs/formats/change-events.md` describes every field.
//!
//! Values are written by [`crate::exact`], so that reading an event gives the event. A column may
//! be left out or replaced by a hash ([`Policy`]); what was masked cannot be read back.

mod policy;
mod read;

use std::fmt::Write as _;
use std::ops::Range;

use uuid::Uuid;

use super::{Change, ChangeEvent, Encode, Operation, Scope};
use crate::datatype::CqlType;
use crate::exact;
use crate::json::{escape, whole, write_string, write_uuid};
use crate::schema::{Column, Table};
use crate::update::{
    Bound, Cell, ColumnUpdate, Content, Deletion, Element, Expiry, Liveness, RowUpdate, Side,
    Timestamp,
};

pub use policy::{Policy, Treatment};
pub use read::{ReadError, ReadEvent, read};

/// Room for the text of most events.
const USUAL_BYTES: usize = 1_000;

impl Encode for Policy {
    fn content_type(&self) -> &'static str {
        "application/json"
    }

    fn encode(&self, event: &ChangeEvent<'_>, out: &mut Vec<u8>) {
        out.clear();
        let mut text = String::from_utf8(std::mem::take(out)).unwrap_or_default();
        text.reserve(USUAL_BYTES);
        write(event, self, &mut text);
        *out = text.into_bytes();
    }
}

/// Appends an event.
pub fn write(event: &ChangeEvent<'_>, policy: &Policy, out: &mut String) {
    let table = event.table;
    let mut writer = Writer { table, policy, written: event.timestamp(), text: 0..0 };
    let operation = event.operation();
    out.push_str("{\"event_id\":\"");
    write_uuid(policy.shown_id(table, event.event_id), out);
    out.push_str("\",\"source_table\":\"");
    escape(&table.keyspace, out);
    out.push('.');
    escape(&table.name, out);
    out.push_str("\",\"table_id\":\"");
    write_uuid(table.id.0, out);
    for part in ["\",\"operation\":\"", operation.name(), "\",\"scope\":\"", event.scope().name()] {
        out.push_str(part);
    }
    out.push_str("\",\"primary_key\":");
    writer.primary_key(event, out);
    out.push_str(",\"before_data\":null,\"after_data\":");
    match &event.change {
        Change::Static(row) | Change::Row(row) if operation != Operation::Delete => {
            writer.after_data(row, out);
        }
        _ => out.push_str("null"),
    }
    out.push(',');
    let start = out.len();
    write_timestamp(writer.written, out);
    writer.text = start..out.len();
    writer.change(&event.change, out);
    out.push_str(",\"cassandra_node\":");
    write_string(&event.origin.node, out);
    out.push_str(",\"schema_version\":");
    whole(event.origin.schema_version, out);
    out.push_str(",\"trace_id\":\"");
    let trace_id = policy.shown_id(table, event.trace_id);
    out.push_str(trace_id.simple().encode_lower(&mut Uuid::encode_buffer()));
    out.push_str("\",\"position\":{\"segment\":");
    whole(event.origin.segment, out);
    out.push_str(",\"offset\":");
    whole(event.origin.offset, out);
    out.push_str(",\"index\":");
    whole(event.index, out);
    out.push_str("}}");
}

impl Operation {
    /// The word in an event.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Insert => "INSERT",
            Self::Update => "UPDATE",
            Self::Delete => "DELETE",
        }
    }
}

impl Scope {
    /// The word in an event.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Row => "row",
            Self::Partition => "partition",
            Self::Range => "range",
            Self::Static => "static",
            Self::Column => "column",
            Self::Element => "element",
        }
    }
}

struct Writer<'w> {
    table: &'w Table,
    policy: &'w Policy,
    /// The time of the event, and where its text is: most cells have the same.
    written: Timestamp,
    text: Range<usize>,
}

impl Writer<'_> {
    fn primary_key(&self, event: &ChangeEvent<'_>, out: &mut String) {
        let parts = self.table.key_parts(event.key).into_iter().flatten();
        let first = &mut true;
        out.push('{');
        for (column, part) in self.table.partition_key.iter().zip(parts) {
            label(column, first, out);
            self.value(column, &column.ty, part, out);
        }
        if let Change::Row(row) = &event.change {
            for (column, value) in self.table.clustering.iter().zip(&row.clustering) {
                label(column, first, out);
                match value {
                    Some(bytes) => self.value(column, &column.ty, bytes, out),
                    None => out.push_str("null"),
                }
            }
        }
        out.push('}');
    }

    /// A value of a column, or what stands for it.
    fn value(&self, column: &Column, ty: &CqlType, bytes: &[u8], out: &mut String) {
        if self.policy.treatment(self.table, column) == Treatment::Keep {
            exact::write(ty, bytes, out);
        } else {
            let hash = self.policy.hash(bytes).simple();
            let _infallible = write!(out, "{{\"$hash\":\"{hash}\"}}");
        }
    }

    /// The columns whose whole value the change tells: what it wrote, and null for what it deleted.
    fn after_data(&self, row: &RowUpdate<'_>, out: &mut String) {
        let first = &mut true;
        out.push('{');
        for update in &row.columns {
            let column = update.column();
            if self.policy.treatment(self.table, column) == Treatment::Drop {
                continue;
            }
            match update {
                ColumnUpdate::Simple(column, cell) => {
                    label(column, first, out);
                    match cell.content {
                        Content::Live(bytes) | Content::Expiring(bytes, _) => {
                            self.value(column, &column.ty, bytes, out);
                        }
                        Content::Deleted(_) => out.push_str("null"),
                    }
                }
                ColumnUpdate::Complex(column, Some(_), elements) => {
                    label(column, first, out);
                    self.whole(column, elements, out);
                }
                ColumnUpdate::Complex(_, None, _) => {}
            }
        }
        out.push('}');
    }

    /// A collection that was replaced.
    fn whole(&self, column: &Column, elements: &[Element<'_>], out: &mut String) {
        let live = || {
            elements.iter().filter_map(|(path, cell)| match cell.content {
                Content::Live(bytes) | Content::Expiring(bytes, _) => Some((*path, bytes)),
                Content::Deleted(_) => None,
            })
        };
        if live().next().is_none() {
            return out.push_str("null");
        }
        let first = &mut true;
        // A hash cannot be the name of a field: a masked map is a list of pairs, whatever its keys.
        let is_kept = self.policy.treatment(self.table, column) == Treatment::Keep;
        let named = match &*column.ty {
            CqlType::User(_) => true,
            CqlType::Map(key, _) => is_kept && exact::is_text(key),
            _ => false,
        };
        out.push(if named { '{' } else { '[' });
        for (path, bytes) in live() {
            separate(first, out);
            match &*column.ty {
                CqlType::List(element) => self.value(column, element, bytes, out),
                CqlType::Set(element) => self.value(column, element, path, out),
                CqlType::Map(_, value) if named => {
                    write_string(&String::from_utf8_lossy(path), out);
                    out.push(':');
                    self.value(column, value, bytes, out);
                }
                CqlType::Map(key, value) => {
                    out.push('[');
                    self.value(column, key, path, out);
                    out.push(',');
                    self.value(column, value, bytes, out);
                    out.push(']');
                }
                ty => {
                    let (field, ty) = field_of(ty, path).unwrap_or(("?", &CqlType::Blob));
                    write_string(field, out);
                    out.push(':');
                    self.value(column, ty, bytes, out);
                }
            }
        }
        out.push(if named { '}' } else { ']' });
    }

    fn change(&self, change: &Change<'_>, out: &mut String) {
        match change {
            Change::Partition(deletion) => write_deletion("deletion", *deletion, out),
            Change::Range(range) => {
                write_deletion("deletion", range.deletion, out);
                out.push_str(",\"range\":{\"start\":");
                self.bound(&range.start, Side::Before, out);
                out.push_str(",\"end\":");
                self.bound(&range.end, Side::After, out);
                out.push('}');
            }
            Change::Static(row) | Change::Row(row) => {
                if let Some(liveness) = row.liveness {
                    let Liveness { timestamp, expiry } = liveness;
                    out.push_str(",\"liveness\":{");
                    self.timestamp(timestamp, out);
                    write_expiry(expiry, out);
                    out.push('}');
                }
                if let Some(deletion) = row.deletion {
                    write_deletion("row_deletion", deletion, out);
                }
                self.columns(&row.columns, out);
            }
        }
    }

    /// A bound includes the rows that begin with its values if it lies on their far side.
    fn bound(&self, bound: &Bound<'_>, including: Side, out: &mut String) {
        let first = &mut true;
        out.push_str("{\"values\":[");
        for (column, value) in self.table.clustering.iter().zip(&bound.values) {
            separate(first, out);
            match value {
                Some(bytes) => self.value(column, &column.ty, bytes, out),
                None => out.push_str("null"),
            }
        }
        let _infallible = write!(out, "],\"inclusive\":{}}}", bound.side == including);
    }

    fn columns(&self, columns: &[ColumnUpdate<'_>], out: &mut String) {
        let first = &mut true;
        out.push_str(",\"columns\":{");
        for update in columns {
            let treatment = self.policy.treatment(self.table, update.column());
            if treatment == Treatment::Drop {
                continue;
            }
            label(update.column(), first, out);
            match update {
                ColumnUpdate::Simple(_, cell) => {
                    out.push('{');
                    self.cell(cell, out);
                    out.push('}');
                }
                ColumnUpdate::Complex(column, deletion, elements) => {
                    out.push('{');
                    if let Some(deletion) = deletion {
                        write_deletion("deletion", *deletion, out);
                        out.push(',');
                    }
                    out.push_str("\"elements\":[");
                    let first = &mut true;
                    for element in elements {
                        separate(first, out);
                        self.element(column, element, out);
                    }
                    out.push_str("]}");
                }
            }
        }
        out.push('}');
    }

    fn element(&self, column: &Column, (path, cell): &Element<'_>, out: &mut String) {
        out.push_str("{\"path\":");
        let value_type = match &*column.ty {
            CqlType::List(element) => {
                // Where an element stands says nothing of what it is.
                exact::write(&CqlType::TimeUuid, path, out);
                element
            }
            CqlType::Set(element) => {
                self.value(column, element, path, out);
                element
            }
            CqlType::Map(key, value) => {
                self.value(column, key, path, out);
                value
            }
            ty => match field_of(ty, path) {
                Some((field, ty)) => {
                    write_string(field, out);
                    ty
                }
                None => {
                    exact::write(&CqlType::Empty, path, out);
                    &CqlType::Blob
                }
            },
        };
        if let Content::Live(bytes) | Content::Expiring(bytes, _) = cell.content
            && !matches!(&*column.ty, CqlType::Set(_))
        {
            out.push_str(",\"value\":");
            self.value(column, value_type, bytes, out);
        }
        out.push(',');
        self.cell(cell, out);
        out.push('}');
    }

    /// Time and end of a cell, without braces.
    fn cell(&self, cell: &Cell<&[u8]>, out: &mut String) {
        self.timestamp(cell.timestamp, out);
        match cell.content {
            Content::Live(_) => {}
            Content::Expiring(_, expiry) => write_expiry(Some(expiry), out),
            Content::Deleted(at) => {
                let _infallible = write!(out, ",\"deleted_at\":{}", at.0);
            }
        }
    }

    fn timestamp(&self, timestamp: Timestamp, out: &mut String) {
        if timestamp == self.written {
            out.extend_from_within(self.text.clone());
        } else {
            write_timestamp(timestamp, out);
        }
    }
}

/// The name and type of the field that a path stands for.
fn field_of<'t>(ty: &'t CqlType, path: &[u8]) -> Option<(&'t str, &'t CqlType)> {
    let CqlType::User(user) = ty else { return None };
    let index = path.as_array().map(|raw| u16::from_be_bytes(*raw))?;
    user.fields.get(usize::from(index)).map(|(name, ty)| (&**name, ty))
}

fn write_timestamp(timestamp: Timestamp, out: &mut String) {
    out.push_str("\"timestamp\":");
    whole(timestamp.0, out);
}

fn write_expiry(expiry: Option<Expiry>, out: &mut String) {
    if let Some(Expiry { at, ttl }) = expiry {
        let _infallible = write!(out, ",\"ttl\":{},\"expires_at\":{}", ttl.0, at.0);
    }
}

/// A deletion as a field of its own, behind a comma.
fn write_deletion(field: &str, deletion: Deletion, out: &mut String) {
    let (timestamp, at) = (deletion.timestamp.0, deletion.at.0);
    if !out.ends_with('{') {
        out.push(',');
    }
    let _infallible = write!(out, "\"{field}\":{{\"timestamp\":{timestamp},\"deleted_at\":{at}}}");
}

fn label(column: &Column, first: &mut bool, out: &mut String) {
    separate(first, out);
    out.push_str(&column.label);
}

fn separate(first: &mut bool, out: &mut String) {
    if !std::mem::take(first) {
        out.push(',');
    }
}
