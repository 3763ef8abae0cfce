//! The list of promises, and the backends they hold for.

pub(crate) mod aggregates;
#[cfg(feature = "sqlite")]
mod consumers;
mod dispatch;
mod events;
#[cfg(feature = "sqlite")]
mod feed;
mod inbox;
mod leases;
mod operations;
mod outbox;
mod retention;
mod snapshots;
#[cfg(feature = "sqlite")]
mod subscriptions;
mod upkeep;

use std::sync::Arc;
use std::time::Duration;

use helenus_model::{ChannelId, ManualClock, Message, MessageId, Payload, SeededRandom, Timestamp};
use helenus_store::Ports;

/// The moment every test starts at: 2026-11-15T12:00:00Z.
const START: Timestamp = Timestamp::from_millis(1_794_744_000_000);

/// A store under test and the clock it reads.
struct Fixture<S> {
    store: S,
    clock: Arc<ManualClock>,
    /// Whatever must outlive the store: a temporary folder, a keyspace.
    _keep: Box<dyn std::any::Any + Send + Sync>,
}

impl<S> Fixture<S> {
    /// The fixture's clock, and chance of its own.
    fn ports(&self) -> Ports {
        Ports { clock: Arc::clone(&self.clock) as _, random: Arc::new(SeededRandom::new(2)) }
    }

    fn later(&self, duration: Duration) -> Timestamp {
        self.clock.advance(duration);
        helenus_model::Clock::now(&*self.clock)
    }
}

fn ports() -> (Ports, Arc<ManualClock>) {
    let clock = Arc::new(ManualClock::at(START));
    let random = Arc::new(SeededRandom::new(1));
    (Ports { clock: Arc::clone(&clock) as _, random }, clock)
}

fn message(id: &str) -> Message {
    Message::new(
        MessageId::new(id).unwrap(),
        ChannelId::new("orders").unwrap(),
        "order.placed",
        Payload::json(&serde_json::json!({ "id": id })),
        START.minus(Duration::from_secs(1)),
    )
}

