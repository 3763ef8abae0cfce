//! `helenus capture`: from a node's commit log to topics.

mod condition;

use std::borrow::Cow;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use helenus::backend::{BrokerUrl, Endpoint, StoreUrl};
use helenus::capture::agent::{Agent, Status};
use helenus::capture::cql::change::json::{Policy, Treatment};
use helenus::capture::metrics;
use helenus::capture::node::Node;
use helenus::capture::options::Options;
use helenus::capture::segments;
use helenus::capture::space::folder_bytes;
use helenus::capture::state::State;
use helenus::{Failure, Kind, Ports};
use helenus_server::Meters;
use secrecy::ExposeSecret;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::answering::Door;
use crate::args::{Capture, CaptureCommand};
use crate::config::{Config, Secret};
use crate::exit::{Failed, Outcome};
use crate::open;
use crate::output::Output;
use crate::signals::Interruption;

use condition::Told;

/// How long an agent that is told to stop may take to remember where it was.
const LAST_STEP: Duration = Duration::from_secs(2);

pub(crate) async fn run(
    capture: &Capture,
    config: Config,
    output: &Output,
) -> Result<Outcome, Failed> {
    match &capture.command {
        CaptureCommand::Schema { output: file } => {
            let node = node(capture, &config)?;
            let schema = Box::pin(node.schema()).await?;
            write(&schema, file.as_deref(), output)?;
            Ok(Outcome::Done)
        }
        CaptureCommand::Run { listen } => agent(capture, *listen, config, output).await,
        CaptureCommand::Status => status(&config, output),
    }
}

fn write(schema: &str, file: Option<&Path>, output: &Output) -> Result<(), Failed> {
    match file {
        Some(file) => std::fs::write(file, schema).map_err(Failed::system(
            format!("write {}", file.display()),
            "name a file that this user may write",
        )),
        None => {
            output.text(schema);
            Ok(())
        }
    }
}

async fn agent(
    capture: &Capture,
    listen: Option<SocketAddr>,
    config: Config,
    output: &Output,
) -> Result<Outcome, Failed> {
    let interruption = Interruption::listen()?;
    let door = match listen.or(config.capture.listen) {
        Some(address) => Some((Door::open(address, &config).await?, Meters::install()?)),
        None => None,
    };
    metrics::describe();
    let node = node(capture, &config)?;
    let mut options = options(&config, &endpoint(capture.node.as_ref(), &config)?)?;
    Box::pin(node.check(&options.cdc_raw)).await?;
    for (keyspace, table) in &config.capture.hints {
        options.hints.push(Box::pin(node.outbox(keyspace, table)).await?);
    }
    let store = match &config.broker.url {
        BrokerUrl::Embedded => Some(open::store(None, &config).await?),
        BrokerUrl::Kafka(_) => None,
    };
    let broker = open::broker(None, &config, store.as_ref())?;
    let clock = Arc::clone(&Ports::system().clock);
    let (folder, broker_url) = (options.cdc_raw.display().to_string(), &config.broker.url);
    let agent = Box::pin(Agent::start(options, broker, node, Arc::clone(&clock))).await?;
    let address = door.as_ref().map(|(door, _)| format!("http://{}", door.address));
    let answering = door
        .map(|(door, meters)| door.answer(Arc::new(Told::new(agent.watch(), clock)), meters, None));
    let listening = address.as_ref().map(|address| format!(", listening on {address}"));
    output.say(
        &json!({ "capturing": folder, "into": broker_url.to_string(), "listening": address }),
        &format!(
            "capturing {folder} into {broker_url}{}; Ctrl-C ends it",
            listening.unwrap_or_default()
        ),
    );
    let stop = CancellationToken::new();
    let mut running = Box::pin(agent.run(stop.clone()));
    let ended = tokio::select! {
        ended = &mut running => ended,
        signal = interruption.heard() => {
            tracing::info!(signal, "stopped");
            stop.cancel();
            // It may be waiting for an answer of the node. What is under way is dropped then: a restart
            // publishes it again, under the same ids.
            tokio::time::timeout(LAST_STEP, running).await.unwrap_or(Ok(()))
        }
    };
    if let Some(answering) = answering {
        answering.end().await;
    }
    if let Some(store) = store {
        store.close().await;
    }
    ended?;
    Ok(Outcome::Done)
}

/// How an agent of this configuration works; the outboxes it tells relays of are still to be found.
pub(super) fn options(config: &Config, endpoint: &Endpoint) -> Result<Options, Failed> {
    let capture = &config.capture;
    let cdc_raw = capture.cdc_raw.clone().ok_or(NotConfigured { key: "capture.cdc_raw" })?;
    let host = endpoint.addresses().into_iter().next().unwrap_or_default();
    let host = host.rsplit_once(':').map_or(host.as_str(), |(host, _)| host).to_owned();
    let salt = capture.mask_salt.as_ref().map(Secret::reveal).transpose()?;
    let salt = salt.as_ref().map_or("", |salt| salt.expose_secret());
    if salt.is_empty() && capture.mask.values().any(|how| *how != Treatment::Keep) {
        return Err(MasksWithoutSalt.into());
    }
    Ok(Options {
        node: capture.node.clone().unwrap_or(host).into(),
        topic_prefix: capture.topic_prefix.clone(),
        partitions: capture.partitions,
        tables: capture.tables.clone(),
        policy: Policy::new(capture.mask.clone(), salt.as_bytes()),
        read_ahead: capture.read_ahead,
        total_space: capture.total_space,
        ..Options::new(cdc_raw, &capture.state)
    })
}

