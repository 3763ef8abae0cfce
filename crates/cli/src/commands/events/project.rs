//! `helenus events project`: tables that follow the feed, and what they could not take in.

use helenus::projection::{Projector, SqlProjection};
use helenus::store::{Parked, SubscriptionName, SubscriptionStatus, Subscriptions};
use helenus::subscription::CaughtUp;
use helenus::{Store, Version};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::args::{Project, ProjectCommand};
use crate::exit::Failed;
use crate::output::Output;
use crate::signals::Interruption;

/// A run that was asked for, its SQL read and found to be in order before anything is opened.
pub(super) struct Prepared {
    projection: SqlProjection,
    interruption: Interruption,
}

pub(super) fn prepare(project: &Project) -> Result<Option<Prepared>, Failed> {
    let ProjectCommand::Run { name, sql, .. } = &project.command else { return Ok(None) };
    let interruption = Interruption::listen()?;
    let reading = std::fs::read_to_string(sql);
    let text = reading.map_err(Failed::system(
        format!("read {}", sql.display()),
        "name a file of SQL that this user may read",
    ))?;
    let projection = SqlProjection::new(name.clone(), &text)?;
    Ok(Some(Prepared { projection, interruption }))
}

pub(super) async fn run(
    store: &Store,
    project: &Project,
    prepared: Option<Prepared>,
    output: &Output,
) -> Result<(), Failed> {
    match &project.command {
        ProjectCommand::List => {
            let all = store.subscriptions().await?;
            output.document(&all.iter().map(status).collect::<Vec<_>>());
            list(&all, output);
        }
        ProjectCommand::Status { name } => {
            let one = store.subscription(name).await?;
            output.document(&status(&one));
            list(std::slice::from_ref(&one), output);
            lanes(&one, output);
        }
        ProjectCommand::Run { follow, rebuild, .. } => {
            if let Some(prepared) = prepared {
                fill(store, prepared, *follow, *rebuild, output).await?;
            }
        }
        ProjectCommand::Parked { name, limit } => {
            let parked = store.parked(name, *limit).await?;
            output.document(&parked.iter().map(shown).collect::<Vec<_>>());
            list_parked(&parked, output);
        }
        ProjectCommand::Replay(choice) => {
            let events = store.replay(&choice.name, choice.which()).await?;
            output.document(&json!({ "replayed": events }));
            output.line(format!("{events} parked events will be applied again by the next run"));
        }
        ProjectCommand::Discard(choice) => {
            let events = store.discard(&choice.name, choice.which()).await?;
            output.document(&json!({ "discarded": events }));
            output.line(format!("{events} parked events given up"));
        }
        ProjectCommand::Drop { name } => {
            if !store.unsubscribe(name).await? {
                store.subscription(name).await?; // says that there is none
            }
            output.document(&json!({ "dropped": name }));
            output.line(format!("{name} is gone"));
        }
    }
    Ok(())
}

/// Applies events until there are no more, or until a signal.
async fn fill(
    store: &Store,
    prepared: Prepared,
    follow: bool,
    rebuild: bool,
    output: &Output,
) -> Result<(), Failed> {
    let projector = store.projector(prepared.projection)?;
    let stop = CancellationToken::new();
    let work = async {
        let mut done = CaughtUp::default();
        if rebuild {
            done = projector.rebuild(&stop).await?;
        }
        if follow {
            follow_on(&projector, &stop).await?;
        } else if !rebuild {
            done = projector.catch_up(&stop).await?;
        }
        Ok::<_, Failed>(done)
    };
    let mut work = Box::pin(work);
    let done = tokio::select! {
        done = &mut work => done?,
        _ = prepared.interruption.heard() => {
            // What is at hand is finished and settled.
            stop.cancel();
            work.await?
        }
    };
    output.document(&json!({
        "applied": done.handled,
        "parked": done.parked,
        "interrupted": stop.is_cancelled(),
    }));
    if !follow {
        output.line(format!("{} events applied, {} parked", done.handled, done.parked));
    }
    if rebuild && stop.is_cancelled() && !follow {
        output.line("interrupted: the same command goes on where it ended");
    }
    Ok(())
}

