//! Answering over HTTP beside whatever a command runs.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use helenus_server::{Condition, Meters, Operations, Tokens, check_address, operate};
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::config::Config;
use crate::exit::Failed;

/// How long answers that are under way may take when everything else has ended.
const LAST_ANSWERS: Duration = Duration::from_secs(1);

/// An address that is listened on; nobody is answered yet.
pub(crate) struct Door {
    /// The address, with the port that it came to.
    pub(crate) address: SocketAddr,
    listener: TcpListener,
    tokens: Option<Tokens>,
}

impl Door {
    /// Listens. An address that others can reach needs tokens.
    pub(crate) async fn open(address: SocketAddr, config: &Config) -> Result<Self, Failed> {
        let tokens = config.auth.tokens()?;
        check_address(address, tokens.as_ref())?;
        if !address.ip().is_loopback() {
            tracing::warn!(%address, "others can reach this address, and what passes is not encrypted");
        }
        let failed = || {
            let what = format!("listen on {address}");
            Failed::system(what, "end what listens there, or name another address with --listen")
        };
        let listener = TcpListener::bind(address).await.map_err(failed())?;
        let address = listener.local_addr().map_err(failed())?;
        Ok(Self { address, listener, tokens })
    }

    /// Answers from now on.
    pub(crate) fn answer(
        self,
        condition: Arc<dyn Condition>,
        meters: Meters,
        manifest: Option<Value>,
    ) -> Answering {
        let operations = Operations { condition, meters, manifest, tokens: self.tokens };
        let closing = CancellationToken::new();
        let mut task = JoinSet::new();
        task.spawn(operate(self.listener, operations, closing.clone()));
        Answering { closing, task }
    }
}

/// Whoever asks is answered for as long as this lives.
pub(crate) struct Answering {
    closing: CancellationToken,
    task: JoinSet<std::io::Result<()>>,
}

impl Answering {
    /// Finishes the answers that are under way.
    pub(crate) async fn end(mut self) {
        self.closing.cancel();
        let answered = tokio::time::timeout(LAST_ANSWERS, self.task.join_next()).await;
        if let Ok(Some(Ok(Err(error)))) = answered {
            tracing::warn!(%error, "answering ended early");
        }
    }
}
