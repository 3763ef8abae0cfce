//! A proxy between driver and node that loses what it is told to lose.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
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
    /// The same with the next batch.
    CutAfterBatch,
    /// The next batch does not arrive, and its connection is closed; then all is as before.
    CutBeforeBatch,
}

/// Listens on a port of its own until it is dropped.
pub(crate) struct Proxy {
    address: String,
    mode: Arc<watch::Sender<Mode>>,
    accepted: Arc<AtomicU32>,
    executed: Arc<AtomicU32>,
    armed: Arc<Armed>,
    _tasks: JoinSet<()>,
}

/// A mode that begins with a later request.
#[derive(Debug, Default)]
struct Armed(Mutex<Option<(u32, Mode)>>);

impl Armed {
    /// The mode that begins now, if this is the request it waited for.
    fn next(&self) -> Option<Mode> {
        let mut armed = self.0.lock().unwrap();
        let (left, mode) = (*armed)?;
        *armed = left.checked_sub(1).map(|left| (left, mode));
        (left == 0).then_some(mode)
    }
}

impl Proxy {
    pub(crate) async fn start(node: &str) -> Proxy {
        let node: SocketAddr = node.parse().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let mode = Arc::new(watch::Sender::new(Mode::Forward));
        let (accepted, executed) = (Arc::default(), Arc::default());
        let armed = Arc::<Armed>::default();
        let mut tasks = JoinSet::new();
        let counts = (Arc::clone(&accepted), Arc::clone(&executed), Arc::clone(&armed));
        tasks.spawn(accept(listener, node, Arc::clone(&mode), counts));
        Proxy { address, mode, accepted, executed, armed, _tasks: tasks }
    }

    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// Connections accepted so far.
    pub(crate) fn connections(&self) -> u32 {
        self.accepted.load(Ordering::SeqCst)
    }

    /// Prepared statements executed so far, but for the driver's own.
    pub(crate) fn executed(&self) -> u32 {
        self.executed.load(Ordering::SeqCst)
    }

    /// Waits until what was set for one request has been done to it.
    pub(crate) async fn is_done(&self) {
        let mut mode = self.mode.subscribe();
        mode.wait_for(|mode| *mode == Mode::Forward).await.unwrap();
    }

    pub(crate) fn set(&self, mode: Mode) {
        self.mode.send_replace(mode);
    }

    /// Lets so many more requests pass, then begins `mode` with the next.
    pub(crate) fn set_after(&self, requests: u32, mode: Mode) {
        *self.armed.0.lock().unwrap() = Some((requests, mode));
    }

    /// Forgets a mode that has not begun; says whether it had.
    pub(crate) fn disarm(&self) -> bool {
        self.armed.0.lock().unwrap().take().is_none()
    }
}

async fn accept(
    listener: TcpListener,
    node: SocketAddr,
    mode: Arc<watch::Sender<Mode>>,
    (accepted, executed, armed): (Arc<AtomicU32>, Arc<AtomicU32>, Arc<Armed>),
) {
    let mut connections = JoinSet::new();
    while let Ok((client, _)) = listener.accept().await {
        accepted.fetch_add(1, Ordering::SeqCst);
        let counts = (Arc::clone(&executed), Arc::clone(&armed));
        connections.spawn(connection(client, node, Arc::clone(&mode), counts));
    }
}

async fn connection(
    client: TcpStream,
    node: SocketAddr,
    mode: Arc<watch::Sender<Mode>>,
    counts: (Arc<AtomicU32>, Arc<Armed>),
) {
    let Ok(node) = TcpStream::connect(node).await else { return };
    let (from_client, to_client) = client.into_split();
    let (from_node, to_node) = node.into_split();
    tokio::select! {
        () = requests(from_client, to_node, &mode, &counts) => {}
        () = answers(from_node, to_client, &mode) => {}
        () = recovered(mode.subscribe()) => {}
    }
}

async fn requests(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    mode: &watch::Sender<Mode>,
    (executed, armed): &(Arc<AtomicU32>, Arc<Armed>),
) {
    let mut buffer = vec![0; 64 * 1024];
    let mut frames = Frames::default();
    while let Ok(count @ 1..) = from.read(&mut buffer).await {
        let begun = frames.begun(&buffer[..count]);
        let has_batch = begun.contains(&Frames::BATCH);
        if !frames.is_control
            && (has_batch || begun.contains(&Frames::EXECUTE))
            && let Some(mode_now) = armed.next()
        {
            mode.send_replace(mode_now);
        }
        let mut now = *mode.borrow();
        if now == Mode::DropRequests {
            continue;
        }
        if now == Mode::CutBeforeBatch && has_batch {
            mode.send_replace(Mode::Forward);
            return;
        }
        if now == Mode::CutAfterBatch && has_batch {
            // Answers to what came before it have passed; its own does not.
            now = Mode::CutAfterRequest;
            mode.send_replace(now);
        }
        let ours = begun.iter().filter(|opcode| **opcode == Frames::EXECUTE).count();
        if !frames.is_control {
            executed.fetch_add(u32::try_from(ours).unwrap(), Ordering::SeqCst);
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

/// Where the frames of the protocol begin in the bytes of a connection: a header of nine bytes, the
/// fifth of which says what it is, the last four how long its body is.
#[derive(Default)]
struct Frames {
    header: Vec<u8>,
    body: usize,
    /// The connection the driver asks its own questions on.
    is_control: bool,
}

impl Frames {
    const EXECUTE: u8 = 0x0a;
    const REGISTER: u8 = 0x0b;
    const BATCH: u8 = 0x0d;
    const HEADER: usize = 9;

    /// What the frames are whose header ends in these bytes.
    fn begun(&mut self, mut bytes: &[u8]) -> Vec<u8> {
        let mut begun = Vec::new();
        while !bytes.is_empty() {
            let skipped = self.body.min(bytes.len());
            self.body -= skipped;
            bytes = &bytes[skipped..];
            let missing = (Self::HEADER - self.header.len()).min(bytes.len());
            self.header.extend(&bytes[..missing]);
            bytes = &bytes[missing..];
            if let [_, _, _, _, opcode, length @ ..] = self.header.as_slice()
                && let Ok(length) = <[u8; 4]>::try_from(length)
            {
                begun.push(*opcode);
                self.is_control |= *opcode == Self::REGISTER;
                self.body = usize::try_from(u32::from_be_bytes(length)).unwrap();
                self.header.clear();
            }
        }
        begun
    }
}
