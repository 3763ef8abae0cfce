//! Arguments of `helenus topics`.

use clap::{Args, Subcommand};
use helenus::backend::{BrokerUrl, StoreUrl};

#[derive(Args, Debug)]
pub(crate) struct Topics {
    /// The store whose file holds the embedded broker; store.url of the configuration if not given
    #[arg(long, global = true, value_name = "URL")]
    pub(crate) store: Option<StoreUrl>,

    /// The broker; broker.url of the configuration if not given
    #[arg(long, global = true, value_name = "URL")]
    pub(crate) broker: Option<BrokerUrl>,

    #[command(subcommand)]
    pub(crate) command: TopicsCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum TopicsCommand {
    /// List the topics
    List,
    /// Print the messages of a topic, one JSON object a line, committed ones only
    Read(ReadTopic),
}

#[derive(Args, Debug)]
pub(crate) struct ReadTopic {
    /// The topic
    pub(crate) topic: String,

    /// Start at the first message; without it and without a group, only what comes is printed
    #[arg(long)]
    pub(crate) from_beginning: bool,

    /// End at what was the end when it began, instead of waiting for more
    #[arg(long)]
    pub(crate) until_end: bool,

    /// Go on where this consumer group is, and record how far it got; a new group starts at the
    /// first message
    #[arg(long, value_name = "G")]
    pub(crate) group: Option<String>,

    /// End after so many messages
    #[arg(long, value_name = "N")]
    pub(crate) limit: Option<u64>,
}
