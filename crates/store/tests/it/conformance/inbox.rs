//! Promises of the consumer's memory.

use helenus_model::{ChannelId, MessageId};
use helenus_store::contract::{Inbox, Receipt, Received};

use super::{Fixture, START};

fn received(id: &str) -> Received {
    Received {
        message_id: MessageId::new(id).unwrap(),
        channel_id: ChannelId::new("orders").unwrap(),
        message_type: "order.placed".to_owned(),
        correlation_id: Some("request-1".to_owned()),
        tenant_id: None,
        received_at: START,
    }
}

pub(super) async fn a_message_is_marked_once<S: Inbox>(fixture: &Fixture<S>) {
    assert_eq!(fixture.store.mark_processed(received("a")).await.unwrap(), Receipt::First);
    assert_eq!(fixture.store.mark_processed(received("a")).await.unwrap(), Receipt::Repeated);
    assert_eq!(fixture.store.mark_processed(received("b")).await.unwrap(), Receipt::First);
}

pub(super) async fn a_receipt_has_all_its_fields<S: Inbox>(fixture: &Fixture<S>) {
    let id = MessageId::new("a").unwrap();
    assert_eq!(fixture.store.receipt(&id).await.unwrap(), None);
    fixture.store.mark_processed(received("a")).await.unwrap();
    assert_eq!(fixture.store.receipt(&id).await.unwrap(), Some(received("a")));
}
