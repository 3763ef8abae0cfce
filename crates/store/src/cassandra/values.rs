//! What a batch is filled with.

use helenus_model::{OperationId, Timestamp, Version};
use scylla::serialize::SerializationError;
use scylla::serialize::row::{RowSerializationContext, SerializeRow};
use scylla::serialize::writers::RowWriter;
use scylla::value::{CqlTimestamp, MaybeUnset};
use uuid::Uuid;

use crate::append::{Plan, PlannedEvent, Span};

/// The values of one statement in a conditional batch.
pub(super) enum Values<'a> {
    NewHead { plan: &'a Plan, span: Span },
    MoveHead { plan: &'a Plan, span: Span, head: Version },
    Operation { plan: &'a Plan, span: Span, ttl: i32 },
    Event { plan: &'a Plan, event: &'a PlannedEvent, version: Version, is_first: bool },
}

impl SerializeRow for Values<'_> {
    fn serialize(
        &self,
        context: &RowSerializationContext<'_>,
        writer: &mut RowWriter<'_>,
    ) -> Result<(), SerializationError> {
        match self {
            Values::NewHead { plan, span } => {
                let operation = plan.operation_id.as_uuid();
                (plan.stream_id.as_str(), span.last.as_i64(), operation).serialize(context, writer)
            }
            Values::MoveHead { plan, span, head } => {
                let (last, operation) = (span.last.as_i64(), plan.operation_id.as_uuid());
                (last, operation, plan.stream_id.as_str(), head.as_i64()).serialize(context, writer)
            }
            Values::Operation { plan, span, ttl } => (
                plan.stream_id.as_str(),
                operation_row(plan.operation_id),
                plan.operation_id.as_uuid(),
                span.first.as_i64(),
                span.last.as_i64(),
                plan.content_hash.as_bytes().as_slice(),
                ttl,
            )
                .serialize(context, writer),
            Values::Event { plan, event, version, is_first } => {
                event_row(plan, event, *version, *is_first).serialize(context, writer)
            }
        }
    }

    fn is_empty(&self) -> bool {
        false
    }
}

/// The columns of `EVENT_COLUMNS`. What is absent stays unset: a null would be a tombstone.
fn event_row<'a>(
    plan: &'a Plan,
    event: &'a PlannedEvent,
    version: Version,
    is_first: bool,
) -> impl SerializeRow + use<'a> {
    let text = event.payload.text();
    let bytes = if text.is_none() { Some(event.payload.bytes.as_slice()) } else { None };
    // On the first event the hash settles a repeated operation after its row has expired.
    let hash = is_first.then(|| plan.content_hash.as_bytes().as_slice());
    (
        plan.stream_id.as_str(),
        version.as_i64(),
        event.event_type.as_str(),
        set(text),
        time(event.occurred_at),
        time(plan.appended_at),
        event.event_id.as_uuid(),
        event.schema_version,
        event.payload.content_type.as_str(),
        set(bytes),
        set(event.correlation_id.as_deref()),
        set(event.causation_id.as_deref()),
        set(event.tenant_id.as_deref()),
        set(event.metadata_json.as_deref()),
        plan.operation_id.as_uuid(),
        set(hash),
    )
}

pub(super) fn set<T>(value: Option<T>) -> MaybeUnset<T> {
    value.map_or(MaybeUnset::Unset, MaybeUnset::Set)
}

pub(super) fn time(time: Timestamp) -> CqlTimestamp {
    CqlTimestamp(time.as_millis())
}

/// Namespace of operation rows: a UUID of our own, drawn once.
const NAMESPACE: Uuid = Uuid::from_u128(0x0e6c_41a5_7d0f_4f0b_8a55_61c1_d04e_9b37);

/// The negative "version" under which an operation's row stands beside its stream's events.
///
/// 63 bits of a hash: two operations of one stream that meet are told apart by the id in the row.
pub(super) fn operation_row(operation_id: OperationId) -> i64 {
    let (high, low) = Uuid::new_v5(&NAMESPACE, operation_id.as_uuid().as_bytes()).as_u64_pair();
    // Six bits of a UUID are fixed; turned by half a word, each meets a bit that is not.
    let hash = (high ^ low.rotate_left(32)) >> 1;
    -1 - i64::try_from(hash).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn operation_rows_are_below_zero_and_apart() {
        let operation = |number| OperationId::from(Uuid::from_u128(number));
        let rows: BTreeSet<i64> =
            (0..10_000).map(|number| operation_row(operation(number))).collect();
        assert_eq!(rows.len(), 10_000);
        assert!(rows.iter().all(|row| *row < 0));
        // Stored: it never changes.
        assert_eq!(operation_row(operation(1)), operation_row(operation(1)));
    }
}
