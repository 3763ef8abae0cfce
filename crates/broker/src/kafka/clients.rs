//! Clients of the library, each made the same way, and what they last complained about.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use helenus_model::backend::Endpoint;
use rdkafka::ClientConfig;
use rdkafka::client::ClientContext;
use rdkafka::config::{FromClientConfigAndContext, RDKafkaLogLevel};
use rdkafka::consumer::ConsumerContext;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::producer::{DeliveryResult, ProducerContext};
use secrecy::ExposeSecret;

use super::deliveries::Receipt;
use super::error::{Error, code_of, is_denial, is_passing};
use super::heap;

/// How Kafka is used.
#[derive(Clone, Debug)]
pub struct Options {
    /// How long a request may take.
    pub timeout: Duration,
    /// Asks the cluster to make topics that something is published to; it does if its
    /// `auto.create.topics.enable` is on.
    pub create_topics: bool,
    /// Settings of librdkafka by their names, over everything else.
    pub settings: BTreeMap<String, String>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            timeout: Duration::from_secs(30),
            create_topics: false,
            settings: BTreeMap::new(),
        }
    }
}

/// Makes clients.
#[derive(Clone)]
pub(super) struct Clients {
    pub(super) brokers: String,
    pub(super) options: Options,
    config: ClientConfig,
}

impl fmt::Debug for Clients {
    /// Without the settings: a password may be among them.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Clients").field("brokers", &self.brokers).finish_non_exhaustive()
    }
}

impl Clients {
    pub(super) fn new(endpoint: &Endpoint, options: Options) -> Self {
        heap::keep();
        let brokers = endpoint.addresses().join(",");
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", &brokers).set("client.id", "helenus");
        // librdkafka writes to stderr by itself; what it says comes back in errors instead.
        config.set("log_level", "0").set_log_level(RDKafkaLogLevel::Emerg);
        let (plain, encrypted) = match &endpoint.username {
            Some(_) => ("sasl_plaintext", "sasl_ssl"),
            None => ("plaintext", "ssl"),
        };
        config.set("security.protocol", if endpoint.tls { encrypted } else { plain });
        if let Some(file) = &endpoint.ca_file {
            config.set("ssl.ca.location", file.display().to_string());
        }
        if let Some(username) = &endpoint.username {
            config.set("sasl.mechanism", "PLAIN").set("sasl.username", username);
        }
        if let Some(password) = &endpoint.password {
            config.set("sasl.password", password.expose_secret());
        }
        Clients { brokers, options, config }
    }

    /// A client with these settings beside the common ones.
    pub(super) fn make<T, C>(&self, settings: &[(&str, &str)]) -> Result<(T, C), Error>
    where
        T: FromClientConfigAndContext<C>,
        C: ClientContext + Clone + Default,
    {
        let mut config = self.config.clone();
        for (key, value) in settings {
            config.set(*key, *value);
        }
        for (key, value) in &self.options.settings {
            config.set(key, value);
        }
        let context = C::default();
        let client = config.create_with_context(context.clone());
        client.map(|client| (client, context)).map_err(|source| Error::Settings { source })
    }

    /// What an error that left nothing behind means.
    pub(super) fn failed(&self, context: &Context, what: String, source: KafkaError) -> Error {
        let brokers = self.brokers.clone();
        if let Some(reason) = context.login() {
            return Error::Login { brokers, reason };
        }
        match code_of(&source) {
            Some(code) if is_denial(code) => Error::Denied { what, source },
            Some(code) if is_passing(code) => {
                let reason = context.last().unwrap_or_else(|| code.to_string());
                Error::Unreachable { brokers, reason }
            }
            _ => Error::Refused { what, source },
        }
    }
}

/// What a client complained about outside of any request.
#[derive(Clone, Debug, Default)]
pub(super) struct Context {
    said: Arc<Mutex<Said>>,
}

#[derive(Debug, Default)]
struct Said {
    last: Option<String>,
    login: Option<String>,
    /// Whether the client has given up for good.
    fatal: bool,
}

impl Context {
    fn with<T>(&self, look: impl FnOnce(&mut Said) -> T) -> T {
        look(&mut self.said.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Why the last attempt to log in failed, if it did.
    fn login(&self) -> Option<String> {
        self.with(|said| said.login.clone())
    }

    fn last(&self) -> Option<String> {
        self.with(|said| said.last.clone())
    }

    pub(super) fn has_given_up(&self) -> bool {
        self.with(|said| said.fatal)
    }
}

impl ClientContext for Context {
    fn log(&self, _: RDKafkaLogLevel, facility: &str, message: &str) {
        tracing::debug!(facility, "{message}");
    }

    fn error(&self, error: KafkaError, reason: &str) {
        let code = code_of(&error);
        tracing::debug!(%error, reason, "kafka client");
        self.with(|said| {
            said.last = Some(reason.to_owned());
            match code {
                Some(
                    RDKafkaErrorCode::Authentication | RDKafkaErrorCode::SaslAuthenticationFailed,
                ) => {
                    said.login = Some(reason.to_owned());
                }
                Some(RDKafkaErrorCode::Fatal | RDKafkaErrorCode::GaplessGuarantee) => {
                    said.fatal = true;
                }
                _ => {}
            }
        });
    }
}

impl ConsumerContext for Context {}

impl ProducerContext for Context {
    type DeliveryOpaque = Box<Receipt>;

    fn delivery(&self, result: &DeliveryResult<'_>, receipt: Box<Receipt>) {
        receipt.ended(result);
    }
}
