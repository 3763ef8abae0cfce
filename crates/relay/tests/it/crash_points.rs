//! A relay that dies at every step it makes, before or after the step took effect: whoever comes next
//! publishes the rest, once and in order.

use std::time::Duration;

use helenus_model::{ChannelId, Message};
use helenus_relay::{Backoff, Mode, Options, Relay};
use helenus_store::contract::Outbox;

use crate::faulty::{Fault, Faulty};
use crate::shop::{self, quick};

const COUNT: usize = 12;
const DONE: u32 = 12;

/// The relay that dies there leaves its leases behind; the next one waits for them.
fn options(mode: Mode) -> Options {
    Options {
        mode,
        lanes: 1,
        batch: 3,
        catch_up_batch: 3,
        max_attempts: 2,
        lease_ttl: Duration::from_millis(40),
        ..quick()
    }
}

/// A step, counted from 0, and whether the relay dies after it took effect or before.
type Death = (i64, bool);

/// Runs a relay for each death, then one that does not die. Whether the last death came about.
async fn survives(mode: Mode, deaths: &[Death]) -> bool {
    let shop = shop::embedded().await;
    shop.create("orders", 2).await;
    for number in 0..COUNT {
        if number == 5 {
            let missing = ChannelId::new("missing").unwrap();
            let poison = Message { channel_id: missing, ..shop.message("orders", "poison", 0) };
            shop.store.enqueue(poison).await.unwrap();
        }
        shop.stage("orders", &format!("key-{}", number % 3), number).await;
    }
    let mut struck = false;
    for (step, after) in deaths {
        let fault = Fault::at(*step, *after);
        let store = Faulty { inner: shop.store.clone(), fault: fault.clone() };
        let broker = Faulty { inner: shop.broker.clone(), fault: fault.clone() };
        // The relay gives up soon after the fault; what it does until then fails as well.
        let backoff =
            Backoff { first: Duration::from_millis(1), longest: Duration::from_millis(1) };
        let options = Options { backoff, ..options(mode) };
        let died = Relay::new(store, broker, options, shop.ports.clone())
            .run_until_empty(Default::default())
            .await;
        struck = fault.struck();
        assert_eq!(died.is_err(), struck, "{mode:?} {deaths:?}: {died:?}");
    }

    shop.drain(options(mode)).await;
    for (key, mut numbers) in shop.published("orders").await {
        let first: usize = key.trim_start_matches("key-").parse().unwrap();
        let expected: Vec<_> = (first..COUNT).step_by(3).collect();
        if mode == Mode::AtLeastOnce {
            // Repeated from somewhere on, never out of order the first time.
            let mut seen = std::collections::HashSet::new();
            numbers.retain(|number| seen.insert(*number));
        }
        assert_eq!(numbers, expected, "{mode:?} {deaths:?}, {key}");
    }
    let states = [("dispatched".to_owned(), DONE), ("parked".to_owned(), 1)];
    assert_eq!(shop.states().await, states.into(), "{mode:?} {deaths:?}");
    struck
}

async fn survives_everywhere(mode: Mode) {
    for after in [false, true] {
        let mut step = 0;
        while survives(mode, &[(step, after)]).await {
            step += 1;
        }
        assert!(step > 20, "{step} steps are no run");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn exactly_once_survives_a_death_at_every_step() {
    survives_everywhere(Mode::ExactlyOnce).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn at_least_once_survives_a_death_at_every_step() {
    survives_everywhere(Mode::AtLeastOnce).await;
}

/// Whoever takes over dies as well, at every step until it has the lane, and a few beyond.
#[tokio::test(flavor = "multi_thread")]
async fn exactly_once_survives_a_death_while_taking_over() {
    const TAKING_OVER: i64 = 14;
    let mut first = 3;
    while survives(Mode::ExactlyOnce, &[(first, true)]).await {
        for second in 0..TAKING_OVER {
            survives(Mode::ExactlyOnce, &[(first, true), (second, second % 2 == 0)]).await;
        }
        first += 5;
    }
    assert!(first > 20, "{first} steps are no run");
}
