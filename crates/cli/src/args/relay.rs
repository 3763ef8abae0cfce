//! Arguments of `helenus relay`.

use clap::{Args, Subcommand, ValueEnum};
use helenus::backend::{BrokerUrl, StoreUrl};

#[derive(Args, Debug)]
pub(crate) struct Relay {
    /// The store; store.url of the configuration if not given
    #[arg(long, global = true, value_name = "URL")]
    pub(crate) store: Option<StoreUrl>,

    /// The broker; broker.url of the configuration if not given
    #[arg(long, global = true, value_name = "URL")]
    pub(crate) broker: Option<BrokerUrl>,

    #[command(subcommand)]
    pub(crate) command: RelayCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum RelayCommand {
    /// Publish until told to stop; on SIGTERM it finishes what it has begun
    Run {
        /// End when nothing is left that could be published
        #[arg(long)]
        until_empty: bool,

        /// What is promised of each message; relay.mode of the configuration if not given
        #[arg(long, value_enum, value_name = "MODE")]
        mode: Option<RelayMode>,

        /// Be woken by the capture agents of the store's cluster, as relay.hints of the
        /// configuration does; they are told which outboxes by capture.hints
        #[arg(long)]
        hints: bool,
    },
    /// Print how far publishing is behind, and which relay holds each shard
    Status,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum RelayMode {
    /// Consumers that read committed messages see each once
    ExactlyOnce,
    /// After a crash some may be published again; less delay
    AtLeastOnce,
}
