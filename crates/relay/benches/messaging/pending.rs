//! One read of what is due, after a long history and without one.

use std::path::Path;
use std::time::{Duration, Instant};

use helenus_store::Ports;
use helenus_store::contract::Dispatch;

use crate::{Result, backlog, open};

/// Messages that are due when the store is read: as many in both.
const DUE: usize = 100;
const READS: usize = 200;

pub(crate) async fn sqlite(dir: &Path, dispatched: usize) -> Result<()> {
    let (fresh, old) = (open(&dir.join("fresh.db")).await?, open(&dir.join("old.db")).await?);
    backlog::seed(&old, "history", dispatched, true).await?;
    for store in [&fresh, &old] {
        backlog::seed(store, "due", DUE, false).await?;
    }
    compare("SQLite", &fresh, &old, dispatched).await?;
    for store in [fresh, old] {
        store.engine().close().await;
    }
    Ok(())
}

/// Reads both in turn; what else the machine does meets both.
pub(crate) async fn compare<S: Dispatch>(
    name: &str,
    fresh: &S,
    old: &S,
    dispatched: usize,
) -> Result<()> {
    let (mut of_fresh, mut of_old) = (Vec::new(), Vec::new());
    for _ in 0..READS {
        of_fresh.push(read(fresh).await?);
        of_old.push(read(old).await?);
    }
    let (fresh, old) = (median(of_fresh), median(of_old));
    println!(
        "read_pending of {DUE} on {name}: {:.2} ms, after {dispatched} dispatched {:.2} ms, {:.2} ×",
        millis(fresh),
        millis(old),
        old.as_secs_f64() / fresh.as_secs_f64()
    );
    Ok(())
}

async fn read<S: Dispatch>(store: &S) -> Result<Duration> {
    let now = Ports::system().clock.now();
    let started = Instant::now();
    let due = store.read_pending(now, DUE).await?;
    let took = started.elapsed();
    if due.len() != DUE {
        return Err(format!("{} messages are due, not {DUE}", due.len()).into());
    }
    Ok(took)
}

pub(crate) fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

pub(crate) fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1_000.0
}
