//! The store's contracts, each kept by whichever backend the URL named.

mod subscriptions;

use std::time::Duration;

use futures_util::Stream;
#[cfg(feature = "cassandra")]
use futures_util::StreamExt;
use helenus_model::{
    ContentHash, Message, MessageId, OperationId, RecordedEvent, StreamId, Timestamp, Version,
};
use helenus_store::contract::{
    Acquired, Append, AppendError, Appended, Backlog, Begun, Dispatch, EnqueueError, Enqueued,
    Error, EventStore, Feed, FeedItem, Identity, Inbox, InboxEntry, Lease, Leases, Outbox, Pending,
    ReadError, ReadEvents, ReadFeed, Receipt, Received, Report, Resolved, Settled, StreamHead,
    Work,
};
use tokio::sync::watch;

use crate::Store;
use crate::open::Backend;
#[cfg(feature = "cassandra")]
use crate::open::NotYet;

#[cfg(feature = "cassandra")]
fn not_yet(what: &'static str) -> Error {
    Error::new(NotYet { what })
}

impl Outbox for Store {
    async fn enqueue(&self, message: Message) -> Result<Enqueued, EnqueueError> {
        match &self.backend {
            Backend::Sqlite(store) => store.enqueue(message).await,
            #[cfg(feature = "cassandra")]
            Backend::Cassandra(store) => store.enqueue(message).await,
        }
    }

    async fn enqueue_all(&self, messages: Vec<Message>) -> Vec<Result<Enqueued, EnqueueError>> {
        match &self.backend {
            Backend::Sqlite(store) => store.enqueue_all(messages).await,
            #[cfg(feature = "cassandra")]
            Backend::Cassandra(store) => store.enqueue_all(messages).await,
        }
    }
}

impl Dispatch for Store {
    async fn identity(&self) -> Result<Identity, Error> {
        match &self.backend {
            Backend::Sqlite(store) => store.identity().await,
            #[cfg(feature = "cassandra")]
            Backend::Cassandra(store) => store.identity().await,
        }
    }

    async fn read_pending(&self, now: Timestamp, limit: usize) -> Result<Vec<Pending>, Error> {
        match &self.backend {
            Backend::Sqlite(store) => store.read_pending(now, limit).await,
            #[cfg(feature = "cassandra")]
            Backend::Cassandra(store) => store.read_pending(now, limit).await,
        }
    }

    async fn read_shards(
        &self,
        shards: Vec<u16>,
        now: Timestamp,
        limit: usize,
    ) -> Result<Vec<Pending>, Error> {
        match &self.backend {
            Backend::Sqlite(store) => store.read_shards(shards, now, limit).await,
            #[cfg(feature = "cassandra")]
            Backend::Cassandra(store) => store.read_shards(shards, now, limit).await,
        }
    }

    async fn apply_reports(&self, reports: Vec<Report>) -> Result<Vec<Settled>, Error> {
        match &self.backend {
            Backend::Sqlite(store) => store.apply_reports(reports).await,
            #[cfg(feature = "cassandra")]
            Backend::Cassandra(store) => store.apply_reports(reports).await,
        }
    }

    async fn backlog(&self, now: Timestamp) -> Result<Backlog, Error> {
        match &self.backend {
            Backend::Sqlite(store) => store.backlog(now).await,
            #[cfg(feature = "cassandra")]
            Backend::Cassandra(store) => store.backlog(now).await,
        }
    }

    async fn watermark(&self, shard: u16, now: Timestamp) -> Result<Timestamp, Error> {
        match &self.backend {
            Backend::Sqlite(store) => store.watermark(shard, now).await,
            #[cfg(feature = "cassandra")]
            Backend::Cassandra(store) => store.watermark(shard, now).await,
        }
    }

    fn wakeups(&self) -> watch::Receiver<u64> {
        match &self.backend {
            Backend::Sqlite(store) => store.wakeups(),
            #[cfg(feature = "cassandra")]
            Backend::Cassandra(store) => store.wakeups(),
        }
    }
}

impl Inbox for Store {
    async fn mark_processed(&self, received: Received) -> Result<Receipt, Error> {
        match &self.backend {
            Backend::Sqlite(store) => store.mark_processed(received).await,
            #[cfg(feature = "cassandra")]
            Backend::Cassandra(store) => store.mark_processed(received).await,
        }
    }

    async fn receipt(&self, message_id: &MessageId) -> Result<Option<Received>, Error> {
        match &self.backend {
            Backend::Sqlite(store) => store.receipt(message_id).await,
            #[cfg(feature = "cassandra")]
            Backend::Cassandra(store) => store.receipt(message_id).await,
        }
    }

    async fn begin(
        &self,
        received: Received,
        content_hash: Option<ContentHash>,
        owner: &str,
        lease: Duration,
    ) -> Result<Begun, Error> {
        match &self.backend {
            Backend::Sqlite(store) => store.begin(received, content_hash, owner, lease).await,
            #[cfg(feature = "cassandra")]
            Backend::Cassandra(store) => store.begin(received, content_hash, owner, lease).await,
        }
    }

    async fn keep(&self, work: &Work, lease: Duration) -> Result<bool, Error> {
        match &self.backend {
            Backend::Sqlite(store) => store.keep(work, lease).await,
            #[cfg(feature = "cassandra")]
            Backend::Cassandra(store) => store.keep(work, lease).await,
        }
    }

