//! Writers that contend for a few streams of events, each append at the version it has just seen.
//! Beside them a projection follows the feed and keeps the balance of every stream.

use std::collections::BTreeMap;
use std::path::Path;

use futures_util::TryStreamExt;
use helenus::interop::rusqlite::Connection;
use helenus::projection::{Projector, SqlProjection};
use helenus::store::{Append, AppendError, Appended, EventStore, ReadEvents};
use helenus::{Expected, NewEvent, OperationId, Payload, Store, StreamId, Version};
use helenus_server::Check;
use tokio_util::sync::CancellationToken;

use super::pipeline::{Counters, PAUSE, Part, Run, add, count};
use crate::exit::Failed;

pub(super) const WRITERS: u64 = 4;
const STREAMS: u64 = 2;

fn stream(run: &Run, number: u64) -> Result<StreamId, Failed> {
    Ok(StreamId::new(format!("account-{}-{}", run.prefix, number % STREAMS))?)
}

/// Shared by all runs in a kept file: it goes on where it was.
const BALANCES: &str = "
-- create
CREATE TABLE {balances} (
    account TEXT    PRIMARY KEY,
    cents   INTEGER NOT NULL,
    events  INTEGER NOT NULL
) STRICT;
-- on account.booked
INSERT INTO {balances} VALUES (:stream_id, json_extract(:payload, '$.cents'), 1)
ON CONFLICT DO UPDATE SET cents = cents + excluded.cents, events = events + 1;
";

fn balances(store: &Store) -> Result<Projector<SqlProjection>, Failed> {
    let projection = SqlProjection::new("balances".parse()?, BALANCES)?;
    Ok(store.projector(projection)?)
}

impl Part {
    /// Keeps the balances until everything is booked, and then until they are complete.
    pub(super) async fn project(self, all_booked: CancellationToken) -> Result<(), Failed> {
        let projector = balances(&self.store)?;
        projector.run(&all_booked).await?;
        projector.catch_up(&CancellationToken::new()).await?;
        Ok(())
    }

    /// Books on the streams in turn; one append in ten is sent again, as after a lost answer.
    pub(super) async fn book(self, time_is_up: CancellationToken) -> Result<(), Failed> {
        let mut number = 0;
        while !time_is_up.is_cancelled() {
            let stream = stream(&self.run, number)?;
            let operation = OperationId::generate(&*self.ports.clock, &*self.ports.random);
            let append = self.append_at_head(&stream, operation).await?;
            if let Some(append) = append.filter(|_| number % 10 == 0)
                && let Appended::AlreadyApplied { .. } = self.store.append(append).await?
            {
                add(&self.counters.appends_recognised, 1);
            }
            number += 1;
            tokio::select! {
                () = time_is_up.cancelled() => {}
                () = tokio::time::sleep(PAUSE / 5) => {}
            }
        }
        Ok(())
    }

    /// Appends at the version just read; another writer may be faster, and then nothing is written.
    async fn append_at_head(
        &self,
        stream: &StreamId,
        operation: OperationId,
    ) -> Result<Option<Append>, Failed> {
        let expected = match self.store.version(stream).await? {
            Some(version) => Expected::Exact(version),
            None => Expected::NoStream,
        };
        let booked =
            NewEvent::new("account.booked", Payload::json(&serde_json::json!({"cents": 5})));
        let append = Append {
            operation_id: Some(operation),
            ..Append::new(stream.clone(), expected, vec![booked.clone(), booked])
        };
        match self.store.append(append.clone()).await {
            Ok(_) => {
                add(&self.counters.appended, 1);
                Ok(Some(append))
            }
            Err(AppendError::Conflict { .. }) => {
                add(&self.counters.conflicts, 1);
                Ok(None)
            }
            Err(error) => Err(error.into()),
        }
    }
}

/// Reads the streams back: two events an append, every version once, and the balances they give.
pub(super) async fn examine(
    path: &Path,
    store: &Store,
    counters: &Counters,
    run: &Run,
) -> Result<Vec<Check>, Failed> {
    let (mut events, mut gaps) = (0_u64, 0_u64);
    let mut fold = Balances::new();
    for number in 0..STREAMS {
        let stream = stream(run, number)?;
        let mut next = Version::FIRST;
        let mut stored = Box::pin(store.read(ReadEvents::forward(stream.clone())));
        while let Some(event) = stored.try_next().await? {
            gaps += u64::from(event.version != next);
            next = event.version.next();
            events += 1;
            let body: serde_json::Value =
                serde_json::from_slice(&event.payload.bytes).unwrap_or_default();
            let balance = fold.entry(stream.to_string()).or_default();
            balance.0 += body.get("cents").and_then(serde_json::Value::as_i64).unwrap_or(0);
            balance.1 += 1;
        }
    }
    let followed = projected(path, run)?;
    balances(store)?.rebuild(&CancellationToken::new()).await?;
    let rebuilt = projected(path, run)?;
    let projection = |name, found: &Balances| Check {
        name,
        ok: !fold.is_empty() && *found == fold,
        detail: format!("{} cents in {} accounts", cents(found), found.len()),
    };
    let (appended, conflicts) = (count(&counters.appended), count(&counters.conflicts));
    let recognised = count(&counters.appends_recognised);
    Ok(vec![
        Check {
            name: "every append is in its stream, whole, once",
            ok: appended > 0 && events == 2 * appended && gaps == 0,
            detail: format!("{events} events of {appended} appends, {conflicts} conflicts refused"),
        },
        Check {
            name: "an append sent again was recognised",
            ok: recognised > 0,
            detail: format!("{recognised} recognised"),
        },
        projection("balances that followed are the fold of the events", &followed),
        projection("rebuilt beside and swapped, they are the same", &rebuilt),
    ])
}

/// Cents and events of each account.
type Balances = BTreeMap<String, (i64, i64)>;

fn cents(balances: &Balances) -> i64 {
    balances.values().map(|(cents, _)| *cents).sum()
}

/// The balances of this run, read from the file as any other program would.
fn projected(path: &Path, run: &Run) -> Result<Balances, Failed> {
    let read = || {
        let file = Connection::open(path)?;
        let mut query = file.prepare("SELECT account, cents, events FROM balances")?;
        let rows = query.query_map([], |row| Ok((row.get(0)?, (row.get(1)?, row.get(2)?))))?;
        rows.collect::<Result<Balances, _>>()
    };
    let all = read().map_err(std::io::Error::other);
    let mut all = all.map_err(Failed::system("read the balances", "report it: this is a bug"))?;
    all.retain(|account, _| account.contains(&run.prefix));
    Ok(all)
}