fn node(capture: &Capture, config: &Config) -> Result<Node, Failed> {
    let endpoint = endpoint(capture.node.as_ref(), config)?;
    Ok(Node::new(endpoint, Arc::clone(&Ports::system().clock)))
}

/// The node that is named, or configured for capture, or as the store.
pub(super) fn endpoint(named: Option<&StoreUrl>, config: &Config) -> Result<Endpoint, Failed> {
    let (url, username, password) = match (named, &config.capture.url) {
        // The configured password is for the configured node, and goes nowhere else.
        (Some(url), _) => (url, &None, &None),
        (None, Some(url)) => (url, &config.capture.username, &config.capture.password),
        (None, None) => (&config.store.url, &config.store.username, &config.store.password),
    };
    let mut url = url.clone();
    let password = password.as_ref().map(Secret::reveal).transpose()?;
    url.set_credentials(username.clone(), password);
    match url {
        StoreUrl::Cassandra(endpoint) => Ok(endpoint),
        StoreUrl::Sqlite(_) => Err(NoNode.into()),
    }
}

/// What the agent last said of itself, and what lies in the folder now.
fn status(config: &Config, output: &Output) -> Result<Outcome, Failed> {
    let file = config.capture.state.join("status.json");
    let text = std::fs::read(&file).map_err(|source| NoStatus { file: file.clone(), source })?;
    let told: Status = serde_json::from_slice(&text)
        .map_err(|error| NoStatus { file, source: std::io::Error::other(error) })?;
    let waiting = match &config.capture.cdc_raw {
        Some(folder) => {
            let listed = segments::list(folder)?;
            let unread = listed.iter().filter(|segment| segment.index.is_some()).count();
            Some((unread, folder_bytes(folder).unwrap_or_default()))
        }
        None => None,
    };
    let mut document = json!(told);
    if let Some(document) = document.as_object_mut() {
        document.insert("running".to_owned(), json!(State::is_in_use(&config.capture.state)));
    }
    if let (Some(document), Some((unread, bytes))) = (document.as_object_mut(), waiting) {
        document.insert("segments_with_changes".to_owned(), json!(unread));
        document.insert("used_bytes".to_owned(), json!(bytes));
    }
    output.document(&document);
    let rows = document.as_object().into_iter().flatten();
    let rows = rows.map(|(name, value)| {
        let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        [name.replace('_', " "), if value == "null" { "-".to_owned() } else { value }]
    });
    output.table(["", ""], rows.collect());
    Ok(Outcome::Done)
}

/// What is captured is a cluster's node.
#[derive(Debug, thiserror::Error)]
#[error("no Cassandra node is named: capture.url and store.url are not a cluster's")]
pub(super) struct NoNode;

impl Failure for NoNode {
    fn kind(&self) -> Kind {
        Kind::Invalid
    }

    fn code(&self) -> &'static str {
        "not_configured"
    }

    fn remedy(&self) -> Option<Cow<'static, str>> {
        Some("set capture.url in helenus.toml, or name the node with --node".into())
    }
}

#[derive(Debug, thiserror::Error)]
#[error("{key} is not set")]
struct NotConfigured {
    key: &'static str,
}

impl Failure for NotConfigured {
    fn kind(&self) -> Kind {
        Kind::Invalid
    }

    fn code(&self) -> &'static str {
        "not_configured"
    }

    fn remedy(&self) -> Option<Cow<'static, str>> {
        Some(format!("set {} in helenus.toml; `helenus init` explains it", self.key).into())
    }
}

/// Whoever knows which values there may be could hash them all, and look for the same hashes: those of a
/// column, of a key, or the ids of events, which are made of what is left out too.
#[derive(Debug, thiserror::Error)]
#[error("capture.mask masks columns, and there is no capture.mask_salt, or an empty one")]
struct MasksWithoutSalt;

impl Failure for MasksWithoutSalt {
    fn kind(&self) -> Kind {
        Kind::Invalid
    }

    fn code(&self) -> &'static str {
        "no_salt"
    }

    fn remedy(&self) -> Option<Cow<'static, str>> {
        Some(
            "keep a secret of some length in a file, the same for all agents, and name it there"
                .into(),
        )
    }
}

#[derive(Debug, thiserror::Error)]
#[error("no agent has left its status in {}", file.display())]
struct NoStatus {
    file: PathBuf,
    #[source]
    source: std::io::Error,
}

impl Failure for NoStatus {
    fn kind(&self) -> Kind {
        Kind::NotFound
    }

    fn code(&self) -> &'static str {
        "no_status"
    }

    fn remedy(&self) -> Option<Cow<'static, str>> {
        Some("start one with `helenus capture run`, or set capture.state to its folder".into())
    }
}
