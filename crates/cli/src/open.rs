//! From arguments and configuration to an open store or broker.

use std::time::Duration;

use helenus::backend::{BrokerUrl, StoreUrl};
use helenus::{Broker, BrokerOptions, Ports, Store, StoreOptions, Versions};

use crate::config::Config;
use crate::exit::Failed;

/// The store an argument names, else the configured one. The configured password is for the configured
/// store, and goes nowhere else.
pub(crate) async fn store(named: Option<&StoreUrl>, config: &Config) -> Result<Store, Failed> {
    store_with(named, config, config.store_options()).await
}

/// The same, over however many shards its messages are spread: for whoever changes that.
pub(crate) async fn store_of_any_shards(
    named: Option<&StoreUrl>,
    config: &Config,
) -> Result<Store, Failed> {
    store_with(named, config, StoreOptions { shards: None, ..config.store_options() }).await
}

async fn store_with(
    named: Option<&StoreUrl>,
    config: &Config,
    options: StoreOptions,
) -> Result<Store, Failed> {
    let url = match named {
        Some(url) => url.clone(),
        None => config.store.url_with_login()?,
    };
    Ok(Store::open_with(&url, options, Ports::system()).await?)
}

/// The same for versioned tables.
pub(crate) async fn versions(
    named: Option<&StoreUrl>,
    config: &Config,
) -> Result<Versions, Failed> {
    let url = match named {
        Some(url) => url.clone(),
        None => config.store.url_with_login()?,
    };
    Ok(Box::pin(Versions::open_with(&url, config.store_options(), Ports::system())).await?)
}

/// The same for the broker; the embedded one is in the store.
pub(crate) fn broker(
    named: Option<&BrokerUrl>,
    config: &Config,
    store: Option<&Store>,
) -> Result<Broker, Failed> {
    let url = broker_url(named, config)?;
    Ok(Broker::open_with(&url, store, config.broker.options())?)
}

/// The same for whoever only wants to know whether it is there: it waits for no longer than this.
pub(crate) fn broker_within(
    patience: Duration,
    named: Option<&BrokerUrl>,
    config: &Config,
    store: Option<&Store>,
) -> Result<Broker, Failed> {
    let url = broker_url(named, config)?;
    let options = config.broker.options();
    let timeout = options.timeout.min(patience);
    Ok(Broker::open_with(&url, store, BrokerOptions { timeout, ..options })?)
}

/// Where the broker is, with its login.
pub(crate) fn broker_url(named: Option<&BrokerUrl>, config: &Config) -> Result<BrokerUrl, Failed> {
    match named {
        Some(url) => Ok(url.clone()),
        None => Ok(config.broker.url_with_login()?),
    }
}
