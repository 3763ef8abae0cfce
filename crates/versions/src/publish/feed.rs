//! Reading the sources in a thread of their own, and sending on what becomes of the records.

use std::collections::BTreeMap;
use std::fs::File as OutputFile;
use std::io::{BufWriter, Write};
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;

use tokio::sync::mpsc;

use super::assemble::{Assembler, BadRow};
use super::{Publish, PublishError};
use crate::TableSchema;
use crate::infer::Inference;
use crate::source::{self, Counted, Event, File, Input};
use crate::tables::{Chunk, Mark};

/// Records that a schema is inferred from.
const INFER_RECORDS: u64 = 10_000;

/// What reading gave.
#[derive(Debug, Default)]
pub(super) struct Fed {
    pub(super) read: Mark,
    pub(super) null_rates: BTreeMap<String, f64>,
    pub(super) sample: Vec<(Vec<u8>, Vec<u8>)>,
    /// The checksum of what was durable before the run was resumed.
    pub(super) skipped_checksum: Option<i64>,
}

/// Reads everything; stops early if more is bad than may be, or if nobody takes the chunks.
pub(super) fn feed(
    publish: &Publish,
    input: &Input,
    schema: Arc<TableSchema>,
    skip: u64,
    chunks: Option<&mpsc::Sender<Chunk>>,
) -> Result<Fed, PublishError> {
    let sample = publish.checks.sample;
    let mut assembler = Assembler::new(schema, publish.mapping.clone(), skip, sample);
    let mut report = Report { path: publish.bad_rows.clone(), file: None };
    let mut failure: Option<PublishError> = None;
    let storage = Counted::new(&*publish.storage);
    let placed = |mut chunk: Chunk| {
        chunk.end.bytes = storage.bytes();
        chunk
    };
    source::read(input, &storage, &publish.read, &mut |file, event| {
        let taken = match assembler.take(event) {
            Ok(taken) => taken,
            Err(error) => {
                failure = Some(Box::new(error).into());
                return ControlFlow::Break(());
            }
        };
        if let Some(bad) = taken {
            if let Err(error) = report.add(file, &bad) {
                failure = Some(error);
                return ControlFlow::Break(());
            }
            let too_many = assembler.mark().bad > publish.checks.max_bad_rows;
            if too_many && !publish.force && chunks.is_some() {
                return ControlFlow::Break(());
            }
        }
        let sent = match (assembler.chunk(), chunks) {
            (Some(chunk), Some(chunks)) => chunks.blocking_send(placed(chunk)).is_ok(),
            _ => true,
        };
        // Whoever took them may have ended, and knows why.
        if sent { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })?;
    if let Some(failure) = failure {
        return Err(failure);
    }
    report.finish()?;
    if let Some(chunks) = chunks {
        // As above.
        drop(chunks.blocking_send(placed(assembler.rest())));
    }
    Ok(Fed {
        read: assembler.mark(),
        null_rates: assembler.null_rates(),
        skipped_checksum: assembler.skipped_checksum(),
        sample: assembler.into_sample(),
    })
}

/// The schema that the first records show.
pub(super) fn infer(
    publish: &Publish,
    input: &Input,
    key: &[String],
) -> Result<TableSchema, PublishError> {
    let mut inference = Inference::default();
    let mut names = Vec::new();
    let mut seen = 0;
    source::read(input, &*publish.storage, &publish.read, &mut |_, event| {
        match event {
            Event::Fields { names: told, types, .. } => {
                names = told.to_vec();
                inference.fields(&names, types);
            }
            Event::Record { fields, .. } => {
                inference.record(&names, fields);
                seen += 1;
            }
            Event::Bad { .. } => {}
        }
        if seen < INFER_RECORDS { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })?;
    Ok(inference.schema(key)?)
}

/// Bad records, one JSON object a line; the file is made when there is one.
struct Report {
    path: Option<PathBuf>,
    file: Option<BufWriter<OutputFile>>,
}

impl Report {
    fn add(&mut self, file: &File, bad: &BadRow) -> Result<(), PublishError> {
        let Some(path) = &self.path else { return Ok(()) };
        let failed =
            |source| PublishError::Report { path: path.display().to_string().into(), source };
        let out = match &mut self.file {
            Some(out) => out,
            none => none.insert(BufWriter::new(OutputFile::create(path).map_err(failed)?)),
        };
        let line = serde_json::json!({
            "file": file.path.display().to_string(),
            "line": bad.line,
            "reason": bad.reason,
            "record": bad.text,
        });
        writeln!(out, "{line}").map_err(failed)
    }

    fn finish(self) -> Result<(), PublishError> {
        let Some(path) = self.path else { return Ok(()) };
        let flushed = self.file.map_or(Ok(()), |mut out| out.flush());
        flushed.map_err(|source| PublishError::Report {
            path: path.display().to_string().into(),
            source,
        })
    }
}