async fn follow_on(
    projector: &Projector<SqlProjection>,
    stop: &CancellationToken,
) -> Result<(), Failed> {
    Ok(projector.run(stop).await?)
}

fn status(status: &SubscriptionStatus) -> Value {
    let kind = if status.projection.is_some() { "projection" } else { "subscription" };
    json!({
        "name": plain(status),
        "kind": kind,
        "projection": status.projection,
        "on_poison": status.on_poison,
        "lanes": status.lanes,
        "lag_events": status.lag_events,
        "lag_seconds": status.lag.as_secs_f64(),
        "parked": status.parked,
    })
}

fn plain(status: &SubscriptionStatus) -> &SubscriptionName {
    status.projection.as_ref().map_or(&status.name, |build| &build.projection)
}

fn list(all: &[SubscriptionStatus], output: &Output) {
    let rows = all.iter().map(|status| {
        let kind = match &status.projection {
            Some(build) if build.is_live => "projection",
            Some(_) => "rebuild",
            None => "subscription",
        };
        let position = status.lanes.iter().map(|lane| lane.position.as_str());
        let owners = status.lanes.iter().filter_map(|lane| lane.owner.as_deref());
        let owners: std::collections::BTreeSet<&str> = owners.collect();
        [
            plain(status).to_string(),
            kind.to_owned(),
            position.collect::<Vec<_>>().join(" "),
            status.lag_events.to_string(),
            format!("{:.1} s", status.lag.as_secs_f64()),
            status.parked.to_string(),
            if owners.is_empty() { "nobody".to_owned() } else { owners.len().to_string() },
        ]
    });
    let head = ["name", "kind", "position", "lag", "age", "parked", "owners"];
    output.table(head, rows.collect());
}

fn lanes(status: &SubscriptionStatus, output: &Output) {
    if let Some(build) = &status.projection {
        output.line(format!("tables   {}", build.tables.join(", ")));
        output.line(format!("version  {}", build.version));
    }
    let rows = status.lanes.iter().map(|lane| {
        [
            lane.lane.to_string(),
            lane.position.to_string(),
            lane.owner.clone().unwrap_or_else(|| "nobody".to_owned()),
            lane.expires_at.map(|time| time.to_string()).unwrap_or_default(),
            lane.attempts.to_string(),
            lane.error.clone().unwrap_or_default(),
        ]
    });
    output.table(["lane", "position", "owner", "until", "attempts", "error"], rows.collect());
}

fn shown(parked: &Parked) -> Value {
    json!({
        "position": parked.position,
        "stream_id": parked.stream_id,
        "stream_version": parked.event.as_ref().map(|event| event.version),
        "event_type": parked.event.as_ref().map(|event| &event.event_type),
        "error": parked.error,
        "attempts": parked.attempts,
        "parked_at_utc": parked.parked_at,
        "replay": parked.replay,
    })
}

fn list_parked(parked: &[Parked], output: &Output) {
    let rows = parked.iter().map(|one| {
        let event = one.event.as_ref();
        let waits = || "waits behind an earlier one".to_owned();
        [
            one.position.to_string(),
            one.stream_id.to_string(),
            event
                .map(|event| event.version)
                .map_or(String::new(), |version: Version| version.to_string()),
            event.map_or_else(|| "gone".to_owned(), |event| event.event_type.clone()),
            one.attempts.to_string(),
            one.error.clone().unwrap_or_else(waits),
            if one.replay { "to be replayed" } else { "" }.to_owned(),
        ]
    });
    let head = ["position", "stream", "version", "type", "attempts", "error", ""];
    output.table(head, rows.collect());
}
