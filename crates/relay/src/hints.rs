//! Hints: capture agents see in the commit log of a cluster what was staged, and tell of it in a topic.
//!
//! A hint wakes the lane that its message is in and is believed in nothing else: it may come late,
//! three times, of a message that is gone, or not at all. docs/formats/hints-topic.md.

use std::sync::Arc;
use std::time::Duration;

use helenus_broker::contract::{self as broker, Bounds, Broker, Offset, Position, Record};
use helenus_model::{Hint, hints_topic};
use helenus_store::shard_of;

use crate::relay::Core;

/// How often the topic is looked at while nothing comes.
const LOOK: Duration = Duration::from_millis(20);
/// How long to wait while the broker is away.
const AWAY: Duration = Duration::from_secs(1);
/// Hints that are read at once.
const READ_MAX: usize = 1_000;

/// Where the hints of a store end now; makes their topic if it is not there.
pub(crate) async fn end<B: Broker>(
    broker: &B,
    store_id: impl std::fmt::Display,
) -> Result<Position, broker::Error> {
    let topic = hints_topic(store_id);
    broker.create_compacted_topic(&topic, 1).await?;
    let bounds = broker.bounds(&topic).await?;
    let offset = bounds.first().map_or(Offset::START, |Bounds { end, .. }| *end);
    Ok(Position { topic: topic.into(), partition: 0, offset })
}

/// Wakes lanes for as long as it is polled.
pub(crate) async fn follow<S, B: Broker>(core: Arc<Core<S, B>>, mut from: Position) {
    let mut is_away = false;
    loop {
        let pause = match core.broker.read(from.clone(), READ_MAX).await {
            Ok(records) => {
                is_away = false;
                let pause = if records.is_empty() { LOOK } else { Duration::ZERO };
                take(&core, &records, &mut from.offset);
                pause
            }
            Err(error) => {
                if !is_away {
                    tracing::warn!(%error, "hints cannot be read; messages are found by polling");
                }
                is_away = true;
                AWAY
            }
        };
        tokio::time::sleep(pause).await;
    }
}

/// Wakes the lanes that these hints are for.
fn take<S, B>(core: &Core<S, B>, records: &[Record], next: &mut Offset) {
    for record in records {
        let offset = record.position.offset;
        match Hint::parse(&record.payload) {
            // What the topic has forgotten in between may have been for anybody.
            Some(_) if offset > *next => (0..core.lanes).for_each(|lane| core.wake(lane)),
            Some(hint) => {
                let shard = shard_of(hint.key.as_deref(), &hint.id, core.shards());
                core.wake(core.lane_of(shard));
            }
            None => tracing::warn!(position = %record.position, "a record is no hint"),
        }
        *next = offset.next();
    }
}
