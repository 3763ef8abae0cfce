//! Where rows come from: CSV, JSON lines and Parquet, compressed or not, files and whole trees.
//!
//! A source tells a visitor what it meets ([`Event`]), so that nothing is copied that need not be.
//! Where the bytes lie is behind [`Storage`]: local files so far.
//!
//! Records are numbered in one order, which is the same every time: sources as they were given,
//! files of a tree by name, records from top to bottom. That number is what a resumed run goes by.

mod delimited;
mod json;
#[cfg(feature = "parquet")]
mod parquet;
mod standard;
mod storage;
mod tree;

use std::borrow::Cow;
use std::io::{BufRead, BufReader, Read};
use std::ops::ControlFlow;
use std::path::PathBuf;

use helenus_cql::datatype::CqlType;
use helenus_model::{Failure, Kind};

use crate::row::Field;
pub use standard::Standard;
pub(crate) use storage::Counted;
pub use storage::{Blob, Entry, LocalFiles, Storage};
pub use tree::{File, Input, Partition, find};

/// What a source tells.
#[derive(Debug)]
pub enum Event<'a> {
    /// The records that follow have these fields.
    Fields {
        /// The names, those of the partition last.
        names: &'a [String],
        /// How many of them come from the path.
        partitions: usize,
        /// What each field holds, where the format says so.
        types: &'a [CqlType],
        /// Whether records may bring further fields: then a missing one is the record's fault.
        open: bool,
    },
    /// A record.
    Record {
        /// Its line, or its number in a file without lines.
        line: u64,
        /// A value for each field.
        fields: &'a [Field<'a>],
    },
    /// A record that cannot be read; the next one can.
    Bad {
        /// Its line.
        line: u64,
        /// What is wrong.
        reason: String,
        /// The record, as far as it is text.
        text: String,
    },
}

/// Is told what a source meets; `Break` ends the reading.
pub type Visitor<'v> = dyn FnMut(&File, Event<'_>) -> ControlFlow<()> + 'v;

/// How text is read.
#[derive(Clone, Debug)]
pub struct ReadOptions {
    /// What stands between the fields of a CSV record.
    pub delimiter: u8,
    /// Whether a CSV file begins with the names of its fields.
    pub header: bool,
    /// The names, where there is no header.
    pub names: Vec<String>,
    /// What a CSV field says that is null.
    pub null: String,
    /// The format of what has no telling name, standard input among it.
    pub format: Option<Format>,
}

impl Default for ReadOptions {
    fn default() -> Self {
        ReadOptions {
            delimiter: b',',
            header: true,
            names: Vec::new(),
            null: String::new(),
            format: None,
        }
    }
}

/// How records are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Comma-separated values, or separated by something else.
    Csv,
    /// A JSON object a line.
    JsonLines,
    /// Parquet.
    Parquet,
}

/// How a file is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    /// It is not.
    None,
    /// gzip
    Gzip,
    /// Zstandard
    Zstd,
}

/// Why a source cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SourceError {
    /// It is not there, or may not be read, or ended in the middle.
    #[error("cannot read {}", path.display())]
    Io {
        /// What.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// Its name does not tell what it is.
    #[error("{} does not say whether it is CSV, JSON lines or Parquet", path.display())]
    Format {
        /// What.
        path: PathBuf,
    },
    /// There is nothing in it to read.
    #[error("there are no files in {}", path.display())]
    Empty {
        /// What.
        path: PathBuf,
    },
    /// A column's type has no counterpart in CQL.
    #[error("{}: {column}, which has no CQL type", path.display())]
    Untyped {
        /// What.
        path: PathBuf,
        /// The column and its type.
        column: Box<str>,
    },
    /// Standard input cannot be used so.
    #[error("standard input {reason}")]
    Standard {
        /// Why not.
        reason: &'static str,
    },
    /// The bytes are not what the format says.
    #[error("{}: {reason}", path.display())]
    Malformed {
        /// What.
        path: PathBuf,
        /// How.
        reason: Box<str>,
    },
}

