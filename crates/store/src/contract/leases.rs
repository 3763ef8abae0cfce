//! Ownership of named work, for a while.

use std::future::Future;
use std::time::Duration;

use helenus_model::Timestamp;

use super::Error;

/// Hands out leases with epochs.
///
/// A lease says who *may* work; clocks decide when it passes on, so two holders can believe in it at
/// once. What keeps the older one from harm is the epoch: whatever the lease protects is written on
/// the condition that the epoch is still the holder's.
///
/// ```
/// use std::time::Duration;
/// use helenus_store::contract::{Acquired, Leases};
///
/// # #[cfg(not(feature = "sqlite"))]
/// # fn main() {}
/// # #[cfg(feature = "sqlite")]
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// # let ports = helenus_store::Ports::system();
/// # let store = helenus_store::sqlite::SqliteStore::open(dir.path().join("shop.db"), ports).await?;
/// let ttl = Duration::from_secs(10);
/// let Acquired::Held(lease) = store.acquire("relay/0", "process-1", ttl).await? else {
///     panic!("nobody else wants it");
/// };
/// assert!(matches!(store.acquire("relay/0", "process-2", ttl).await?, Acquired::Taken(_)));
/// store.release(&lease).await?;
/// let Acquired::Held(next) = store.acquire("relay/0", "process-2", ttl).await? else {
///     panic!("it was given back");
/// };
/// assert!(next.epoch > lease.epoch);
/// # Ok(())
/// # }
/// ```
pub trait Leases: Send + Sync {
    /// Takes a lease that is free, has expired or is the owner's own; each taking has a higher epoch.
    ///
    /// `owner` names one running process, never two: a process that starts again takes a new name.
    /// After an unknown outcome the same call may be made again.
    fn acquire(
        &self,
        name: &str,
        owner: &str,
        ttl: Duration,
    ) -> impl Future<Output = Result<Acquired, Error>> + Send;

    /// Holds on to a lease for `ttl` from now; `None` if it has passed on. One that expired and that
    /// nobody took is still the holder's.
    fn renew(
        &self,
        lease: &Lease,
        ttl: Duration,
    ) -> impl Future<Output = Result<Option<Lease>, Error>> + Send;

    /// Gives a lease back; one that has passed on stays where it is.
    fn release(&self, lease: &Lease) -> impl Future<Output = Result<(), Error>> + Send;

    /// The lease as it stands, expired or not; `None` if it is free.
    fn holder(&self, name: &str) -> impl Future<Output = Result<Option<Lease>, Error>> + Send;
}

/// A lease as somebody holds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// What is owned.
    pub name: String,
    /// Who owns it.
    pub owner: String,
    /// The how-manieth taking this is: the fencing token.
    pub epoch: i64,
    /// When others may take it.
    pub expires_at: Timestamp,
}

/// What came of asking for a lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Acquired {
    /// It is the caller's.
    Held(Lease),
    /// It is somebody else's.
    Taken(Lease),
}
