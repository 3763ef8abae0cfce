//! Dropping what nobody reads: old versions, failed runs, and tables whose run is gone.
//!
//! DELETING first, so that no reader starts on the version; then the drain time, so that those who
//! have it move on; then the readers' holds; then the table; then DELETED. Killed anywhere, the next
//! recycle goes on from there.

use std::time::Duration;

use helenus_store::Ports;
use serde::Serialize;

use crate::TableName;
use crate::catalog::change::change;
use crate::catalog::{self, Catalog, ChangeError, Heartbeat, Status, TableVersion};
use crate::tables::Tables;

/// What is recycled.
#[derive(Clone, Copy, Debug)]
pub struct RecycleOptions {
    /// Completed versions that stay, at least one.
    pub keep: usize,
    /// How long readers have to move on: more than twice what they refresh at.
    pub drain: Duration,
    /// How a failed run is told.
    pub heartbeat: Heartbeat,
    /// Say what would be done, and do nothing.
    pub dry_run: bool,
    /// Wait for the drain time; otherwise what is not drained is left to the next recycle.
    pub wait: bool,
}

impl Default for RecycleOptions {
    fn default() -> Self {
        RecycleOptions {
            keep: 2,
            drain: Duration::from_secs(5),
            heartbeat: Heartbeat::default(),
            dry_run: false,
            wait: true,
        }
    }
}

/// What became of a version.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Recycled {
    /// The table of the version.
    pub version_name: String,
    /// Its run.
    pub run_id: String,
    /// Why it goes: `old`, `failed`, `deleting` (somebody began it) or `orphan`.
    pub reason: String,
    /// What was done: `dropped`, `draining`, `held` by a reader, or `would drop`.
    pub outcome: String,
}

impl Recycled {
    fn new(row: &TableVersion, reason: &str, outcome: &str) -> Self {
        Recycled {
            version_name: row.version_name.clone(),
            run_id: row.run_id.clone(),
            reason: reason.to_owned(),
            outcome: outcome.to_owned(),
        }
    }
}

/// Recycles one table. `told` hears of each version as it is done.
pub async fn recycle<B: Catalog + Tables>(
    backend: &B,
    ports: &Ports,
    table: &TableName,
    options: RecycleOptions,
    told: &mut (dyn FnMut(&Recycled) + Send),
) -> Result<Vec<Recycled>, ChangeError> {
    let mut done = Vec::new();
    let RecycleOptions { keep, heartbeat, .. } = options;
    let snapshot = backend.snapshot(table).await?;
    let doomed = catalog::doomed(&snapshot, keep, ports.clock.now(), heartbeat);
    if options.dry_run {
        let begun = snapshot.versions.iter().filter(|row| row.status == Status::Deleting);
        done.extend(begun.map(|row| Recycled::new(row, "deleting", "would drop")));
        done.extend(doomed.iter().map(|(row, why)| Recycled::new(row, why, "would drop")));
        done.iter().for_each(told);
        return Ok(done);
    }
    for (row, _) in &doomed {
        let now = ports.clock.now();
        let plan = |snapshot: &_| Ok(catalog::doom(snapshot, &row.run_id, keep, now, heartbeat));
        change(backend, ports, table, plan).await?;
    }
    let snapshot = backend.snapshot(table).await?;
    for row in snapshot.versions.iter().filter(|row| row.status == Status::Deleting) {
        let why = doomed.iter().find(|(doomed, _)| doomed.run_id == row.run_id);
        let why = why.map_or("deleting", |(_, why)| why);
        let outcome = finish(backend, ports, table, row, options).await?;
        let recycled = Recycled::new(row, why, outcome);
        told(&recycled);
        done.push(recycled);
    }
    for (version_name, run_id) in backend.marked(table).await? {
        // A run's row is there before its table, so what has none, or is done, has no owner.
        let row = backend.snapshot(table).await?.run(&run_id).map(|row| row.status);
        if row.is_none_or(|status| status == Status::Deleted) {
            backend.drop_table(table, &version_name, &run_id).await?;
            let (reason, outcome) = ("orphan".to_owned(), "dropped".to_owned());
            let recycled = Recycled { version_name, run_id, reason, outcome };
            told(&recycled);
            done.push(recycled);
        }
    }
    Ok(done)
}

async fn finish<B: Catalog + Tables>(
    backend: &B,
    ports: &Ports,
    table: &TableName,
    row: &TableVersion,
    options: RecycleOptions,
) -> Result<&'static str, ChangeError> {
    let drained_at = row.deleting_ts.unwrap_or(row.create_ts).plus(options.drain);
    let left = drained_at.since(ports.clock.now());
    if !left.is_zero() {
        if !options.wait {
            return Ok("draining");
        }
        tokio::time::sleep(left).await;
    }
    // Written before DELETING was, a hold is seen here; written after, its reader sees DELETING.
    let leases = backend.leases(table).await?;
    let leases: Vec<_> = leases.into_iter().filter(|lease| lease.version == row.number).collect();
    let now = ports.clock.now();
    if leases.iter().any(|lease| lease.expires_at.plus(options.drain) > now) {
        return Ok("held");
    }
    backend.drop_table(table, &row.version_name, &row.run_id).await?;
    for lease in &leases {
        backend.release(table, lease).await?;
    }
    change(backend, ports, table, |snapshot| Ok(catalog::finish(snapshot, &row.run_id))).await?;
    Ok("dropped")
}
