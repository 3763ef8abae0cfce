//! One session for the store, opened when it is first needed.

use std::sync::Arc;
use std::time::Duration;

use helenus_model::backend::Endpoint;
use scylla::client::execution_profile::ExecutionProfile;
use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;
use secrecy::ExposeSecret;
use tokio::sync::{OnceCell, watch};

use super::annex::Annex;
use super::group::Groups;
use super::messages::Messages;
use super::options::Names;
use super::statements::Statements;
use super::{Error, Options, routing, tables};
use crate::Ports;
use crate::append::Bounds;

pub(super) const REMEDY: &str =
    "check that Cassandra runs there and that store.url, user name and password are right";

/// Streams of events in a Cassandra cluster. Cheap to clone; clones share a session.
///
/// ```no_run
/// use helenus_model::backend::StoreUrl;
/// use helenus_model::{Expected, NewEvent, Payload, StreamId};
/// use helenus_store::Ports;
/// use helenus_store::cassandra::{CassandraStore, Options};
/// use helenus_store::contract::{Append, EventStore};
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let StoreUrl::Cassandra(endpoint) = "cassandra://node1,node2/shop".parse()? else { return Ok(()) };
/// let store = CassandraStore::new(endpoint, Options::default(), Ports::system())?;
/// let placed = NewEvent::new("order.placed", Payload::json(&serde_json::json!({"total": 12})));
/// store.append(Append::new(StreamId::new("order-1")?, Expected::NoStream, vec![placed])).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct CassandraStore {
    shared: Arc<Shared>,
    pub(super) ports: Ports,
}

#[derive(Debug)]
struct Shared {
    source: Source,
    options: Options,
    names: Names,
    link: OnceCell<Link>,
    annex: OnceCell<Annex>,
    groups: Arc<Groups>,
    messages: OnceCell<Messages>,
    /// Sends whenever this process has staged a message.
    woken: watch::Sender<u64>,
}

#[derive(Debug)]
enum Source {
    Endpoint(Endpoint),
    Session(Arc<Session>),
}

/// An open session with everything prepared.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) session: Arc<Session>,
    pub(super) statements: Statements,
    /// The smaller of what is configured and what the node takes.
    pub(super) append_bytes_max: usize,
}

impl CassandraStore {
    /// A store at `endpoint`, whose path names the keyspace. Opens nothing yet.
    pub fn new(endpoint: Endpoint, options: Options, ports: Ports) -> Result<Self, Error> {
        let names = Names::new(&options, endpoint.path.as_deref())?;
        Ok(Self::on(Source::Endpoint(endpoint), names, options, ports))
    }

    /// A store on the host's own session, which stays the host's to close.
    pub fn with_session(
        session: Arc<Session>,
        options: Options,
        ports: Ports,
    ) -> Result<Self, Error> {
        let names = Names::new(&options, None)?;
        Ok(Self::on(Source::Session(session), names, options, ports))
    }

    fn on(source: Source, names: Names, options: Options, ports: Ports) -> Self {
        let (link, annex, groups) = (OnceCell::new(), OnceCell::new(), Arc::default());
        let (messages, woken) = (OnceCell::new(), watch::Sender::new(0));
        let shared = Shared { source, options, names, link, annex, groups, messages, woken };
        CassandraStore { shared: Arc::new(shared), ports }
    }

    /// The session; whoever comes first opens it, the others wait for that. A failure is not kept:
    /// the next one tries again.
    pub(super) async fn link(&self) -> Result<&Link, Error> {
        self.shared.link.get_or_try_init(|| Box::pin(self.shared.open())).await
    }

    /// The session, and what snapshots and archive need beyond it.
    pub(super) async fn annex(&self) -> Result<(&Link, &Annex), Error> {
        let (link, shared) = (self.link().await?, &self.shared);
        let open = || Box::pin(Annex::open(&link.session, &shared.names, &shared.options));
        Ok((link, shared.annex.get_or_try_init(open).await?))
    }

    /// The messaging tables, made and prepared by whoever needs them first.
    pub(super) async fn messages(&self) -> Result<&Messages, Error> {
        let shared = &self.shared;
        let opening = || {
            Box::pin(async {
                let session = Arc::clone(&self.link().await?.session);
                Messages::open(session, &shared.names, &shared.options, &self.ports).await
            })
        };
        shared.messages.get_or_try_init(opening).await
    }

    /// A table of the store, as statements name it.
    pub(super) fn table(&self, name: &str) -> String {
        self.shared.names.table(name)
    }

    pub(super) fn keyspace(&self) -> &str {
        &self.shared.names.keyspace
    }

    /// How long buckets are kept, and how far back they are looked at.
    pub(super) fn bucket_options(&self) -> (Duration, Duration) {
        (self.shared.options.bucket_ttl, self.shared.options.bucket_look_back)
    }

    pub(super) fn level(&self) -> scylla::statement::Consistency {
        self.shared.options.consistency.level()
    }

    pub(super) fn serial_read_level(&self) -> scylla::statement::Consistency {
        self.shared.options.serial_consistency.read_level()
    }

    pub(super) fn woken(&self) -> &watch::Sender<u64> {
        &self.shared.woken
    }

    /// Wakes whoever waits in this process for something to be staged.
    pub(super) fn wake(&self) {
        self.shared.woken.send_modify(|count| *count += 1);
    }

    pub(super) fn groups(&self) -> &Arc<Groups> {
        &self.shared.groups
    }

    pub(super) fn bounds(&self) -> Bounds {
        self.shared.options.bounds
    }
}

impl Shared {
    async fn open(&self) -> Result<Link, Error> {
        let session = match &self.source {
            Source::Endpoint(endpoint) => Arc::new(connect(endpoint, &self.options).await?),
            Source::Session(session) => Arc::clone(session),
        };
        tables::bootstrap(&session, &self.names, &self.options).await?;
        let statements = Statements::prepare(&session, &self.names, &self.options).await?;
        let configured = self.options.bounds.append_bytes_max;
        let taken = tables::mutation_bytes_max(&session).await;
        let append_bytes_max = taken.map_or(configured, |taken| configured.min(taken));
        Ok(Link { session, statements, append_bytes_max })
    }
}

/// Opens a session with the cluster.
pub async fn connect(endpoint: &Endpoint, options: &Options) -> Result<Session, Error> {
    let failed = |source| Error::Connect { url: format!("cassandra:{endpoint}"), source };
    let keyspace = Names::keyspace_of(options, endpoint.path.as_deref());
    let mut builder = SessionBuilder::new()
        .known_nodes(endpoint.addresses())
        // A cluster may have many others, and their schema is no business of ours.
        .keyspaces_to_fetch([keyspace])
        .connection_timeout(options.connect_timeout)
        .default_execution_profile_handle(profile(options).into_handle());
    if let (Some(user), Some(password)) = (&endpoint.username, &endpoint.password) {
        builder = builder.user(user, password.expose_secret());
    }
    if endpoint.tls {
        let config = helenus_tls::client_config_as(
            endpoint.ca_file.as_deref(),
            options.client_certificate.as_ref(),
        );
        let config = config.map_err(|error| failed(Box::new(error)))?;
        builder = builder.tls_context(Some(config));
    }
    builder.build().await.map_err(|error| failed(Box::new(error)))
}

fn profile(options: &Options) -> ExecutionProfile {
    ExecutionProfile::builder()
        .consistency(options.consistency.level())
        .serial_consistency(Some(options.serial_consistency.level()))
        .request_timeout(Some(options.request_timeout))
        .load_balancing_policy(routing::spread(options))
        .build()
}
