//! How relays share lanes: each announces itself by a lease of its own, counts the others, and holds
//! its part of the lanes.

use std::time::Duration;

use helenus_model::Timestamp;
use helenus_store::contract::{Acquired, Error, Lease, Leases};

/// A relay's own place among its kind.
#[derive(Debug)]
pub(crate) struct Membership {
    owner: String,
    /// Places there are: more relays than lanes only stand by.
    places: u16,
    held: Option<(u16, Lease)>,
}

impl Membership {
    pub(crate) fn new(owner: String, places: u16) -> Self {
        Membership { owner, places, held: None }
    }

    /// Holds on to a place and says how many lanes are this relay's part, and where to begin looking
    /// for them. Without a free place it stands by.
    pub(crate) async fn part(
        &mut self,
        store: &impl Leases,
        ttl: Duration,
        now: Timestamp,
    ) -> Result<Part, Error> {
        if let Some((place, lease)) = self.held.take() {
            self.held = store.renew(&lease, ttl).await?.map(|lease| (place, lease));
        }
        let mut members: u16 = 0;
        for place in 0..self.places {
            let name = format!("relay-member/{place}");
            let other = store.holder(&name).await?.filter(|lease| lease.expires_at > now);
            match (&self.held, other) {
                (_, Some(_)) => members += 1,
                (None, None) => {
                    if let Acquired::Held(lease) = store.acquire(&name, &self.owner, ttl).await? {
                        self.held = Some((place, lease));
                    }
                    members += 1;
                }
                (Some(_), None) => {}
            }
        }
        Ok(match &self.held {
            Some((place, _)) => Part { lanes: self.places.div_ceil(members.max(1)), begin: *place },
            None => Part { lanes: 0, begin: 0 },
        })
    }

    pub(crate) async fn leave(&mut self, store: &impl Leases) -> Result<(), Error> {
        match self.held.take() {
            Some((_, lease)) => store.release(&lease).await,
            None => Ok(()),
        }
    }
}

/// What is this relay's to hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) lanes: u16,
    pub(crate) begin: u16,
}
