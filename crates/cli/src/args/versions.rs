//! Arguments of `helenus versions`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use helenus::Timestamp;
use helenus::backend::StoreUrl;
use helenus::versions::{Format, TableName};

use crate::config::parse_duration;

#[derive(Args, Debug)]
pub(crate) struct Versions {
    /// The store; store.url of the configuration if not given
    #[arg(long, global = true, value_name = "URL")]
    pub(crate) store: Option<StoreUrl>,

    #[command(subcommand)]
    pub(crate) command: VersionsCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum VersionsCommand {
    /// Publish a data set as the next version of a table
    Publish(Box<PublishArguments>),
    /// List the versions of a table
    List(Of),
    /// Show a version with all the catalog knows of it
    Show {
        #[command(flatten)]
        of: Of,
        /// The version: its name, number or run; the one readers get if not given
        version: Option<String>,
    },
    /// Take readers back to an earlier version; the next publish routes by itself
    Rollback {
        #[command(flatten)]
        of: Of,
        /// The version to go back to; the one before if not given
        #[arg(long, value_name = "VERSION")]
        to: Option<String>,
    },
    /// Undo the exclusion of a version that was rolled back
    Include {
        #[command(flatten)]
        of: Of,
        /// The version: its name, number or run
        version: String,
    },
    /// Hold readers at a version until it is unpinned
    Pin {
        #[command(flatten)]
        of: Of,
        /// The version: its name, number or run
        version: String,
    },
    /// Let readers go where the data is latest again
    Unpin(Of),
    /// Drop old versions, failed runs and tables without a run
    Recycle(RecycleArguments),
    /// Run a SELECT on the versions readers get; rows as JSON, one a line
    Query {
        /// SELECT … FROM keyspace.table WHERE …
        cql: String,
    },
}

#[derive(Args, Debug)]
pub(crate) struct Of {
    /// The table that readers name
    #[arg(long, value_name = "KEYSPACE.TABLE", value_parser = table)]
    pub(crate) table: TableName,
}

#[derive(Args, Debug)]
pub(crate) struct RecycleArguments {
    /// The table that readers name; every one if not given
    #[arg(long, value_name = "KEYSPACE.TABLE", value_parser = table)]
    pub(crate) table: Option<TableName>,

    /// Completed versions that stay; what is routed or pinned stays in any case
    #[arg(long, value_name = "N", default_value_t = 2)]
    pub(crate) keep: usize,

    /// How long readers have to move on before a table is dropped; 0s where nobody reads
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = drain)]
    pub(crate) drain: Duration,

    /// Say what would be dropped, and drop nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
}

#[derive(Args, Debug)]
#[command(after_help = PUBLISH_HELP)]
pub(crate) struct PublishArguments {
    #[command(flatten)]
    pub(crate) of: Of,

    /// The time the data stands for: 2026-11-15, 2026-11-15T12:00:00Z or milliseconds since 1970
    #[arg(long, value_name = "TIME", value_parser = moment)]
    pub(crate) data_ts: Timestamp,

    /// Name of the run; the same run twice is one version
    #[arg(long, value_name = "ID", conflicts_with = "resume")]
    pub(crate) run_id: Option<String>,

    /// Go on with a run that ended early, from the same sources
    #[arg(long, value_name = "RUN")]
    pub(crate) resume: Option<String>,

    /// A file with the CREATE TABLE statement; the schema of the version before if not given
    #[arg(long, value_name = "FILE", conflicts_with = "infer", help_heading = SCHEMA)]
    pub(crate) schema: Option<PathBuf>,

    /// Take the schema from the first records, and print it
    #[arg(long, help_heading = SCHEMA)]
    pub(crate) infer: bool,

    /// The key of an inferred schema; its first field if not given
    #[arg(long, value_name = "FIELD,…", value_delimiter = ',', requires = "infer", help_heading = SCHEMA)]
    pub(crate) key: Vec<String>,

    /// What the sources are, where their names do not say it
    #[arg(long, value_enum, help_heading = SOURCE)]
    pub(crate) format: Option<SourceFormat>,

    /// What stands between the fields of CSV
    #[arg(long, value_name = "CHAR", default_value = ",", value_parser = delimiter, help_heading = SOURCE)]
    pub(crate) delimiter: u8,

    /// The names of the fields, for CSV that does not begin with them
    #[arg(long, value_name = "NAME,…", value_delimiter = ',', help_heading = SOURCE)]
    pub(crate) no_header: Option<Vec<String>>,

    /// The text that stands for null in CSV
    #[arg(long, value_name = "TEXT", default_value = "", help_heading = SOURCE)]
    pub(crate) null: String,

    /// A column that takes a field of another name; may be given more than once
    #[arg(long, value_name = "COLUMN=FIELD", value_parser = pair, help_heading = SCHEMA)]
    pub(crate) map: Vec<(String, String)>,

    /// Leave out fields that no column takes
    #[arg(long, help_heading = SCHEMA)]
    pub(crate) ignore_extra: bool,

