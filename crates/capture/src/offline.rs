//! Segments at rest: every record of a file, decoded as far as the schema allows.
//!
//! The files are taken for complete: a marker that is torn or points outside is damage, and what lies
//! behind it is read as far as the records' own checksums vouch for it. Nothing is changed or deleted.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use helenus_commitlog::mutation::Updates;
use helenus_commitlog::{Damage, End, Header, Mutation, Record, SegmentId};
use helenus_cql::schema::{Catalog, JournalError, Lookup, Table, TableId};
use helenus_cql::update::{ColumnUpdate, Content, Item, PartitionUpdate};
use helenus_cql::wire::Reader;

use crate::reader::{Next, OpenSection, ReadError, SegmentReader, segment_id};
use crate::schema::History;

/// What a scan comes upon.
#[derive(Debug)]
pub enum Found<'a> {
    /// A record and what it says. Of one that can be decoded in part, what comes before the damage,
    /// which is told next.
    Mutation(&'a Record<'a>, Mutation<'a>),
    /// A record that nobody asked to decode.
    Undecoded(&'a Record<'a>),
    /// A record or section that cannot be read, and the schema there; the next goes on.
    Damage(Damage, &'a Catalog),
    /// DDL in the log that does not fit the schema it changes.
    Schema(&'a Record<'a>, JournalError),
}

/// What a scan went through.
#[derive(Debug, Clone, Copy)]
pub struct Scanned {
    /// The segment's header.
    pub header: Header,
    /// Records with valid checksums.
    pub records: u64,
    /// Bytes of the file up to the last marker.
    pub bytes: u64,
    /// Logical offset of the last marker: what `_cdc.idx` counts.
    pub end: u64,
}

/// Which records a scan decodes.
#[derive(Debug)]
pub enum Wanted<'a> {
    /// None.
    Nothing,
    /// All.
    Everything,
    /// Those that may concern this table, by keyspace and name.
    Table(&'a str, &'a str),
}

/// The segments named by files and folders, by id. Each folder is a group of its own, and so are the
/// files named one by one: ids tell an order only within one node. Indexes are not looked at: in a
/// segment at rest they mean nothing, so one that cannot be read costs nothing.
pub fn find(paths: &[PathBuf]) -> Result<Vec<Vec<PathBuf>>, ReadError> {
    let mut groups = Vec::new();
    let mut files = Vec::new();
    for path in paths {
        if path.is_dir() {
            groups.push(list(path)?);
        } else {
            files.push(path.clone());
        }
    }
    // Files side by side are taken for one node's, in the order of their ids.
    files.sort_by_key(|path| segment_id(path));
    groups.push(files);
    // A file that is named beside its folder is one file.
    let mut seen = HashSet::new();
    for group in &mut groups {
        group.retain(|path| path.canonicalize().map_or(true, |path| seen.insert(path)));
    }
    groups.retain(|group: &Vec<PathBuf>| !group.is_empty());
    Ok(groups)
}

/// The segments in `folder`, oldest first. Other files are left alone.
fn list(folder: &Path) -> Result<Vec<PathBuf>, ReadError> {
    let failed = |error| ReadError::new(folder, error);
    let mut segments = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        segments.extend(segment_id(&path).map(|id| (id, path)));
    }
    segments.sort_unstable();
    Ok(segments.into_iter().map(|(_, path)| path).collect())
}

