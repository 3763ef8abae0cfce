//! A proxy that a test leads by the hand: it stops a request before the node gets it, and again
//! before the client gets the answer, and goes on when it is told to, and how.
//!
//! It knows just enough of the native protocol (version 4, section 2) to tell requests apart: a
//! frame is nine bytes with version, flags, stream, opcode and length, and a body.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;

/// What is stopped, by its opcode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    /// A statement that was prepared before.
    Statement = 0x0A,
    /// A batch of them.
    Batch = 0x0D,
}

/// Who waits for the next request of a kind.
type Armed = Arc<Mutex<Option<(Kind, mpsc::Sender<Stop>)>>>;

/// Listens on a port of its own until it is dropped.
pub(crate) struct Gate {
    address: String,
    armed: Armed,
    _tasks: JoinSet<()>,
}

/// A request, or its answer, that waits to be let through.
pub(crate) enum Stop {
    Request(Hold),
    Answer(Hold),
}

/// What waits; dropped, its connection is cut.
pub(crate) struct Hold(oneshot::Sender<()>);

impl Hold {
    pub(crate) fn let_through(self) {
        self.0.send(()).expect("the connection waits");
    }
}

/// One request on its way: both its stops, in their order.
pub(crate) struct Watched(mpsc::Receiver<Stop>);

impl Watched {
    /// The request, once the client has sent it.
    pub(crate) async fn sent(&mut self) -> Hold {
        match self.0.recv().await {
            Some(Stop::Request(hold)) => hold,
            _ => panic!("no request came"),
        }
    }

    /// Its answer, once the node has given it.
    pub(crate) async fn answered(&mut self) -> Hold {
        match self.0.recv().await {
            Some(Stop::Answer(hold)) => hold,
            _ => panic!("no answer came"),
        }
    }
}

impl Gate {
    pub(crate) async fn start(node: &str) -> Gate {
        let node: SocketAddr = node.parse().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
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

    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// Stops the next request of that kind; those after it pass.
    pub(crate) fn stop_next(&self, kind: Kind) -> Watched {
        let (stops, watched) = mpsc::channel(2);
        *self.armed.lock().unwrap() = Some((kind, stops));
        Watched(watched)
    }
}

/// A statement under way: the stream its answer will have, and who is told.
type UnderWay = Arc<Mutex<Option<([u8; 2], mpsc::Sender<Stop>)>>>;

async fn connection(client: TcpStream, node: TcpStream, armed: Armed) {
    let (from_client, to_client) = client.into_split();
    let (from_node, to_node) = node.into_split();
    let under_way = UnderWay::default();
    tokio::select! {
        _ = requests(from_client, to_node, &armed, &under_way) => {}
        _ = answers(from_node, to_client, &under_way) => {}
    }
}

/// `None` when the connection has ended, or shall.
async fn requests(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    armed: &Armed,
    under_way: &UnderWay,
) -> Option<()> {
    loop {
        let frame = frame(&mut from).await?;
        let stops = armed.lock().unwrap().take_if(|(kind, _)| *kind as u8 == frame[4]);
        if let Some((_, stops)) = stops {
            *under_way.lock().unwrap() = Some(([frame[2], frame[3]], stops.clone()));
            held(&stops, Stop::Request).await?;
        }
        to.write_all(&frame).await.ok()?;
    }
}

async fn answers(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    under_way: &UnderWay,
) -> Option<()> {
    loop {
        let frame = frame(&mut from).await?;
        let stops = {
            let mut under_way = under_way.lock().unwrap();
            let is_answer = |(stream, _): &([u8; 2], _)| *stream == [frame[2], frame[3]];
            if under_way.as_ref().is_some_and(is_answer) { under_way.take() } else { None }
        };
        if let Some((_, stops)) = stops {
            held(&stops, Stop::Answer).await?;
        }
        to.write_all(&frame).await.ok()?;
    }
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
