//! `helenus doctor`: looks at everything the configuration names, and changes none of it.

mod retention;

use std::path::Path;
use std::time::Duration;

use helenus::backend::{
    BrokerUrl, Endpoint, MetadataUrl, Reached, StoreUrl, TargetUrl, Unreachable,
};
use helenus::capture::node::Node;
use helenus::capture::state::State;
use helenus::{Failure, Inspection, Ports, capture, inspect, probe, told};
use serde::Serialize;

use crate::config::{Config, ConfigError, Secret};
use crate::exit::{Failed, Outcome};
use crate::output::Output;

/// How long a service may take to answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// The same for Kafka, whose client asks again and again until this is over.
const KAFKA_PATIENCE: Duration = Duration::from_secs(4);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Status {
    Ok,
    /// Something to think about; the command does not fail for it.
    Warning,
    Failed,
}

/// One thing that was looked at.
#[derive(Debug, Serialize)]
struct Finding {
    check: &'static str,
    status: Status,
    detail: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    remedy: Option<String>,
}

impl Finding {
    fn ok(check: &'static str, detail: impl Into<String>) -> Self {
        Finding { check, status: Status::Ok, detail: detail.into(), remedy: None }
    }

    fn failed(check: &'static str, error: &(dyn Failure + 'static)) -> Self {
        let remedy = error.remedy().map(Into::into);
        Finding { check, status: Status::Failed, detail: told(error), remedy }
    }

    fn of_service(check: &'static str, url: &str, asked: Result<Reached, Unreachable>) -> Self {
        match asked {
            Ok(Reached { product, detail }) => {
                Finding::ok(check, format!("{product} at {url} ({detail})"))
            }
            Err(error) => Finding::failed(check, &error),
        }
    }
}

pub(crate) async fn run(
    config: Result<Config, ConfigError>,
    output: &Output,
) -> Result<Outcome, Failed> {
    let findings = match config {
        Err(error) => vec![Finding::failed("configuration", &error)],
        Ok(config) => Box::pin(examine(config)).await,
    };
    let healthy = findings.iter().all(|finding| finding.status != Status::Failed);
    output.document(&serde_json::json!({ "healthy": healthy, "checks": findings }));
    let rows = findings.iter().map(|finding| {
        let status = match finding.status {
            Status::Ok => "ok",
            Status::Warning => "WARNING",
            Status::Failed => "FAILED",
        };
        [finding.check.to_owned(), status.to_owned(), finding.detail.clone()]
    });
    output.table(["check", "status", "found"], rows.collect());
    for finding in &findings {
        if let Some(remedy) = &finding.remedy {
            output.line(format!("{}: {remedy}", finding.check));
        }
    }
    Ok(if healthy { Outcome::Done } else { Outcome::ChecksFailed })
}

async fn examine(config: Config) -> Vec<Finding> {
    let read = match &config.file {
        Some(file) => format!("{}: every key is known and well-formed", file.display()),
        None => "there is no helenus.toml here: every key has its default".to_owned(),
    };
    // All at once: a service that does not answer takes its whole time.
    let (store, broker, receipts, metadata, target, registry, captured) = tokio::join!(
        store(&config),
        broker(&config),
        retention::receipts(&config),
        metadata(&config),
        target(&config),
        registry(&config),
        captured(&config)
    );
    let mut findings = vec![Finding::ok("configuration", read), store, broker];
    let others = [receipts, metadata, target, registry, tokens(&config)];
    findings.extend(others.into_iter().flatten());
    if let Some(folder) = &config.capture.cdc_raw {
        findings.extend([cdc_raw(folder), capture_state(&config.capture.state)]);
    }
    findings.extend(captured);
    findings
}

/// Whether `helenus serve` would find the tokens it is to ask for.
fn tokens(config: &Config) -> Option<Finding> {
    match config.auth.tokens() {
        Ok(tokens) => tokens.map(|_| Finding::ok("tokens", "they can be read")),
        Err(failed) => Some(Finding::failed("tokens", failed.error())),
    }
}

