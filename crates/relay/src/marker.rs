//! The record that says what a lane has published: docs/formats/marker-topic.md.

use helenus_broker::contract::Marker;
use helenus_model::MessageId;
use helenus_store::contract::Lease;
use serde::{Deserialize, Serialize};

const FORMAT: u32 = 1;

#[derive(Debug, Serialize)]
struct NewValue<'a> {
    format: u32,
    /// Who published, for whoever looks into the topic; takes no part in anything.
    owner: &'a str,
    /// Under which epoch of the lane's lease.
    epoch: i64,
    ids: Vec<&'a str>,
}

#[derive(Debug, Deserialize)]
struct Value {
    format: u32,
    ids: Vec<String>,
}

/// Where the markers of a store's lanes are.
pub(crate) fn topic(store_id: impl std::fmt::Display) -> String {
    format!("helenus.{store_id}.markers")
}

/// The marker of a transaction that publishes these under this lease.
pub(crate) fn marker<'a>(
    topic: &str,
    lane: u16,
    lease: &'a Lease,
    ids: impl Iterator<Item = &'a MessageId>,
) -> Marker {
    let value = NewValue {
        format: FORMAT,
        owner: &lease.owner,
        epoch: lease.epoch,
        ids: ids.map(MessageId::as_str).collect(),
    };
    Marker {
        topic: topic.to_owned(),
        partition: u32::from(lane),
        key: lane.to_string().into_bytes(),
        value: serde_json::to_vec(&value).unwrap_or_default(),
    }
}

/// The ids a marker names; `None` if it is none of ours.
pub(crate) fn ids(value: &[u8]) -> Option<Vec<MessageId>> {
    let value: Value = serde_json::from_slice(value).ok()?;
    if value.format != FORMAT {
        return None;
    }
    value.ids.into_iter().map(|id| MessageId::new(id).ok()).collect()
}

#[cfg(test)]
mod tests {
    use helenus_model::Timestamp;

    use super::*;

    #[test]
    fn a_marker_names_its_ids() {
        let published: Vec<_> =
            ["m-1", "ü \" \\"].map(|id| MessageId::new(id).unwrap()).into_iter().collect();
        let lease = Lease {
            name: "relay/3".to_owned(),
            owner: "relay-1".to_owned(),
            epoch: 7,
            expires_at: Timestamp::EPOCH,
        };
        let marker = marker("markers", 3, &lease, published.iter());
        assert_eq!((marker.partition, marker.key.as_slice()), (3, b"3".as_slice()));
        assert_eq!(ids(&marker.value), Some(published));
    }

    #[test]
    fn what_is_no_marker_is_not_taken_for_one() {
        for text in ["", "[]", r#"{"format":2,"ids":[]}"#, r#"{"format":1,"ids":[""]}"#] {
            assert_eq!(ids(text.as_bytes()), None, "{text}");
        }
    }
}