/// Runs the promises of each area against the store that `$setup` opens.
macro_rules! conformance {
    ($backend:ident, $setup:path: $($area:ident),+) => {
        mod $backend {
            $(conformance!(@$area $setup);)+
        }
    };
    (@messages $setup:path) => {
        conformance!(@promises $setup, outbox:
            a_staged_message_is_pending_with_all_its_fields,
            staging_twice_stages_once,
            other_content_under_a_known_id_is_refused,
            an_invalid_message_is_refused_and_not_staged,
            many_writers_of_one_id_stage_it_once,
            a_batch_is_staged_message_by_message,
        );
        conformance!(@promises $setup, dispatch:
            pending_messages_come_in_staging_order,
            a_read_is_bounded,
            a_delayed_message_waits_for_its_time,
            a_settled_message_is_not_pending,
            a_failed_message_is_due_again_when_it_says,
            a_started_attempt_is_counted,
            a_settled_message_stays_settled,
            a_report_on_nothing_says_so,
            the_backlog_is_what_is_not_settled,
            a_store_keeps_its_identity,
            shards_share_the_messages_and_a_key_is_in_one,
            a_message_that_failed_holds_its_key,
            a_delayed_message_holds_nobody,
            a_parked_message_is_not_due_and_its_key_does_as_told,
            reports_of_one_message_in_one_call_are_applied_in_order,
            the_watermark_stays_behind_what_is_pending,
            staging_wakes_who_waits,
        );
        conformance!(@promises $setup, inbox:
            a_message_is_marked_once,
            a_receipt_has_all_its_fields,
            a_message_is_worked_on_by_one_at_a_time,
            a_message_that_is_given_up_is_free_at_once,
            a_duplicate_gets_the_first_answer,
            every_message_of_the_inbox_is_listed,
        );
        conformance!(@promises $setup, upkeep:
            messages_are_listed_by_their_state,
            a_sweep_removes_what_is_done_and_old,
            another_number_of_shards_loses_nothing,
            nothing_is_left_to_reconcile_after_staging,
            shards_do_not_change_while_a_relay_holds_a_lane,
            a_store_is_reconciled_again_and_again,
        );
    };
    (@events $setup:path) => {
        conformance!(@promises $setup, events:
            an_event_reads_back_with_all_its_fields,
            payloads_of_any_kind_read_back,
            an_expectation_decides,
            a_conflict_names_the_actual_version_and_writes_nothing,
            many_events_are_all_or_nothing,
            reads_begin_and_end_where_they_are_told,
            a_stream_longer_than_a_page_reads_whole,
            a_missing_stream_has_neither_version_nor_events,
            every_stream_is_listed,
            what_is_wrong_is_refused_and_not_written,
            an_append_over_the_limit_is_refused,
        );
        conformance!(@promises $setup, operations:
            the_same_operation_again_is_applied_once,
            an_operation_is_known_by_its_stream,
            other_content_under_a_known_operation_is_refused,
            a_cancelled_operation_never_applies,
            an_applied_operation_resolves_to_its_versions,
            an_old_operation_is_settled_or_refused,
            an_undated_operation_is_recognised_by_its_events,
            a_deadline_that_ends_first_leaves_an_outcome_to_resolve,
            writers_of_few_streams_get_each_version_once,
            append_and_cancel_agree_who_won,
        );
        conformance!(@promises $setup, snapshots:
            the_newest_snapshot_is_loaded_with_all_its_fields,
            a_snapshot_never_changes,
            a_snapshot_beyond_the_end_is_refused,
            what_is_wrong_with_a_snapshot_is_said,
            only_the_newest_are_kept,
            savers_at_once_keep_the_newest,
        );
        conformance!(@promises $setup, retention:
            archived_events_read_like_others,
            dropped_events_are_truncated_never_skipped,
            a_stream_without_events_keeps_its_version,
            what_was_archived_can_be_dropped,
            a_cut_is_by_version_count_or_age,
            without_a_snapshot_nothing_is_retired_unless_forced,
            a_plan_changes_nothing,
            stopped_after_any_step_it_is_completed_later,
            operations_are_settled_after_their_events_are_archived,
            operations_are_not_taken_for_new_after_their_events_are_dropped,
            a_long_stream_is_archived_in_steps,
            retiring_beside_readers_and_writers_gives_no_gap,
            dropping_beside_readers_and_writers_ends_them_or_gives_no_gap,
        );
        conformance!(@promises $setup, aggregates:
            an_aggregate_is_its_snapshot_and_the_events_after_it,
            snapshots_are_kept_to_their_number,
            a_snapshot_of_another_shape_is_passed_over,
            what_an_aggregate_does_not_know_is_an_error,
            typed_reads_name_what_they_cannot_resolve,
        );
    };
    (@leases $setup:path) => {
        conformance!(@promises $setup, leases:
            a_lease_has_one_holder_until_it_expires,
            every_taking_raises_the_epoch,
            a_renewal_holds_on_unless_the_lease_has_passed_on,
            of_many_takers_one_gets_it,
        );
    };
    (@feed $setup:path) => {
        conformance!(@promises $setup, feed:
            every_event_is_given_once_with_nothing_between,
            a_feed_goes_on_after_a_position,
            a_follower_gets_what_is_appended_later,
            a_position_of_nowhere_is_refused,
            archived_events_are_given_like_others,
            dropped_events_are_told_of_and_numbered,
        );
    };
    (@subscriptions $setup:path) => {
        conformance!(@promises $setup, subscriptions:
            a_subscription_keeps_its_shape,
            a_subscription_begins_where_it_is_told,
            only_the_owner_of_a_lane_moves_its_checkpoint,
            a_checkpoint_moves_from_where_it_is_or_not_at_all,
            the_slowest_is_whoever_has_most_to_read,
            consumers_count_while_they_say_so,
            a_parked_event_keeps_its_place_in_the_stream,
            parked_events_are_replayed_in_order_or_discarded,
            what_is_forgotten_is_gone,
            nothing_is_dropped_that_a_subscription_has_yet_to_read,
        );
        conformance!(@promises $setup, consumers:
            every_event_is_handled_in_its_streams_order,
            consumers_share_the_lanes_and_take_over_from_one_that_is_gone,
            a_lane_is_held_while_its_handler_runs,
            an_owner_that_was_paused_changes_nothing_when_it_comes_back,
            an_event_that_fails_is_retried_then_parked_with_its_stream,
            a_replay_that_fails_again_stays_parked,
            a_poison_event_may_be_passed_by,
            a_handler_that_panics_has_failed,
            a_consumer_that_is_stopped_gives_its_lanes_back,
        );
    };
    (@promises $setup:path, $area:ident: $($promise:ident),+ $(,)?) => {
        mod $area {
            $(
                #[tokio::test(flavor = "multi_thread")]
                async fn $promise() {
                    let fixture = $setup().await;
                    $crate::conformance::$area::$promise(&fixture).await;
                }
            )+
        }
    };
}

#[cfg(feature = "sqlite")]
async fn open_sqlite() -> Fixture<helenus_store::sqlite::SqliteStore> {
    let dir = tempfile::tempdir().unwrap();
    let (ports, clock) = ports();
    let path = dir.path().join("store.db");
    let store = helenus_store::sqlite::SqliteStore::open(path, ports).await.unwrap();
    Fixture { store, clock, _keep: Box::new(dir) }
}

#[cfg(feature = "sqlite")]
conformance!(sqlite, crate::conformance::open_sqlite: messages, events, feed, leases, subscriptions);

#[cfg(feature = "service-tests")]
async fn open_cassandra() -> Fixture<helenus_store::cassandra::CassandraStore> {
    let keyspace = crate::cassandra::Keyspace::new();
    let (ports, clock) = ports();
    let store = keyspace.store(helenus_store::cassandra::Options::default(), ports);
    // The tables first: how long a busy node takes to make them is nobody's promise.
    let none = helenus_model::StreamId::new("none").unwrap();
    helenus_store::contract::EventStore::version(&store, &none).await.unwrap();
    Fixture { store, clock, _keep: Box::new(keyspace) }
}

#[cfg(feature = "service-tests")]
conformance!(cassandra, crate::conformance::open_cassandra: messages, events, leases);
