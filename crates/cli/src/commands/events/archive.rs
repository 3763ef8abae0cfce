//! `helenus events archive`: taking old events out of streams.

use futures_util::TryStreamExt;
use helenus::store::{
    Cut, Disposal, EventStore, Retention, Retire, RetireError, RetirePlan, RetireStep,
};
use helenus::{Failure, Ports, Store, StreamId, Version};
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::{Value, json};

use crate::args::Archive;
use crate::exit::{Failed, Outcome};
use crate::output::Output;

pub(super) async fn run(
    store: &Store,
    archive: &Archive,
    output: &Output,
) -> Result<Outcome, Failed> {
    if let Some(stream_id) = &archive.stream {
        output.json_line(&one(store, archive, stream_id.clone(), output).await?);
        return Ok(Outcome::Done);
    }
    let mut outcome = Outcome::Done;
    let mut streams = Box::pin(store.streams());
    while let Some(head) = streams.try_next().await? {
        let stream_id = head.stream_id;
        match one(store, archive, stream_id.clone(), output).await {
            Ok(line) => output.json_line(&line),
            // One stream that is not to be touched does not keep the others.
            Err(error @ (RetireError::NoSnapshot { .. } | RetireError::Unread { .. })) => {
                let refused = json!({
                    "stream_id": stream_id,
                    "outcome": "refused",
                    "kind": error.code(),
                    "message": error.to_string(),
                });
                output.json_line(&refused);
                outcome = Outcome::ChecksFailed;
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(outcome)
}

/// Retires events of one stream, or only says what would be done.
async fn one(
    store: &Store,
    archive: &Archive,
    stream_id: StreamId,
    output: &Output,
) -> Result<Value, RetireError> {
    let disposal = if archive.drop { Disposal::Drop } else { Disposal::Archive };
    let retire = Retire { stream_id, cut: cut(archive), disposal, forced: archive.force };
    let plan = store.plan(&retire).await?;
    if archive.dry_run {
        return Ok(line("planned", &plan));
    }
    // Cut where the plan says, whatever has been appended since. Even with nothing to do it is
    // asked for: an earlier run may have left something to clean.
    let retire = Retire { cut: Cut::Before(plan.before), ..retire };
    let progress = progress(&plan, output);
    let mut steps = Box::pin(store.retire(retire));
    while let Some(step) = steps.try_next().await? {
        if let RetireStep::Copied { before } | RetireStep::Truncated { before } = step {
            let done = before.as_i64().saturating_sub(plan.from.as_i64());
            progress.set_position(u64::try_from(done).unwrap_or(0));
        }
    }
    progress.finish_and_clear();
    let outcome = match (plan.events(), disposal) {
        (0, _) => "nothing",
        (_, Disposal::Archive) => "archived",
        (_, Disposal::Drop) => "dropped",
    };
    Ok(line(outcome, &plan))
}

fn cut(archive: &Archive) -> Cut {
    let cut = &archive.cut;
    match (cut.before, cut.keep_last, cut.older_than) {
        (Some(before), ..) => Cut::Before(before),
        (_, Some(count), _) => Cut::KeepLast(count),
        (.., Some(age)) => Cut::OlderThan(Ports::system().clock.now().minus(age)),
        // The arguments need one of them.
        (None, None, None) => Cut::Before(Version::FIRST),
    }
}

fn line(outcome: &str, plan: &RetirePlan) -> Value {
    json!({
        "stream_id": plan.stream_id,
        "outcome": outcome,
        "disposal": plan.disposal,
        "from_version": plan.from,
        "before_version": plan.before,
        "events": plan.events(),
        "snapshot_version": plan.snapshot,
    })
}

fn progress(plan: &RetirePlan, output: &Output) -> ProgressBar {
    if !output.draws_progress() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{msg} {wide_bar} {pos}/{len} events");
    let bar = ProgressBar::new(plan.events()).with_message(plan.stream_id.to_string());
    match style {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}
