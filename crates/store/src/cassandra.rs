//! The store on Cassandra.
//!
//! So far it can be asked whether it is there; the tables come with the event store and the outbox.

use std::time::Duration;

use helenus_model::backend::{Endpoint, Reached, Unreachable};
use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;
use secrecy::ExposeSecret;

const REMEDY: &str =
    "check that Cassandra runs there and that store.url, user name and password are right";

/// Asks a node for its release and its cluster, within `timeout`.
pub async fn probe(endpoint: &Endpoint, timeout: Duration) -> Result<Reached, Unreachable> {
    let url = format!("cassandra:{endpoint}");
    match tokio::time::timeout(timeout, ask(endpoint)).await {
        Ok(Ok(reached)) => Ok(reached),
        Ok(Err(error)) => Err(Unreachable::new(url, REMEDY, error)),
        Err(late) => Err(Unreachable::new(url, REMEDY, late)),
    }
}

async fn ask(endpoint: &Endpoint) -> Result<Reached, Box<dyn std::error::Error + Send + Sync>> {
    let session = connect(endpoint).await?;
    let query = "SELECT release_version, cluster_name, data_center FROM system.local";
    let answer = session.query_unpaged(query, ()).await?.into_rows_result()?;
    let (release, cluster, data_center) = answer.single_row::<(String, String, String)>()?;
    Ok(Reached {
        product: format!("Apache Cassandra {release}"),
        detail: format!("cluster {cluster}, data centre {data_center}"),
    })
}

async fn connect(endpoint: &Endpoint) -> Result<Session, Box<dyn std::error::Error + Send + Sync>> {
    let mut builder = SessionBuilder::new().known_nodes(endpoint.addresses());
    if let (Some(user), Some(password)) = (&endpoint.username, &endpoint.password) {
        builder = builder.user(user, password.expose_secret());
    }
    if endpoint.tls {
        let config = helenus_tls::client_config(endpoint.ca_file.as_deref())?;
        builder = builder.tls_context(Some(config));
    }
    Ok(builder.build().await?)
}
