//! `helenus segments`: what is in a node's commit log, without the node.

mod cat;
mod progress;
mod raw;
mod rows;
mod stat;

use std::borrow::Cow;
use std::collections::HashSet;
use std::path::{Path, PathBuf};

use helenus::capture::commitlog::mutation::ErrorKind;
use helenus::capture::commitlog::{Damage, Reason, Record};
use helenus::capture::cql::schema::{Catalog, Lookup, TableId};
use helenus::capture::offline::{Found, Scanned, Wanted, find, scan};
use helenus::capture::schema::History;
use helenus::{Failure, Kind, causes};
use serde::Serialize;
use serde_json::json;

use crate::args::{SegmentFiles, Segments, SegmentsCommand, TableName};
use crate::config::Config;
use crate::exit::{Failed, Outcome};
use crate::output::Output;

use progress::Progress;

pub(crate) fn run(segments: &Segments, config: Config, output: &Output) -> Result<Outcome, Failed> {
    let (SegmentsCommand::Stat { files }
    | SegmentsCommand::Cat { files, .. }
    | SegmentsCommand::Rows { files, .. }) = &segments.command;
    let groups = groups(files, config.capture.cdc_raw)?;
    match &segments.command {
        SegmentsCommand::Stat { .. } => stat::run(&groups, files.schema.as_deref(), output),
        SegmentsCommand::Cat { table: None, raw: true, .. } => {
            let schema = files.schema.as_deref();
            let history = schema.map_or_else(|| Ok(History::empty()), History::open)?;
            raw::run(&groups, history, None, output)
        }
        SegmentsCommand::Cat { table, raw: true, .. } => {
            raw::run(&groups, history(files)?, table.as_ref(), output)
        }
        SegmentsCommand::Cat { table, .. } => {
            cat::run(&groups, history(files)?, table.as_ref(), output)
        }
        SegmentsCommand::Rows { table, at, .. } => {
            rows::run(&groups, history(files)?, table, *at, output)
        }
    }
}

/// The segments by node.
fn groups(files: &SegmentFiles, configured: Option<PathBuf>) -> Result<Vec<Vec<PathBuf>>, Failed> {
    let mut paths = files.paths.clone();
    if paths.is_empty() {
        paths.extend(configured);
    }
    let groups = find(&paths)?;
    if groups.is_empty() { Err(NothingToRead { paths }.into()) } else { Ok(groups) }
}

fn history(files: &SegmentFiles) -> Result<History, Failed> {
    match &files.schema {
        Some(path) => Ok(History::open(path)?),
        None => Err(NoSchema.into()),
    }
}

/// Visits the nodes, each with the schema of the beginning, since each log tells the same changes of it
/// again. The newest schema is returned.
fn each_node(
    groups: &[Vec<PathBuf>],
    beginning: &History,
    mut visit: impl FnMut(&[PathBuf], &mut History) -> Result<(), Failed>,
) -> Result<History, Failed> {
    let mut newest = beginning.clone();
    for group in groups {
        let mut history = beginning.clone();
        visit(group, &mut history)?;
        newest = newest.later(history);
    }
    Ok(newest)
}

/// Goes through every segment of a group. One that cannot be read at all is complained about, and the
/// next goes on, unless it is the only one.
struct Reading<'o> {
    output: &'o Output,
    progress: Progress,
    alone: bool,
    damaged: bool,
    refused: Vec<Refused>,
    /// Tables of records that were passed over.
    passed_over: HashSet<TableId>,
}

impl<'o> Reading<'o> {
    /// Of what prints at the end; what prints `along` the way shows in what it prints how far it is.
    fn new(groups: &[Vec<PathBuf>], along: bool, output: &'o Output) -> Self {
        let segments = groups.iter().map(Vec::len).sum();
        let drawn = output.draws_progress() && !(along && output.is_on_terminal());
        let (refused, passed_over) = (Vec::new(), HashSet::new());
        let progress = Progress::new(segments, drawn);
        Reading { output, progress, alone: segments == 1, damaged: false, refused, passed_over }
    }