async fn registry(config: &Config) -> Option<Finding> {
    let url = config.registry.url.as_ref()?;
    let asked = probe::registry(url, PATIENCE).await;
    Some(Finding::of_service("registry", &url.to_string(), asked))
}

async fn store(config: &Config) -> Finding {
    match &config.store.url {
        StoreUrl::Sqlite(path) => file("store", path).await,
        StoreUrl::Cassandra(endpoint) => {
            let login = (&config.store.username, &config.store.password);
            match with_login("store", endpoint, login) {
                Ok(endpoint) => {
                    let asked =
                        probe::cassandra(&endpoint, &config.store_options().cassandra, PATIENCE)
                            .await;
                    Finding::of_service("store", &config.store.url.to_string(), asked)
                }
                Err(finding) => finding,
            }
        }
    }
}

async fn broker(config: &Config) -> Finding {
    match &config.broker.url {
        BrokerUrl::Embedded if matches!(config.store.url, StoreUrl::Sqlite(_)) => {
            Finding::ok("broker", "topics in the store's file")
        }
        BrokerUrl::Embedded => Finding {
            check: "broker",
            status: Status::Failed,
            detail: "the embedded broker lives in the store's file, and the store is not a file"
                .to_owned(),
            remedy: Some("set broker.url, or keep the store in a file".to_owned()),
        },
        BrokerUrl::Kafka(_) => match config.broker.url_with_login() {
            Ok(BrokerUrl::Kafka(endpoint)) => {
                let settings = config.broker.options().settings;
                let asked = probe::kafka(&endpoint, settings, KAFKA_PATIENCE).await;
                Finding::of_service("broker", &config.broker.url.to_string(), asked)
            }
            Ok(BrokerUrl::Embedded) => Finding::ok("broker", "topics in the store's file"),
            Err(error) => Finding::failed("broker", &error),
        },
    }
}

async fn metadata(config: &Config) -> Option<Finding> {
    let MetadataUrl::Redis(endpoint) = &config.metadata.url else { return None };
    let login = (&config.metadata.username, &config.metadata.password);
    Some(match with_login("metadata", endpoint, login) {
        Ok(endpoint) => {
            let asked = probe::redis(&endpoint, PATIENCE).await;
            Finding::of_service("metadata", &config.metadata.url.to_string(), asked)
        }
        Err(finding) => finding,
    })
}

async fn target(config: &Config) -> Option<Finding> {
    Some(match config.target.url.as_ref()? {
        TargetUrl::Sqlite(path) => file("target", path).await,
        url @ TargetUrl::Postgres(endpoint) => {
            let login = (&config.target.username, &config.target.password);
            match with_login("target", endpoint, login) {
                Ok(endpoint) => {
                    let asked = probe::postgres(&endpoint, PATIENCE).await;
                    Finding::of_service("target", &url.to_string(), asked)
                }
                Err(finding) => finding,
            }
        }
    })
}

/// The endpoint with the user and the password the configuration keeps apart from the URL.
fn with_login(
    check: &'static str,
    endpoint: &Endpoint,
    (username, password): (&Option<String>, &Option<Secret>),
) -> Result<Endpoint, Finding> {
    let mut endpoint = endpoint.clone();
    let password = match password.as_ref().map(Secret::reveal).transpose() {
        Ok(password) => password,
        Err(error) => {
            let remedy = Some(format!("put the password where {check}.password says it is"));
            return Err(Finding { check, status: Status::Failed, detail: told(&error), remedy });
        }
    };
    endpoint.set_credentials(username.clone(), password);
    Ok(endpoint)
}

async fn file(check: &'static str, path: &Path) -> Finding {
    match inspect(path).await {
        Ok(Inspection::Absent) => {
            // Made without a name and gone at once: it only shows that files can be made here.
            let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
            if let Err(error) = tempfile::tempfile_in(folder.unwrap_or(Path::new("."))) {
                let detail = format!("{} cannot be created: {error}", path.display());
                let remedy = Some("name a file in a folder that may be written".to_owned());
                return Finding { check, status: Status::Failed, detail, remedy };
            }
            Finding::ok(check, format!("{} will be created when first used", path.display()))
        }
        Ok(Inspection::Sound { bytes }) => {
            Finding::ok(check, format!("{} is sound, {bytes} bytes", path.display()))
        }
        Err(error) => Finding::failed(check, &error),
    }
}

