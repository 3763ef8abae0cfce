//! `helenus events`: streams from the command line, JSON lines in and out.

mod archive;
mod line;
mod project;
mod shown;
mod snapshot;

use std::io::{BufRead, BufReader, Read};

use futures_util::TryStreamExt;
use helenus::store::{
    Append, Appended, EventStore, Feed, FeedItem, ReadEvents, ReadFeed, Resolved,
};
use helenus::{Store, Version};
use serde_json::json;

use crate::args::{Events, EventsCommand};
use crate::config::Config;
use crate::exit::{Failed, Outcome};
use crate::open;
use crate::output::Output;

use line::{InvalidLine, event};

/// Bytes of stdin an append reads at most; what a store takes is less.
const INPUT_BYTES_MAX: u64 = 64 * 1024 * 1024;

pub(crate) async fn run(
    events: &Events,
    config: Config,
    output: &Output,
) -> Result<Outcome, Failed> {
    // Wrong input is found before anything is opened.
    let (mut appended, mut payload, mut prepared) = (Vec::new(), None, None);
    match &events.command {
        EventsCommand::Append { .. } => appended = event_lines(std::io::stdin().lock())?,
        EventsCommand::Snapshot(snapshot) => payload = snapshot::payload(snapshot)?,
        EventsCommand::Project(project) => prepared = project::prepare(project)?,
        _ => {}
    }
    let store = open::store(events.store.as_ref(), &config).await?;
    let done = match &events.command {
        EventsCommand::Archive(archive) => Box::pin(archive::run(&store, archive, output)).await,
        EventsCommand::Snapshot(snapshot) => {
            let done = Box::pin(snapshot::run(&store, snapshot, payload, output)).await;
            done.map(|()| Outcome::Done)
        }
        EventsCommand::Project(project) => {
            let done = Box::pin(project::run(&store, project, prepared, output)).await;
            done.map(|()| Outcome::Done)
        }
        other => {
            let done = Box::pin(command(&store, other, appended, output)).await;
            done.map(|()| Outcome::Done)
        }
    };
    store.close().await;
    done
}

async fn command(
    store: &Store,
    command: &EventsCommand,
    events: Vec<helenus::NewEvent>,
    output: &Output,
) -> Result<(), Failed> {
    match command {
        EventsCommand::Append { stream, expect, operation_id } => {
            let append = Append {
                operation_id: *operation_id,
                ..Append::new(stream.clone(), *expect, events)
            };
            let appended = store.append(append).await?;
            let outcome = match appended {
                Appended::Applied { .. } => "applied",
                Appended::AlreadyApplied { .. } => "already_applied",
            };
            output.json_line(&versions(outcome, appended.first(), appended.last()));
        }
        EventsCommand::Read { stream, from, backward, limit } => {
            let read = if *backward {
                ReadEvents::backward(stream.clone())
            } else {
                ReadEvents::forward(stream.clone())
            };
            let read = ReadEvents { from: *from, limit: *limit, ..read };
            let mut events = Box::pin(store.read(read));
            while let Some(event) = events.try_next().await? {
                output.json_line(&shown::Event::of(&event, None));
                if output.has_ended() {
                    break;
                }
            }
        }
        EventsCommand::Feed { from, follow, limit } => {
            let read = ReadFeed { after: from.clone(), follow: *follow, limit: *limit };
            let mut items = Box::pin(store.feed(read));
            while let Some(item) = items.try_next().await? {
                match item {
                    FeedItem::Event { position, event } => {
                        output.json_line(&shown::Event::of(&event, Some(&position)));
                    }
                    FeedItem::Dropped { position, count } => {
                        output.json_line(&json!({ "position": position, "dropped": count }));
                    }
                    FeedItem::CaughtUp => {}
                }
            }
        }
        EventsCommand::Version { stream } => {
            let version = store.version(stream).await?;
            output.text(&format!("{}\n", version.map_or(-1, Version::as_i64)));
        }
        EventsCommand::Resolve { stream, operation } => {
            match store.resolve(stream, *operation).await? {
                Resolved::Applied { first, last } => {
                    output.json_line(&versions("applied", first, last));
                }
                Resolved::Cancelled => output.json_line(&json!({ "outcome": "cancelled" })),
            }
        }
        // Each has a module of its own.
        EventsCommand::Snapshot(_) | EventsCommand::Archive(_) | EventsCommand::Project(_) => {}
        EventsCommand::Streams => {
            let mut streams = Box::pin(store.streams());
            while let Some(head) = streams.try_next().await? {
                let (stream_id, version) = (head.stream_id, head.version);
                output.json_line(&json!({ "stream_id": stream_id, "stream_version": version }));
            }
        }
    }
    Ok(())
}

fn versions(outcome: &str, first: Version, last: Version) -> serde_json::Value {
    json!({ "outcome": outcome, "first_version": first, "last_version": last })
}

/// The events of the input, one a line; empty lines are passed over.
fn event_lines(input: impl Read) -> Result<Vec<helenus::NewEvent>, Failed> {
    let mut events = Vec::new();
    let mut lines = BufReader::new(input.take(INPUT_BYTES_MAX + 1));
    let mut text = String::new();
    let mut bytes = 0;
    for number in 1_u64.. {
        text.clear();
        let count =
            lines.read_line(&mut text).map_err(Failed::system("read stdin", "send UTF-8 text"))?;
        if count == 0 {
            break;
        }
        bytes += count as u64;
        if bytes > INPUT_BYTES_MAX {
            return Err(InvalidLine::too_much(number, INPUT_BYTES_MAX).into());
        }
        if !text.trim().is_empty() {
            events.push(event(&text, number)?);
        }
    }
    Ok(events)
}
