//! The arguments.

mod capture;
mod outbox;
mod project;
mod relay;
mod serve;
mod topics;
mod versions;

use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use helenus::backend::StoreUrl;
use helenus::store::Position;
use helenus::{Expected, OperationId, StreamId, Timestamp, Version};

use crate::config::parse_duration;
pub(crate) use capture::{Capture, CaptureCommand};
pub(crate) use outbox::{Inbox, InboxCommand, ListedState, Outbox, OutboxCommand};
pub(crate) use project::{Project, ProjectCommand};
pub(crate) use relay::{Relay, RelayCommand, RelayMode};
pub(crate) use serve::Serve;
pub(crate) use topics::{ReadTopic, Topics, TopicsCommand};
pub(crate) use versions::{PublishArguments, RecycleArguments, Versions, VersionsCommand};

/// Move data into and out of Apache Cassandra without losing, doubling or inventing a change.
#[derive(Debug, Parser)]
#[command(name = "helenus", version)]
#[command(after_help = "Exit codes: 0 done, 1 failed, 2 wrong usage.")]
pub(crate) struct Arguments {
    /// Configuration file; helenus.toml in this folder if it is there
    #[arg(short, long, global = true, value_name = "FILE", env = "HELENUS_CONFIG")]
    pub(crate) config: Option<PathBuf>,

    /// Print data and errors as JSON
    #[arg(long, global = true)]
    pub(crate) json: bool,

    /// How log lines on stderr are written
    #[arg(long, global = true, value_enum, value_name = "FORMAT")]
    pub(crate) log_format: Option<LogFormat>,

    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    Text,
    Json,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run the pipeline on the embedded backends, with a live page, and check it
    ///
    /// Uses neither the configuration nor the environment.
    Demo(Demo),
    /// Write a commented helenus.toml
    Init(Init),
    /// Check configuration, files and services, each with its remedy
    Doctor,
    /// Run what the configuration enables, with health and metrics over HTTP
    #[command(after_help = serve::HELP)]
    Serve(Serve),
    /// Append to streams of events, read them, settle lost answers
    Events(Events),
    /// Publish the changes of a node's tables, from its commit log
    Capture(Capture),
    /// Stage messages, and look after what is staged
    Outbox(Outbox),
    /// Look at which messages were processed
    Inbox(Inbox),
    /// Publish what is staged in the outbox
    Relay(Relay),
    /// Look into topics
    Topics(Topics),
    /// Publish data sets as versions of tables, switch between them, drop the old ones
    Versions(Versions),
    /// Look into segments of a node's commit log, without the node
    Segments(Segments),
    /// Print a script that completes commands for a shell
    Completions {
        /// The shell
        #[arg(value_enum)]
        shell: clap_complete::Shell,
    },
    /// Print the manual page, or write one for every command
    Man {
        /// Write the pages into this folder
        #[arg(long, value_name = "FOLDER")]
        directory: Option<PathBuf>,
    },
}

#[derive(Args, Debug)]
pub(crate) struct Demo {
    /// How long messages are produced
    #[arg(long, default_value_t = 10, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub(crate) seconds: u64,

    /// Port of the live page on 127.0.0.1; any free one if not given
    #[arg(long, default_value_t = 0, value_name = "P")]
    pub(crate) port: u16,

    /// Keep the store file here instead of in a folder that is removed afterwards
    #[arg(long, value_name = "FILE")]
    pub(crate) keep: Option<PathBuf>,
}

#[derive(Args, Debug)]
pub(crate) struct Events {
    /// The store; store.url of the configuration if not given
    #[arg(long, global = true, value_name = "URL")]
    pub(crate) store: Option<StoreUrl>,

