//! What an agent counts, by name.

use metrics::{counter, gauge};

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
/// Seconds until the node would refuse writes, at the pace of the last minute.
pub const SECONDS_LEFT: &str = "helenus_capture_seconds_until_full";

pub(crate) fn count(name: &'static str, by: usize) {
    if by > 0 {
        counter!(name).increment(by as u64);
    }
}

#[expect(clippy::cast_precision_loss, reason = "a gauge is for people to look at")]
pub(crate) fn show(name: &'static str, value: Option<u64>) {
    gauge!(name).set(value.map_or(f64::INFINITY, |value| value as f64));
}
