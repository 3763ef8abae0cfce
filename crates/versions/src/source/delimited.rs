//! CSV, and whatever is separated by something else.

use std::borrow::Cow;
use std::io::BufRead;
use std::ops::ControlFlow;

use csv::{ByteRecord, ReaderBuilder};

use super::{Event, File, ReadOptions, SourceError, Visitor, partition_fields};
use crate::row::Field;

pub(super) fn read(
    file: &File,
    text: Box<dyn BufRead>,
    options: &ReadOptions,
    visitor: &mut Visitor<'_>,
) -> Result<ControlFlow<()>, SourceError> {
    let mut reader = ReaderBuilder::new()
        .delimiter(options.delimiter)
        .has_headers(options.header)
        .flexible(true)
        .buffer_capacity(1 << 16)
        .from_reader(text);
    let mut names = options.names.clone();
    if options.header {
        let header = reader.byte_headers().map_err(|error| failed(file, error))?;
        let header = header.iter().map(|name| std::str::from_utf8(name).map(str::to_owned));
        names = header
            .collect::<Result<Vec<String>, _>>()
            .map_err(|_| SourceError::malformed(file, "its header is not UTF-8 text"))?;
        if names.iter().any(|name| name.contains('\0')) {
            return Err(SourceError::malformed(file, "its header is not UTF-8 text"));
        }
    }
    let own = names.len();
    names.extend(file.partitions.iter().map(|partition| partition.name.clone()));
    let event =
        Event::Fields { names: &names, partitions: file.partitions.len(), types: &[], open: false };
    if own == 0 || visitor(file, event).is_break() {
        return Ok(if own == 0 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) });
    }
    let partitions = partition_fields(file);
    let mut record = ByteRecord::new();
    loop {
        match reader.read_byte_record(&mut record) {
            Ok(true) => {}
            Ok(false) => return Ok(ControlFlow::Continue(())),
            Err(error) => return Err(failed(file, error)),
        }
        let line = record.position().map_or(0, csv::Position::line);
        let told = match fields(&record, own, options) {
            Ok(mut fields) => {
                fields.extend(partitions.iter().cloned());
                visitor(file, Event::Record { line, fields: &fields })
            }
            Err(reason) => {
                let fields: Vec<&[u8]> = record.iter().collect();
                let text = fields.join(&options.delimiter);
                let text = String::from_utf8_lossy(&text).into_owned();
                visitor(file, Event::Bad { line, reason, text })
            }
        };
        if told.is_break() {
            return Ok(told);
        }
    }
}

fn fields<'a>(
    record: &'a ByteRecord,
    expected: usize,
    options: &ReadOptions,
) -> Result<Vec<Field<'a>>, String> {
    if record.len() != expected {
        return Err(format!("it has {} fields where {expected} are expected", record.len()));
    }
    let field = |(place, bytes): (usize, &'a [u8])| match std::str::from_utf8(bytes) {
        Ok(text) if text == options.null => Ok(Field::Null),
        Ok(text) => Ok(Field::Text(Cow::Borrowed(text))),
        Err(_) => Err(format!("field {} is not UTF-8 text", place + 1)),
    };
    let mut fields = Vec::with_capacity(expected + 2);
    for told in record.iter().enumerate().map(field) {
        fields.push(told?);
    }
    Ok(fields)
}

fn failed(file: &File, error: csv::Error) -> SourceError {
    let reason = error.to_string();
    match error.into_kind() {
        csv::ErrorKind::Io(source) => SourceError::Io { path: file.path.clone(), source },
        _ => SourceError::malformed(file, reason),
    }
}