impl SourceError {
    fn malformed(file: &File, reason: impl Into<Box<str>>) -> Self {
        SourceError::Malformed { path: file.path.clone(), reason: reason.into() }
    }

    fn io(file: &File) -> impl FnOnce(std::io::Error) -> Self + '_ {
        |source| SourceError::Io { path: file.path.clone(), source }
    }
}

impl Failure for SourceError {
    fn kind(&self) -> Kind {
        match self {
            SourceError::Io { .. } => Kind::Unavailable,
            _ => Kind::Invalid,
        }
    }

    fn code(&self) -> &'static str {
        match self {
            SourceError::Io { .. } => "source_unreadable",
            SourceError::Format { .. } => "source_format",
            SourceError::Empty { .. } => "source_empty",
            SourceError::Untyped { .. } => "source_type",
            SourceError::Standard { .. } => "source_standard_input",
            SourceError::Malformed { .. } => "source_malformed",
        }
    }

    fn remedy(&self) -> Option<Cow<'static, str>> {
        let text = match self {
            SourceError::Io { .. } => "check the path and the permissions, then run it again",
            SourceError::Format { .. } => {
                "name it .csv, .jsonl or .parquet, or say --format csv, jsonl or parquet"
            }
            SourceError::Empty { .. } => "check the path",
            SourceError::Untyped { .. } => {
                "write the file without the column, or with the column as text"
            }
            SourceError::Standard { .. } => "write it to a file, and publish that",
            SourceError::Malformed { .. } => "write it as UTF-8 text in the format its name says",
        };
        Some(text.into())
    }
}

/// Reads every file in order.
pub fn read(
    input: &Input,
    storage: &dyn Storage,
    options: &ReadOptions,
    visitor: &mut Visitor<'_>,
) -> Result<(), SourceError> {
    for file in &input.files {
        if read_file(file, &input.standard, storage, options, visitor)?.is_break() {
            break;
        }
    }
    Ok(())
}

fn read_file(
    file: &File,
    standard: &Standard,
    storage: &dyn Storage,
    options: &ReadOptions,
    visitor: &mut Visitor<'_>,
) -> Result<ControlFlow<()>, SourceError> {
    if file.format == Format::Parquet {
        #[cfg(feature = "parquet")]
        return parquet::read(file, storage, visitor);
        #[cfg(not(feature = "parquet"))]
        return Err(SourceError::malformed(file, "this program was built without Parquet"));
    }
    let bytes: Box<dyn Read> = match &file.entry {
        Some(entry) => Box::new(storage.open(entry).map_err(SourceError::io(file))?.into_reader()),
        None => standard.reader(),
    };
    let bytes = BufReader::with_capacity(1 << 18, bytes);
    let text: Box<dyn BufRead> = match file.compression {
        Compression::None => Box::new(bytes),
        // Of several members, as `cat a.gz b.gz` makes them, all are read.
        Compression::Gzip => {
            Box::new(BufReader::with_capacity(1 << 18, flate2::bufread::MultiGzDecoder::new(bytes)))
        }
        Compression::Zstd => {
            let decoder = zstd::Decoder::with_buffer(bytes).map_err(SourceError::io(file))?;
            Box::new(BufReader::with_capacity(1 << 18, decoder))
        }
    };
    match file.format {
        Format::Csv => delimited::read(file, text, options, visitor),
        Format::JsonLines | Format::Parquet => json::read(file, text, visitor),
    }
}

/// What a partition's directories say, as fields behind those of each record.
fn partition_fields(file: &File) -> Vec<Field<'static>> {
    let value = |partition: &Partition| match &partition.value {
        Some(text) => Field::Text(Cow::Owned(text.clone())),
        None => Field::Null,
    };
    file.partitions.iter().map(value).collect()
}
