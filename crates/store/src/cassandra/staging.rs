//! Staging a message together with the application's own statements.
//!
//! What each way guarantees is what it returns:
//!
//! | way | returns | guarantee |
//! |---|---|---|
//! | [`stage_beside`](super::CassandraStore::stage_beside) | [`Atomic`] | message and entity are one mutation: both or neither |
//! | [`stage_conditional`](super::CassandraStore::stage_conditional) | [`AfterReconciliation`] | both or neither once reconciled, whatever the partitions |
//! | [`stage_in_bucket`](super::CassandraStore::stage_in_bucket) | [`Durable`] | the message is durable; it is **not** atomic with any other write |
//! | [`crate::contract::Outbox::enqueue`] | [`crate::contract::Enqueued`] | durable and idempotent by message id |
//!
//! The first three leave a trace in the pending index or in their bucket before anything else, and
//! `reconcile` turns what was begun into messages or drops it.

mod beside;
mod bucket;
mod conditional;
mod envelope;

pub(super) use beside::may_come;
pub use beside::{Atomic, Bound, EntityOutbox};
pub use bucket::{Aggregate, Durable};
pub(super) use conditional::is_over;
pub use conditional::{AfterReconciliation, Entity, Mark};
pub(super) use envelope::{Begun, Envelope, Key};

use super::Error;

/// A name as statements have it: `table` or `keyspace.table`.
fn quoted(name: &str) -> Result<String, Error> {
    let word = |part: &str| {
        let taken = part.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        !part.is_empty() && part.len() <= 48 && taken
    };
    let parts: Vec<&str> = name.split('.').collect();
    if parts.len() > 2 || !parts.iter().all(|part| word(part)) {
        return Err(Error::Name { what: "table or column", name: name.to_owned() });
    }
    Ok(parts.iter().map(|part| format!("\"{part}\"")).collect::<Vec<_>>().join("."))
}

/// `"a" = fromJson(?) AND "b" = fromJson(?)`: keys are kept as JSON, whatever their types.
fn key_condition(key: &Key) -> Result<String, Error> {
    let parts: Result<Vec<String>, Error> =
        key.iter().map(|(name, _)| Ok(format!("{} = fromJson(?)", quoted(name)?))).collect();
    Ok(parts?.join(" AND "))
}

fn key_values(key: &Key) -> Vec<String> {
    key.iter().map(|(_, value)| value.to_string()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_quoted_or_refused() {
        assert_eq!(quoted("shop.orders").unwrap(), "\"shop\".\"orders\"");
        for name in ["", "a b", "a\"b", "a.b.c", "a."] {
            quoted(name).unwrap_err();
        }
    }
}
