//! A message as it is printed: the seed's column names, and its state.

use helenus::store::StagedMessage;
use helenus::{ChannelId, MessageId, Timestamp};
use serde::Serialize;
use serde_json::value::RawValue;

use crate::commands::body::Body;

#[derive(Serialize)]
pub(super) struct Shown<'a> {
    message_id: &'a MessageId,
    channel_id: Option<&'a ChannelId>,
    message_type: &'a str,
    #[serde(flatten)]
    body: Option<Body<'a>>,
    content_type: Option<&'a str>,
    correlation_id: Option<&'a str>,
    tenant_id: Option<&'a str>,
    occurred_at_utc: Option<Timestamp>,
    created_at_utc: Timestamp,
    dispatched_at_utc: Option<Timestamp>,
    dispatch_attempt_count: u32,
    next_attempt_at_utc: Option<Timestamp>,
    headers: Option<Box<RawValue>>,
    metadata: Option<Box<RawValue>>,
    ordering_key: Option<&'a str>,
    state: &'a str,
    last_error: Option<&'a str>,
}

impl<'a> Shown<'a> {
    pub(super) fn of(message: &'a StagedMessage) -> Self {
        let raw = |text: &str| RawValue::from_string(text.to_owned()).ok();
        Shown {
            message_id: &message.message_id,
            channel_id: message.channel_id.as_ref(),
            message_type: &message.message_type,
            body: message.payload.as_ref().map(Body::of),
            content_type: message.payload.as_ref().map(|payload| payload.content_type.as_str()),
            correlation_id: message.correlation_id.as_deref(),
            tenant_id: message.tenant_id.as_deref(),
            occurred_at_utc: message.occurred_at,
            created_at_utc: message.created_at,
            dispatched_at_utc: message.dispatched_at,
            dispatch_attempt_count: message.attempt_count,
            next_attempt_at_utc: message.next_attempt_at,
            headers: raw(&message.headers_json),
            metadata: raw(&message.metadata_json),
            ordering_key: message.ordering_key.as_deref(),
            state: &message.state,
            last_error: message.last_error.as_deref(),
        }
    }
}
