//! Arguments of `helenus outbox` and `helenus inbox`.

use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use helenus::MessageId;
use helenus::backend::StoreUrl;

use crate::config::parse_duration;

#[derive(Args, Debug)]
pub(crate) struct Outbox {
    /// The store; store.url of the configuration if not given
    #[arg(long, global = true, value_name = "URL")]
    pub(crate) store: Option<StoreUrl>,

    #[command(subcommand)]
    pub(crate) command: OutboxCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum OutboxCommand {
    /// Stage messages from stdin, one JSON object a line
    #[command(after_help = ENQUEUE_HELP)]
    Enqueue,
    /// Print messages, one JSON object a line
    List {
        /// Those in this state
        #[arg(long, value_enum, default_value = "pending")]
        state: ListedState,

        /// End after so many messages
        #[arg(long, value_name = "N")]
        limit: Option<usize>,
    },
    /// Finish what somebody began and did not end
    Reconcile {
        /// Only say what would be done
        #[arg(long)]
        dry_run: bool,

        /// Read everything that is stored, a part of the ring after the other, for what no index tells of
        #[arg(long)]
        scan: bool,
    },
    /// Remove what is done and old
    Sweep {
        /// Only say what would be removed
        #[arg(long)]
        dry_run: bool,

        /// Keep messages that were done, and receipts, for so long
        #[arg(long, value_name = "DURATION", default_value = "30d", value_parser = parse_duration)]
        keep: Duration,

        /// Remove at most so many of each
        #[arg(long, value_name = "N", default_value_t = 100_000)]
        limit: usize,
    },
    /// Keep unpublished messages of tables that expire for longer
    ExtendTtl {
        /// How much longer
        #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
        by: Duration,
    },
    /// Spread messages over another number of shards; no relay may run meanwhile
    Reshard {
        /// How many shards
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
        shards: u16,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ListedState {
    /// To be published
    Pending,
    /// Published, or skipped
    Dispatched,
    /// Given up, and kept
    Parked,
    /// Never staged: it took too long
    Cancelled,
}

#[derive(Args, Debug)]
pub(crate) struct Inbox {
    /// The store; store.url of the configuration if not given
    #[arg(long, global = true, value_name = "URL")]
    pub(crate) store: Option<StoreUrl>,

    #[command(subcommand)]
    pub(crate) command: InboxCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum InboxCommand {
    /// Print every message the inbox knows, one JSON object a line
    List {
        /// End after so many messages
        #[arg(long, value_name = "N")]
        limit: Option<usize>,
    },
    /// Print one message
    Show {
        /// The message, or CONSUMER/MESSAGE for a named consumer
        message_id: MessageId,
    },
}

const ENQUEUE_HELP: &str = "\
Each line of stdin is a message:
  {\"channel_id\": \"orders\", \"message_type\": \"order.placed\", \"payload\": {\"total\": 12}}
Besides these: message_id, ordering_key, headers, correlation_id, tenant_id, deliver_at,
payload_base64 instead of payload, content_type, metadata, occurred_at.";
