//! From the outbox into topics: what a relay promises, on each broker.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

mod crash_points;
mod faulty;
#[cfg(feature = "service-tests")]
mod kafka;
mod promises;
#[cfg(feature = "service-tests")]
mod proof;
mod shop;

/// Runs every promise with the broker that `$setup` opens.
macro_rules! promises {
    ($backend:ident, $setup:path: $($promise:ident),+ $(,)?) => {
        mod $backend {
            $(
                #[tokio::test(flavor = "multi_thread")]
                async fn $promise() {
                    $crate::promises::$promise(&$setup().await).await;
                }
            )+
        }
    };
    ($backend:ident, $setup:path) => {
        promises!($backend, $setup:
            everything_due_is_published_once_and_in_order_per_key,
            at_least_once_publishes_everything_in_order_per_key,
            a_key_waits_for_its_refused_message_and_others_flow,
            what_can_never_be_published_is_parked_and_holds_its_key,
            a_parked_message_lets_its_key_go_on_where_the_policy_says_so,
            of_many_poison_messages_only_their_keys_wait,
            a_delayed_message_holds_nobody,
            an_event_that_two_messages_tell_of_is_published_once,
            a_channel_can_have_a_topic_of_another_name,
            in_global_order_everything_waits_for_a_refused_message,
            in_partition_order_a_partition_waits_for_a_refused_message,
            a_running_relay_publishes_what_is_staged_beside_it,
            a_hint_wakes_the_lane_of_its_message_and_is_believed_in_nothing_else,
            relays_share_the_lanes_and_take_over_from_one_that_leaves,
            a_relay_goes_on_with_another_number_of_shards,
            what_was_published_and_not_settled_is_not_published_again,
            a_relay_that_was_fenced_takes_its_lane_back_while_it_holds_the_lease,
            the_status_names_owners_and_what_is_left,
        );
    };
}

promises!(embedded, crate::shop::embedded);
#[cfg(feature = "service-tests")]
promises!(on_kafka, crate::shop::kafka);
