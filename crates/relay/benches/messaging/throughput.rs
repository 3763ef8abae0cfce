//! A backlog, as fast as it goes, beside a bare producer.

use std::path::Path;
use std::time::{Duration, Instant};

use helenus_broker::kafka::KafkaBroker;
use helenus_relay::{Mode, Options, Profile, Relay};
use helenus_store::Ports;
use helenus_testkit::usage::{processor_time, settle_disk};
use tokio_util::sync::CancellationToken;

use crate::{Result, backlog, bare, open, topic};

/// Messages in a transaction, for both.
pub(crate) const BATCH: usize = 5_000;

/// Runs of each, of which the median counts.
const ROUNDS: usize = 3;

pub(crate) async fn run(
    broker: &KafkaBroker,
    address: &str,
    dir: &Path,
    messages: usize,
) -> Result<()> {
    let bare = async || {
        settle_disk()?;
        bare::publish(address, &topic(broker).await?, messages)
    };
    // The broker is a while compiling itself: what it did first would be what it did slowest.
    bare().await?;
    let mut before = bare().await?;
    for mode in [Mode::ExactlyOnce, Mode::AtLeastOnce] {
        let mut ratios = Vec::new();
        for round in 0..ROUNDS {
            let store = open(&dir.join(format!("backlog-{mode:?}-{round}.db"))).await?;
            backlog::seed(&store, &topic(broker).await?, messages, false).await?;
            let options =
                Options { mode, batch: BATCH, catch_up_batch: BATCH, ..Options::default() };
            let relay = Relay::new(store.clone(), broker.clone(), options, Ports::system());
            settle_disk()?;
            let cpu = processor_time(std::process::id())?;
            let started = Instant::now();
            let totals = relay.run_until_empty(CancellationToken::new()).await?;
            let took = started.elapsed();
            let cpu = processor_time(std::process::id())? - cpu;
            let bare_cpu = processor_time(std::process::id())?;
            let after = bare().await?;
            let bare_cpu = processor_time(std::process::id())? - bare_cpu;
            let each = |cpu: Duration| cpu.as_secs_f64() * 1e6 / messages as f64;
            let rate = totals.published as f64 / took.as_secs_f64();
            let ratio = 100.0 * rate / ((before + after) / 2.0);
            println!(
                "relay from a backlog of {messages}, {mode:?}   {rate:>9.0} msg/s   {ratio:.0} % of the bare \
                 transactional producer's {before:.0} before and {after:.0} after; processor of this \
                 process {:.1} µs a message, the bare producer {:.1}",
                each(cpu),
                each(bare_cpu)
            );
            ratios.push((ratio, rate, relay.profile(), took));
            before = after;
            store.engine().close().await;
        }
        ratios.sort_by(|(one, ..), (other, ..)| one.total_cmp(other));
        let (ratio, rate, profile, took) = ratios[ROUNDS / 2];
        println!("  the median, {BATCH} a transaction: {rate:.0} msg/s, {ratio:.0} %");
        print_profile(profile, took, messages);
    }
    Ok(())
}

/// Where the lanes' time went. They work beside each other, so the steps add up to more than the run.
pub(crate) fn print_profile(profile: Profile, took: Duration, messages: usize) {
    let Profile { reading, planning, publishing, settling } = profile;
    println!("    of {:.1} s, by all lanes together:", took.as_secs_f64());
    for (step, time) in [
        ("reading", reading),
        ("planning", planning),
        ("publishing", publishing),
        ("settling", settling),
    ] {
        let each = time.as_secs_f64() * 1e6 / messages.max(1) as f64;
        println!("    {step:<12} {:>7.2} s   {each:>6.1} µs a message", time.as_secs_f64());
    }
}
