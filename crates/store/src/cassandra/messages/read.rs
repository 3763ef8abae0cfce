//! Finding what is due: candidates from the index, each looked up in what is true.

use std::collections::{BTreeMap, HashSet};

use futures_util::stream::Peekable;
use futures_util::{StreamExt, TryStreamExt, stream};
use helenus_model::Timestamp;
use helenus_model::limits::REQUESTS_MAX;
use scylla::client::pager::TypedRowStream;
use scylla::value::{CqlTimestamp, CqlTimeuuid};

use super::fold::Change;
use super::report::{Drop, drop_pending, put_again};
use super::rows::{Candidate, Hold, Standing, from_time};
use super::{Messages, watermark};
use crate::Ports;
use crate::cassandra::classify::page_error;
use crate::cassandra::conditional::{Cas, select, send, write};
use crate::cassandra::read::row_error;
use crate::cassandra::values::time;
use crate::cassandra::{Error, conditional};
use crate::contract::Pending;

/// What a candidate turned out to be.
pub(super) enum Found {
    /// A message that is due.
    Due(Box<Pending>, CqlTimeuuid),
    /// Something else that somebody looks after.
    Open,
    /// A row without its message: on its way, or never to come.
    Orphan,
    /// A row whose message is done, or due at another time.
    Stale,
    /// A row in the shard of another count: whoever staged it has not heard of the change.
    Misplaced,
}

/// What is due in a shard at `now`, each with what orders those of one millisecond.
pub(super) async fn shard(
    messages: &Messages,
    ports: &Ports,
    shard: u16,
    now: Timestamp,
    limit: usize,
) -> Result<Vec<(Pending, CqlTimeuuid)>, Error> {
    if limit == 0 || shard >= messages.shards() {
        return Ok(Vec::new());
    }
    // A caller may look ahead; what is remembered follows the clock.
    let horizon = now.min(ports.clock.now());
    let start = watermark::start(messages, shard, horizon, &*ports.clock).await?;
    let mut rows = candidates(messages, shard, start, now).await?;
    let mut due = Vec::new();
    let mut first_left = None;
    while due.len() < limit {
        let chunk = next_chunk(&mut rows, limit - due.len()).await?;
        let Some(last) = chunk.last().map(|candidate| candidate.eligible_at_utc) else { break };
        let looked_up = look_up(messages, shard, chunk).await?;
        let mut found = Vec::with_capacity(looked_up.len());
        for (candidate, what) in looked_up {
            let gone = match what {
                Found::Due(pending, seq) => {
                    found.push((pending, seq));
                    false
                }
                Found::Open => false,
                Found::Orphan => settle(messages, ports, shard, &candidate, true).await?,
                Found::Stale => settle(messages, ports, shard, &candidate, false).await?,
                Found::Misplaced => {
                    rehome(messages, ports, shard, &candidate).await?;
                    true
                }
            };
            if !gone {
                first_left.get_or_insert(from_time(candidate.eligible_at_utc));
            }
        }
        // Whoever staged the message a second time may have written over the index row's own.
        found.sort_by_key(|(pending, seq)| (pending.eligible_at, *seq));
        due.extend(unheld(messages, shard, now, found).await?);
        if due.len() >= limit {
            // What comes after was not looked at.
            first_left.get_or_insert(from_time(last));
        }
    }
    due.truncate(limit);
    let free_until = first_left.unwrap_or(horizon).min(horizon);
    watermark::advance(messages, shard, start, free_until, horizon).await?;
    Ok(due)
}

pub(super) type Candidates = Peekable<TypedRowStream<Candidate>>;

pub(super) async fn candidates(
    messages: &Messages,
    shard: u16,
    start: Timestamp,
    now: Timestamp,
) -> Result<Candidates, Error> {
    let mut statement = messages.statements.candidates.clone();
    statement.set_page_size(1_000);
    let values = (i32::from(shard), time(start), time(now));
    let pager = Box::pin(messages.session.execute_iter(statement, values)).await;
    let rows = pager.map_err(page_error)?.rows_stream::<Candidate>();
    Ok(rows.map_err(|error| Error::corrupt(error.to_string()))?.peekable())
}

