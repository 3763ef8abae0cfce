//! Working on a message once, however often it arrives.
//!
//! [`once`] takes a message up under a lease, renews it while the handler runs, and keeps what the
//! handler gave; a later arrival gets that. Its guarantee is in its type: [`AtLeastOnce`], because
//! a process that dies between the handler's effect and the receipt leaves both to the next one.
//! Where effect and receipt are one write, as in `sqlite::once`, the type says [`ExactlyOnce`].

use std::borrow::Cow;
use std::future::Future;
use std::time::Duration;

use helenus_model::{ContentHash, Failure, Kind, MessageId, Timestamp};

use crate::Ports;
use crate::contract::{Begun, Error, Inbox, Received, Work};

/// What came of a message; its effect may have happened more than once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AtLeastOnce {
    /// What the handler gave.
    pub result: Vec<u8>,
    /// Whether an earlier arrival had been processed already.
    pub repeated: bool,
}

/// What came of a message; its effect has happened exactly once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExactlyOnce {
    /// What the handler gave.
    pub result: Vec<u8>,
    /// Whether an earlier arrival had been processed already.
    pub repeated: bool,
}

/// Why a message was not processed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OnceError<E: std::error::Error + 'static> {
    /// Somebody else works on it.
    #[error("message {message_id} is being processed, until {until} unless renewed")]
    Busy {
        /// The message.
        message_id: MessageId,
        /// When it may be taken from them.
        until: Timestamp,
    },
    /// The id was seen before with other content.
    #[error("message {message_id} was received before with other content")]
    ContentMismatch {
        /// The message.
        message_id: MessageId,
    },
    /// The lease could not be renewed in time, and the handler was stopped.
    #[error("message {message_id} has passed on to another process")]
    PassedOn {
        /// The message.
        message_id: MessageId,
    },
    /// The handler failed; the message is left to whoever comes next.
    #[error("the handler failed")]
    Handler(#[source] E),
    /// The inbox failed.
    #[error("the inbox failed")]
    Backend(#[from] Error),
}

impl<E: std::error::Error + 'static> Failure for OnceError<E> {
    fn kind(&self) -> Kind {
        match self {
            OnceError::Busy { .. } => Kind::Unavailable,
            OnceError::ContentMismatch { .. } => Kind::Conflict,
            // What the handler had done by then is done.
            OnceError::PassedOn { .. } | OnceError::Handler(_) => Kind::OutcomeUnknown,
            OnceError::Backend(error) => error.kind(),
        }
    }

    fn code(&self) -> &'static str {
        match self {
            OnceError::Busy { .. } => "busy",
            OnceError::ContentMismatch { .. } => "content_mismatch",
            OnceError::PassedOn { .. } => "passed_on",
            OnceError::Handler(_) => "handler_failed",
            OnceError::Backend(error) => error.code(),
        }
    }

    fn remedy(&self) -> Option<Cow<'static, str>> {
        let text = match self {
            OnceError::Busy { .. } => "receive it again later",
            OnceError::ContentMismatch { .. } => {
                "give each message an id of its own; the first one stands"
            }
            OnceError::PassedOn { .. } => "leave it to the process that has it now",
            OnceError::Handler(_) => "mend the cause, then receive it again",
            OnceError::Backend(error) => return error.remedy(),
        };
        Some(text.into())
    }
}

/// Runs `handler` on a message that nobody has processed and nobody works on.
///
/// The handler gets the attempt with its epoch: a fencing token for whatever it writes. While it runs
/// the lease is renewed; when that fails until the lease is over, the handler's future is dropped. The
/// content hash, where given, tells another message under the same id.
///
/// ```
/// use std::time::Duration;
/// use helenus_model::{ChannelId, MessageId, Timestamp};
/// use helenus_store::contract::Received;
/// use helenus_store::once::once;
///
/// # #[cfg(not(feature = "sqlite"))]
/// # fn main() {}
/// # #[cfg(feature = "sqlite")]
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// # let ports = helenus_store::Ports::system();
/// # let store =
/// #     helenus_store::sqlite::SqliteStore::open(dir.path().join("shop.db"), ports.clone()).await?;
/// let received = Received {
///     message_id: MessageId::new("billing/order-1/placed")?,
///     channel_id: ChannelId::new("orders")?,
///     message_type: "order.placed".to_owned(),
///     correlation_id: None,
///     tenant_id: None,
///     received_at: Timestamp::EPOCH,
/// };
/// let lease = Duration::from_secs(30);
/// for repeated in [false, true] {
///     let work = |_| async { Ok::<_, std::io::Error>(b"invoice-1".to_vec()) };
///     let done = once(&store, &ports, received.clone(), None, lease, work).await?;
///     assert_eq!((done.result.as_slice(), done.repeated), (&b"invoice-1"[..], repeated));
/// }
/// # Ok(())
/// # }
/// ```
pub async fn once<I, H, F, E>(
    inbox: &I,
    ports: &Ports,
    received: Received,
    content_hash: Option<ContentHash>,
    lease: Duration,
    handler: H,
) -> Result<AtLeastOnce, OnceError<E>>
where
    I: Inbox,
    H: FnOnce(Work) -> F,
    F: Future<Output = Result<Vec<u8>, E>>,
    E: std::error::Error + 'static,
{
    let message_id = received.message_id.clone();
    let owner = ports.random.uuid().to_string();
    let begun = inbox.begin(received, content_hash, &owner, lease).await?;
    let work = match begun_or_else(begun, message_id)? {
        Ok(work) => work,
        Err(result) => return Ok(AtLeastOnce { result, repeated: true }),
    };
    let passed_on = || OnceError::PassedOn { message_id: work.message_id.clone() };
    let result = tokio::select! {
        result = handler(work.clone()) => result,
        () = renewals(inbox, ports, &work, lease) => return Err(passed_on()),
    };
    match result {
        Ok(result) if inbox.finish(&work, result.clone()).await? => {
            Ok(AtLeastOnce { result, repeated: false })
        }
        Ok(_) => Err(passed_on()),
        Err(error) => {
            // Should this fail, the lease ends by itself.
            drop(inbox.give_up(&work).await);
            Err(OnceError::Handler(error))
        }
    }
}

/// The attempt, or the result of an earlier one.
pub(crate) fn begun_or_else<E: std::error::Error + 'static>(
    begun: Begun,
    message_id: MessageId,
) -> Result<Result<Work, Vec<u8>>, OnceError<E>> {
    match begun {
        Begun::Yours(work) => Ok(Ok(work)),
        Begun::Processed { result } => Ok(Err(result)),
        Begun::Busy { until } => Err(OnceError::Busy { message_id, until }),
        Begun::Mismatch => Err(OnceError::ContentMismatch { message_id }),
    }
}

/// Renews the lease for as long as that works; ends when it has passed on, or could not be renewed
/// until it was over.
async fn renewals<I: Inbox>(inbox: &I, ports: &Ports, work: &Work, lease: Duration) {
    let mut renewed = ports.clock.elapsed();
    loop {
        tokio::time::sleep(lease / 3).await;
        let asked = ports.clock.elapsed();
        match inbox.keep(work, lease).await {
            Ok(true) => renewed = asked,
            Ok(false) => return,
            Err(_) if asked.saturating_sub(renewed) >= lease => return,
            Err(_) => {}
        }
    }
}
