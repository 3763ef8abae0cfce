//! `helenus inbox`: which messages were processed, and what came of them.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use futures_util::TryStreamExt;
use helenus::store::{Inbox as _, InboxEntry};
use helenus::{Failure, Kind, MessageId, Store};
use serde_json::{Value, json};

use crate::args::{Inbox, InboxCommand};
use crate::config::Config;
use crate::exit::{Failed, Outcome};
use crate::open;
use crate::output::Output;

pub(crate) async fn run(inbox: &Inbox, config: Config, output: &Output) -> Result<Outcome, Failed> {
    let store = open::store(inbox.store.as_ref(), &config).await?;
    let done = Box::pin(command(&store, &inbox.command, output)).await;
    store.close().await;
    done.map(|()| Outcome::Done)
}

async fn command(store: &Store, command: &InboxCommand, output: &Output) -> Result<(), Failed> {
    match command {
        InboxCommand::List { limit } => {
            let mut entries = Box::pin(store.entries());
            let mut left = limit.unwrap_or(usize::MAX);
            while left > 0 && !output.has_ended() {
                let Some(entry) = entries.try_next().await? else { break };
                output.json_line(&shown(&entry));
                left -= 1;
            }
        }
        InboxCommand::Show { message_id } => {
            let entry = store.look(message_id).await?;
            let entry = entry.ok_or_else(|| Unknown { message_id: message_id.clone() })?;
            output.json_line(&shown(&entry));
        }
    }
    Ok(())
}

fn shown(entry: &InboxEntry) -> Value {
    let received = &entry.received;
    let result = entry.result.as_deref();
    let text = result.and_then(|result| std::str::from_utf8(result).ok());
    let mut object = json!({
        "message_id": received.message_id,
        "channel_id": received.channel_id,
        "message_type": received.message_type,
        "correlation_id": received.correlation_id,
        "tenant_id": received.tenant_id,
        "received_at_utc": received.received_at,
        "processed_at_utc": entry.processed_at,
        "state": if entry.processed_at.is_some() { "processed" } else { "started" },
        "epoch": entry.epoch,
        "lease_until_utc": entry.lease_until,
        "result": text,
    });
    if let (None, Some(bytes), Some(object)) = (text, result, object.as_object_mut()) {
        object.remove("result");
        object.insert("result_base64".to_owned(), json!(STANDARD.encode(bytes)));
    }
    object
}

#[derive(Debug, thiserror::Error)]
#[error("the inbox does not know message {message_id}")]
struct Unknown {
    message_id: MessageId,
}

impl Failure for Unknown {
    fn kind(&self) -> Kind {
        Kind::NotFound
    }

    fn code(&self) -> &'static str {
        "not_found"
    }

    fn remedy(&self) -> Option<std::borrow::Cow<'static, str>> {
        Some("named consumers are asked for as CONSUMER/MESSAGE".into())
    }
}