    /// How many rows may be bad; they are left out
    #[arg(long, value_name = "N", default_value_t = 0, help_heading = CHECKS)]
    pub(crate) max_bad_rows: u64,

    /// Where bad rows are written, with their reasons; RUN.bad.jsonl if not given
    #[arg(long, value_name = "FILE", help_heading = CHECKS)]
    pub(crate) bad_rows: Option<PathBuf>,

    /// How many rows there must be at least
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = CHECKS)]
    pub(crate) min_rows: u64,

    /// The share of the previous version's rows that may be missing
    #[arg(long, value_name = "20%", value_parser = share, help_heading = CHECKS)]
    pub(crate) max_drop: Option<f64>,

    /// The share of nulls a column may have; may be given more than once
    #[arg(long, value_name = "COLUMN=5%", value_parser = column_share, help_heading = CHECKS)]
    pub(crate) max_nulls: Vec<(String, f64)>,

    /// One key may come twice; the last row stands
    #[arg(long, help_heading = CHECKS)]
    pub(crate) allow_duplicates: bool,

    /// Keys that are read back and compared
    #[arg(long, value_name = "N", default_value_t = 100, help_heading = CHECKS)]
    pub(crate) sample: usize,

    /// Rows a second at most
    #[arg(long, value_name = "N", help_heading = LOADING)]
    pub(crate) rate: Option<u32>,

    /// Requests under way at most; how many there are adapts to the cluster
    #[arg(long, value_name = "N", default_value_t = 256, help_heading = LOADING)]
    pub(crate) in_flight: usize,

    /// Publish although a check vetoes; who did, and over which checks, is recorded
    #[arg(long, help_heading = CHECKS)]
    pub(crate) force: bool,

    /// Read everything and check what can be without writing; keys that come twice are found only in
    /// the table
    #[arg(long)]
    pub(crate) dry_run: bool,

    /// Completed versions that stay; the older ones are dropped by the next publish or recycle. 0
    /// keeps all
    #[arg(long, value_name = "N", default_value_t = 2)]
    pub(crate) keep: usize,

    /// Files, folders (dt=2026-11-15/… becomes a column), or - for standard input
    #[arg(required = true)]
    pub(crate) sources: Vec<PathBuf>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum SourceFormat {
    Csv,
    Jsonl,
    Parquet,
}

impl From<SourceFormat> for Format {
    fn from(format: SourceFormat) -> Format {
        match format {
            SourceFormat::Csv => Format::Csv,
            SourceFormat::Jsonl => Format::JsonLines,
            SourceFormat::Parquet => Format::Parquet,
        }
    }
}

const SOURCE: &str = "Reading the sources";
const SCHEMA: &str = "Columns";
const CHECKS: &str = "Checks before readers get it";
const LOADING: &str = "Loading";

const PUBLISH_HELP: &str = "\
Example:
  helenus versions publish --table shop.features --data-ts 2026-11-15 --infer --key user_id \
features.csv

Readers see nothing of a version before its checks hold, and then all of it at once. A run that a
check vetoes ends with 1 and stays PENDING until it is recycled. A run that was killed goes on with
--resume RUN and the same sources.";

fn table(text: &str) -> Result<TableName, String> {
    TableName::parse(text).ok_or_else(|| format!("'{text}' is not KEYSPACE.TABLE"))
}

fn moment(text: &str) -> Result<Timestamp, String> {
    if let Ok(millis) = text.parse() {
        return Ok(Timestamp::from_millis(millis));
    }
    let midnight = format!("{text}T00:00:00Z");
    text.parse()
        .or_else(|_| midnight.parse())
        .map_err(|_| format!("'{text}' is neither a day, nor a time, nor milliseconds since 1970"))
}

/// A duration as everywhere, or none at all.
fn drain(text: &str) -> Result<Duration, String> {
    if ["0", "0ms", "0s", "0m", "0h", "0d"].contains(&text.trim()) {
        return Ok(Duration::ZERO);
    }
    parse_duration(text)
}

fn delimiter(text: &str) -> Result<u8, String> {
    match text {
        "\\t" | "tab" => Ok(b'\t'),
        _ => match text.as_bytes() {
            [byte] if byte.is_ascii() => Ok(*byte),
            _ => Err(format!("'{text}' is not one character of ASCII, nor tab")),
        },
    }
}

fn pair(text: &str) -> Result<(String, String), String> {
    let (column, field) =
        text.split_once('=').ok_or_else(|| format!("'{text}' is not COLUMN=FIELD"))?;
    Ok((column.to_owned(), field.to_owned()))
}

fn column_share(text: &str) -> Result<(String, f64), String> {
    let (column, rest) = pair(text)?;
    Ok((column, share(&rest)?))
}

fn share(text: &str) -> Result<f64, String> {
    let number = match text.strip_suffix('%') {
        Some(percent) => percent.trim().parse::<f64>().map(|percent| percent / 100.0),
        None => text.parse::<f64>(),
    };
    let number = number.ok().filter(|number| (0.0..=1.0).contains(number));
    number.ok_or_else(|| format!("'{text}' is not a share, as 20% or 0.2"))
}
