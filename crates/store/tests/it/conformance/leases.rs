//! Promises of leases.

use std::time::Duration;

use futures_util::future::join_all;
use helenus_store::contract::{Acquired, Lease, Leases};

use super::Fixture;

const TTL: Duration = Duration::from_secs(10);

async fn take<S: Leases>(fixture: &Fixture<S>, owner: &str) -> Lease {
    match fixture.store.acquire("shard/0", owner, TTL).await.unwrap() {
        Acquired::Held(lease) => lease,
        Acquired::Taken(lease) => panic!("{owner} wanted what {lease:?} has"),
    }
}

pub(super) async fn a_lease_has_one_holder_until_it_expires<S: Leases>(fixture: &Fixture<S>) {
    assert_eq!(fixture.store.holder("shard/0").await.unwrap(), None);
    let first = take(fixture, "a").await;
    assert_eq!(fixture.store.holder("shard/0").await.unwrap(), Some(first.clone()));
    fixture.later(TTL - Duration::from_millis(1));
    let refused = fixture.store.acquire("shard/0", "b", TTL).await.unwrap();
    assert_eq!(refused, Acquired::Taken(first));
    fixture.later(Duration::from_millis(1));
    assert_eq!(take(fixture, "b").await.owner, "b");
    let other = fixture.store.acquire("shard/1", "a", TTL).await.unwrap();
    assert!(matches!(other, Acquired::Held(_)), "another name is another lease");
}

pub(super) async fn every_taking_raises_the_epoch<S: Leases>(fixture: &Fixture<S>) {
    let first = take(fixture, "a").await;
    let again = take(fixture, "a").await;
    assert!(again.epoch > first.epoch, "the holder's own taking");
    fixture.later(TTL);
    let expired = take(fixture, "b").await;
    assert!(expired.epoch > again.epoch, "after it expired");
    fixture.store.release(&expired).await.unwrap();
    assert_eq!(fixture.store.holder("shard/0").await.unwrap(), None);
    assert!(take(fixture, "a").await.epoch > expired.epoch, "after it was given back");
}

pub(super) async fn a_renewal_holds_on_unless_the_lease_has_passed_on<S: Leases>(
    fixture: &Fixture<S>,
) {
    let lease = take(fixture, "a").await;
    fixture.later(TTL);
    let renewed = fixture.store.renew(&lease, TTL).await.unwrap().expect("nobody took it");
    assert_eq!((renewed.epoch, renewed.expires_at), (lease.epoch, lease.expires_at.plus(TTL)));
    assert!(matches!(
        fixture.store.acquire("shard/0", "b", TTL).await.unwrap(),
        Acquired::Taken(_)
    ));
    fixture.later(TTL);
    let next = take(fixture, "b").await;
    assert_eq!(fixture.store.renew(&renewed, TTL).await.unwrap(), None);
    fixture.store.release(&renewed).await.unwrap();
    assert_eq!(fixture.store.holder("shard/0").await.unwrap(), Some(next));
}

pub(super) async fn of_many_takers_one_gets_it<S: Leases>(fixture: &Fixture<S>) {
    let owners: Vec<String> = (0..8).map(|owner| format!("process-{owner}")).collect();
    let answers =
        join_all(owners.iter().map(|owner| fixture.store.acquire("shard/0", owner, TTL))).await;
    let answers: Vec<Acquired> = answers.into_iter().map(Result::unwrap).collect();
    let held = answers.iter().filter(|answer| matches!(answer, Acquired::Held(_))).count();
    assert_eq!(held, 1, "{answers:?}");
}
