//! Rows at a moment, printed as `SELECT JSON *` prints them.

use std::collections::btree_map;
use std::vec;

use super::Error;
use super::cell::{covers, is_live, live_value};
use super::clustering::ClusteringKey;
use super::column::{ColumnKey, ColumnState, ComplexState};
use super::partition::{PartitionState, TableState};
use super::row::RowState;
use crate::datatype::CqlType;
use crate::json;
use crate::schema::{Column, Layout, Table};
use crate::token::Token;
use crate::update::{Deletion, Seconds};
use crate::value::Value;

/// An iterator over rows; see [`TableState::select`].
#[derive(Debug)]
pub struct Select<'a> {
    view: View<'a>,
    partitions: btree_map::Iter<'a, (Token, Box<[u8]>), PartitionState>,
    pending: vec::IntoIter<Result<String, Error>>,
}

impl<'a> Select<'a> {
    pub(super) fn new(state: &'a TableState, table: &'a Table, now: Seconds) -> Self {
        let pending = Vec::new().into_iter();
        let (statics, regulars) = (table.statics(), table.regulars());
        let view = View { table, statics, regulars, now };
        Self { view, partitions: state.partitions.iter(), pending }
    }
}

impl Iterator for Select<'_> {
    type Item = Result<String, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(row) = self.pending.next() {
                return Some(row);
            }
            let ((_, key), partition) = self.partitions.next()?;
            self.pending = self.view.partition(key, partition).into_iter();
        }
    }
}

/// A table at a moment.
#[derive(Debug)]
struct View<'a> {
    table: &'a Table,
    statics: Vec<&'a Column>,
    regulars: Vec<&'a Column>,
    now: Seconds,
}

/// What covers a column: the deletion of its row, and what lies above that.
#[derive(Debug, Clone, Copy)]
struct Cover {
    own: Option<Deletion>,
    above: Option<Deletion>,
}

impl View<'_> {
    fn partition(&self, key: &[u8], partition: &PartitionState) -> Vec<Result<String, Error>> {
        let statics = match self.columns(&self.statics, &partition.statics, partition.deletion) {
            Ok(statics) => statics,
            Err(error) => return vec![Err(error)],
        };
        let head = match self.key(key) {
            Ok(head) => head,
            Err(error) => return vec![Err(error)],
        };
        let mut rows = Vec::new();
        if self.table.layout != Layout::StaticCompact {
            for (clustering, row) in &partition.rows {
                let above = partition.covering(clustering);
                rows.extend(self.row(&head, clustering, &statics, row, above).transpose());
            }
        }
        if rows.is_empty() && statics.any_live {
            rows.push(Ok(self.statics_alone(&head, &statics)));
        }
        rows
    }

    fn row(
        &self,
        head: &str,
        clustering: &ClusteringKey,
        statics: &Shown,
        row: &RowState,
        above: Option<Deletion>,
    ) -> Result<Option<String>, Error> {
        let deletion = above.max(row.deletion);
        let marked = row.liveness.is_some_and(|liveness| {
            !covers(deletion, liveness.timestamp) && is_live(&liveness, self.now)
        });
        let columns = self.columns(&self.regulars, row, above)?;
        let is_there = marked || (columns.any_live && !self.table.strict_liveness);
        if !is_there {
            return Ok(None);
        }
        let mut out = String::from(head);
        let mut values = clustering.values();
        for column in &self.table.clustering {
            field(&column.name, &mut out);
            match values.next().flatten() {
                Some(bytes) => write_value(column, bytes, &mut out)?,
                None => out.push_str("null"),
            }
        }
        out.push_str(&statics.text);
        out.push_str(&columns.text);
        out.push('}');
        Ok(Some(out))
    }

    /// A partition that has static values and no rows shows one row of nulls around them.
    fn statics_alone(&self, head: &str, statics: &Shown) -> String {
        let mut out = String::from(head);
        let shown = self.table.layout != Layout::StaticCompact;
        for column in self.table.clustering.iter().filter(|_| shown) {
            field(&column.name, &mut out);
            out.push_str("null");
        }
        out.push_str(&statics.text);
        for column in self.regulars.iter().filter(|column| shown && self.is_shown(column)) {
            field(&column.name, &mut out);
            out.push_str("null");
        }
        out.push('}');
        out
    }

    /// The opening brace and the partition key.
    fn key(&self, key: &[u8]) -> Result<String, Error> {
        let mut out = String::from("{");
        let parts = self.table.key_parts(key).ok_or(Error::Key)?;
        for (column, part) in self.table.partition_key.iter().zip(parts) {
            field(&column.name, &mut out);
            write_value(column, part, &mut out)?;
        }
        Ok(out)
    }

    fn columns(
        &self,
        columns: &[&Column],
        row: &RowState,
        above: Option<Deletion>,
    ) -> Result<Shown, Error> {
        let mut shown = Shown::default();
        let mut text = String::new();
        for column in columns {
            let void = column.dropped_at.map(|at| Deletion { timestamp: at, at: Seconds(0) });
            let state = row.columns.get(&ColumnKey::of(column));
            text.clear();
            let live = match state {
                None => false,
                Some(state) => {
                    let cover = Cover { own: row.deletion, above: above.max(void) };
                    self.column(column, state, cover, &mut text)?
                }
            };
            shown.any_live |= live;
            if self.is_shown(column) {
                field(&column.name, &mut shown.text);
                shown.text.push_str(if live { &text } else { "null" });
            }
        }
        Ok(shown)
    }

    /// Writes a column's value; false if it has none.
    fn column(
        &self,
        column: &Column,
        state: &ColumnState,
        cover: Cover,
        out: &mut String,
    ) -> Result<bool, Error> {
        let deletion = cover.own.max(cover.above);
        match state {
            ColumnState::Simple(cell) if !covers(deletion, cell.timestamp) => {
                match live_value(cell, self.now) {
                    Some(bytes) => write_value(column, bytes, out).map(|()| true),
                    None => Ok(false),
                }
            }
            ColumnState::Simple(_) => Ok(false),
            ColumnState::Counter(counter) => {
                let value = counter.value(cover.own, cover.above);
                json::write(value.map(Value::Counter).as_ref(), out);
                Ok(value.is_some())
            }
            ColumnState::Complex(complex) => self.complex(column, complex, deletion, out),
        }
    }

    fn complex(
        &self,
        column: &Column,
        complex: &ComplexState,
        deletion: Option<Deletion>,
        out: &mut String,
    ) -> Result<bool, Error> {
        let deletion = deletion.max(complex.deletion);
        let live = complex.cells.iter().filter_map(|(key, cell)| {
            let value = live_value(cell, self.now).filter(|_| !covers(deletion, cell.timestamp));
            value.map(|value| (key.bytes(), value))
        });
        let cells: Vec<(&[u8], &[u8])> = live.collect();
        if cells.is_empty() {
            return Ok(false);
        }
        let written = write_complex(&column.ty, &cells, out);
        written.map(|()| true).map_err(|error| Error::value(&column.name, error))
    }

    /// The value column that compact tables of nothing but a key keep is not shown. It is one like
    /// any other as soon as the table is no longer compact.
    fn is_shown(&self, column: &Column) -> bool {
        self.table.layout != Layout::Dense || *column.ty != CqlType::Empty
    }
}