/// The next candidates in staging order: so many, and all others due in the same millisecond as the
/// last, because the index orders those by their ids.
async fn next_chunk(rows: &mut Candidates, count: usize) -> Result<Vec<Candidate>, Error> {
    let mut chunk: Vec<Candidate> = Vec::new();
    loop {
        let last = chunk.last().map(|candidate| candidate.eligible_at_utc);
        let next = std::pin::Pin::new(&mut *rows).peek().await;
        let wanted = match next {
            None => false,
            Some(Err(_)) => true,
            Some(Ok(next)) => chunk.len() < count || last == Some(next.eligible_at_utc),
        };
        if !wanted {
            break;
        }
        match rows.next().await {
            Some(row) => chunk.push(row.map_err(row_error)?),
            None => break,
        }
    }
    chunk.sort_by_key(|candidate| (candidate.eligible_at_utc.0, candidate.staged_seq));
    Ok(chunk)
}

async fn look_up(
    messages: &Messages,
    shard: u16,
    chunk: Vec<Candidate>,
) -> Result<Vec<(Candidate, Found)>, Error> {
    let work = chunk.into_iter().map(|candidate| async move {
        let found = truth(messages, shard, &candidate).await?;
        Ok::<_, Error>((candidate, found))
    });
    stream::iter(work).buffered(REQUESTS_MAX).try_collect().await
}

pub(super) async fn truth(
    messages: &Messages,
    shard: u16,
    candidate: &Candidate,
) -> Result<Found, Error> {
    if candidate.kind.as_deref() != Some("message") {
        return Ok(Found::Open);
    }
    let Some(row) = messages.message(&candidate.message_id).await? else {
        return Ok(Found::Orphan);
    };
    // What is left of a message that was swept while somebody still reported on it.
    let Some(seq) = row.staged_seq else { return Ok(Found::Stale) };
    if row.standing() != Standing::Pending {
        return Ok(Found::Stale);
    }
    let pending = row.into_pending(messages.shards())?;
    Ok(if pending.eligible_at != from_time(candidate.eligible_at_utc) {
        Found::Stale
    } else if pending.shard != shard {
        Found::Misplaced
    } else {
        Found::Due(Box::new(pending), seq)
    })
}

/// Settles a row that has been wrong for the whole grace; says whether it is gone.
async fn settle(
    messages: &Messages,
    ports: &Ports,
    shard: u16,
    candidate: &Candidate,
    is_orphan: bool,
) -> Result<bool, Error> {
    let key = (shard, candidate.eligible_at_utc.0, candidate.message_id.clone());
    if !messages.memory.suspects.is_due(key.clone(), ports.clock.elapsed()) {
        return Ok(false);
    }
    if is_orphan && !cancel(messages, ports, candidate).await? {
        // It came after all.
        messages.memory.suspects.forget(&key);
        return Ok(false);
    }
    drop_pending(messages, vec![dropped(shard, candidate)]).await?;
    messages.memory.suspects.forget(&key);
    Ok(true)
}

/// Puts a row into the shard where its message belongs.
pub(super) async fn rehome(
    messages: &Messages,
    ports: &Ports,
    shard: u16,
    candidate: &Candidate,
) -> Result<(), Error> {
    let Some(row) = messages.state(&candidate.message_id).await? else { return Ok(()) };
    let due = from_time(candidate.eligible_at_utc);
    put_again(messages, &row, &Change::default(), due, ports.clock.now()).await?;
    messages.memory.lower(row.shard(messages.shards())?, due);
    drop_pending(messages, vec![dropped(shard, candidate)]).await
}

/// Drops this very write of a row, none that came after it.
pub(super) fn dropped(shard: u16, candidate: &Candidate) -> Drop {
    Drop {
        shard,
        due_ms: candidate.eligible_at_utc.0,
        message_id: candidate.message_id.clone(),
        written: candidate.kind_written.unwrap_or(i64::MIN),
    }
}

/// Keeps a message from ever being staged; false if it was.
pub(super) async fn cancel(
    messages: &Messages,
    ports: &Ports,
    candidate: &Candidate,
) -> Result<bool, Error> {
    let values = (
        &candidate.message_id,
        candidate.channel_id.as_deref(),
        candidate.message_type.as_deref(),
        time(ports.clock.now()),
        candidate.staged_seq,
    );
    let sent = send(&messages.session, "cancel a message", &messages.statements.cancel, values);
    match sent.await? {
        Cas::Applied => Ok(true),
        Cas::Refused(row) => Ok(row.text("state") == Some("cancelled")),
    }
}

