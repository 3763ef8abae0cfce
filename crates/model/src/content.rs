//! Payload bytes with their type, and the hash that tells whether two requests say the same.

use std::fmt;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// Bytes and what they are.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Payload {
    /// MIME type, `application/json` where the caller does not say.
    pub content_type: String,
    /// The bytes, never looked into.
    pub bytes: Vec<u8>,
}

impl Payload {
    /// The MIME type of JSON.
    pub const JSON: &'static str = "application/json";

    /// A JSON payload.
    ///
    /// ```
    /// use helenus_model::Payload;
    ///
    /// let payload = Payload::json(&serde_json::json!({"total": 12}));
    /// assert_eq!(payload.text(), Some(r#"{"total":12}"#));
    /// ```
    pub fn json(value: &serde_json::Value) -> Self {
        Payload { content_type: Self::JSON.to_owned(), bytes: value.to_string().into_bytes() }
    }

    /// The bytes as text, if the content type says text or JSON and the bytes are UTF-8.
    pub fn text(&self) -> Option<&str> {
        if self.is_json() || self.content_type.starts_with("text/") {
            std::str::from_utf8(&self.bytes).ok()
        } else {
            None
        }
    }

    /// Whether the content type says JSON.
    pub fn is_json(&self) -> bool {
        let media_type = self.content_type.split(';').next().unwrap_or_default().trim();
        media_type == Self::JSON || media_type.ends_with("+json")
    }
}

impl fmt::Debug for Payload {
    /// Without the bytes: payloads are not for logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Payload({}, {} bytes)", self.content_type, self.bytes.len())
    }
}

/// Tells same content from other content under one id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ContentHash(Uuid);

impl ContentHash {
    /// The hash as bytes, for storing.
    pub const fn as_bytes(&self) -> &[u8; 16] {
        self.0.as_bytes()
    }

    /// A stored hash, read back; `None` if it does not have its length.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        Uuid::from_slice(bytes).ok().map(ContentHash)
    }
}

/// Collects the fields of a request into a [`ContentHash`].
///
/// Every field goes in with its length, so that `("ab", "c")` and `("a", "bc")` differ, and an
/// absent field differs from an empty one.
///
/// ```
/// use helenus_model::Fingerprint;
///
/// let of = |a: &str, b: &str| Fingerprint::new().text(a).text(b).hash();
/// assert_ne!(of("ab", "c"), of("a", "bc"));
/// ```
#[derive(Debug, Default)]
pub struct Fingerprint {
    bytes: Vec<u8>,
}

/// Namespace of content hashes: a UUID of our own, drawn once.
const NAMESPACE: Uuid = Uuid::from_u128(0x6d1d_1f2c_30a5_4d4e_9c0b_8f3d_52a7_61e4);

impl Fingerprint {
    /// An empty request.
    pub fn new() -> Self {
        // Room for most requests, so that adding field after field does not move the ones before.
        Fingerprint { bytes: Vec::with_capacity(512) }
    }

    /// Adds bytes.
    #[must_use]
    pub fn bytes(mut self, bytes: &[u8]) -> Self {
        self.bytes.extend_from_slice(&(bytes.len() as u64).to_be_bytes());
        self.bytes.extend_from_slice(bytes);
        self
    }

    /// Adds a text.
    #[must_use]
    pub fn text(self, text: &str) -> Self {
        self.bytes(text.as_bytes())
    }

    /// Adds a text that may be absent.
    #[must_use]
    pub fn optional(mut self, text: Option<&str>) -> Self {
        match text {
            Some(text) => {
                self.bytes.push(1);
                self.text(text)
            }
            None => {
                self.bytes.push(0);
                self
            }
        }
    }

    /// Adds a number.
    #[must_use]
    pub fn number(mut self, number: i64) -> Self {
        self.bytes.extend_from_slice(&number.to_be_bytes());
        self
    }

    /// Adds a map's entries in their order.
    #[must_use]
    pub fn entries<'a>(self, entries: impl ExactSizeIterator<Item = (&'a str, &'a str)>) -> Self {
        let count = i64::try_from(entries.len()).unwrap_or(i64::MAX);
        entries.fold(self.number(count), |print, (key, value)| print.text(key).text(value))
    }

    /// The hash of all that was added.
    pub fn hash(self) -> ContentHash {
        ContentHash(Uuid::new_v5(&NAMESPACE, &self.bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absent_and_empty_differ() {
        let absent = Fingerprint::new().optional(None).hash();
        let empty = Fingerprint::new().optional(Some("")).hash();
        assert_ne!(absent, empty);
    }

    #[test]
    fn json_is_recognised_by_its_media_type() {
        for (content_type, json) in [
            ("application/json", true),
            ("application/json; charset=utf-8", true),
            ("application/cloudevents+json", true),
            ("text/plain", false),
            ("application/jsonp", false),
        ] {
            let payload = Payload { content_type: content_type.to_owned(), bytes: vec![] };
            assert_eq!(payload.is_json(), json, "{content_type}");
        }
    }

    #[test]
    fn a_payload_does_not_show_itself_in_logs() {
        let payload = Payload::json(&serde_json::json!({"card": "4111"}));
        assert_eq!(format!("{payload:?}"), "Payload(application/json, 15 bytes)");
    }
}
