//! An update to its changes.

use super::identity::event_id;
use super::{Change, ChangeError, ChangeEvent, Origin, RangeDeletion};
use crate::update::{Bound, Deletion, Item, Marker, PartitionUpdate};

/// The changes of one update, numbered from 0. An update of nothing gives none.
///
/// In a table without clustering columns the partition is the row: its deletion is the row's, and
/// one event together with what was written again.
pub fn split<'a>(
    update: PartitionUpdate<'a>,
    origin: &Origin,
) -> Result<Vec<ChangeEvent<'a>>, ChangeError> {
    let PartitionUpdate { table, key, deletion, static_row, items } = update;
    if table.key_parts(key).is_none() {
        return Err(ChangeError::Key);
    }
    let mut changes = Vec::with_capacity(items.len().max(1));
    let mut row_deletion = None;
    match deletion {
        Some(deletion) if table.clustering.is_empty() => row_deletion = Some(deletion),
        deletion => changes.extend(deletion.map(Change::Partition)),
    }
    if let Some(mut row) = static_row {
        row.sort_columns();
        changes.push(Change::Static(row));
    }
    let mut open = None;
    for item in items {
        match item {
            Item::Row(mut row) => {
                row.deletion = row.deletion.max(row_deletion.take());
                row.sort_columns();
                changes.push(Change::Row(row));
            }
            Item::Marker(marker) => changes.extend(range(marker, &mut open)?),
        }
    }
    if open.is_some() {
        return Err(ChangeError::Markers);
    }
    if row_deletion.is_some() {
        changes.push(Change::Row(crate::update::RowUpdate {
            deletion: row_deletion,
            ..Default::default()
        }));
    }
    let mut trace_id = None;
    let events = changes.into_iter().zip(0..).map(|(change, index)| {
        let event_id = event_id(table.id, key, &change);
        let trace_id = *trace_id.get_or_insert(event_id);
        ChangeEvent { event_id, table, key, change, trace_id, origin: origin.clone(), index }
    });
    Ok(events.collect())
}

/// The range that a marker closes, and the one it opens into `open`.
fn range<'a>(
    marker: Marker<'a>,
    open: &mut Option<(Bound<'a>, Deletion)>,
) -> Result<Option<Change<'a>>, ChangeError> {
    let Marker { bound, end, start } = marker;
    let closed = match (open.take(), end.is_some()) {
        (Some((start, deletion)), true) => {
            Some(Change::Range(RangeDeletion { start, end: bound.clone(), deletion }))
        }
        (None, false) => None,
        _ => return Err(ChangeError::Markers),
    };
    *open = start.map(|deletion| (bound, deletion));
    Ok(closed)
}
