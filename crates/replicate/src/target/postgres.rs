//! PostgreSQL as a target.

use std::time::Duration;

use helenus_model::backend::{Endpoint, Reached, Unreachable};
use secrecy::ExposeSecret;
use tokio_postgres::tls::{MakeTlsConnect, TlsConnect};
use tokio_postgres::{Config, NoTls, Socket};
use tokio_postgres_rustls::MakeRustlsConnect;

const REMEDY: &str =
    "check that PostgreSQL runs there and that target.url, user name and password are right";

type Asked = Result<Reached, Box<dyn std::error::Error + Send + Sync>>;

/// Asks the server for its version, within `timeout`.
pub async fn probe(endpoint: &Endpoint, timeout: Duration) -> Result<Reached, Unreachable> {
    let url = format!("postgres:{endpoint}");
    match tokio::time::timeout(timeout, ask(endpoint)).await {
        Ok(Ok(reached)) => Ok(reached),
        Ok(Err(error)) => Err(Unreachable::new(url, REMEDY, error)),
        Err(_) => Err(Unreachable::late(url, REMEDY, timeout)),
    }
}

async fn ask(endpoint: &Endpoint) -> Asked {
    let mut config = Config::new();
    for host in &endpoint.hosts {
        config.host(&host.name).port(host.port);
    }
    config.user(endpoint.username.as_deref().unwrap_or("postgres"));
    config.dbname(endpoint.path.as_deref().unwrap_or("postgres"));
    if let Some(password) = &endpoint.password {
        config.password(password.expose_secret());
    }
    if endpoint.tls {
        config.ssl_mode(tokio_postgres::config::SslMode::Require);
        let tls = helenus_tls::client_config(endpoint.ca_file.as_deref())?;
        ask_over(&config, MakeRustlsConnect::new((*tls).clone())).await
    } else {
        ask_over(&config, NoTls).await
    }
}

async fn ask_over<T>(config: &Config, tls: T) -> Asked
where
    T: MakeTlsConnect<Socket>,
    T::Stream: Send + 'static,
    T::TlsConnect: Send,
    <T::TlsConnect as TlsConnect<Socket>>::Future: Send,
{
    let (client, connection) = config.connect(tls).await?;
    // The connection works while the client asks, and ends when the client is dropped.
    let asked = async move {
        let row = client.query_one("SHOW server_version", &[]).await?;
        let encoding = client.query_one("SHOW server_encoding", &[]).await?;
        Ok::<_, tokio_postgres::Error>((row.try_get(0)?, encoding.try_get(0)?))
    };
    let (answer, ended): (Result<(String, String), _>, _) = tokio::join!(asked, connection);
    let (version, encoding) = answer?;
    ended?;
    Ok(Reached {
        product: format!("PostgreSQL {version}"),
        detail: format!("database {}, {encoding}", config.get_dbname().unwrap_or_default()),
    })
}
