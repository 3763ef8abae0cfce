//! What a relay costs that has nothing to do.

use std::path::Path;
use std::time::Duration;

use helenus_broker::kafka::KafkaBroker;
use helenus_relay::{Options, Relay};
use helenus_store::Ports;
use tokio_util::sync::CancellationToken;

use crate::{Result, open};

/// Processor time of this process while its relay has nothing to do.
pub(crate) async fn run(broker: &KafkaBroker, dir: &Path) -> Result<()> {
    const LOOK: Duration = Duration::from_secs(20);
    let store = open(&dir.join("idle.db")).await?;
    let relay = Relay::new(store, broker.clone(), Options::default(), Ports::system());
    let shutdown = CancellationToken::new();
    let watching = async {
        tokio::time::sleep(Duration::from_secs(5)).await;
        let before = processor_ticks();
        tokio::time::sleep(LOOK).await;
        shutdown.cancel();
        processor_ticks() - before
    };
    let (ended, ticks) = tokio::join!(relay.run(shutdown.clone()), watching);
    ended?;
    // The kernel counts in hundredths of a second.
    let share = ticks as f64 / 100.0 / LOOK.as_secs_f64();
    println!(
        "idle relay                                          {:>8.2} % of a core",
        100.0 * share
    );
    Ok(())
}

/// User and system time of this process, in the kernel's ticks.
fn processor_ticks() -> u64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = stat.rsplit_once(") ").map_or("", |(_, fields)| fields);
    fields.split(' ').skip(11).take(2).filter_map(|field| field.parse::<u64>().ok()).sum()
}
