//! An append and a cancellation of the same operation, in every order their steps can have:
//! exactly one wins, and both sides say so.
//!
//! Each side has three steps: its request is sent, the node acts on it, it is answered. Each
//! request and each answer may also be lost. All orders and losses are tried, one after another,
//! with the steps held apart by a gate on either side's connection.

use helenus_model::{Expected, NewEvent, OperationId, Payload, StreamId, Version};
use helenus_store::Ports;
use helenus_store::cassandra::{CassandraStore, Options};
use helenus_store::contract::{Append, AppendError, Appended, EventStore, Resolved};
use helenus_testkit::gate::{Gate, Hold, Kind, Watched};
use tokio::task::JoinHandle;

use crate::cassandra::Keyspace;

/// What becomes of a side's first request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Answered,
    AnswerLost,
    RequestLost,
}

const FATES: [Fate; 3] = [Fate::Answered, Fate::AnswerLost, Fate::RequestLost];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Append,
    Cancel,
}

/// Every way to interleave three steps of the one with three of the other.
fn orders() -> Vec<Vec<Side>> {
    fn go_on(order: &[Side], appends: usize, cancels: usize) -> Vec<Vec<Side>> {
        if appends + cancels == 0 {
            return vec![order.to_vec()];
        }
        let mut orders = Vec::new();
        for (side, left) in [(Side::Append, appends), (Side::Cancel, cancels)] {
            if left > 0 {
                let taken = usize::from(side == Side::Append);
                let longer = [order, &[side]].concat();
                orders.extend(go_on(&longer, appends - taken, cancels - (1 - taken)));
            }
        }
        orders
    }
    go_on(&[], 3, 3)
}

/// A side under way: what it has done, and what holds it.
struct Contender<T> {
    gate: Gate,
    kind: Kind,
    store: CassandraStore,
    under_way: Option<(Watched, JoinHandle<T>)>,
    request: Option<Hold>,
    answer: Option<Hold>,
    steps: usize,
}

impl<T: Send + 'static> Contender<T> {
    async fn new(keyspace: &Keyspace, kind: Kind) -> Self {
        let gate = Gate::start(keyspace.address()).await;
        let store = keyspace.store_at(gate.address(), Options::default());
        // The session is open before anything is held.
        store.version(&StreamId::new("none").unwrap()).await.unwrap();
        Contender { gate, kind, store, under_way: None, request: None, answer: None, steps: 0 }
    }

    /// Takes the next of its three steps; says whether the node acted.
    async fn step<F>(&mut self, fate: Fate, start: impl FnOnce(CassandraStore) -> F) -> bool
    where
        F: Future<Output = T> + Send + 'static,
    {
        self.steps += 1;
        match self.steps {
            1 => {
                let mut watched = self.gate.stop_next(self.kind);
                let task = tokio::spawn(start(self.store.clone()));
                self.request = Some(watched.sent().await);
                self.under_way = Some((watched, task));
            }
            2 if fate == Fate::RequestLost => {}
            2 => {
                self.request.take().unwrap().let_through();
                let (watched, _) = self.under_way.as_mut().unwrap();
                self.answer = Some(watched.answered().await);
                return true;
            }
            _ => match fate {
                Fate::Answered => self.answer.take().unwrap().let_through(),
                // What is dropped is not let through: its connection is cut.
                Fate::AnswerLost => drop(self.answer.take()),
                Fate::RequestLost => drop(self.request.take()),
            },
        }
        false
    }

    /// What it was told in the end.
    async fn outcome(&mut self) -> T {
        self.steps = 0;
        let (_, task) = self.under_way.take().unwrap();
        task.await.unwrap()
    }
}

fn append(stream: &StreamId, operation: OperationId) -> Append {
    let event = NewEvent::new("e", Payload::json(&serde_json::json!({})));
    let append = Append::new(stream.clone(), Expected::NoStream, vec![event]);
    Append { operation_id: Some(operation), ..append }
}

#[tokio::test(flavor = "multi_thread")]
async fn append_and_cancel_agree_in_every_order() {
    let keyspace = Keyspace::new();
    let mut appending =
        Contender::<Result<Appended, AppendError>>::new(&keyspace, Kind::Batch).await;
    let mut cancelling =
        Contender::<Result<Resolved, AppendError>>::new(&keyspace, Kind::Statement).await;
    let calm = keyspace.store(Options::default(), Ports::system());
    let ports = Ports::system();
    let (mut cases, mut applied) = (0, 0);
    for order in orders() {
        for (of_append, of_cancel) in FATES.iter().flat_map(|a| FATES.map(|b| (*a, b))) {
            cases += 1;
            let case = format!("{order:?}, append {of_append:?}, cancel {of_cancel:?}");
            let stream = StreamId::new(format!("s{cases}")).unwrap();
            let operation = OperationId::generate(&*ports.clock, &*ports.random);
            let request = append(&stream, operation);
            let mut first = None;
            for side in &order {
                let acted = match side {
                    Side::Append => {
                        let request = request.clone();
                        let start =
                            |store: CassandraStore| async move { store.append(request).await };
                        appending.step(of_append, start).await
                    }
                    Side::Cancel => {
                        let stream = stream.clone();
                        let start = |store: CassandraStore| async move {
                            store.resolve(&stream, operation).await
                        };
                        cancelling.step(of_cancel, start).await
                    }
                };
                if acted {
                    first = first.or(Some(*side));
                }
            }
            let (appended, resolved) = (appending.outcome().await, cancelling.outcome().await);
            let won = match (&appended, &resolved) {
                (Ok(appended), Ok(Resolved::Applied { first, last })) => {
                    assert_eq!((appended.first(), appended.last()), (*first, *last), "{case}");
                    Side::Append
                }
                (Err(AppendError::Cancelled { .. }), Ok(Resolved::Cancelled)) => Side::Cancel,
                other => panic!("{case}: {other:?}"),
            };
            // Where neither request was lost, whoever the node heard first has won.
            let both_acted = of_append != Fate::RequestLost && of_cancel != Fate::RequestLost;
            if both_acted {
                assert_eq!(Some(won), first, "{case}");
            }
            let head = (won == Side::Append).then_some(Version::FIRST);
            assert_eq!(calm.version(&stream).await.unwrap(), head, "{case}");
            assert_eq!(calm.resolve(&stream, operation).await.unwrap(), resolved.unwrap());
            applied += usize::from(won == Side::Append);
        }
    }
    assert!(cases == 180 && applied > 0 && applied < cases, "{applied} of {cases}");
    println!(
        "proof: append against cancel, {cases} orders and losses: {applied} applied, the rest cancelled, both sides agreed in all"
    );
}
