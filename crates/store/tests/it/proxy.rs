//! A proxy between driver and node that loses what it is told to lose.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

/// What becomes of the bytes that pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// They pass.
    Forward,
    /// Requests arrive; answers do not.
    DropAnswers,
    /// Requests do not arrive.
    DropRequests,
    /// The next request arrives, and its connection is closed; then all is as before.
    CutAfterRequest,
}

/// Listens on a port of its own until it is dropped.
pub(crate) struct Proxy {
    address: String,
    mode: Arc<watch::Sender<Mode>>,
    accepted: Arc<AtomicU32>,
    _tasks: JoinSet<()>,
}

impl Proxy {
    pub(crate) async fn start(node: &str) -> Proxy {
        let node: SocketAddr = node.parse().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let (mode, accepted) = (Arc::new(watch::Sender::new(Mode::Forward)), Arc::default());
        let mut tasks = JoinSet::new();
        tasks.spawn(accept(listener, node, Arc::clone(&mode), Arc::clone(&accepted)));
        Proxy { address, mode, accepted, _tasks: tasks }
    }

    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// Connections accepted so far.
    pub(crate) fn connections(&self) -> u32 {
        self.accepted.load(Ordering::SeqCst)
    }

    pub(crate) fn set(&self, mode: Mode) {
        self.mode.send_replace(mode);
    }
}

async fn accept(
    listener: TcpListener,
    node: SocketAddr,
    mode: Arc<watch::Sender<Mode>>,
    accepted: Arc<AtomicU32>,
) {
    let mut connections = JoinSet::new();
    while let Ok((client, _)) = listener.accept().await {
        accepted.fetch_add(1, Ordering::SeqCst);
        connections.spawn(connection(client, node, Arc::clone(&mode)));
    }
}

async fn connection(client: TcpStream, node: SocketAddr, mode: Arc<watch::Sender<Mode>>) {
    let Ok(node) = TcpStream::connect(node).await else { return };
    let (from_client, to_client) = client.into_split();
    let (from_node, to_node) = node.into_split();
    tokio::select! {
        () = requests(from_client, to_node, &mode) => {}
        () = answers(from_node, to_client, &mode) => {}
        () = recovered(mode.subscribe()) => {}
    }
}

async fn requests(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, mode: &watch::Sender<Mode>) {
    let mut buffer = vec![0; 64 * 1024];
    while let Ok(count @ 1..) = from.read(&mut buffer).await {
        let now = *mode.borrow();
        if now == Mode::DropRequests {
            continue;
        }
        if to.write_all(&buffer[..count]).await.is_err() {
            return;
        }
        if now == Mode::CutAfterRequest {
            // Long enough for the node to have done what it was asked.
            tokio::time::sleep(Duration::from_millis(100)).await;
            mode.send_replace(Mode::Forward);
            return;
        }
    }
}

async fn answers(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, mode: &watch::Sender<Mode>) {
    let mut buffer = vec![0; 64 * 1024];
    while let Ok(count @ 1..) = from.read(&mut buffer).await {
        let lost = matches!(*mode.borrow(), Mode::DropAnswers | Mode::CutAfterRequest);
        if !lost && to.write_all(&buffer[..count]).await.is_err() {
            return;
        }
    }
}

/// Ends a connection that lost bytes when bytes pass again: it makes no sense any more.
async fn recovered(mut mode: watch::Receiver<Mode>) {
    let mut lossy = *mode.borrow_and_update() != Mode::Forward;
    while mode.changed().await.is_ok() {
        let now = *mode.borrow_and_update();
        if lossy && now == Mode::Forward {
            return;
        }
        lossy |= now != Mode::Forward;
    }
}
