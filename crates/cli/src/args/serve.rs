//! Arguments of `helenus serve`.

use std::net::SocketAddr;

use clap::Args;
use helenus::backend::{BrokerUrl, StoreUrl};

#[derive(Args, Debug)]
pub(crate) struct Serve {
    /// Address to answer on; serve.listen of the configuration if not given, port 0 for any free one
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) listen: Option<SocketAddr>,

    /// The store; store.url of the configuration if not given
    #[arg(long, value_name = "URL")]
    pub(crate) store: Option<StoreUrl>,

    /// The broker; broker.url of the configuration if not given
    #[arg(long, value_name = "URL")]
    pub(crate) broker: Option<BrokerUrl>,
}

pub(super) const HELP: &str = "\
Runs the relay, the reconciler, the sweeper and the retention of embedded topics, as far as the
section [serve] enables them. One that fails waits and starts again; the others go on.

  /healthz          200, or 503 once a task was given up for good
  /readyz           200, or 503 with the reasons
  /metrics          for Prometheus; ops/ has alert rules
  /engine/snapshot  what runs here, configured how, and what it promises

An address that other machines can reach needs auth.tokens. SIGTERM and Ctrl-C finish what was begun
(serve.drain at most); a second one ends at once.";
