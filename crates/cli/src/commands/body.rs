//! A payload as it is printed: as what it is.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use helenus::Payload;
use serde::Serialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

/// A payload under the name that says what it is.
#[derive(Serialize)]
#[serde(untagged)]
pub(crate) enum Body<'a> {
    /// With the digits it was written with: no number is read on the way.
    Json {
        payload: Box<RawValue>,
    },
    Text {
        payload: &'a str,
    },
    Bytes {
        payload_base64: String,
    },
}

impl<'a> Body<'a> {
    pub(crate) fn of(payload: &'a Payload) -> Self {
        if let Some(payload) = raw_json(payload) {
            return Body::Json { payload };
        }
        match payload.text() {
            Some(payload) => Body::Text { payload },
            None => Body::Bytes { payload_base64: STANDARD.encode(&payload.bytes) },
        }
    }
}

fn raw_json(payload: &Payload) -> Option<Box<RawValue>> {
    let text = payload.text().filter(|_| payload.is_json())?;
    serde_json::from_str::<IgnoredAny>(text).ok()?;
    RawValue::from_string(on_one_line(text)).ok()
}

/// JSON without the space between its parts, which may hold line breaks.
fn on_one_line(json: &str) -> String {
    let (mut in_string, mut escaped) = (false, false);
    let kept = json.chars().filter(|character| {
        let is_space = !in_string && matches!(character, ' ' | '\t' | '\r' | '\n');
        if in_string {
            in_string = escaped || *character != '"';
            escaped = !escaped && *character == '\\';
        } else {
            in_string = *character == '"';
        }
        !is_space
    });
    kept.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(content_type: &str, bytes: &[u8]) -> String {
        let payload = Payload { content_type: content_type.to_owned(), bytes: bytes.to_vec() };
        serde_json::to_string(&Body::of(&payload)).unwrap()
    }

    #[test]
    fn a_payload_is_printed_as_what_it_is() {
        for (content_type, bytes, printed) in [
            ("application/json", "{ \"a\" :\n[1, 2] }", r#"{"payload":{"a":[1,2]}}"#),
            ("application/json", r#""a \" \\" "#, r#"{"payload":"a \" \\"}"#),
            (
                "application/json",
                "[123456789012345678901234567890, 1.00, 1e400]",
                r#"{"payload":[123456789012345678901234567890,1.00,1e400]}"#,
            ),
            ("application/json", "{", r#"{"payload":"{"}"#),
            ("text/plain", "1", r#"{"payload":"1"}"#),
            ("image/png", "1", r#"{"payload_base64":"MQ=="}"#),
        ] {
            assert_eq!(shown(content_type, bytes.as_bytes()), printed);
        }
        assert_eq!(shown("application/json", b"\xff"), r#"{"payload_base64":"/w=="}"#);
    }
}