/// Starts a field; only the first one of a row has no comma before it.
fn field(name: &str, out: &mut String) {
    if out != "{" {
        out.push_str(", ");
    }
    json::write_name(name, out);
    out.push_str(": ");
}

/// The columns of a row, each with a comma before it, and whether any has a value.
#[derive(Debug, Default)]
struct Shown {
    text: String,
    any_live: bool,
}

fn write_value(column: &Column, bytes: &[u8], out: &mut String) -> Result<(), Error> {
    let value =
        Value::decode(&column.ty, bytes).map_err(|error| Error::value(&column.name, error))?;
    json::write(Some(&value), out);
    Ok(())
}

/// Writes the live cells of a complex column, given by path and value in order.
fn write_complex(
    ty: &CqlType,
    cells: &[(&[u8], &[u8])],
    out: &mut String,
) -> Result<(), crate::value::ValueError> {
    match ty {
        CqlType::List(element) => {
            let values: Result<Vec<_>, _> =
                cells.iter().map(|(_, value)| Value::decode(element, value)).collect();
            json::write_list(values?.iter().map(Some), out);
        }
        CqlType::Set(element) => {
            let values: Result<Vec<_>, _> =
                cells.iter().map(|(path, _)| Value::decode(element, path)).collect();
            json::write_list(values?.iter().map(Some), out);
        }
        CqlType::Map(key, mapped) => {
            let mut entries = Vec::with_capacity(cells.len());
            for (path, value) in cells {
                entries.push((Value::decode(key, path)?, Value::decode(mapped, value)?));
            }
            json::write_map(entries.iter().map(|(key, value)| (key, Some(value))), out);
        }
        CqlType::User(user) => {
            let mut fields = Vec::with_capacity(user.fields.len());
            for ((_, ty), index) in user.fields.iter().zip(0u16..) {
                let path = index.to_be_bytes();
                let cell = cells.iter().find(|(known, _)| *known == path);
                fields.push(cell.map(|(_, value)| Value::decode(ty, value)).transpose()?);
            }
            let names = user.fields.iter().map(|(name, _)| &**name);
            json::write_object(names.zip(fields.iter().map(Option::as_ref)), out);
        }
        _ => json::write(None, out),
    }
    Ok(())
}
