//! Every key with its meaning and its default: what `helenus init` writes, and what an unknown key
//! is compared with.

/// A section of the file.
pub(super) struct Section {
    pub(super) name: &'static str,
    about: &'static str,
    pub(super) keys: &'static [Key],
}

/// A key of a section.
pub(super) struct Key {
    pub(super) name: &'static str,
    about: &'static str,
    /// The value as it stands in the file; commented out where it is only an example.
    value: &'static str,
    is_default: bool,
}

const fn key(name: &'static str, value: &'static str, about: &'static str) -> Key {
    Key { name, about, value, is_default: true }
}

const fn example(name: &'static str, value: &'static str, about: &'static str) -> Key {
    Key { name, about, value, is_default: false }
}

const USERNAME: Key = example("username", "\"helenus\"", "User to log in as, if not in the URL.");
const PASSWORD: Key = example(
    "password",
    "{ file = \"/run/secrets/password\" }",
    "Where the password is: { file = \"PATH\" } or { env = \"NAME\" }. Never the password itself.",
);

pub(super) const SECTIONS: &[Section] = &[
    Section {
        name: "store",
        about: "Where messages, receipts and events are kept.",
        keys: &[
            key(
                "url",
                "\"sqlite:helenus.db\"",
                "A file (sqlite:PATH), or a cluster (cassandra://node1,node2:9042/keyspace).\n\
                 Any network URL here takes ?tls=true and &ca_file=PATH.",
            ),
            USERNAME,
            PASSWORD,
            key(
                "append_bytes_max",
                "\"4MiB\"",
                "The largest append of events. A Cassandra node that takes less has its way.",
            ),
            key(
                "operation_window",
                "\"24h\"",
                "How long operation ids are remembered; ids older than half of it are refused.",
            ),
            example(
                "events_table",
                "\"domain_events\"",
                "On a cluster, the whole name of the table of events.",
            ),
        ],
    },
    Section {
        name: "store.cassandra",
        about: "How a cluster is used. All writers of a keyspace need the same.",
        keys: &[
            key("prefix", "\"helenus_\"", "What the names of its tables start with."),
            key(
                "replication",
                "1",
                "Copies, where the keyspace does not exist yet. In several data centres:\n\
                 replication = { dc1 = 3, dc2 = 3 }. Three copies keep events through a node's loss.",
            ),
            key(
                "consistency",
                "\"quorum\"",
                "How many replicas answer: one, quorum, local_quorum or all.",
            ),
            key(
                "serial_consistency",
                "\"serial\"",
                "How far a Paxos round reaches: serial (all data centres) or local_serial. The\n\
                 keyspace's first writer decides; others with another level are refused.",
            ),
            example("local_dc", "\"dc1\"", "The data centre whose nodes are asked first."),
            key("request_timeout", "\"5s\"", "How long one request may take."),
            key("connect_timeout", "\"5s\"", "How long a connection may take to open."),
            example(
                "client_certificate_file",
                "\"/etc/helenus/client.pem\"",
                "For nodes that ask for a certificate (PEM), with ?tls=true in the URL.",
            ),
            example(
                "client_key_file",
                "\"/etc/helenus/client.key\"",
                "The certificate's key (PEM).",
            ),
        ],
    },
    Section {
        name: "outbox",
        about: "Messages that are staged to be published.",
        keys: &[
            key("register", "true", "Whether `helenus serve` looks after it and names it."),
            example(
                "shards",
                "16",
                "Over how many shards messages are spread. Whoever uses the store first decides, 16\n\
                 unless said; `helenus outbox reshard` changes it.",
            ),
            key("keep_done", "\"30d\"", "How long the sweeper keeps messages that are published."),
            key("bucket_ttl", "\"1d\"", "How long messages staged in time buckets are kept."),
            key(
                "bucket_look_back",
                "\"1h\"",
                "How far back time buckets are looked at for messages that were not published.",
            ),
        ],
    },
    Section {
        name: "inbox",
        about: "Receipts of messages that were processed.",
        keys: &[
            key("register", "true", "Whether `helenus serve` looks after it and names it."),
            key(
                "receipt_ttl",
                "\"30d\"",
                "How long receipts are kept: longer than any topic keeps its messages, or a message\n\
                 that comes again is processed again. `helenus doctor` compares the two.",
            ),
            key(
                "topics",
                "[]",
                "The topics whose messages it receives, for that comparison; every topic if none.",
            ),
        ],
    },
    Section {
        name: "broker",
        about: "Where messages are published to.",
        keys: &[
            key(
                "url",
                "\"embedded:\"",
                "Topics in the store's file (embedded:), or Kafka (kafka://broker1:9092,broker2).",
            ),
            USERNAME,
            PASSWORD,
            key(
                "create_topics",
                "true",
                "Make topics that are not there when something is published to them. Kafka does if\n\
                 its auto.create.topics.enable is on.",
            ),
            key("partitions", "4", "Partitions of topics that the embedded broker makes."),
            key("request_timeout", "\"30s\"", "How long one request to Kafka may take."),
            key(
                "retention",
                "\"7d\"",
                "How long `helenus serve` keeps messages in embedded topics. Kafka's topics have\n\
                 retention.ms.",
            ),
            example(
                "settings",
                "{ \"sasl.mechanism\" = \"SCRAM-SHA-256\" }",
                "Settings of librdkafka by their names, over everything else. In the environment\n\
                 as name=value,name=value",
            ),
        ],
    },
    Section {
        name: "relay",
        about: "From the outbox into topics. All relays of a store need the same.",
        keys: &[
            key(
                "mode",
                "\"exactly-once\"",
                "exactly-once: consumers that read committed messages see each once. at-least-once:\n\
                 no transactions, less delay, after a crash some messages again.",
            ),
            key(
                "ordering",
                "\"aggregate\"",
                "What waits for a message that is refused: the later ones of its ordering key\n\
                 (aggregate), of its topic's partition (partition) or all (global). The last two\n\
                 publish in one lane.",
            ),
            key("lanes", "4", "How many relays can share the work, at most."),
            key("batch", "500", "Messages in a transaction, at most."),
            key("catch_up_batch", "5000", "The same while catching up."),
            key(
                "catch_up_after",
                "\"10s\"",
                "Catching up begins when something is due for so long.",
            ),
            key("lease_ttl", "\"10s\"", "How long a relay that does not answer keeps its lanes."),
            key(
                "poll_most",
                "\"1s\"",
                "How long a relay waits between looks when there is nothing; a third of lease_ttl at\n\
                 most.",
            ),
            key(
                "hints",
                "false",
                "Be woken by capture agents (capture.hints), so that poll_most can be long.",
            ),
            key("max_attempts", "8", "Attempts after which a message that is refused is parked."),
            key("backoff_longest", "\"60s\"", "The longest wait between two attempts."),
            key(
                "after_parking",
                "\"stop\"",
                "Whether the later messages of a parked one's ordering key stop or go-on.",
            ),
            key(
                "deduplicate",
                "true",
                "Publish an event once however many messages tell of it: event_id, aggregate_type\n\
                 and aggregate_id in their metadata say which it is.",
            ),
            key(
                "down_after",
                "\"5m\"",
                "Publishing counts as down when something has been due for longer.",
            ),
            example(
                "topics",
                "{ \"orders\" = \"shop.orders\" }",
                "Topics of channels whose topic has another name.",
            ),
        ],
    },
    Section {
        name: "serve",
        about: "What `helenus serve` runs, and where it answers.",
        keys: &[
            key(
                "listen",
                "\"127.0.0.1:8642\"",
                "Address of /healthz, /readyz, /metrics and /engine/snapshot. One that other machines\n\
                 can reach needs auth.tokens.",
            ),
            key("relay", "true", "Publish what is staged."),
            key("reconciler", "true", "Finish what somebody began and did not end."),
            key("sweeper", "true", "Remove messages and receipts that are done and old."),
            key("topic_retention", "true", "Remove old messages from embedded topics."),
            key("reconcile_every", "\"1m\"", "How often the reconciler looks."),
            key("sweep_every", "\"1h\"", "How often old things are removed."),
            key(
                "look_every",
                "\"5s\"",
                "How often store and broker are looked at, for /readyz and /metrics.",
            ),
            key("drain", "\"30s\"", "How long it may finish what it has begun when told to end."),
        ],
    },
    Section {
        name: "auth",
        about: "Who may ask `helenus serve`, where that is not everybody on this machine.",
        keys: &[example(
            "tokens",
            "{ file = \"/run/secrets/tokens\" }",
            "Where the tokens are, each on a line after its role (viewer or operator), of 16\n\
             characters at least. Whoever asks shows one: Authorization: Bearer TOKEN",
        )],
    },
    Section {
        name: "metadata",
        about: "Where checkpoints, heartbeats and locks are shown.",
        keys: &[
            key(
                "url",
                "\"embedded:\"",
                "Tables in the store's file (embedded:), or Redis (redis://host:6379/0).",
            ),
            USERNAME,
            PASSWORD,
        ],
    },
    Section {
        name: "target",
        about: "Where changes are replicated to.",
        keys: &[
            example(
                "url",
                "\"postgres://helenus@localhost/replica\"",
                "PostgreSQL (postgres://user@host:5432/database), or a file (sqlite:PATH).",
            ),
            USERNAME,
            PASSWORD,
        ],
    },
    Section {
        name: "registry",
        about: "The schema registry, for Avro.",
        keys: &[example(
            "url",
            "\"http://localhost:8081\"",
            "Any registry that speaks Confluent's API, with its path.",
        )],
    },
    Section {
        name: "capture",
        about: "Reading a node's commit log.",
        keys: &[
            example("cdc_raw", "\"/var/lib/cassandra/cdc_raw\"", "The node's cdc_raw_directory."),
            example(
                "url",
                "\"cassandra://127.0.0.1:9042\"",
                "The node itself, for its schema; store.url if that is a cluster.",
            ),
            USERNAME,
            PASSWORD,
            example("node", "\"node-1\"", "Its name in events; the host of the URL if not given."),
            key(
                "state",
                "\"helenus-capture\"",
                "Folder for the position, the schemas seen and what could not be decoded.",
            ),
            key("topic_prefix", "\"cassandra\"", "Topics are called PREFIX.KEYSPACE.TABLE."),
            key("partitions", "8", "Partitions of the topics it makes."),
            key(
                "tables",
                "[]",
                "Tables to capture, as \"shop.*\" or \"shop.orders\"; all that have cdc on if none.",
            ),
            example(
                "mask",
                "{ \"shop.people.email\" = \"hash\", \"shop.people.pin\" = \"drop\" }",
                "Columns whose values are hashed or left out. \"shop.people.*\" is every column that is not\n\
                 named and not in the primary key: with it, \"keep\" what may leave.",
            ),
            example(
                "mask_salt",
                "{ file = \"/run/secrets/salt\" }",
                "The salt of the hashes, kept as a password is: in a file or in the environment.",
            ),
            example(
                "hints",
                "[\"shop.helenus_outbox_messages\"]",
                "Outboxes in this cluster whose relays are told at once what was staged\n\
                 (relay.hints). Each needs ALTER TABLE shop.helenus_outbox_messages WITH cdc = true.",
            ),
            key(
                "read_ahead",
                "false",
                "Read to the last valid marker, before the node has synced it: sooner, but a power\n\
                 failure may take from the node what was published.",
            ),
            example(
                "total_space",
                "\"4096MiB\"",
                "What cdc_raw may hold, where the node does not tell (cdc_total_space).",
            ),
            example(
                "listen",
                "\"127.0.0.1:8643\"",
                "Where `capture run` answers /healthz, /readyz and /metrics; nowhere if not given.\n\
                 An address that others can reach needs auth.tokens.",
            ),
        ],
    },
    Section {
        name: "log",
        about: "Log lines on stderr.",
        keys: &[
            key(
                "level",
                "\"warn\"",
                "error, warn, info, debug or trace, also per part: \"info,helenus_relay=debug\".",
            ),
            key("format", "\"text\"", "text or json."),
        ],
    },
];