/// Goes through a segment. DDL in it changes `history`, which the records behind it are decoded with.
pub fn scan(
    path: &Path,
    history: &mut History,
    wanted: &Wanted<'_>,
    each: &mut dyn FnMut(Found<'_>),
) -> Result<Scanned, ReadError> {
    let mut reader = SegmentReader::open(path)?;
    let header = *reader.header();
    let mut records = 0;
    let end = loop {
        match reader.next_section(None)? {
            Next::Section(section) => records += visit(&section, history, wanted, each),
            Next::Damage(damage) => each(Found::Damage(damage, &history.catalog())),
            Next::End(end) => break end,
        }
    };
    let at = reader.position();
    if let Some(reason) = end.reason() {
        let (segment, offset, section) = (header.id, at.logical, at.file);
        let damage = Damage { segment, offset, section, table: None, reason };
        each(Found::Damage(damage, &history.catalog()));
        // A marker with a wrong checksum is not trusted at all.
        if end != End::BadMarker
            && let Some(section) = reader.salvage()?
        {
            records += visit(&section, history, wanted, each);
        }
    }
    Ok(Scanned { header, records, bytes: at.file, end: at.logical })
}

fn visit(
    section: &OpenSection<'_>,
    history: &mut History,
    wanted: &Wanted<'_>,
    each: &mut dyn FnMut(Found<'_>),
) -> u64 {
    let mut count = 0;
    for record in section.records() {
        let catalog = history.catalog();
        let record = match record {
            Ok(record) => record,
            Err(damage) => {
                each(Found::Damage(damage, &catalog));
                continue;
            }
        };
        count += 1;
        if !concerns(&record, wanted, &catalog, history) {
            each(Found::Undecoded(&record));
            continue;
        }
        match record.decode(&*catalog) {
            Ok(mutation) => {
                if let Err(error) = history.follow(&mutation) {
                    each(Found::Schema(&record, error));
                }
                each(Found::Mutation(&record, mutation));
            }
            Err(damage) => {
                // Not followed: a part of a change of the schema may leave it in pieces.
                let updates = updates_before(&damage, &record, &catalog);
                if !updates.is_empty() {
                    each(Found::Mutation(&record, Mutation { updates }));
                }
                each(Found::Damage(damage, &catalog));
            }
        }
    }
    count
}

/// The updates before the one that could not be decoded. Where it is not an update that failed, as with
/// bytes that are left over, nothing vouches for what was read before.
fn updates_before<'a>(
    damage: &Damage,
    record: &Record<'a>,
    catalog: &'a Catalog,
) -> Vec<PartitionUpdate<'a>> {
    if damage.table.is_none() {
        return Vec::new();
    }
    let updates = Updates::new(record.payload, record.version, catalog);
    updates.into_iter().flatten().map_while(Result::ok).collect()
}

fn concerns(
    record: &Record<'_>,
    wanted: &Wanted<'_>,
    catalog: &Catalog,
    history: &History,
) -> bool {
    let first = record.first_table();
    // All of a mutation is in one keyspace, so the first table tells.
    if first.is_some_and(|id| history.leaves_out(id)) {
        return false;
    }
    let Wanted::Table(keyspace, name) = wanted else {
        return matches!(wanted, Wanted::Everything);
    };
    // What else a mutation of several updates is about shows only when it is decoded.
    let ([1, ..], Some(id)) = (record.payload, first) else { return true };
    history.is_schema(id)
        || catalog
            .table(id)
            .is_some_and(|table| *table.keyspace == **keyspace && *table.name == **name)
}

/// Where a node emptied a table: what it wrote there up to this point is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Truncation {
    /// The segment.
    pub segment: SegmentId,
    /// The logical offset in it.
    pub offset: u64,
    /// When, by the node's clock, in milliseconds since 1970.
    pub at_ms: i64,
}

impl Truncation {
    /// As a node keeps it in `system.local`.
    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        let mut reader = Reader::new(bytes);
        let segment = SegmentId(reader.i64().ok()?);
        let offset = u64::try_from(reader.i32().ok()?).ok()?;
        Some(Truncation { segment, offset, at_ms: reader.i64().ok()? })
    }
}

/// The truncations that an update of `system.local` tells of, by table.
#[must_use]
pub fn truncations(update: &PartitionUpdate<'_>) -> Vec<(TableId, Truncation)> {
    let is_local = |table: &Table| &*table.keyspace == "system" && &*table.name == "local";
    if !is_local(update.table) {
        return Vec::new();
    }
    let rows = update.items.iter().filter_map(|item| match item {
        Item::Row(row) => Some(row),
        Item::Marker(_) => None,
    });
    let columns = rows.flat_map(|row| &row.columns);
    let cells = columns.filter_map(|column| match column {
        ColumnUpdate::Complex(column, _, cells) if &*column.name == "truncated_at" => Some(cells),
        _ => None,
    });
    let entries = cells.flatten().filter_map(|(path, cell)| {
        let Content::Live(bytes) = cell.content else { return None };
        Some((TableId::from_bytes(*path.as_array()?), Truncation::parse(bytes)?))
    });
    entries.collect()
}

