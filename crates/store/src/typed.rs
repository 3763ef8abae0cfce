//! Events as an application's own types: explicit names, a version for each shape, and a way up
//! from every older one.
//!
//! The name of an event is what its type says, never what the compiler calls it: a type that moves
//! or is renamed keeps reading what was stored. What cannot be resolved is not dropped: the reader
//! gets it with its name, its stream and its bytes, or, in a strict registry, an error that says
//! the same.

mod read;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use helenus_model::{Failure, Kind, NewEvent, Payload, RecordedEvent};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

pub use read::TypedReadError;

/// A type whose values are stored as events, in JSON.
pub trait TypedEvent: Serialize + DeserializeOwned {
    /// The event's name in the store. It outlives the type's own name.
    const TYPE: &'static str;
    /// Version of the type's shape, counted up when it changes.
    const SCHEMA_VERSION: i32 = 1;
}

/// An event to append, from a typed one.
pub fn encode<T: TypedEvent>(event: &T) -> Result<NewEvent, EncodeError> {
    let value = serde_json::to_value(event)
        .map_err(|source| EncodeError { event_type: T::TYPE, source: Arc::new(source) })?;
    let new = NewEvent::new(T::TYPE, Payload::json(&value));
    Ok(NewEvent { schema_version: T::SCHEMA_VERSION, ..new })
}

type Decoder<E> = Box<dyn Fn(Value) -> Result<E, serde_json::Error> + Send + Sync>;
type Upcaster = Box<dyn Fn(Value) -> Result<Value, String> + Send + Sync>;

/// Which events an application knows, and how each becomes an `E`.
///
/// ```
/// use helenus_store::typed::{Decoded, Registry, TypedEvent, encode};
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Debug, PartialEq, Serialize, Deserialize)]
/// struct Placed { total_cents: u64 }
/// impl TypedEvent for Placed {
///     const TYPE: &'static str = "order.placed";
///     const SCHEMA_VERSION: i32 = 2;
/// }
///
/// let registry = Registry::new()
///     .event(|placed: Placed| placed)
///     // Version 1 had whole units.
///     .upcast("order.placed", 1, |old| {
///         let total = old["total"].as_u64().ok_or("no total")?;
///         Ok(serde_json::json!({ "total_cents": total * 100 }))
///     });
/// assert_eq!(encode(&Placed { total_cents: 5 })?.schema_version, 2);
/// # drop(registry);
/// # Ok::<(), helenus_store::typed::EncodeError>(())
/// ```
pub struct Registry<E> {
    known: BTreeMap<&'static str, Known<E>>,
    upcasters: BTreeMap<(&'static str, i32), Upcaster>,
    strict: bool,
}

struct Known<E> {
    schema_version: i32,
    decode: Decoder<E>,
}

/// An event that was read.
#[derive(Clone, Debug, PartialEq)]
pub enum Decoded<E> {
    /// One the registry knows.
    Known {
        /// As the application's type.
        event: E,
        /// As it is stored.
        recorded: RecordedEvent,
    },
    /// One it cannot resolve, as it is stored, and why.
    Unresolved {
        /// With its name, its stream and its bytes.
        recorded: RecordedEvent,
        /// What is missing.
        reason: Unresolvable,
    },
}

/// Why an event could not be resolved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unresolvable {
    /// No type has this name.
    UnknownType,
    /// The shape is newer than the type here.
    Newer {
        /// The newest shape known.
        known: i32,
    },
    /// There is no way up from this shape.
    NoUpcaster {
        /// The shape.
        from: i32,
    },
    /// The payload is not JSON by its content type.
    NotJson,
}

impl<E> Default for Registry<E> {
    fn default() -> Self {
        Registry { known: BTreeMap::new(), upcasters: BTreeMap::new(), strict: false }
    }
}

impl<E> fmt::Debug for Registry<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known: Vec<_> =
            self.known.iter().map(|(name, known)| (name, known.schema_version)).collect();
        f.debug_struct("Registry").field("known", &known).field("strict", &self.strict).finish()
    }
}

