//! Reading a stream as an application's own types.

use std::borrow::Cow;

use futures_util::{Stream, StreamExt};
use helenus_model::{Failure, Kind};
use serde_json::{Map, Value};

use super::{DecodeError, Decoded, Registry};
use crate::contract::{EventStore, ReadError, ReadEvents};

impl<E> Registry<E> {
    /// The events of a stream, decoded one by one as they are read.
    ///
    /// What cannot be resolved is an item with its name, its stream and its bytes; in a strict
    /// registry it is an error that says the same, and the last item.
    ///
    /// ```
    /// use futures_util::TryStreamExt;
    /// use helenus_model::{Expected, StreamId};
    /// use helenus_store::contract::{Append, EventStore, ReadEvents};
    /// use helenus_store::typed::{Decoded, Registry, TypedEvent, encode};
    ///
    /// #[derive(Debug, PartialEq, serde::Serialize, serde::Deserialize)]
    /// struct Placed { total: u64 }
    /// impl TypedEvent for Placed {
    ///     const TYPE: &'static str = "order.placed";
    /// }
    ///
    /// # #[cfg(not(feature = "sqlite"))]
    /// # fn main() {}
    /// # #[cfg(feature = "sqlite")]
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # let ports = helenus_store::Ports::system();
    /// # let store = helenus_store::sqlite::SqliteStore::open(dir.path().join("shop.db"), ports).await?;
    /// let order = StreamId::new("order-1")?;
    /// let placed = encode(&Placed { total: 12 })?;
    /// store.append(Append::new(order.clone(), Expected::NoStream, vec![placed])).await?;
    ///
    /// let registry = Registry::new().event(|placed: Placed| placed);
    /// let events: Vec<_> = registry.read(&store, ReadEvents::forward(order)).try_collect().await?;
    /// assert!(matches!(&events[0], Decoded::Known { event: Placed { total: 12 }, .. }));
    /// # Ok(())
    /// # }
    /// ```
    pub fn read<S: EventStore>(
        &self,
        store: &S,
        read: ReadEvents,
    ) -> impl Stream<Item = Result<Decoded<E>, TypedReadError>> + Send + use<'_, E, S> {
        store.read(read).map(|event| Ok(self.decode(event?)?))
    }
}

/// Why a read of typed events ended before its stream did.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TypedReadError {
    /// The stream could not be read on.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// An event could not be decoded.
    #[error(transparent)]
    Decode(#[from] DecodeError),
}

impl TypedReadError {
    fn failure(&self) -> &dyn Failure {
        match self {
            TypedReadError::Read(error) => error,
            TypedReadError::Decode(error) => error,
        }
    }
}

impl Failure for TypedReadError {
    fn kind(&self) -> Kind {
        self.failure().kind()
    }

    fn code(&self) -> &'static str {
        self.failure().code()
    }

    fn applied(&self) -> Option<bool> {
        Some(false)
    }

    fn details(&self) -> Map<String, Value> {
        self.failure().details()
    }

    fn remedy(&self) -> Option<Cow<'static, str>> {
        self.failure().remedy()
    }
}
