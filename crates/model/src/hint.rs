//! Hints: what a capture agent tells relays was staged. docs/formats/hints-topic.md.
//!
//! Who writes them and who reads them do not know each other; this is what they share.

use std::fmt::Display;

use serde::{Deserialize, Serialize};

use crate::MessageId;

const FORMAT: u32 = 1;

/// The topic of the hints for the relays of a store.
#[must_use]
pub fn hints_topic(store_id: impl Display) -> String {
    format!("helenus.{store_id}.hints")
}

/// A message that was staged. It says where to look and nothing of what is there.
///
/// ```
/// use helenus_model::{Hint, MessageId};
///
/// let hint = Hint { id: MessageId::new("m-1")?, key: Some("order-7".to_owned()) };
/// assert_eq!(hint.to_bytes(), br#"{"format":1,"id":"m-1","key":"order-7"}"#);
/// assert_eq!(Hint::parse(&hint.to_bytes()), Some(hint));
/// # Ok::<(), helenus_model::InvalidId>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hint {
    /// The message.
    pub id: MessageId,
    /// Its ordering key, which decides where it is found.
    pub key: Option<String>,
}

#[derive(Deserialize, Serialize)]
struct Body {
    format: u32,
    id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    key: Option<String>,
}

impl Hint {
    /// The body of its record.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let body = Body { format: FORMAT, id: self.id.to_string(), key: self.key.clone() };
        serde_json::to_vec(&body).unwrap_or_default()
    }

    /// The hint of a record; `None` if it is none, or one of another format.
    #[must_use]
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let Body { format, id, key } = serde_json::from_slice(bytes).ok()?;
        (format == FORMAT).then_some(())?;
        Some(Hint { id: MessageId::new(id).ok()?, key })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_hint_is_not_taken_for_one() {
        for text in ["", "[]", r#"{"format":2,"id":"m"}"#, r#"{"format":1,"id":""}"#, "\u{1}"] {
            assert_eq!(Hint::parse(text.as_bytes()), None, "{text}");
        }
        let bare = Hint::parse(br#"{"format":1,"id":"m-1"}"#).unwrap();
        assert_eq!((bare.id.as_str(), bare.key), ("m-1", None));
    }
}