impl<E> Registry<E> {
    /// A registry that knows nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Knows the events of type `T`; `into` makes them the application's.
    #[must_use]
    pub fn event<T: TypedEvent + 'static>(
        mut self,
        into: impl Fn(T) -> E + Send + Sync + 'static,
    ) -> Self {
        let decode = Box::new(move |value| serde_json::from_value(value).map(&into));
        self.known.insert(T::TYPE, Known { schema_version: T::SCHEMA_VERSION, decode });
        self
    }

    /// Brings payloads of `event_type` from shape `from` to the next.
    #[must_use]
    pub fn upcast(
        mut self,
        event_type: &'static str,
        from: i32,
        up: impl Fn(Value) -> Result<Value, String> + Send + Sync + 'static,
    ) -> Self {
        self.upcasters.insert((event_type, from), Box::new(up));
        self
    }

    /// Makes an event that cannot be resolved an error.
    #[must_use]
    pub fn strict(self) -> Self {
        Registry { strict: true, ..self }
    }

    /// The event as the application's type, whether the registry is strict or not.
    pub(crate) fn decode_strictly(&self, recorded: RecordedEvent) -> Result<E, DecodeError> {
        self.resolve(&recorded)
            .map_err(|problem| DecodeError(Box::new(Failed { recorded, problem })))
    }

    /// The event as the application's type.
    pub fn decode(&self, recorded: RecordedEvent) -> Result<Decoded<E>, DecodeError> {
        match self.resolve(&recorded) {
            Ok(event) => Ok(Decoded::Known { event, recorded }),
            Err(Problem::Unresolvable(reason)) if !self.strict => {
                Ok(Decoded::Unresolved { recorded, reason })
            }
            Err(problem) => Err(DecodeError(Box::new(Failed { recorded, problem }))),
        }
    }

    fn resolve(&self, recorded: &RecordedEvent) -> Result<E, Problem> {
        let name = recorded.event_type.as_str();
        let Some((name, known)) = self.known.get_key_value(name) else {
            return Err(Problem::Unresolvable(Unresolvable::UnknownType));
        };
        if recorded.schema_version > known.schema_version {
            let known = known.schema_version;
            return Err(Problem::Unresolvable(Unresolvable::Newer { known }));
        }
        if !recorded.payload.is_json() {
            return Err(Problem::Unresolvable(Unresolvable::NotJson));
        }
        let mut value: Value = serde_json::from_slice(&recorded.payload.bytes)
            .map_err(|error| Problem::Damaged(error.to_string()))?;
        for from in recorded.schema_version..known.schema_version {
            let Some(up) = self.upcasters.get(&(*name, from)) else {
                return Err(Problem::Unresolvable(Unresolvable::NoUpcaster { from }));
            };
            value = up(value).map_err(Problem::Damaged)?;
        }
        (known.decode)(value).map_err(|error| Problem::Damaged(error.to_string()))
    }
}

#[derive(Debug)]
enum Problem {
    Unresolvable(Unresolvable),
    Damaged(String),
}

impl fmt::Display for Unresolvable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unresolvable::UnknownType => f.write_str("no type has this name"),
            Unresolvable::Newer { known } => write!(f, "its shape is newer than {known}"),
            Unresolvable::NoUpcaster { from } => write!(f, "there is no way up from shape {from}"),
            Unresolvable::NotJson => f.write_str("its payload is not JSON"),
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Problem::Unresolvable(reason) => reason.fmt(f),
            Problem::Damaged(reason) => write!(f, "its payload does not fit: {reason}"),
        }
    }
}

/// An event that could not be decoded.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct DecodeError(Box<Failed>);

#[derive(Debug)]
struct Failed {
    recorded: RecordedEvent,
    problem: Problem,
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let RecordedEvent { stream_id, version, event_type, schema_version, .. } = &self.recorded;
        let problem = &self.problem;
        write!(
            f,
            "event '{event_type}' of shape {schema_version} at version {version} of stream \
             '{stream_id}' cannot be resolved: {problem}"
        )
    }
}

impl DecodeError {
    /// The event as it is stored.
    pub fn recorded(&self) -> &RecordedEvent {
        &self.0.recorded
    }
}

impl Failure for DecodeError {
    fn kind(&self) -> Kind {
        match self.0.problem {
            Problem::Unresolvable(_) => Kind::Invalid,
            Problem::Damaged(_) => Kind::Corrupt,
        }
    }

    fn code(&self) -> &'static str {
        match self.0.problem {
            Problem::Unresolvable(_) => "unresolvable",
            Problem::Damaged(_) => "corrupt",
        }
    }
}

/// An event that could not be written as JSON.
#[derive(Clone, Debug, thiserror::Error)]
#[error("event '{event_type}' cannot be written as JSON")]
pub struct EncodeError {
    event_type: &'static str,
    #[source]
    source: Arc<serde_json::Error>,
}

impl Failure for EncodeError {
    fn kind(&self) -> Kind {
        Kind::Invalid
    }

    fn code(&self) -> &'static str {
        "invalid"
    }
}

#[cfg(test)]
mod tests;
