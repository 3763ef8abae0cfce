//! The arguments of `helenus events project`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use helenus::StreamId;
use helenus::store::{Position, SubscriptionName, Which};

#[derive(Args, Debug)]
pub(crate) struct Project {
    #[command(subcommand)]
    pub(crate) command: ProjectCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ProjectCommand {
    /// Show every projection and subscription: how far it is, who works on it, what is parked
    #[command(visible_alias = "ls")]
    List,
    /// Show one projection or subscription, lane by lane
    Status {
        /// The projection or subscription
        name: SubscriptionName,
    },
    /// Fill tables of the store's file from the feed, as a file of SQL says
    #[command(after_help = RUN_HELP)]
    Run {
        /// The projection
        name: SubscriptionName,

        /// The SQL
        #[arg(long, value_name = "FILE")]
        sql: PathBuf,

        /// Go on with what is appended later, until Ctrl-C or SIGTERM
        #[arg(long)]
        follow: bool,

        /// Fill new tables beside the old ones first, then put them in their place
        #[arg(long)]
        rebuild: bool,
    },
    /// Show the events that could not be applied, and those that wait behind them
    Parked {
        /// The projection or subscription
        name: SubscriptionName,

        /// Show at most so many
        #[arg(long, value_name = "N", default_value_t = 100)]
        limit: usize,
    },
    /// Have parked events applied again, by the next run or by the one that follows
    Replay(Choice),
    /// Give parked events up for good
    Discard(Choice),
    /// Remove a projection with its tables, or a subscription with its place
    Drop {
        /// The projection or subscription
        name: SubscriptionName,
    },
}

#[derive(Args, Debug)]
pub(crate) struct Choice {
    /// The projection or subscription
    pub(crate) name: SubscriptionName,

    #[command(flatten)]
    which: Chosen,
}

#[derive(Args, Debug)]
#[group(required = true, multiple = false)]
struct Chosen {
    /// The one event at this position
    #[arg(long, value_name = "POSITION")]
    position: Option<Position>,

    /// Those of this stream
    #[arg(long, value_name = "STREAM")]
    stream: Option<StreamId>,

    /// All of them
    #[arg(long)]
    all: bool,
}

impl Choice {
    pub(crate) fn which(&self) -> Which {
        match (&self.which.position, &self.which.stream) {
            (Some(position), _) => Which::One(position.clone()),
            (None, Some(stream)) => Which::Stream(stream.clone()),
            (None, None) => Which::All,
        }
    }
}

const RUN_HELP: &str = "\
The file creates tables, then has a statement for each type of event; names of its own tables,
indexes and triggers stand in braces, and readers use the plain names:

  -- create
  CREATE TABLE {balances} (account TEXT PRIMARY KEY, cents INTEGER NOT NULL);
  -- on account.booked
  INSERT INTO {balances} VALUES (:stream_id, json_extract(:payload, '$.cents'))
  ON CONFLICT DO UPDATE SET cents = cents + excluded.cents;
  -- on account.closed
  DELETE FROM {balances} WHERE account = :stream_id;

'-- on *' is every event; a type may have several. A statement sees its own tables and, of the event,
:stream_id :stream_version :event_type :payload :position :occurred_at_utc :appended_at_utc :event_id
:schema_version :content_type :correlation_id :causation_id :tenant_id :metadata. Times are
milliseconds since 1970. Whatever changes in the file needs --rebuild.";