    async fn finish(&self, work: &Work, result: Vec<u8>) -> Result<bool, Error> {
        match &self.backend {
            Backend::Sqlite(store) => store.finish(work, result).await,
            #[cfg(feature = "cassandra")]
            Backend::Cassandra(store) => store.finish(work, result).await,
        }
    }

    async fn give_up(&self, work: &Work) -> Result<(), Error> {
        match &self.backend {
            Backend::Sqlite(store) => store.give_up(work).await,
            #[cfg(feature = "cassandra")]
            Backend::Cassandra(store) => store.give_up(work).await,
        }
    }

    async fn look(&self, message_id: &MessageId) -> Result<Option<InboxEntry>, Error> {
        match &self.backend {
            Backend::Sqlite(store) => store.look(message_id).await,
            #[cfg(feature = "cassandra")]
            Backend::Cassandra(store) => store.look(message_id).await,
        }
    }

    fn entries(&self) -> impl Stream<Item = Result<InboxEntry, Error>> + Send + use<> {
        match &self.backend {
            #[cfg(not(feature = "cassandra"))]
            Backend::Sqlite(store) => store.entries(),
            #[cfg(feature = "cassandra")]
            Backend::Sqlite(store) => store.entries().left_stream(),
            #[cfg(feature = "cassandra")]
            Backend::Cassandra(store) => store.entries().right_stream(),
        }
    }
}

impl Leases for Store {
    async fn acquire(&self, name: &str, owner: &str, ttl: Duration) -> Result<Acquired, Error> {
        match &self.backend {
            Backend::Sqlite(store) => store.acquire(name, owner, ttl).await,
            #[cfg(feature = "cassandra")]
            Backend::Cassandra(store) => store.acquire(name, owner, ttl).await,
        }
    }

    async fn renew(&self, lease: &Lease, ttl: Duration) -> Result<Option<Lease>, Error> {
        match &self.backend {
            Backend::Sqlite(store) => store.renew(lease, ttl).await,
            #[cfg(feature = "cassandra")]
            Backend::Cassandra(store) => store.renew(lease, ttl).await,
        }
    }

    async fn release(&self, lease: &Lease) -> Result<(), Error> {
        match &self.backend {
            Backend::Sqlite(store) => store.release(lease).await,
            #[cfg(feature = "cassandra")]
            Backend::Cassandra(store) => store.release(lease).await,
        }
    }

    async fn holder(&self, name: &str) -> Result<Option<Lease>, Error> {
        match &self.backend {
            Backend::Sqlite(store) => store.holder(name).await,
            #[cfg(feature = "cassandra")]
            Backend::Cassandra(store) => store.holder(name).await,
        }
    }
}

impl EventStore for Store {
    async fn append(&self, append: Append) -> Result<Appended, AppendError> {
        match &self.backend {
            Backend::Sqlite(store) => store.append(append).await,
            #[cfg(feature = "cassandra")]
            Backend::Cassandra(store) => store.append(append).await,
        }
    }

    fn read(
        &self,
        read: ReadEvents,
    ) -> impl Stream<Item = Result<RecordedEvent, ReadError>> + Send + use<> {
        match &self.backend {
            #[cfg(not(feature = "cassandra"))]
            Backend::Sqlite(store) => store.read(read),
            #[cfg(feature = "cassandra")]
            Backend::Sqlite(store) => store.read(read).left_stream(),
            #[cfg(feature = "cassandra")]
            Backend::Cassandra(store) => store.read(read).right_stream(),
        }
    }

    async fn version(&self, stream_id: &StreamId) -> Result<Option<Version>, Error> {
        match &self.backend {
            Backend::Sqlite(store) => store.version(stream_id).await,
            #[cfg(feature = "cassandra")]
            Backend::Cassandra(store) => store.version(stream_id).await,
        }
    }

    async fn resolve(
        &self,
        stream_id: &StreamId,
        operation_id: OperationId,
    ) -> Result<Resolved, AppendError> {
        match &self.backend {
            Backend::Sqlite(store) => store.resolve(stream_id, operation_id).await,
            #[cfg(feature = "cassandra")]
            Backend::Cassandra(store) => store.resolve(stream_id, operation_id).await,
        }
    }

    fn streams(&self) -> impl Stream<Item = Result<StreamHead, Error>> + Send + use<> {
        match &self.backend {
            #[cfg(not(feature = "cassandra"))]
            Backend::Sqlite(store) => store.streams(),
            #[cfg(feature = "cassandra")]
            Backend::Sqlite(store) => store.streams().left_stream(),
            #[cfg(feature = "cassandra")]
            Backend::Cassandra(store) => store.streams().right_stream(),
        }
    }
}

impl Feed for Store {
    fn feed(
        &self,
        read: ReadFeed,
    ) -> impl Stream<Item = Result<FeedItem, ReadError>> + Send + use<> {
        match &self.backend {
            #[cfg(not(feature = "cassandra"))]
            Backend::Sqlite(store) => store.feed(read),
            #[cfg(feature = "cassandra")]
            Backend::Sqlite(store) => store.feed(read).left_stream(),
            #[cfg(feature = "cassandra")]
            Backend::Cassandra(_) => {
                let refused = Err(ReadError::Backend(not_yet("feed of all events")));
                futures_util::stream::once(std::future::ready(refused)).right_stream()
            }
        }
    }
}
