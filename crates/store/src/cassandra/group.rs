//! Group commit: appends that wait in one process for the same stream share a batch.
//!
//! One append of a stream is under way at a time; it *leads*. Those that arrive meanwhile wait,
//! and when the leader has ended one of them leads the next batch, which holds all of them, each
//! with an operation row of its own. Only appends that name no version are grouped: of those that
//! name the same one, all but one would conflict.
//!
//! **Invariants**
//! - A stream with a queue has a leader, or a leader under way to it: leadership is a value that
//!   hands itself on when it is dropped, wherever its owner was when it ended.
//! - An operation is in a batch once: the conditions of a batch hold or fail together, so two of the
//!   same would not see each other. The second waits for the next batch, which the first settles.
//! - Nobody's outcome is taken from a neighbour. A batch that is refused settles those it has rows
//!   for; after any error each member goes on alone, under its own operation id.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use helenus_model::limits::{APPEND_ATTEMPTS_MAX, APPEND_EVENTS_MAX, APPEND_GROUP_MAX};
use helenus_model::{Failure, StreamId, Version};
use tokio::sync::oneshot;

use super::append::{Verdict, alone, backend, head, pause, send, ttl, verdict};
use super::rows::Answer;
use super::session::Link;
use super::{CassandraStore, Error};
use crate::append::{Plan, Span};
use crate::contract::{AppendError, Appended};

/// Who waits for which stream.
#[derive(Debug, Default)]
pub(super) struct Groups {
    waiting: Mutex<HashMap<StreamId, Vec<Member>>>,
}

/// An append in a group, and who is told of it; nobody for the leader's own.
#[derive(Debug)]
struct Member {
    plan: Arc<Plan>,
    reply: Option<oneshot::Sender<Word>>,
}

/// What a member is told.
#[derive(Debug)]
enum Word {
    /// What became of its append.
    Done(Result<Appended, AppendError>),
    /// To go on by itself; whether it may have been applied already.
    Alone { lost: bool },
    /// To lead those who wait.
    Lead(Leadership, Vec<Member>),
}

/// The right to append to a stream's end.
#[derive(Debug)]
struct Leadership {
    groups: Arc<Groups>,
    stream_id: StreamId,
    /// Where the last batch left the stream, as far as is known.
    head: Option<Version>,
    handed_on: bool,
}

/// Appends with whoever else waits for the stream.
pub(super) async fn append(
    store: &CassandraStore,
    link: &Link,
    plan: &Arc<Plan>,
    sent: &AtomicBool,
) -> Result<Appended, AppendError> {
    let word = match store.groups().join(plan) {
        Ok(leadership) => Word::Lead(leadership, Vec::new()),
        Err(told) => {
            // From here on somebody else may send it.
            sent.store(true, Ordering::Relaxed);
            // A leader that was given up may have sent it.
            told.await.unwrap_or(Word::Alone { lost: true })
        }
    };
    let lost = match word {
        Word::Done(outcome) => return outcome,
        Word::Alone { lost } => lost.then(neighbour),
        Word::Lead(leadership, others) if others.is_empty() => {
            let outcome = alone(store, link, plan, sent, None).await;
            drop(leadership);
            return outcome;
        }
        Word::Lead(leadership, others) => {
            match Box::pin(lead(store, link, plan, leadership, others)).await {
                Word::Done(outcome) => return outcome,
                Word::Alone { lost } => lost.then(neighbour),
                Word::Lead(..) => None,
            }
        }
    };
    alone(store, link, plan, sent, lost).await
}

fn neighbour() -> Error {
    let source = "the answer to the batch it was part of was lost".into();
    Error::Lost { what: "append", source }
}

/// Sends one batch for all of the group until each of them has been told; gives what the leader's
/// own append is told.
async fn lead(
    store: &CassandraStore,
    link: &Link,
    own: &Arc<Plan>,
    mut leadership: Leadership,
    others: Vec<Member>,
) -> Word {
    let mut group = vec![Member { plan: Arc::clone(own), reply: None }];
    group.extend(others);
    let mut told = Told::default();
    for member in past_the_limits(&mut group, link.append_bytes_max) {
        told.tell(member, Word::Alone { lost: false });
    }
    let known = match leadership.head {
        Some(head) => Ok(Some(head)),
        None => head(link, &own.stream_id).await,
    };
    let Ok(mut head) = known else { return told.the_rest(group, false) };
    let ttl = ttl(store.bounds().operation_window);
    for attempt in 0..APPEND_ATTEMPTS_MAX {
        pause(&store.ports, attempt).await;
        let (placed, end) = place(group, head, &mut told);
        if placed.is_empty() {
            return told.the_rest(Vec::new(), false);
        }
        let appends: Vec<(&Plan, Span)> =
            placed.iter().map(|(member, span)| (&*member.plan, *span)).collect();
        let answer = send(link, &appends, head, ttl).await;
        drop(appends);
        match answer {
            Ok(Answer::Applied) => {
                leadership.head = end;
                for (member, Span { first, last }) in placed {
                    told.tell(member, Word::Done(Ok(Appended::Applied { first, last })));
                }
                return told.the_rest(Vec::new(), false);
            }
            Ok(Answer::Refused(rows)) => {
                group = Vec::new();
                for (member, _) in placed {
                    match verdict(&member.plan, &rows) {
                        Ok(Verdict::Settled(outcome)) => told.tell(member, Word::Done(outcome)),
                        Ok(Verdict::Head(actual)) => {
                            head = actual;
                            group.push(member);
                        }
                        Err(error) => told.tell(member, Word::Done(Err(backend(error)))),
                    }
                }
            }
            Err(error) => {
                let lost = error.applied().is_none();
                return told.the_rest(placed.into_iter().map(|(member, _)| member), lost);
            }
        }
    }
    told.the_rest(group, false)
}

