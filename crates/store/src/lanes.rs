//! The leases of all lanes at once: while somebody has them, no relay publishes.

use std::time::Duration;

use helenus_model::Random;

use crate::contract::{Acquired, Error, Lease, Leases, RelaysRun};

/// How long relays wait for whoever died with the lanes in hand.
const TTL: Duration = Duration::from_secs(60);

/// The lease of a lane: whoever holds it publishes the lane's shards.
pub fn lease_name(lane: u16) -> String {
    format!("relay/{lane}")
}

/// Every lane that there can be, held.
#[derive(Debug)]
pub(crate) struct Lanes(Vec<Lease>);

impl Lanes {
    /// Takes the lanes of a store with so many shards, or none of them.
    pub(crate) async fn take(
        store: &impl Leases,
        shards: u16,
        random: &dyn Random,
    ) -> Result<Lanes, Error> {
        let owner = format!("reshard-{}", random.uuid().simple());
        let mut lanes = Lanes(Vec::new());
        for lane in 0..shards {
            match store.acquire(&lease_name(lane), &owner, TTL).await? {
                Acquired::Held(lease) => lanes.0.push(lease),
                Acquired::Taken(lease) => {
                    lanes.give_back(store).await?;
                    return Err(Error::new(RelaysRun { owner: lease.owner }));
                }
            }
        }
        Ok(lanes)
    }

    /// Holds on to them.
    pub(crate) async fn keep(&self, store: &impl Leases) -> Result<(), Error> {
        for lease in &self.0 {
            if store.renew(lease, TTL).await?.is_none() {
                return Err(Error::new(RelaysRun { owner: "another process".to_owned() }));
            }
        }
        Ok(())
    }

    pub(crate) async fn give_back(self, store: &impl Leases) -> Result<(), Error> {
        for lease in &self.0 {
            store.release(lease).await?;
        }
        Ok(())
    }
}
