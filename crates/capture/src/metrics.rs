//! What an agent counts, by name.

use metrics::{Unit, counter, describe_counter, describe_gauge, gauge};

use crate::agent::Status;

/// Change events and announcements that the broker has acknowledged.
pub const PUBLISHED: &str = "helenus_capture_published_total";
/// Records that could not be decoded or that the broker refuses; each is kept in the quarantine.
pub const QUARANTINED: &str = "helenus_capture_quarantined_total";
/// Segments that were removed before they were read.
pub const MISSING: &str = "helenus_capture_missing_segments_total";
/// Segments released.
pub const RELEASED: &str = "helenus_capture_released_segments_total";
/// Attempts to publish that failed.
pub const FAILED: &str = "helenus_capture_failed_publishes_total";
/// Bytes in `cdc_raw`.
pub const USED_BYTES: &str = "helenus_capture_cdc_raw_bytes";
/// Bytes that `cdc_raw` may hold.
pub const LIMIT_BYTES: &str = "helenus_capture_cdc_raw_limit_bytes";
/// Bytes that the node has made durable and that are not published yet.
pub const UNREAD_BYTES: &str = "helenus_capture_unread_bytes";
/// 1 while nothing can be published.
pub const WAITING: &str = "helenus_capture_waiting";
/// Records and events in the quarantine, those of earlier agents included.
pub const IN_QUARANTINE: &str = "helenus_capture_quarantine_files";
/// Seconds until the node would refuse writes, at the pace of the last minute.
pub const SECONDS_LEFT: &str = "helenus_capture_seconds_until_full";

const COUNTERS: [(&str, &str); 5] = [
    (PUBLISHED, "Change events and announcements that the broker has acknowledged"),
    (QUARANTINED, "Records that could not be decoded or that the broker refuses"),
    (MISSING, "Segments that were removed before they were read"),
    (RELEASED, "Segments given back to the node"),
    (FAILED, "Attempts to publish that failed"),
];
const GAUGES: [(&str, Unit, &str); 6] = [
    (USED_BYTES, Unit::Bytes, "Bytes in cdc_raw"),
    (LIMIT_BYTES, Unit::Bytes, "Bytes that cdc_raw may hold"),
    (UNREAD_BYTES, Unit::Bytes, "Bytes the node has made durable that are not published yet"),
    (SECONDS_LEFT, Unit::Seconds, "Until the node would refuse writes, at the present pace"),
    (WAITING, Unit::Count, "Whether something keeps changes from being published"),
    (IN_QUARANTINE, Unit::Count, "Records and events in the quarantine"),
];

/// Tells the recorder of this process what each name means, and has the counters begin at zero.
pub fn describe() {
    for (name, about) in COUNTERS {
        describe_counter!(name, Unit::Count, about);
        counter!(name).absolute(0);
    }
    for (name, unit, about) in GAUGES {
        describe_gauge!(name, unit, about);
    }
}

pub(crate) fn count(name: &'static str, by: usize) {
    if by > 0 {
        counter!(name).increment(by as u64);
    }
}

pub(crate) fn status(status: &Status) {
    show(USED_BYTES, Some(status.used_bytes));
    show(LIMIT_BYTES, status.limit_bytes);
    show(SECONDS_LEFT, status.seconds_left);
    show(UNREAD_BYTES, Some(status.unread_bytes));
    show(WAITING, Some(u64::from(status.waiting_for.is_some())));
    show(IN_QUARANTINE, Some(status.quarantined as u64));
}

#[expect(clippy::cast_precision_loss, reason = "a gauge is for people to look at")]
fn show(name: &'static str, value: Option<u64>) {
    gauge!(name).set(value.map_or(f64::INFINITY, |value| value as f64));
}