/// Every key as `section.key`.
pub(super) fn names() -> impl Iterator<Item = String> {
    SECTIONS.iter().flat_map(|section| {
        section.keys.iter().map(move |key| format!("{}.{}", section.name, key.name))
    })
}

/// What may stand in a section, or outside of all: keys and sections, by their full names.
pub(super) fn beside(section: Option<&Section>) -> impl Iterator<Item = String> {
    let prefix = section.map_or_else(String::new, |section| format!("{}.", section.name));
    let sections = SECTIONS.iter().map(|section| section.name.to_owned());
    names()
        .chain(sections)
        .filter(move |name| name.strip_prefix(&prefix).is_some_and(|rest| !rest.contains('.')))
}

/// The file `helenus init` writes.
pub(crate) fn template() -> String {
    let mut text = "# Configuration of Helenus. Every key has a default or may be left out.\n\
                    # The environment overrides the file: HELENUS_STORE__URL is store.url.\n"
        .to_owned();
    for section in SECTIONS {
        text.push_str(&format!("\n# {}\n[{}]\n", section.about, section.name));
        for key in section.keys {
            for line in key.about.lines() {
                text.push_str(&format!("# {line}\n"));
            }
            let mark = if key.is_default { "" } else { "# " };
            text.push_str(&format!("{mark}{} = {}\n", key.name, key.value));
        }
    }
    text
}
