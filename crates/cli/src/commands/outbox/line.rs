//! A line of input to a message.

use std::borrow::Cow;
use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use helenus::store::EnqueueError;
use helenus::{ChannelId, Failure, Kind, Message, MessageId, Payload, Ports, Timestamp};
use serde::Deserialize;
use serde_json::value::RawValue;

/// A line that is not a message.
#[derive(Debug, thiserror::Error)]
#[error("line {line} of the input {problem}{}", before(*staged))]
pub(crate) struct InvalidLine {
    line: u64,
    problem: String,
    /// Messages of earlier lines.
    staged: u64,
}

fn before(staged: u64) -> String {
    match staged {
        0 => String::new(),
        1 => "; the message before it is staged".to_owned(),
        more => format!("; the {more} messages before it are staged"),
    }
}

impl InvalidLine {
    pub(super) fn too_long(line: u64, limit: u64) -> Self {
        InvalidLine { line, problem: format!("has more than {limit} bytes"), staged: 0 }
    }

    pub(super) fn not_text(line: u64) -> Self {
        InvalidLine { line, problem: "is not UTF-8".to_owned(), staged: 0 }
    }

    /// The same after so many messages that were staged.
    pub(super) fn after(self, staged: u64) -> Self {
        InvalidLine { staged, ..self }
    }
}

impl Failure for InvalidLine {
    fn kind(&self) -> Kind {
        Kind::Invalid
    }

    fn code(&self) -> &'static str {
        "invalid"
    }

    /// Of this line and those behind it; the message says how many before it are staged.
    fn applied(&self) -> Option<bool> {
        Some(self.staged > 0)
    }

    fn details(&self) -> serde_json::Map<String, serde_json::Value> {
        [("line".to_owned(), self.line.into()), ("staged".to_owned(), self.staged.into())]
            .into_iter()
            .collect()
    }

    fn remedy(&self) -> Option<Cow<'static, str>> {
        let shape = "write each message as {\"channel_id\": \"orders\", \"message_type\": \
                     \"order.placed\", \"payload\": {…}} on a line";
        Some(shape.into())
    }
}

/// Messages that the store did not take.
#[derive(Debug, thiserror::Error)]
#[error("line {line} of the input is not staged{}{}", further(others), elsewhere(*staged, *read))]
pub(crate) struct NotStaged {
    line: u64,
    /// Further lines that were refused.
    others: Vec<u64>,
    /// Messages of the other lines that are staged.
    staged: u64,
    /// The last line that was read.
    read: u64,
    source: EnqueueError,
}

fn further(lines: &[u64]) -> String {
    let lines: Vec<String> = lines.iter().map(u64::to_string).collect();
    if lines.is_empty() { String::new() } else { format!(", nor is line {}", lines.join(", ")) }
}

fn elsewhere(staged: u64, read: u64) -> String {
    format!("; of the lines up to {read}, {staged} are staged, those behind were not read")
}

impl NotStaged {
    /// What is told if there are refusals.
    pub(super) fn of(refused: Vec<(u64, EnqueueError)>, staged: u64, read: u64) -> Option<Self> {
        let mut refused = refused.into_iter();
        let (line, source) = refused.next()?;
        let others = refused.map(|(line, _)| line).collect();
        Some(NotStaged { line, others, staged, read, source })
    }
}

impl Failure for NotStaged {
    fn kind(&self) -> Kind {
        self.source.kind()
    }

    fn code(&self) -> &'static str {
        self.source.code()
    }

    fn applied(&self) -> Option<bool> {
        if self.staged > 0 { Some(true) } else { self.source.applied() }
    }

    fn details(&self) -> serde_json::Map<String, serde_json::Value> {
        let mut details = self.source.details();
        details.insert("line".to_owned(), self.line.into());
        details.insert("other_lines".to_owned(), self.others.clone().into());
        details.insert("staged".to_owned(), self.staged.into());
        details
    }

    fn remedy(&self) -> Option<Cow<'static, str>> {
        self.source.remedy()
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    message_id: Option<MessageId>,
    channel_id: ChannelId,
    message_type: String,
    payload: Option<Box<RawValue>>,
    payload_base64: Option<String>,
    content_type: Option<String>,
    ordering_key: Option<String>,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    #[serde(default)]
    metadata: BTreeMap<String, String>,
    correlation_id: Option<String>,
    tenant_id: Option<String>,
    occurred_at: Option<Timestamp>,
    deliver_at: Option<Timestamp>,
}

/// The message on line number `line`.
pub(super) fn message(text: &str, line: u64, ports: &Ports) -> Result<Message, InvalidLine> {
    let wrong = |problem: String| InvalidLine { line, problem, staged: 0 };
    let read: Line =
        serde_json::from_str(text).map_err(|error| wrong(format!("is not a message: {error}")))?;
    let (usual, bytes) = match (read.payload, read.payload_base64) {
        (Some(json), None) => (Payload::JSON, json.get().as_bytes().to_vec()),
        (None, Some(coded)) => {
            let bytes = STANDARD.decode(coded);
            let bytes = bytes.map_err(|error| wrong(format!("has wrong base64: {error}")))?;
            ("application/octet-stream", bytes)
        }
        _ => return Err(wrong("needs one of payload and payload_base64".to_owned())),
    };
    let content_type = read.content_type.unwrap_or_else(|| usual.to_owned());
    let generate = || MessageId::generate(&*ports.clock, &*ports.random);
    Ok(Message {
        ordering_key: read.ordering_key,
        correlation_id: read.correlation_id,
        tenant_id: read.tenant_id,
        deliver_at: read.deliver_at,
        headers: read.headers,
        metadata: read.metadata,
        ..Message::new(
            read.message_id.unwrap_or_else(generate),
            read.channel_id,
            read.message_type,
            Payload { content_type, bytes },
            read.occurred_at.unwrap_or_else(|| ports.clock.now()),
        )
    })
}
