//! Redis as the place that workers and operators look at.

use std::time::Duration;

use helenus_model::backend::{Endpoint, Reached, Unreachable};
use redis::{ConnectionAddr, ConnectionInfo, IntoConnectionInfo, RedisConnectionInfo};
use secrecy::ExposeSecret;

const REMEDY: &str = "check that Redis runs there and that metadata.url and its password are right";

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Asks the server for its version, within `timeout`.
pub async fn probe(endpoint: &Endpoint, timeout: Duration) -> Result<Reached, Unreachable> {
    let url = format!("redis:{endpoint}");
    match tokio::time::timeout(timeout, ask(endpoint)).await {
        Ok(Ok(reached)) => Ok(reached),
        Ok(Err(error)) => Err(Unreachable::new(url, REMEDY, error)),
        Err(_) => Err(Unreachable::late(url, REMEDY, timeout)),
    }
}

async fn ask(endpoint: &Endpoint) -> Result<Reached, BoxError> {
    let client = client(endpoint)?;
    let mut connection = client.get_multiplexed_async_connection().await?;
    let info: String = redis::cmd("INFO").arg("server").query_async(&mut connection).await?;
    let version = info.lines().find_map(|line| line.strip_prefix("redis_version:"));
    let keys: u64 = redis::cmd("DBSIZE").query_async(&mut connection).await?;
    Ok(Reached {
        product: format!("Redis {}", version.unwrap_or("of unknown version").trim()),
        detail: format!("{keys} keys"),
    })
}

fn client(endpoint: &Endpoint) -> Result<redis::Client, BoxError> {
    let database = match &endpoint.path {
        Some(path) => path.parse().map_err(|_| format!("'{path}' is not a database number"))?,
        None => 0,
    };
    let host = endpoint.hosts.first().ok_or("no host is given")?;
    let mut login = RedisConnectionInfo::default().set_db(database);
    if let Some(username) = &endpoint.username {
        login = login.set_username(username);
    }
    if let Some(password) = &endpoint.password {
        login = login.set_password(password.expose_secret());
    }
    let address = if endpoint.tls {
        helenus_tls::install_default();
        let (host, port) = (host.name.clone(), host.port);
        ConnectionAddr::TcpTls { host, port, insecure: false, tls_params: None }
    } else {
        ConnectionAddr::Tcp(host.name.clone(), host.port)
    };
    let info: ConnectionInfo = address.into_connection_info()?.set_redis_settings(login);
    let Some(file) = endpoint.ca_file.as_ref().filter(|_| endpoint.tls) else {
        return Ok(redis::Client::open(info)?);
    };
    let root_cert = Some(std::fs::read(file)?);
    let certificates = redis::TlsCertificates { client_tls: None, root_cert };
    Ok(redis::Client::build_with_tls(info, certificates)?)
}
