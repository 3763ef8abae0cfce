//! Asking whether a node is there.

use std::time::Duration;

use helenus_model::backend::{Endpoint, Reached, Unreachable};

use super::session::{REMEDY, connect};
use super::tables::setting;
use super::{Error, Options, Session};

/// Asks a node for its release and its cluster, within `timeout`.
pub async fn probe(
    endpoint: &Endpoint,
    options: &Options,
    timeout: Duration,
) -> Result<Reached, Unreachable> {
    let url = format!("cassandra:{endpoint}");
    match tokio::time::timeout(timeout, ask(endpoint, options)).await {
        Ok(Ok(reached)) => Ok(reached),
        Ok(Err(error)) => Err(Unreachable::new(url, REMEDY, error)),
        Err(_) => Err(Unreachable::late(url, REMEDY, timeout)),
    }
}

async fn ask(
    endpoint: &Endpoint,
    options: &Options,
) -> Result<Reached, Box<dyn std::error::Error + Send + Sync>> {
    let session = connect(endpoint, options).await.map_err(Error::into_source)?;
    let query = "SELECT release_version, cluster_name, data_center FROM system.local";
    let answer = session.query_unpaged(query, ()).await?.into_rows_result()?;
    let (release, cluster, data_center) = answer.single_row::<(String, String, String)>()?;
    let paxos = paxos(&session).await;
    Ok(Reached {
        product: format!("Apache Cassandra {release}"),
        detail: format!("cluster {cluster}, data centre {data_center}{paxos}"),
    })
}

/// Which variant of Paxos the node runs, and the better one; nothing where it does not say, which
/// is before 4.1 or without the permission to read its settings.
async fn paxos(session: &Session) -> &'static str {
    match setting(session, "paxos_variant").await.as_deref() {
        Some("v1") => {
            ", Paxos v1: with `paxos_variant: v2` in every node's cassandra.yaml appends take \
             fewer round trips"
        }
        Some("v2") => ", Paxos v2",
        _ => "",
    }
}