/// Gives each of the group its versions after `head`; those that may not have any are told.
fn place(
    group: Vec<Member>,
    head: Option<Version>,
    told: &mut Told,
) -> (Vec<(Member, Span)>, Option<Version>) {
    let mut placed = Vec::with_capacity(group.len());
    let mut end = head;
    for member in group {
        match member.plan.accepts(end).and_then(|()| member.plan.place(end)) {
            Ok(span) => {
                end = Some(span.last);
                placed.push((member, span));
            }
            Err(error) => told.tell(member, Word::Done(Err(error))),
        }
    }
    (placed, end)
}

/// What the members of a group were told, as far as the leader has to know.
#[derive(Debug, Default)]
struct Told {
    own: Option<Word>,
}

impl Told {
    fn tell(&mut self, member: Member, word: Word) {
        match member.reply {
            // Whoever has gone away does not need to know.
            Some(reply) => drop(reply.send(word)),
            None => self.own = Some(word),
        }
    }

    /// Leaves those who are left to themselves; gives what the leader was told.
    fn the_rest(mut self, group: impl IntoIterator<Item = Member>, lost: bool) -> Word {
        for member in group {
            self.tell(member, Word::Alone { lost });
        }
        self.own.unwrap_or(Word::Alone { lost })
    }
}

/// Takes from the end of the group what one batch cannot hold.
fn past_the_limits(group: &mut Vec<Member>, bytes_max: usize) -> Vec<Member> {
    let (mut bytes, mut events) = (0, 0);
    let fitting = group.iter().take_while(|member| {
        bytes += member.plan.bytes();
        events += member.plan.events.len();
        bytes <= bytes_max && events <= APPEND_EVENTS_MAX
    });
    let fitting = fitting.count().max(1);
    if fitting < group.len() { group.split_off(fitting) } else { Vec::new() }
}

impl Groups {
    fn lock(&self) -> MutexGuard<'_, HashMap<StreamId, Vec<Member>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Leads, or waits to be told.
    fn join(self: &Arc<Self>, plan: &Arc<Plan>) -> Result<Leadership, oneshot::Receiver<Word>> {
        let mut waiting = self.lock();
        if let Some(queue) = waiting.get_mut(&plan.stream_id) {
            let (reply, told) = oneshot::channel();
            queue.push(Member { plan: Arc::clone(plan), reply: Some(reply) });
            return Err(told);
        }
        waiting.insert(plan.stream_id.clone(), Vec::new());
        Ok(self.leadership(plan.stream_id.clone(), None))
    }

    fn leadership(self: &Arc<Self>, stream_id: StreamId, head: Option<Version>) -> Leadership {
        Leadership { groups: Arc::clone(self), stream_id, head, handed_on: false }
    }

    /// Makes one of those who wait the leader of the others; with nobody left the queue is gone.
    fn hand_on(self: &Arc<Self>, stream_id: &StreamId, head: Option<Version>) {
        loop {
            let Some(mut group) = self.next_group(stream_id) else { return };
            let mut first = group.remove(0);
            let Some(reply) = first.reply.take() else { continue };
            let word = Word::Lead(self.leadership(stream_id.clone(), head), group);
            match reply.send(word) {
                Ok(()) => return,
                Err(Word::Lead(mut refused, others)) => {
                    refused.handed_on = true;
                    if let Some(queue) = self.lock().get_mut(stream_id) {
                        queue.splice(0..0, others);
                    }
                }
                Err(_) => {}
            }
        }
    }

    /// Those who still wait, as many as a group may have, each operation once; at least one.
    fn next_group(&self, stream_id: &StreamId) -> Option<Vec<Member>> {
        let mut waiting = self.lock();
        let queue = waiting.get_mut(stream_id)?;
        queue.retain(|member| member.reply.as_ref().is_some_and(|reply| !reply.is_closed()));
        if queue.is_empty() {
            waiting.remove(stream_id);
            return None;
        }
        let mut operations = HashSet::new();
        let is_next = |member: &mut Member| {
            operations.len() < APPEND_GROUP_MAX && operations.insert(member.plan.operation_id)
        };
        Some(queue.extract_if(.., is_next).collect())
    }
}

impl Drop for Leadership {
    fn drop(&mut self) {
        if !self.handed_on {
            self.groups.hand_on(&self.stream_id, self.head);
        }
    }
}