    #[command(subcommand)]
    pub(crate) command: EventsCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum EventsCommand {
    /// Append events from stdin, all of them or none
    #[command(after_help = APPEND_HELP)]
    Append {
        /// The stream
        stream: StreamId,

        /// What the stream must be: none, exists, any, or the version of its last event
        #[arg(long, value_name = "none|exists|any|N", allow_hyphen_values = true, value_parser = expected)]
        expect: Expected,

        /// Name of this append; the same append sent again under it is applied once
        #[arg(long, value_name = "UUID")]
        operation_id: Option<OperationId>,
    },
    /// Print the events of a stream, one JSON object a line
    Read {
        /// The stream
        stream: StreamId,

        /// Start at this version
        #[arg(long, value_name = "N", value_parser = version)]
        from: Option<Version>,

        /// Newest first
        #[arg(long)]
        backward: bool,

        /// End after so many events
        #[arg(long, value_name = "N")]
        limit: Option<u64>,
    },
    /// Print the events of all streams in one order, each with its position
    ///
    /// Where events were dropped for good, a line has their number as "dropped".
    Feed {
        /// Start after this position
        #[arg(long, value_name = "POSITION")]
        from: Option<Position>,

        /// Wait for more at the end
        #[arg(long)]
        follow: bool,

        /// End after so many events
        #[arg(long, value_name = "N")]
        limit: Option<u64>,
    },
    /// Print the version of a stream's last event, -1 if there is no such stream
    Version {
        /// The stream
        stream: StreamId,
    },
    /// Settle an append whose answer was lost: it was applied, or is cancelled now
    Resolve {
        /// The stream
        stream: StreamId,
        /// The append's operation id
        operation: OperationId,
    },
    /// Print every stream with its last version, one JSON object a line
    Streams,
    /// Fill tables from the feed, see how far they are, and what could not be applied
    Project(Project),
    /// Show the newest snapshot of a stream; save, list or prune snapshots
    Snapshot(Snapshot),
    /// Move old events into the archive, where reads still find them, or delete them
    #[command(after_help = ARCHIVE_HELP)]
    Archive(Archive),
}

#[derive(Args, Debug)]
pub(crate) struct Snapshot {
    /// The stream
    pub(crate) stream: StreamId,

    /// List all of them, newest first, without their payloads
    #[arg(long, conflicts_with = "save")]
    pub(crate) list: bool,

    #[command(flatten)]
    pub(crate) saving: SaveSnapshot,

    /// Delete all but the newest so many
    #[arg(long, value_name = "N", conflicts_with = "list")]
    pub(crate) keep: Option<NonZeroU32>,
}

#[derive(Args, Debug)]
pub(crate) struct SaveSnapshot {
    /// Save stdin as a snapshot
    #[arg(long, requires = "version", requires = "type")]
    pub(crate) save: bool,

    /// Version of the last event that is in it; showing, the newest at or below this
    #[arg(long, value_name = "N", value_parser = version)]
    pub(crate) version: Option<Version>,

    /// What it is of, by a name of the application's choice
    #[arg(long, value_name = "NAME", requires = "save")]
    pub(crate) r#type: Option<String>,

    /// Version of the payload's shape
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(i32).range(1..))]
    pub(crate) schema_version: i32,

    /// MIME type of the payload
    #[arg(long, value_name = "TYPE", default_value = helenus::Payload::JSON)]
    pub(crate) content_type: String,
}

#[derive(Args, Debug)]
pub(crate) struct Archive {
    /// The stream
    #[arg(required_unless_present = "all", conflicts_with = "all")]
    pub(crate) stream: Option<StreamId>,

    /// Every stream
    #[arg(long, conflicts_with = "before")]
    pub(crate) all: bool,

    #[command(flatten)]
    pub(crate) cut: CutArguments,

    /// Delete the events for good, archived ones too
    #[arg(long)]
    pub(crate) drop: bool,

    /// Say what would be done, and do nothing
    #[arg(long)]
    pub(crate) dry_run: bool,

    /// Also without a snapshot, and of what subscriptions have not read
    #[arg(long)]
    pub(crate) force: bool,
}

#[derive(Args, Debug)]
#[group(required = true, multiple = false)]
pub(crate) struct CutArguments {
    /// Events before this version
    #[arg(long, value_name = "VERSION", value_parser = version)]
    pub(crate) before: Option<Version>,

    /// All but the last so many
    #[arg(long, value_name = "N")]
    pub(crate) keep_last: Option<u64>,

