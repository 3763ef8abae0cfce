//! A proxy before a Cassandra node that a test leads by the hand: it stops a request before the node
//! gets it, and again before the client gets the answer, and goes on when it is told to, and how; or
//! it answers in the node's place that it is overloaded.
//!
//! It knows just enough of the native protocol (version 4, section 2) to tell requests apart: a
//! frame is nine bytes with version, flags, stream, opcode and length, and a body.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;

/// What is stopped, by its opcode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// A statement that was prepared before.
    Statement = 0x0A,
    /// A batch of them.
    Batch = 0x0D,
}

/// The error a node answers that has too much to do (native protocol, section 9).
const OVERLOADED: i32 = 0x1001;

/// What happens to the next request of a kind.
#[derive(Debug)]
enum Next {
    /// It is stopped, and somebody is told.
    Stop(mpsc::Sender<Stop>),
    /// So many of them are refused.
    Refuse(u32),
}

type Armed = Arc<Mutex<Option<(Kind, Next)>>>;

/// Listens on a port of its own until it is dropped.
#[derive(Debug)]
pub struct Gate {
    address: String,
    armed: Armed,
    _tasks: JoinSet<()>,
}

/// A request, or its answer, that waits to be let through.
#[derive(Debug)]
enum Stop {
    Request(Hold),
    Answer(Hold),
}

/// What waits; dropped, its connection is cut.
#[derive(Debug)]
#[must_use = "dropped, the connection is cut"]
pub struct Hold(oneshot::Sender<()>);

impl Hold {
    /// Lets it go on.
    pub fn let_through(self) {
        self.0.send(()).expect("the connection waits");
    }
}

/// One request on its way: both its stops, in their order.
#[derive(Debug)]
pub struct Watched(mpsc::Receiver<Stop>);

impl Watched {
    /// The request, once the client has sent it.
    pub async fn sent(&mut self) -> Hold {
        match self.0.recv().await {
            Some(Stop::Request(hold)) => hold,
            _ => panic!("no request came"),
        }
    }

    /// Its answer, once the node has given it.
    pub async fn answered(&mut self) -> Hold {
        match self.0.recv().await {
            Some(Stop::Answer(hold)) => hold,
            _ => panic!("no answer came"),
        }
    }
}

impl Gate {
    /// Starts one before the node at that address.
    pub async fn start(node: &str) -> Gate {
        let node: SocketAddr = node.parse().expect("an address and a port");
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("it is bound").to_string();
        let armed = Armed::default();
        let mut tasks = JoinSet::new();
        let watching = Arc::clone(&armed);
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((client, _)) = listener.accept().await {
                let Ok(node) = TcpStream::connect(node).await else { continue };
                connections.spawn(connection(client, node, Arc::clone(&watching)));
            }
        });
        Gate { address, armed, _tasks: tasks }
    }

    /// Where clients connect.
    #[must_use]
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Stops the next request of that kind; those after it pass.
    #[must_use]
    pub fn stop_next(&self, kind: Kind) -> Watched {
        let (stops, watched) = mpsc::channel(2);
        *lock(&self.armed) = Some((kind, Next::Stop(stops)));
        Watched(watched)
    }

    /// Answers the next requests of that kind as a node does that is overloaded.
    pub fn refuse_next(&self, kind: Kind, count: u32) {
        *lock(&self.armed) = Some((kind, Next::Refuse(count)));
    }

    /// Whether what was set has happened.
    #[must_use]
    pub fn is_done(&self) -> bool {
        lock(&self.armed).is_none()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What happens to a request now.
enum Now {
    Pass,
    Stop(mpsc::Sender<Stop>),
    Refuse,
}

fn now(armed: &Armed, opcode: u8) -> Now {
    let mut armed = lock(armed);
    match armed.take() {
        Some((kind, Next::Stop(stops))) if kind as u8 == opcode => Now::Stop(stops),
        Some((kind, Next::Refuse(count @ 1..))) if kind as u8 == opcode => {
            *armed = (count > 1).then(|| (kind, Next::Refuse(count - 1)));
            Now::Refuse
        }
        other => {
            *armed = other;
            Now::Pass
        }
    }
}

/// A statement under way: the stream its answer will have, and who is told.
type UnderWay = Arc<Mutex<Option<([u8; 2], mpsc::Sender<Stop>)>>>;

/// Both sides write to the client.
type ToClient = tokio::sync::Mutex<OwnedWriteHalf>;

async fn connection(client: TcpStream, node: TcpStream, armed: Armed) {
    let (from_client, to_client) = client.into_split();
    let (from_node, to_node) = node.into_split();
    let (to_client, under_way) = (ToClient::new(to_client), UnderWay::default());
    tokio::select! {
        _ = requests(from_client, to_node, &to_client, &armed, &under_way) => {}
        _ = answers(from_node, &to_client, &under_way) => {}
    }
}

/// `None` when the connection has ended, or shall.
async fn requests(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    to_client: &ToClient,
    armed: &Armed,
    under_way: &UnderWay,
) -> Option<()> {
    loop {
        let frame = frame(&mut from).await?;
        match now(armed, frame[4]) {
            Now::Pass => {}
            Now::Stop(stops) => {
                *lock(under_way) = Some(([frame[2], frame[3]], stops.clone()));
                held(&stops, Stop::Request).await?;
            }
            Now::Refuse => {
                to_client.lock().await.write_all(&overloaded(&frame)).await.ok()?;
                continue;
            }
        }
        to.write_all(&frame).await.ok()?;
    }
}

async fn answers(mut from: OwnedReadHalf, to: &ToClient, under_way: &UnderWay) -> Option<()> {
    loop {
        let frame = frame(&mut from).await?;
        let is_answer = |(stream, _): &mut ([u8; 2], _)| *stream == [frame[2], frame[3]];
        let stops = lock(under_way).take_if(is_answer);
        if let Some((_, stops)) = stops {
            held(&stops, Stop::Answer).await?;
        }
        to.lock().await.write_all(&frame).await.ok()?;
    }
}

/// The answer to a request that the node has no time for: an error's code and its message.
fn overloaded(request: &[u8]) -> Vec<u8> {
    let message = b"overloaded";
    let mut body = OVERLOADED.to_be_bytes().to_vec();
    body.extend([0, 10]);
    body.extend(message);
    let mut frame = vec![request[0] | 0x80, 0, request[2], request[3], 0];
    frame.extend([0, 0, 0, 16]);
    frame.extend(body);
    frame
}

/// Waits until it is let through; `None` if it shall not be.
async fn held(stops: &mpsc::Sender<Stop>, stop: impl FnOnce(Hold) -> Stop) -> Option<()> {
    let (hold, told) = oneshot::channel();
    stops.send(stop(Hold(hold))).await.ok()?;
    told.await.ok()
}

async fn frame(from: &mut OwnedReadHalf) -> Option<Vec<u8>> {
    let mut frame = vec![0; 9];
    from.read_exact(&mut frame).await.ok()?;
    let length = u32::from_be_bytes([frame[5], frame[6], frame[7], frame[8]]);
    frame.resize(9 + usize::try_from(length).ok()?, 0);
    from.read_exact(&mut frame[9..]).await.ok()?;
    Some(frame)
}
