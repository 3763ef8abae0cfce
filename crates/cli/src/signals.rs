//! Being asked to end.

use std::task::Poll;

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::exit::Failed;

/// The signals that ask a program to end, heard from the moment this is made.
pub(crate) struct Interruption {
    signals: Vec<(&'static str, Signal)>,
}

impl Interruption {
    pub(crate) fn listen() -> Result<Self, Failed> {
        let kinds = [
            ("Ctrl-C", SignalKind::interrupt()),
            ("SIGTERM", SignalKind::terminate()),
            ("SIGHUP", SignalKind::hangup()),
        ];
        let listening = kinds.into_iter().map(|(name, kind)| Ok((name, signal(kind)?)));
        let signals = listening.collect::<Result<_, _>>();
        let signals = signals.map_err(Failed::system("listen for signals", "try again"))?;
        Ok(Interruption { signals })
    }

    /// Waits for one of them, and names it.
    pub(crate) async fn heard(mut self) -> &'static str {
        self.next().await
    }

    /// The same, for whoever goes on listening.
    pub(crate) async fn next(&mut self) -> &'static str {
        std::future::poll_fn(|context| {
            for (name, signal) in &mut self.signals {
                if signal.poll_recv(context).is_ready() {
                    return Poll::Ready(*name);
                }
            }
            Poll::Pending
        })
        .await
    }
}
