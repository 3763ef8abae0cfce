//! The schema registry: anything that speaks Confluent's API.
//!
//! So far it can be asked whether it is there; schemas come with Avro.

use std::time::Duration;

use helenus_model::backend::{Reached, RegistryUrl, Unreachable};
use tokio::task::spawn_blocking;

const REMEDY: &str = "check that a schema registry runs there and that registry.url has its path";

/// Asks the registry for its subjects, within `timeout`.
pub async fn probe(url: &RegistryUrl, timeout: Duration) -> Result<Reached, Unreachable> {
    let base = url.to_string();
    let subjects = format!("{}/subjects", base.trim_end_matches('/'));
    let asked = spawn_blocking(move || -> Result<Vec<String>, ureq::Error> {
        let config = ureq::Agent::config_builder().timeout_global(Some(timeout)).build();
        ureq::Agent::from(config).get(&subjects).call()?.body_mut().read_json()
    });
    match asked.await {
        Ok(Ok(subjects)) => Ok(Reached {
            product: "schema registry".to_owned(),
            detail: format!("{} subjects", subjects.len()),
        }),
        Ok(Err(error)) => Err(Unreachable::new(base, REMEDY, error)),
        Err(error) => Err(Unreachable::new(base, REMEDY, error)),
    }
}
