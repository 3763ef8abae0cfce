//! Arguments of `helenus capture`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use helenus::backend::StoreUrl;

#[derive(Args, Debug)]
pub(crate) struct Capture {
    /// The node; capture.url of the configuration if not given
    #[arg(long, global = true, value_name = "URL")]
    pub(crate) node: Option<StoreUrl>,

    #[command(subcommand)]
    pub(crate) command: CaptureCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum CaptureCommand {
    /// Write the node's schema as the file that segments are decoded with
    Schema {
        /// Write it here instead of to stdout
        #[arg(long, value_name = "FILE")]
        output: Option<PathBuf>,
    },
    /// Publish changes as the node writes them, until told to stop
    ///
    /// Tells the relays of the outboxes in capture.hints what is staged, so that they publish it at
    /// once: see `helenus relay run --hints`.
    ///
    /// With an address it answers /healthz, /readyz (503 while changes wait, with the reason) and
    /// /metrics; docs/operations.md explains them.
    Run {
        /// Address to answer on; capture.listen of the configuration if not given, port 0 for any free
        /// one
        #[arg(long, value_name = "ADDRESS")]
        listen: Option<SocketAddr>,
    },
    /// Print where the agent is, and how long until the node would refuse writes
    Status,
}
