//! Writers that contend for a few streams of events, each append at the version it has just seen.

use futures_util::TryStreamExt;
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

impl Part {
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

/// Reads the streams back: two events an append, every version once.
pub(super) async fn examine(
    store: &Store,
    counters: &Counters,
    run: &Run,
) -> Result<Vec<Check>, Failed> {
    let (mut events, mut gaps) = (0_u64, 0_u64);
    for number in 0..STREAMS {
        let mut next = Version::FIRST;
        let mut stored = Box::pin(store.read(ReadEvents::forward(stream(run, number)?)));
        while let Some(event) = stored.try_next().await? {
            gaps += u64::from(event.version != next);
            next = event.version.next();
            events += 1;
        }
    }
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
    ])
}