    /// Scans a segment; damage is complained about and told to `each`.
    fn scan(
        &mut self,
        path: &Path,
        history: &mut History,
        wanted: &Wanted<'_>,
        each: &mut dyn FnMut(Found<'_>) -> Result<(), Complaint>,
    ) -> Result<Option<Scanned>, Failed> {
        let mut complaints = Vec::new();
        let scanned = scan(path, history, wanted, &mut |found| {
            let complaint = match &found {
                Found::Damage(damage, catalog) => Some(Complaint::of(damage, catalog)),
                Found::Schema(record, error) => Some(Complaint::at(record, error.to_string())),
                Found::Mutation(..) | Found::Undecoded(_) => None,
            };
            if let Found::Undecoded(record) = found {
                self.passed_over.extend(record.first_table());
            }
            let refused = each(found).err();
            for complaint in complaint.into_iter().chain(refused) {
                self.progress.aside(|| complaint.tell(path, self.output));
                complaints.push(complaint);
            }
        });
        self.damaged |= !complaints.is_empty();
        self.progress.step();
        match scanned {
            Ok(scanned) => Ok(Some(scanned)),
            Err(error) if self.alone => Err(error.into()),
            Err(error) => {
                self.damaged = true;
                self.refused.push(Refused::new(path, &error));
                let failed = Failed::from(error);
                let details = json!({ "error": failed.to_json() });
                self.progress.aside(|| self.output.complain(&failed.to_text(), &details));
                Ok(None)
            }
        }
    }

    /// Tells what may be missing of the table: it is not known, or some of it may be under ids that the
    /// schema does not have.
    fn tell_missing(
        &self,
        wanted: &TableName,
        found: bool,
        history: &History,
    ) -> Result<(), UnknownTable> {
        if !found && history.table(&wanted.keyspace, &wanted.name).is_none() {
            return Err(UnknownTable { table: wanted.to_string() });
        }
        let catalog = history.catalog();
        let is_unknown = |id: &&TableId| !id.is_internal() && catalog.table(**id).is_none();
        let unknown = self.passed_over.iter().filter(is_unknown).count();
        if unknown > 0 {
            let here = match found {
                true => "there are".to_owned(),
                false => format!("nothing of {wanted} is here, but"),
            };
            let text = format!(
                "warning: {here} records of {unknown} tables that the schema does not have; if it is another \
                 cluster's or older than {wanted}, write it anew with `helenus capture schema`"
            );
            self.output.complain(&text, &json!({ "warning": { "unknown_tables": unknown } }));
        }
        Ok(())
    }

    const fn outcome(&self) -> Outcome {
        if self.damaged { Outcome::ChecksFailed } else { Outcome::Done }
    }
}

/// A file that could not be read.
#[derive(Debug, Serialize)]
struct Refused {
    file: String,
    reason: String,
}

impl Refused {
    fn new(path: &Path, error: &dyn std::error::Error) -> Self {
        Refused { file: path.display().to_string(), reason: causes(error).join(": ") }
    }
}

/// A place that could not be read, merged or shown.
#[derive(Debug)]
struct Complaint {
    segment: i64,
    offset: u64,
    /// By name, or by id if the schema does not have it.
    table: Option<String>,
    reason: String,
    /// Whether a newer schema may be all it takes.
    not_in_schema: bool,
}

impl Complaint {
    fn of(damage: &Damage, catalog: &Catalog) -> Self {
        let reason = damage.reason.to_string();
        let table = damage.table.map(|id| match catalog.table(id) {
            Some(table) => format!("{}.{}", table.keyspace, table.name),
            None => id.to_string(),
        });
        let not_in_schema = matches!(&damage.reason, Reason::Mutation(error)
            if matches!(error.kind, ErrorKind::UnknownTable | ErrorKind::UnknownColumn(_)));
        Complaint { segment: damage.segment.0, offset: damage.offset, table, reason, not_in_schema }
    }

    fn at(record: &Record<'_>, reason: String) -> Self {
        let (segment, offset) = (record.segment.0, record.start);
        Complaint { segment, offset, table: None, reason, not_in_schema: false }
    }

    fn tell(&self, path: &Path, output: &Output) {
        let Complaint { segment, offset, table, reason, not_in_schema } = self;
        let file = path.display().to_string();
        let of = table.as_ref().map_or_else(String::new, |table| format!("table {table}: "));
        let mut text = format!("damaged: {file} at {offset}: {of}{reason}");
        if *not_in_schema {
            text.push_str("; write a newer schema with `helenus capture schema`");
        }
        let details = json!({
            "file": file, "segment": segment, "offset": offset, "table": table, "reason": reason,
        });
        output.complain(&text, &json!({ "damage": details }));
    }
}

#[derive(Debug, thiserror::Error)]
#[error("a schema is needed to decode segments, and none is named")]
struct NoSchema;

impl Failure for NoSchema {
    fn kind(&self) -> Kind {
        Kind::Invalid
    }

    fn code(&self) -> &'static str {
        "schema_missing"
    }

    fn remedy(&self) -> Option<Cow<'static, str>> {
        Some("write one with `helenus capture schema` and name it with --schema".into())
    }
}

#[derive(Debug, thiserror::Error)]
#[error("{}", shown(paths))]
struct NothingToRead {
    paths: Vec<PathBuf>,
}

fn shown(paths: &[PathBuf]) -> String {
    match paths {
        [] => "no segments are named".to_owned(),
        paths => {
            let names: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
            format!("there is no segment in {}", names.join(", "))
        }
    }
}

impl Failure for NothingToRead {
    fn kind(&self) -> Kind {
        Kind::NotFound
    }

    fn code(&self) -> &'static str {
        "no_segments"
    }

    fn remedy(&self) -> Option<Cow<'static, str>> {
        Some("name CommitLog-*.log files or the folder they are in, or set capture.cdc_raw".into())
    }
}

/// A table that neither the schema nor the log has.
#[derive(Debug, thiserror::Error)]
#[error("neither the schema nor the segments have a table {table}")]
struct UnknownTable {
    table: String,
}

impl Failure for UnknownTable {
    fn kind(&self) -> Kind {
        Kind::NotFound
    }

    fn code(&self) -> &'static str {
        "unknown_table"
    }

    fn remedy(&self) -> Option<Cow<'static, str>> {
        Some("check the name, or write a newer schema with `helenus capture schema`".into())
    }
}

#[cfg(test)]
mod tests {
    use helenus::capture::commitlog::SegmentId;

    use super::*;

    #[test]
    fn damage_names_its_table() {
        let id = "00000000-0000-0000-0000-000000000001";
        let document = format!(
            r#"{{"tables": [{{"keyspace_name": "ks", "table_name": "t", "id": "{id}"}}],
                "columns": [{{"keyspace_name": "ks", "table_name": "t", "column_name": "id",
                    "kind": "partition_key", "position": 0, "type": "int"}}]}}"#
        );
        let known = Catalog::from_document(&document).unwrap();
        let table = known.tables().next().map(|table| table.id);
        let reason = Reason::PayloadChecksum;
        let damage = Damage { segment: SegmentId(7), offset: 8, section: 0, table, reason };
        let named = |catalog: &Catalog| Complaint::of(&damage, catalog).table;
        assert_eq!(named(&known).as_deref(), Some("ks.t"));
        assert_eq!(named(&Catalog::default()).as_deref(), Some(id));
    }
}