    /// Events appended longer ago than this, such as 30d or 12h
    #[arg(long, value_name = "AGE", value_parser = parse_duration)]
    pub(crate) older_than: Option<Duration>,
}

const ARCHIVE_HELP: &str = "\
A stream keeps its version. A snapshot at or above the last of the events must stand for them,
unless --force is given. Interrupted, the same command completes it.";

const APPEND_HELP: &str = "\
Each line of stdin is an event:
  {\"type\": \"order.placed\", \"data\": {\"total\": 12}, \"metadata\": {\"source\": \"shop\"}}
Besides type and data: text or data_base64 instead of data, content_type, id, schema_version,
occurred_at, correlation_id, causation_id, tenant_id, stream, version.";

fn expected(text: &str) -> Result<Expected, String> {
    match text {
        "none" | "-1" => Ok(Expected::NoStream),
        "exists" => Ok(Expected::Exists),
        "any" => Ok(Expected::Any),
        number => version(number).map(Expected::Exact).map_err(|_| {
            format!("'{text}' is neither none, exists, any nor a version, which is 1 or more")
        }),
    }
}

fn version(text: &str) -> Result<Version, String> {
    let number = text.parse().ok().and_then(Version::new);
    number.ok_or_else(|| format!("'{text}' is not a version: versions are 1, 2, 3 …"))
}

#[derive(Args, Debug)]
pub(crate) struct Segments {
    #[command(subcommand)]
    pub(crate) command: SegmentsCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum SegmentsCommand {
    /// Count records, bytes and changes by table, and list what is damaged
    ///
    /// With --json: {segments: [{id, file, version, compression, records, bytes, end, damage:
    /// [{offset, reason}]}], tables: {"ks.t": {changes, first_write_us, last_write_us}}, refused:
    /// [{file, reason}]}; refused are files that cannot be read. Without a schema tables go by id.
    Stat {
        #[command(flatten)]
        files: SegmentFiles,
    },
    /// Print every change on a line, with the time, TTL and deletion of every cell
    ///
    /// Changes of Cassandra's own tables are left out unless one of them is named.
    Cat {
        #[command(flatten)]
        files: SegmentFiles,

        /// Only the changes of this table
        #[arg(long, value_name = "KEYSPACE.TABLE")]
        table: Option<TableName>,

        /// Print records as they are, undecoded; needs a schema only with --table
        #[arg(long)]
        raw: bool,
    },
    /// Merge everything and print a table's rows as SELECT JSON * would
    Rows {
        #[command(flatten)]
        files: SegmentFiles,

        /// The table
        #[arg(long, value_name = "KEYSPACE.TABLE")]
        table: TableName,

        /// The moment at which values expire or not, as 2026-11-15T12:00:00Z; now if not given
        #[arg(long, value_name = "TIME")]
        at: Option<Timestamp>,
    },
}

#[derive(Args, Debug)]
pub(crate) struct SegmentFiles {
    /// Segments, or folders of them; capture.cdc_raw of the configuration if none is given
    #[arg(value_name = "PATH")]
    pub(crate) paths: Vec<PathBuf>,

    /// The schema, as `helenus capture schema` writes it
    #[arg(long, value_name = "FILE")]
    pub(crate) schema: Option<PathBuf>,
}

/// A table as `keyspace.table`, with or without quotes around its names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TableName {
    pub(crate) keyspace: String,
    pub(crate) name: String,
}

impl std::str::FromStr for TableName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bare = |part: &str| part.trim_matches('"').to_owned();
        match text.split_once('.').map(|(keyspace, name)| (bare(keyspace), bare(name))) {
            Some((keyspace, name)) if !keyspace.is_empty() && !name.is_empty() => {
                Ok(TableName { keyspace, name })
            }
            _ => Err(format!("'{text}' is not a table: write keyspace.table")),
        }
    }
}

impl std::fmt::Display for TableName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.keyspace, self.name)
    }
}

#[derive(Args, Debug)]
pub(crate) struct Init {
    /// File to write
    #[arg(default_value = "helenus.toml")]
    pub(crate) file: PathBuf,

    /// Replace the file if it exists
    #[arg(long)]
    pub(crate) force: bool,
}