/// The last truncation of each table in segments of one node. A file that cannot be read tells of none
/// beyond the place where it fails; what is wrong with it is for the scan that wants its changes.
#[must_use]
pub fn find_truncations(
    paths: &[impl AsRef<Path>],
    history: &mut History,
) -> HashMap<TableId, Truncation> {
    let local = Catalog::from_document(LOCAL).expect("a table of two columns");
    let mut last = HashMap::new();
    let mut take = |mutation: &Mutation<'_>| {
        for (table, truncation) in mutation.updates.iter().flat_map(truncations) {
            let known = last.entry(table).or_insert(truncation);
            *known = truncation.max(*known);
        }
    };
    for path in paths {
        let _unreadable =
            scan(path.as_ref(), history, &Wanted::Table("system", "local"), &mut |found| {
                match found {
                    Found::Mutation(_, mutation) => take(&mutation),
                    // A schema may leave it out. Most of these are of other columns.
                    Found::Undecoded(record) if is_of(record, &local) => {
                        let _other = record.decode(&local).map(|mutation| take(&mutation));
                    }
                    Found::Undecoded(_) | Found::Damage(..) | Found::Schema(..) => {}
                }
            });
    }
    last
}

fn is_of(record: &Record<'_>, catalog: &Catalog) -> bool {
    record.first_table().is_some_and(|id| catalog.table(id).is_some())
}

/// What a node keeps of itself, as far as it tells of truncations.
const LOCAL: &str = r#"{
    "tables": [{"keyspace_name": "system", "table_name": "local",
                "id": "7ad54392-bcdd-35a6-8417-4e047860b377"}],
    "columns": [
        {"keyspace_name": "system", "table_name": "local", "column_name": "key",
         "kind": "partition_key", "type": "text"},
        {"keyspace_name": "system", "table_name": "local", "column_name": "truncated_at",
         "kind": "regular", "type": "map<uuid, blob>"}]
}"#;

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    /// The tables that the recorded ALTER TABLE writes to, as far as they are told of, how much is
    /// damaged, and whether the schema has changed.
    fn told_without(unknown: &str) -> (Vec<String>, usize, bool) {
        const FIXTURES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../commitlog/tests/fixtures");
        let text = std::fs::read_to_string(format!("{FIXTURES}/schema.json")).unwrap();
        let mut document: serde_json::Value = serde_json::from_str(&text).unwrap();
        document["taken_at_us"] = 1.into();
        let is_known = |row: &serde_json::Value| {
            row["keyspace_name"] != "system_schema" || row["table_name"] != unknown
        };
        document["tables"].as_array_mut().unwrap().retain(is_known);
        let mut history = History::new(&document.to_string()).unwrap();
        let before = history.catalog();
        let (mut told, mut damages) = (Vec::new(), 0);
        let path = format!("{FIXTURES}/plain.log");
        let wanted = Wanted::Table("system_schema", "columns");
        scan(Path::new(&path), &mut history, &wanted, &mut |found| match found {
            Found::Mutation(_, mutation) => {
                assert_eq!(damages, 0, "what can be read comes first");
                told.extend(mutation.updates.iter().map(|update| update.table.name.to_string()));
            }
            Found::Damage(damage, catalog) => {
                damages += 1;
                assert!(damage.table.is_some_and(|id| catalog.table(id).is_none()));
            }
            Found::Undecoded(_) | Found::Schema(..) => {}
        })
        .unwrap();
        (told, damages, !Arc::ptr_eq(&history.catalog(), &before))
    }

    #[test]
    fn what_a_record_says_before_a_table_that_is_not_known_is_told_and_not_followed() {
        let (all, damages, is_followed) = told_without("nothing");
        assert!(all.len() == 4 && damages == 0 && is_followed, "{all:?}");
        for (known, unknown) in all.iter().enumerate() {
            assert_eq!(told_without(unknown), (all[..known].to_vec(), 1, false));
        }
    }

    #[test]
    fn a_folder_gives_its_segments_by_id_whatever_their_indexes_are() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        for name in ["CommitLog-7-100.log", "CommitLog-7-99.log", "CommitLog-6-99.log", "notes.txt"]
        {
            std::fs::write(path(name), "").unwrap();
        }
        std::fs::write(path("CommitLog-7-99_cdc.idx"), b"\xff\xfe").unwrap();
        std::fs::create_dir(path("CommitLog-7-100_cdc.idx")).unwrap();
        let again = path("CommitLog-7-99.log");
        let found = find(&[dir.path().to_owned(), again, "other.log".into()]).unwrap();
        let own = ["CommitLog-6-99.log", "CommitLog-7-99.log", "CommitLog-7-100.log"].map(path);
        assert_eq!(found, [own.to_vec(), vec!["other.log".into()]]);
    }
}
