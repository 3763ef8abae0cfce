//! `helenus outbox`: staging from the command line, and looking after what is staged.

mod line;
mod shown;

use std::io::{BufRead, BufReader, Read};

use futures_util::TryStreamExt;
use helenus::store::{MessageState, Outbox as _, Sweep, Upkeep};
use helenus::{Clock, Message, Ports, Store, SystemClock};
use serde_json::json;

use crate::args::{ListedState, Outbox, OutboxCommand};
use crate::config::Config;
use crate::exit::{Failed, Outcome};
use crate::open;
use crate::output::Output;

use line::{InvalidLine, NotStaged};

/// Bytes of one line; a payload may have a megabyte, and base64 adds a third.
const LINE_BYTES_MAX: u64 = 4 * 1024 * 1024;

/// Messages staged together.
const BATCH: usize = 256;

pub(crate) async fn run(
    outbox: &Outbox,
    config: Config,
    output: &Output,
) -> Result<Outcome, Failed> {
    let resharding = matches!(outbox.command, OutboxCommand::Reshard { .. });
    let store = if resharding {
        open::store_of_any_shards(outbox.store.as_ref(), &config).await?
    } else {
        open::store(outbox.store.as_ref(), &config).await?
    };
    let done = Box::pin(command(&store, &outbox.command, output)).await;
    store.close().await;
    done.map(|()| Outcome::Done)
}

async fn command(store: &Store, command: &OutboxCommand, output: &Output) -> Result<(), Failed> {
    match command {
        OutboxCommand::Enqueue => enqueue(store, std::io::stdin().lock(), output).await?,
        OutboxCommand::List { state, limit } => {
            let state = match state {
                ListedState::Pending => MessageState::Pending,
                ListedState::Dispatched => MessageState::Dispatched,
                ListedState::Parked => MessageState::Parked,
                ListedState::Cancelled => MessageState::Cancelled,
            };
            let mut messages = Box::pin(store.messages(state));
            let mut left = limit.unwrap_or(usize::MAX);
            while left > 0 && !output.has_ended() {
                let Some(message) = messages.try_next().await? else { break };
                output.json_line(&shown::Shown::of(&message));
                left -= 1;
            }
        }
        OutboxCommand::Reconcile { dry_run, scan: false } => {
            output.json_line(&store.reconcile(*dry_run).await?);
        }
        OutboxCommand::Reconcile { dry_run, scan: true } => {
            output.json_line(&store.scan(*dry_run).await?);
        }
        OutboxCommand::Sweep { dry_run, keep, limit } => {
            let before = SystemClock::new().now().minus(*keep);
            let sweep = Sweep {
                done_before: before,
                processed_before: before,
                limit: *limit,
                dry_run: *dry_run,
            };
            output.json_line(&store.sweep(sweep).await?);
        }
        OutboxCommand::ExtendTtl { by } => {
            let extended = store.extend_ttl(*by).await?;
            output.json_line(&json!({ "extended": extended }));
        }
        OutboxCommand::Reshard { shards } => {
            let moved = store.reshard(*shards).await?;
            output.json_line(&json!({ "shards": shards, "moved": moved }));
        }
    }
    Ok(())
}

/// Stages the messages of the input, some at a time; what was staged before a wrong line stays so.
async fn enqueue(store: &Store, input: impl Read, output: &Output) -> Result<(), Failed> {
    let ports = Ports::system();
    let mut input = BufReader::new(input);
    let mut staging = Staging { store, output, staged: 0 };
    let mut batch = Vec::new();
    for number in 1_u64.. {
        let read = match line_of(&mut input, number) {
            Ok(Some(text)) if text.trim().is_empty() => continue,
            Ok(Some(text)) => line::message(&text, number, &ports).map_err(Unread::Wrong),
            Ok(None) => break,
            Err(unread) => Err(unread),
        };
        match read {
            Ok(message) => batch.push((number, message)),
            Err(unread) => {
                staging.stage(batch).await?;
                return Err(match unread {
                    Unread::Wrong(wrong) => wrong.after(staging.staged).into(),
                    Unread::Failed(failed) => failed,
                });
            }
        }
        if batch.len() >= BATCH {
            staging.stage(std::mem::take(&mut batch)).await?;
        }
    }
    staging.stage(batch).await
}

/// Why there is no message.
enum Unread {
    Wrong(InvalidLine),
    Failed(Failed),
}

struct Staging<'a> {
    store: &'a Store,
    output: &'a Output,
    staged: u64,
}

impl Staging<'_> {
    /// Stages messages of these lines and says of each what came of it. A batch with one that was not
    /// staged ends the command.
    async fn stage(&mut self, batch: Vec<(u64, Message)>) -> Result<(), Failed> {
        let (lines, batch): (Vec<u64>, Vec<Message>) = batch.into_iter().unzip();
        let ids: Vec<_> = batch.iter().map(|message| message.message_id.clone()).collect();
        let outcomes = self.store.enqueue_all(batch).await;
        let mut refused = Vec::new();
        for ((line, message_id), outcome) in lines.iter().zip(ids).zip(outcomes) {
            match outcome {
                Ok(outcome) => {
                    self.output.json_line(&json!({ "message_id": message_id, "outcome": outcome }));
                    self.staged += 1;
                }
                Err(error) => refused.push((*line, error)),
            }
        }
        let read = lines.last().copied().unwrap_or_default();
        NotStaged::of(refused, self.staged, read).map_or(Ok(()), |error| Err(error.into()))
    }
}

/// The next line; `None` at the end.
fn line_of(input: &mut impl BufRead, number: u64) -> Result<Option<String>, Unread> {
    let mut bytes = Vec::new();
    let read = input.by_ref().take(LINE_BYTES_MAX + 1).read_until(b'\n', &mut bytes);
    let failed = |error| Unread::Failed(Failed::system("read stdin", "send text")(error));
    let count = read.map_err(failed)?;
    if count as u64 > LINE_BYTES_MAX {
        return Err(Unread::Wrong(InvalidLine::too_long(number, LINE_BYTES_MAX)));
    }
    if count == 0 {
        return Ok(None);
    }
    String::from_utf8(bytes).map(Some).map_err(|_| Unread::Wrong(InvalidLine::not_text(number)))
}