/// Whether the node keeps its log for readers, where the configuration says it does.
async fn captured(config: &Config) -> Option<Finding> {
    let check = "captured node";
    // Without a folder there is no agent, and who only reads segments may have no node.
    let is_cluster = matches!(config.store.url, StoreUrl::Cassandra(_));
    if config.capture.url.is_none() && (config.capture.cdc_raw.is_none() || !is_cluster) {
        return None;
    }
    let endpoint = match super::capture::endpoint(None, config) {
        Ok(endpoint) => endpoint,
        Err(error) => return Some(Finding::failed(check, error.error())),
    };
    let node = Node::new(endpoint.clone(), std::sync::Arc::clone(&Ports::system().clock));
    let folder = config.capture.cdc_raw.as_deref().unwrap_or(Path::new("cdc_raw"));
    for (keyspace, table) in &config.capture.hints {
        if let Err(error) = Box::pin(node.outbox(keyspace, table)).await {
            return Some(Finding::failed(check, &error));
        }
    }
    Some(match Box::pin(node.check(folder)).await {
        Ok(settings) => {
            if let Some(finding) = misfit(config, &endpoint, &node).await {
                return Some(finding);
            }
            let period = settings.sync_period.as_deref().unwrap_or("an unknown period");
            let detail = format!(
                "cassandra:{endpoint}: change data capture is on, the log is synced every {period}"
            );
            if settings.deletes_unread {
                return Some(Finding {
                    check,
                    status: Status::Warning,
                    detail: format!(
                        "{detail}; while cdc_raw is full, what nobody has read is deleted"
                    ),
                    remedy: Some(
                        "set cdc_block_writes: true in cassandra.yaml, or lose changes then"
                            .to_owned(),
                    ),
                });
            }
            Finding::ok(check, detail)
        }
        Err(error) => Finding::failed(check, &error),
    })
}

/// What an agent with this configuration would be refused for, by the node's schema.
async fn misfit(config: &Config, endpoint: &Endpoint, node: &Node) -> Option<Finding> {
    // Without a folder there is no agent; that is told elsewhere.
    config.capture.cdc_raw.as_ref()?;
    let options = match super::capture::options(config, endpoint) {
        Ok(options) => options,
        Err(error) => return Some(Finding::failed("captured node", error.error())),
    };
    let document = match Box::pin(node.schema()).await {
        Ok(document) => document,
        Err(error) => return Some(Finding::failed("captured node", &error)),
    };
    let refused = capture::check_options(&options, &document).err()?;
    Some(Finding::failed("captured node", &refused))
}

/// Whether an agent could remember there what it has done.
fn capture_state(folder: &Path) -> Finding {
    let check = "capture state";
    if State::is_in_use(folder) {
        return Finding::ok(check, format!("{}: an agent uses it", folder.display()));
    }
    // What an agent would make is made in what is there.
    let there =
        folder.ancestors().find(|path| path.try_exists().unwrap_or(true)).unwrap_or(Path::new("."));
    match tempfile::tempfile_in(there) {
        Ok(_) => Finding::ok(check, format!("{} can be written", folder.display())),
        Err(error) => Finding {
            check,
            status: Status::Failed,
            detail: format!("{} cannot be written: {error}", folder.display()),
            remedy: Some("set capture.state to a folder that this user may write".to_owned()),
        },
    }
}

fn cdc_raw(folder: &Path) -> Finding {
    if let Err(error) = capture::check_folder(folder) {
        return Finding::failed("capture", &error);
    }
    match capture::segments::list(folder) {
        Ok(segments) => {
            let unread = segments.iter().filter(|segment| segment.index.is_some()).count();
            let all = segments.len();
            let detail = format!("{}: {all} segments, {unread} with changes", folder.display());
            Finding::ok("capture", detail)
        }
        Err(error) => Finding::failed("capture", &error),
    }
}
