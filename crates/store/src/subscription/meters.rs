//! What is measured of subscriptions; every name is here and nowhere else.

use metrics::{Unit, counter, describe_counter, describe_gauge, gauge};

use crate::contract::SubscriptionStatus;

const PROCESSED: &str = "helenus_subscription_processed_total";
const FAILURES: &str = "helenus_subscription_failures_total";
const PARKED_TOTAL: &str = "helenus_subscription_parked_total";
const PARKED: &str = "helenus_subscription_parked_events";
const LAG_EVENTS: &str = "helenus_subscription_lag_events";
const LAG_SECONDS: &str = "helenus_subscription_lag_seconds";
const LABEL: &str = "subscription";

/// Tells the installed recorder what the names mean; called once, by whoever installs it.
pub fn describe() {
    describe_counter!(PROCESSED, Unit::Count, "Events handled and settled");
    describe_counter!(FAILURES, Unit::Count, "Times an event could not be handled");
    describe_counter!(PARKED_TOTAL, Unit::Count, "Events set aside");
    describe_gauge!(PARKED, Unit::Count, "Events that are set aside now");
    describe_gauge!(LAG_EVENTS, Unit::Count, "Events after the checkpoint of the slowest lane");
    describe_gauge!(LAG_SECONDS, Unit::Seconds, "Age of the first event after that checkpoint");
}

/// Counts what one consumer does, under a name.
#[derive(Clone, Debug)]
pub(super) struct Meters {
    name: String,
}

impl Meters {
    pub(super) fn new(name: &str) -> Self {
        Meters { name: name.to_owned() }
    }

    pub(super) fn processed(&self, events: usize) {
        counter!(PROCESSED, LABEL => self.name.clone()).increment(events as u64);
    }

    pub(super) fn failed(&self) {
        counter!(FAILURES, LABEL => self.name.clone()).increment(1);
    }

    pub(super) fn parked(&self) {
        counter!(PARKED_TOTAL, LABEL => self.name.clone()).increment(1);
    }

    pub(super) fn status(&self, status: &SubscriptionStatus) {
        let set = |name, value| gauge!(name, LABEL => self.name.clone()).set(value);
        set(PARKED, status.parked as f64);
        set(LAG_EVENTS, status.lag_events as f64);
        set(LAG_SECONDS, status.lag.as_secs_f64());
    }
}
