//! What a relay costs that has nothing to do.

use std::path::Path;
use std::time::Duration;

use helenus_broker::kafka::KafkaBroker;
use helenus_relay::{Options, Relay};
use helenus_store::Ports;
use helenus_testkit::usage::processor_time;
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
        let before = processor_time(std::process::id())?;
        tokio::time::sleep(LOOK).await;
        shutdown.cancel();
        Ok::<_, Box<dyn std::error::Error + Send + Sync>>(
            processor_time(std::process::id())? - before,
        )
    };
    let (ended, used) = tokio::join!(relay.run(shutdown.clone()), watching);
    ended?;
    let share = used?.as_secs_f64() / LOOK.as_secs_f64();
    println!(
        "idle relay                                          {:>8.2} % of a core",
        100.0 * share
    );
    Ok(())
}
