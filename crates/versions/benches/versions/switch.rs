//! How long after a switch or a rollback the last client reads another version.

use std::time::{Duration, Instant};

use helenus_store::Ports;
use helenus_testkit::services::Instance;
use helenus_versions::cassandra::{REFRESH, RoutedSession};
use helenus_versions::publish::publish;
use helenus_versions::{Progress, TableName, rollback};

use crate::load::write;
use crate::{KEYSPACE, Result, Size, median, run_of, versions};

const CLIENTS: usize = 16;

pub(crate) async fn run(node: &Instance, size: Size) -> Result<()> {
    let address = node.endpoint().to_string();
    let backend = versions(&address).await?;
    let (ports, table) = (Ports::system(), TableName::new(KEYSPACE, "switched"));
    let dir = tempfile::tempdir()?;
    let file = dir.path().join("switched.csv");
    write(&file, 100, 0)?;
    let file = file.display().to_string();
    let publish_at = async |at: i64| -> Result<String> {
        let run = run_of("switched", &file, at)?;
        Ok(publish(&backend, &ports, run, &Progress::default()).await?.version_name)
    };
    let mut last = publish_at(1).await?;
    let mut clients = Vec::new();
    for _ in 0..CLIENTS {
        let keyspace = Some(KEYSPACE.to_owned());
        clients.push(RoutedSession::new(versions(&address).await?, keyspace, REFRESH).await?);
    }
    let seen_by_all = async |version: &str| {
        let began = Instant::now();
        while !clients.iter().all(|client| client.version(&table).as_deref() == Some(version)) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        began.elapsed().as_secs_f64() * 1e3
    };
    let (mut switches, mut rollbacks) = (Vec::new(), Vec::new());
    for round in 0..size.rounds {
        let version = publish_at(2 + i64::try_from(round)?).await?;
        switches.push(seen_by_all(&version).await);
        let back = rollback(&backend, &ports, &table, None).await?;
        if back.version_name != last {
            return Err(format!("{} after {last}", back.version_name).into());
        }
        rollbacks.push(seen_by_all(&back.version_name).await);
        last = back.version_name;
    }
    println!(
        "switch: {CLIENTS} clients with sessions of their own, refreshed every {REFRESH:?} at most"
    );
    for (what, times) in [("a publish", switches), ("a rollback", rollbacks)] {
        let most = times.iter().copied().fold(0.0, f64::max);
        let (count, median) = (times.len(), median(times));
        println!(
            "  seen by all after {what}: median {median:.0} ms, most {most:.0} ms of {count} (goal 1000)"
        );
    }
    Ok(())
}