/// Leaves out what is behind a message that holds their key. The holds are read after the messages:
/// one that was put off meanwhile has written its hold before it left.
async fn unheld(
    messages: &Messages,
    shard: u16,
    now: Timestamp,
    found: Vec<(Box<Pending>, CqlTimeuuid)>,
) -> Result<Vec<(Pending, CqlTimeuuid)>, Error> {
    let has_keys = found.iter().any(|(pending, _)| pending.message.ordering_key.is_some());
    let holds = if has_keys { holds(messages, shard, now, &found).await? } else { BTreeMap::new() };
    let free = |(pending, seq): &(Box<Pending>, CqlTimeuuid)| {
        let key = pending.message.ordering_key.as_deref();
        key.and_then(|key| holds.get(key)).is_none_or(|first| first >= seq)
    };
    Ok(found.into_iter().filter(free).map(|(pending, seq)| (*pending, seq)).collect())
}

/// The first message that holds each key.
async fn holds(
    messages: &Messages,
    shard: u16,
    now: Timestamp,
    found: &[(Box<Pending>, CqlTimeuuid)],
) -> Result<BTreeMap<String, CqlTimeuuid>, Error> {
    let keys: HashSet<&str> =
        found.iter().filter_map(|(pending, _)| pending.message.ordering_key.as_deref()).collect();
    let ids: HashSet<&str> =
        found.iter().map(|(pending, _)| pending.message.message_id.as_str()).collect();
    let mut first = BTreeMap::new();
    for hold in read_holds(messages, shard).await? {
        if !keys.contains(hold.ordering_key.as_str()) || first.contains_key(&hold.ordering_key) {
            continue;
        }
        // Whoever holds is due by now, so it should have been found; if not, it may be done.
        let doubtful = hold.until_utc.is_some_and(|until| until <= CqlTimestamp(now.as_millis()))
            && hold.message_id.as_deref().is_none_or(|id| !ids.contains(id));
        if doubtful && !still_holds(messages, shard, &hold).await? {
            continue;
        }
        first.insert(hold.ordering_key, hold.staged_seq);
    }
    Ok(first)
}

pub(super) async fn read_holds(messages: &Messages, shard: u16) -> Result<Vec<Hold>, Error> {
    let statement = &messages.statements.holds;
    let rows = select(&messages.session, statement, (i32::from(shard),)).await?;
    let rows = rows.rows::<Hold>().map_err(|error| Error::corrupt(error.to_string()))?;
    rows.map(|row| row.map_err(|error| Error::corrupt(error.to_string()))).collect()
}

/// Whether a hold stands; one that does not is removed.
pub(super) async fn still_holds(
    messages: &Messages,
    shard: u16,
    hold: &Hold,
) -> Result<bool, Error> {
    let row = match hold.message_id.as_deref() {
        Some(id) => messages.state(id).await?,
        None => None,
    };
    if row.is_some_and(|row| !row.is_ghost() && row.holds()) {
        return Ok(true);
    }
    release_hold(messages, shard, hold).await?;
    Ok(false)
}

/// Removes this very write of a hold.
pub(super) async fn release_hold(
    messages: &Messages,
    shard: u16,
    hold: &Hold,
) -> Result<(), Error> {
    let written = hold.id_written.unwrap_or(i64::MIN);
    let values = (written, i32::from(shard), hold.ordering_key.as_str(), hold.staged_seq);
    write(&messages.session, "release a key", &messages.statements.release, values).await
}

/// How many rows a shard's index has from its watermark on, and when the first of them is due. What was
/// settled before that is not walked over.
pub(super) async fn count(
    messages: &Messages,
    shard: u16,
    now: Timestamp,
) -> Result<(u64, Option<Timestamp>), Error> {
    let start = watermark::known(messages, shard).await?.unwrap_or(Timestamp::EPOCH);
    let damaged = |error: &dyn std::fmt::Display| Error::corrupt(error.to_string());
    let statement = &messages.statements.count;
    let values = (i32::from(shard), time(start));
    let rows = conditional::select(&messages.session, statement, values).await?;
    let (count,) = rows.single_row::<(i64,)>().map_err(|error| damaged(&error))?;
    let mut rows = candidates(messages, shard, start, now).await?;
    let first = match rows.next().await {
        Some(row) => Some(from_time(row.map_err(row_error)?.eligible_at_utc)),
        None => None,
    };
    Ok((u64::try_from(count).unwrap_or(0), first))
}
