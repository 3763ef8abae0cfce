//! `[serve]` and `[auth]`: what `helenus serve` runs, where it answers, and whom.

use std::net::SocketAddr;
use std::time::Duration;

use helenus_server::Tokens;
use secrecy::ExposeSecret;
use serde::Deserialize;

use super::{Secret, parsed, values};
use crate::exit::Failed;

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Serve {
    #[serde(deserialize_with = "parsed")]
    pub(crate) listen: SocketAddr,
    #[serde(deserialize_with = "values::flag")]
    pub(crate) relay: bool,
    #[serde(deserialize_with = "values::flag")]
    pub(crate) reconciler: bool,
    #[serde(deserialize_with = "values::flag")]
    pub(crate) sweeper: bool,
    #[serde(deserialize_with = "values::flag")]
    pub(crate) topic_retention: bool,
    #[serde(deserialize_with = "values::duration")]
    pub(crate) reconcile_every: Duration,
    #[serde(deserialize_with = "values::duration")]
    pub(crate) sweep_every: Duration,
    #[serde(deserialize_with = "values::duration")]
    pub(crate) look_every: Duration,
    #[serde(deserialize_with = "values::duration")]
    pub(crate) drain: Duration,
}

impl Default for Serve {
    fn default() -> Self {
        Serve {
            listen: SocketAddr::from(([127, 0, 0, 1], 8642)),
            relay: true,
            reconciler: true,
            sweeper: true,
            topic_retention: true,
            reconcile_every: Duration::from_secs(60),
            sweep_every: Duration::from_secs(60 * 60),
            look_every: Duration::from_secs(5),
            drain: Duration::from_secs(30),
        }
    }
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Auth {
    tokens: Option<Secret>,
}

impl Auth {
    /// The tokens, from where they are kept.
    pub(crate) fn tokens(&self) -> Result<Option<Tokens>, Failed> {
        let Some(kept) = &self.tokens else { return Ok(None) };
        Ok(Some(Tokens::parse(kept.reveal()?.expose_secret())?))
    }
}
