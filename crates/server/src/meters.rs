//! What is measured of a running service; every name is here and nowhere else. The alert rules in
//! `ops/` are held against what these functions export.

use helenus_model::{Failure, Kind};
use helenus_relay::{Health, Status, Totals};
use helenus_store::contract::{Reconciled, Swept};
use metrics::{Unit, counter, describe_counter, describe_gauge, gauge};
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};

use crate::supervisor::{TaskReport, TaskState};

const LAG: &str = "helenus_outbox_lag_seconds";
const UNPUBLISHED: &str = "helenus_outbox_unpublished_messages";
const HEALTH: &str = "helenus_outbox_up";
const WATERMARK: &str = "helenus_outbox_watermark_timestamp_seconds";
const UNKNOWN: &str = "helenus_outbox_unknown_outcomes";
const RECONCILED: &str = "helenus_outbox_reconciled_total";
const SWEPT: &str = "helenus_outbox_swept_total";
const EXPIRED: &str = "helenus_topics_expired_records_total";
const LEASED: &str = "helenus_relay_shard_leased";
const EPOCH: &str = "helenus_relay_lease_epoch";
const PUBLISHED: &str = "helenus_relay_published_total";
const ERRORS: &str = "helenus_relay_errors_total";
const PARKED: &str = "helenus_relay_parked_total";
const DUPLICATES: &str = "helenus_relay_duplicates_suppressed_total";
const TAKE_OVERS: &str = "helenus_relay_take_overs_total";
const OUTAGES: &str = "helenus_relay_outages_total";
const STORE: &str = "helenus_store_up";
const BROKER: &str = "helenus_broker_up";
const TASK: &str = "helenus_task_up";
const RESTARTS: &str = "helenus_task_restarts_total";

/// Keeps what this process measures, for Prometheus to fetch. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Meters {
    handle: PrometheusHandle,
}

/// Why nothing can be measured.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MetersError {
    /// Something else in this process has taken that place.
    #[error("this process measures with something else already")]
    Taken,
}

impl Failure for MetersError {
    fn kind(&self) -> Kind {
        Kind::Fatal
    }

    fn code(&self) -> &'static str {
        "meters"
    }
}

impl Meters {
    /// Measures from now on; once in a process.
    pub fn install() -> Result<Self, MetersError> {
        let recorder = PrometheusBuilder::new().build_recorder();
        let handle = recorder.handle();
        metrics::set_global_recorder(recorder).map_err(|_| MetersError::Taken)?;
        describe();
        Ok(Meters { handle })
    }

    /// Everything measured so far, in Prometheus' text format.
    pub fn render(&self) -> String {
        self.handle.render()
    }

    /// Puts away what has been measured; without it samples pile up where nobody fetches them.
    pub fn tidy_up(&self) {
        self.handle.run_upkeep();
    }
}

fn describe() {
    let gauges = [
        (LAG, Unit::Seconds, "Age of the oldest message that is due and not published"),
        (UNPUBLISHED, Unit::Count, "Messages neither published nor parked"),
        (HEALTH, Unit::Count, "Whether publishing keeps up: 0 past the configured lag"),
        (WATERMARK, Unit::Seconds, "Until when nothing of a shard is left to do, as Unix time"),
        (UNKNOWN, Unit::Count, "Operations whose outcome is not known yet"),
        (LEASED, Unit::Count, "Whether a relay, here or elsewhere, holds a shard's lease"),
        (EPOCH, Unit::Count, "The how-manieth taking of a shard's lease this is"),
        (STORE, Unit::Count, "Whether the store answered the last look"),
        (BROKER, Unit::Count, "Whether the broker answered the last look"),
        (TASK, Unit::Count, "Whether a task of this process runs"),
    ];
    for (name, unit, about) in gauges {
        describe_gauge!(name, unit, about);
    }
    let counters = [
        (RECONCILED, "What was begun and is ended now, by what became of it"),
        (SWEPT, "What was old enough to go, by what it was"),
        (EXPIRED, "Records of embedded topics that were old enough to go"),
        (PUBLISHED, "Messages published by this process"),
        (ERRORS, "Attempts to publish that were refused"),
        (PARKED, "Messages given up"),
        (DUPLICATES, "Messages found to be published already"),
        (TAKE_OVERS, "Times a lane was taken over"),
        (OUTAGES, "Times a lane found the store or the broker away"),
        (RESTARTS, "Times a task was started again"),
    ];
    for (name, about) in counters {
        describe_counter!(name, Unit::Count, about);
    }
}

#[expect(clippy::cast_precision_loss, reason = "a gauge is for people to look at")]
pub(crate) fn status(status: &Status, health: &Health) {
    gauge!(LAG).set(status.lag_ms as f64 / 1_000.0);
    gauge!(UNPUBLISHED).set(status.unpublished as f64);
    gauge!(HEALTH).set(yes(health.is_up()));
    for shard in &status.shards {
        let label = shard.shard.to_string();
        let seconds = shard.watermark.as_millis() as f64 / 1_000.0;
        gauge!(WATERMARK, "shard" => label.clone()).set(seconds);
        gauge!(LEASED, "shard" => label.clone()).set(yes(shard.owner.is_some()));
        gauge!(EPOCH, "shard" => label).set(shard.epoch.unwrap_or_default() as f64);
    }
}

/// Whether the store and the broker answered.
pub(crate) fn reached(store: bool, broker: bool) {
    gauge!(STORE).set(yes(store));
    gauge!(BROKER).set(yes(broker));
}

pub(crate) fn tasks(reports: &[TaskReport]) {
    for report in reports {
        let is_well = report.state == TaskState::Running && report.reason.is_none();
        gauge!(TASK, "task" => report.name).set(yes(is_well));
        counter!(RESTARTS, "task" => report.name).absolute(report.restarts);
    }
}

/// What a relay of this process has done since it was made.
pub fn relayed(totals: &Totals) {
    counter!(PUBLISHED).absolute(totals.published);
    counter!(ERRORS).absolute(totals.failed);
    counter!(PARKED).absolute(totals.parked);
    counter!(DUPLICATES).absolute(totals.duplicates_suppressed);
    counter!(TAKE_OVERS).absolute(totals.take_overs);
    counter!(OUTAGES).absolute(totals.outages);
}

/// What a round of the reconciler found.
#[expect(clippy::cast_precision_loss, reason = "a gauge is for people to look at")]
pub fn reconciled(round: &Reconciled) {
    gauge!(UNKNOWN).set(round.open as f64);
    let outcomes = [
        ("completed", round.completed),
        ("dropped", round.dropped),
        ("cancelled", round.cancelled),
    ];
    for (outcome, count) in outcomes {
        counter!(RECONCILED, "outcome" => outcome).increment(count);
    }
}

/// What a round of the sweeper removed.
pub fn swept(round: &Swept) {
    let Swept { messages, receipts, holds, buckets } = *round;
    let removed =
        [("messages", messages), ("receipts", receipts), ("holds", holds), ("buckets", buckets)];
    for (what, count) in removed {
        counter!(SWEPT, "what" => what).increment(count);
    }
}

/// How many records a round of retention removed from embedded topics.
pub fn expired(records: usize) {
    counter!(EXPIRED).increment(records as u64);
}

fn yes(is: bool) -> f64 {
    f64::from(u8::from(is))
}
