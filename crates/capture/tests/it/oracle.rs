//! The oracle: random tables and statements on a real node; what its segments say must be what the
//! node says.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use futures_util::{StreamExt, TryStreamExt, stream};
use helenus_capture::node::Node;
use helenus_capture::offline::{Found, Wanted, scan};
use helenus_capture::schema::History;
use helenus_capture::segments::list;
use helenus_cql::datatype::CqlType;
use helenus_cql::reconcile::TableState;
use helenus_cql::schema::TableId;
use helenus_cql::update::Seconds;
use helenus_model::backend::StoreUrl;
use helenus_model::{Random, SeededRandom, SystemClock, SystemRandom};
use helenus_testkit::serial;
use helenus_testkit::services::{Instance, Service, Spec};
use scylla::client::execution_profile::ExecutionProfile;
use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;

use crate::generator::{Shape, Table, Takes, Workload};

const KEYSPACE: &str = "ks";

fn is_proof() -> bool {
    std::env::var_os("HELENUS_PROOF").is_some()
}

/// Statements of a run and the tables they are on.
fn size() -> (usize, usize) {
    if is_proof() { (100_000, 64) } else { (3_000, 26) }
}

/// Until 2038 a node takes these times; a node that writes version 8 takes twenty years.
const IN_50: Takes = Takes { vectors: true, longest_ttl: 2_000_000 };
const IN_41: Takes = Takes { vectors: false, ..IN_50 };
const IN_VERSION_8: Takes = Takes { longest_ttl: 630_720_000, ..IN_50 };

#[tokio::test(flavor = "multi_thread")]
async fn oracle_rows_of_segments_are_the_rows_of_a_5_0_node() {
    prove("5.0", Spec::cassandra(), IN_50).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn oracle_rows_of_compressed_segments_are_the_rows_of_a_5_0_node() {
    prove("5.0, LZ4", compressed(Spec::cassandra(), "LZ4"), IN_50).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn oracle_rows_of_segments_of_version_8_are_the_rows_of_a_5_0_node() {
    let spec = Spec::cassandra().set("storage_compatibility_mode", "NONE");
    prove("5.0, version 8, Deflate", compressed(spec, "Deflate"), IN_VERSION_8).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn oracle_rows_of_segments_are_the_rows_of_a_4_1_node() {
    prove("4.1", Spec::of(Service::Cassandra41), IN_41).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn oracle_rows_of_compressed_segments_are_the_rows_of_a_4_1_node() {
    prove("4.1, Zstd", compressed(Spec::of(Service::Cassandra41), "Zstd"), IN_41).await;
}

fn compressed(spec: Spec, compressor: &str) -> Spec {
    spec.set("commitlog_compression", &format!("[{{class_name: {compressor}Compressor}}]"))
}

async fn prove(variant: &str, spec: Spec, takes: Takes) {
    let _alone = serial().unwrap();
    let seed = match std::env::var_os("HELENUS_SEED") {
        Some(seed) => seed.to_string_lossy().parse().unwrap(),
        None if is_proof() => SystemRandom.next_u64(),
        // A test must fail for whoever broke it, not for whoever comes after.
        None => 7,
    };
    println!("{variant}: HELENUS_SEED={seed}");
    let spec = spec.name("oracle").commitlog_periodic("200ms").cdc_total_space("4096MiB");
    let mut node = Instance::start(spec).unwrap();
    let endpoint = node.endpoint().to_string();
    // A busy machine may take its time over a schema change; an answer is waited for.
    let patient =
        ExecutionProfile::builder().request_timeout(Some(Duration::from_secs(300))).build();
    let session = SessionBuilder::new()
        .known_node(&endpoint)
        .default_execution_profile_handle(patient.into_handle())
        .build()
        .await
        .unwrap();
    let (statements, count) = size();
    let tables = create(&session, count, takes, seed).await;
    let former = recreate(&session, tables.last().unwrap(), seed).await;
    let refused = work(&session, &tables, statements, seed).await;
    // What lives for a second is gone after two.
    tokio::time::sleep(Duration::from_millis(2_100)).await;
    let at = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let StoreUrl::Cassandra(url) = format!("cassandra://{endpoint}").parse().unwrap() else {
        panic!("a cluster's URL");
    };
    let schema = Node::new(url, Arc::new(SystemClock::new())).schema().await.unwrap();
    let mut expected = Vec::new();
    for table in &tables {
        expected.push(select(&session, &table.name).await);
    }
    // A node that ends politely completes its segments.
    node.stop().unwrap();
    let logs: Vec<PathBuf> =
        list(&node.dir().join("cdc_raw")).unwrap().into_iter().map(|segment| segment.log).collect();
    let at = i64::try_from(at).unwrap();
    let found = merged(&logs, &schema, &tables, former, at);
    let rows = compare(&tables, &expected, &found, Read::InOrder, seed);
    assert!(rows > tables.len() * 3, "{rows} rows");
    // By a schema that does not say when it was taken, and by one of these tables alone.
    for own in [false, true] {
        let found = merged(&logs, &undated(&schema, own), &tables, former, at);
        compare(&tables, &expected, &found, Read::InOrder, seed);
    }
    // One by one, as `helenus segments rows` does: then only records that concern the table are decoded.
    let alone = tables.chunks(1).flat_map(|table| merged(&logs, &schema, table, former, at));
    compare(&tables, &expected, &alone.collect::<Vec<_>>(), Read::InOrder, seed);
    // Backwards, the first half of each file before the whole, and every third twice.
    let pieces = tempfile::tempdir().unwrap();
    let mut shuffled = Vec::new();
    for (number, log) in logs.iter().enumerate().rev() {
        let half = pieces.path().join(log.file_name().unwrap());
        let bytes = std::fs::read(log).unwrap();
        std::fs::write(&half, &bytes[..bytes.len() / 2]).unwrap();
        shuffled.extend([half, log.clone()]);
        shuffled.extend((number % 3 == 0).then(|| log.clone()));
    }
    let found = merged(&shuffled, &schema, &tables, former, at);
    compare(&tables, &expected, &found, Read::Shuffled, seed);
    println!(
        "proof: {variant}, seed {seed}: {statements} statements ({refused} refused by the node) on \
         {count} tables, {rows} rows from segments, 0 differ from SELECT JSON, nor from the same \
         segments backwards, cut and repeated"
    );
}

async fn create(session: &Session, count: usize, takes: Takes, seed: u64) -> Vec<Table> {
    let replication = "{'class': 'SimpleStrategy', 'replication_factor': 1}";
    run(session, &format!("CREATE KEYSPACE {KEYSPACE} WITH replication = {replication}")).await;
    run(
        session,
        &format!("CREATE TYPE {KEYSPACE}.addr (street text, \"No\" int, tags frozen<list<text>>)"),
    )
    .await;
    let random = SeededRandom::new(seed);
    let tables: Vec<Table> =
        (0..count).map(|number| Table::random(number, takes, &random)).collect();
    for table in &tables {
        run(session, &table.create(KEYSPACE)).await;
    }
    tables
}

/// Writes to a table, drops it and creates it again; the id it had.
///
/// Before anything else: when a table is dropped a node flushes all others, and what it shows of ties and
/// of counters that were deleted depends on that.
async fn recreate(session: &Session, table: &Table, seed: u64) -> TableId {
    let mut workload = [Workload::new(table.clone(), KEYSPACE, seed)];
    apply(session, &mut workload, 40).await;
    let query = "SELECT id FROM system_schema.tables WHERE keyspace_name = ? AND table_name = ?";
    let found = session.query_unpaged(query, (KEYSPACE, table.bare_name())).await.unwrap();
    let (id,) = found.into_rows_result().unwrap().single_row::<(uuid::Uuid,)>().unwrap();
    run(session, &format!("DROP TABLE {KEYSPACE}.{}", table.name)).await;
    run(session, &table.create(KEYSPACE)).await;
    TableId(id)
}

/// Runs the statements, half of them before the user type is altered.
async fn work(session: &Session, tables: &[Table], statements: usize, seed: u64) -> usize {
    let mut workloads: Vec<Workload> = tables
        .iter()
        .zip(seed..)
        .map(|(table, seed)| {
            let workload = Workload::new(table.clone(), KEYSPACE, seed);
            match partner(tables, table) {
                Some(partner) => workload.beside(partner),
                None => workload,
            }
        })
        .collect();
    let half = statements.div_ceil(2 * tables.len());
    let mut refused = apply(session, &mut workloads, half).await;
    for change in ["RENAME tags TO \"Étiquettes\"", "ADD land ascii"] {
        run(session, &format!("ALTER TYPE {KEYSPACE}.addr {change}")).await;
    }
    workloads.iter_mut().for_each(Workload::alter_type);
    refused += apply(session, &mut workloads, half).await;
    assert!(refused * 4 < statements, "{refused} of {statements} refused");
    refused
}

/// Runs a number of statements of each workload: those of one in order, workloads beside each other.
async fn apply(session: &Session, workloads: &mut [Workload], each: usize) -> usize {
    let refused = stream::iter(workloads).map(async |workload| {
        let mut refused = 0;
        for _ in 0..each {
            let statement = workload.next();
            if let Err(error) = session.query_unpaged(statement.as_str(), ()).await {
                let told = error.to_string();
                assert!(
                    told.contains("invalid") || told.contains("Invalid"),
                    "{statement}: {told}"
                );
                if refused == 0 {
                    println!("{statement}: {told}");
                }
                refused += 1;
            }
        }
        refused
    });
    refused.buffer_unordered(12).fold(0, async |sum, refused| sum + refused).await
}

async fn run(session: &Session, statement: &str) {
    let ran = session.query_unpaged(statement, ()).await;
    ran.unwrap_or_else(|error| panic!("{statement}: {error}"));
}

/// The next ordinary table: what the batches of this one also write to.
fn partner<'t>(tables: &'t [Table], table: &Table) -> Option<&'t Table> {
    let ordinary = |other: &&Table| other.shape == Shape::Ordinary && other.name != table.name;
    let behind = tables.iter().skip_while(|other| other.name != table.name);
    behind.chain(tables).find(ordinary)
}

async fn select(session: &Session, table: &str) -> Vec<String> {
    let query = format!("SELECT JSON * FROM {KEYSPACE}.{table}");
    let pages = session.query_iter(query, ()).await.unwrap();
    let rows = pages.rows_stream::<(String,)>().unwrap();
    rows.map_ok(|(text,)| text).try_collect().await.unwrap()
}

/// How segments were read: out of their order it is not known which spelling of an element came first.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Read {
    InOrder,
    Shuffled,
}

/// Fails where two answers differ; else the number of rows.
fn compare(
    tables: &[Table],
    expected: &[Vec<String>],
    found: &[Vec<String>],
    read: Read,
    seed: u64,
) -> usize {
    let mut differences = Vec::new();
    for ((table, expected), found) in tables.iter().zip(expected).zip(found) {
        differences.extend(differ(table, expected, found, read));
    }
    let shown: Vec<&String> = differences.iter().take(20).collect();
    assert!(differences.is_empty(), "seed {seed}: {} differ: {shown:#?}", differences.len());
    expected.iter().map(Vec::len).sum()
}

/// The rows of each table, from the segments alone. Files that were cut short are damaged, no others; of
/// a table that is gone the log has the definition only if it holds changes beside it.
fn merged(
    logs: &[PathBuf],
    schema: &str,
    tables: &[Table],
    former: TableId,
    at: i64,
) -> Vec<Vec<String>> {
    let wanted = match tables {
        [table] => Wanted::Table(KEYSPACE, table.bare_name()),
        _ => Wanted::Everything,
    };
    let mut history = History::new(schema).unwrap();
    let mut states = HashMap::<TableId, TableState>::new();
    for log in logs {
        let is_whole = log.parent().is_some_and(|folder| folder.ends_with("cdc_raw"));
        let read = scan(log, &mut history, &wanted, &mut |found| match found {
            Found::Mutation(_, mutation) => {
                for update in &mutation.updates {
                    states.entry(update.table.id).or_default().apply(update).unwrap();
                }
            }
            Found::Undecoded(_) => {}
            Found::Damage(damage, _) => {
                assert!(!is_whole || damage.table == Some(former), "{damage}")
            }
            Found::Schema(record, error) => {
                panic!("{} at {}: {error}", record.segment, record.start)
            }
        });
        // Of an empty segment half of the header may be left.
        assert!(read.is_ok() || !is_whole, "{read:?}");
    }
    let rows = tables.iter().map(|table| {
        let table = history.table(KEYSPACE, table.bare_name()).unwrap();
        let state = states.remove(&table.id).unwrap_or_default();
        state.select(&table, Seconds(at)).map(|row| row.unwrap()).collect()
    });
    rows.collect()
}

/// A schema without its time, and without the node's own tables.
fn undated(schema: &str, own: bool) -> String {
    let mut document: serde_json::Value = serde_json::from_str(schema).unwrap();
    let parts = document.as_object_mut().unwrap();
    parts.remove("taken_at_us").unwrap();
    for rows in parts.values_mut().filter_map(serde_json::Value::as_array_mut) {
        rows.retain(|row| !own || row["keyspace_name"] == KEYSPACE);
    }
    document.to_string()
}

/// What differs between two answers, row by row and column by column.
fn differ(table: &Table, expected: &[String], found: &[String], read: Read) -> Vec<String> {
    let name = &table.name;
    if expected.len() != found.len() {
        let (left, right) = (expected.len(), found.len());
        return vec![format!("{name}: the node has {left} rows, the segments {right}")];
    }
    let mut differences = Vec::new();
    for (expected, found) in expected.iter().zip(found) {
        if expected == found {
            continue;
        }
        let (left, right) = (fields(expected), fields(found));
        let same = left.len() == right.len()
            && left.iter().zip(&right).all(|(left, right)| {
                left == right
                    || (left.0 == right.0
                        && goes_by_value(table, left.0, read)
                        && same_value(left.1, right.1))
            });
        if !same {
            differences.push(format!("{name}: {expected} | {found}"));
        }
    }
    differences
}

/// Columns whose spelling depends on more than the log: of clustering values that are equal without being
/// the same (1 and 1.0) a node shows one or the other as it has flushed or not. Of such elements written at
/// one time it shows the first, as long as it has not flushed in between, which it does when a column is
/// dropped or added.
fn goes_by_value(table: &Table, field: &str, read: Read) -> bool {
    fn has_decimals(ty: &CqlType) -> bool {
        match ty {
            CqlType::Frozen(inner) | CqlType::List(inner) | CqlType::Set(inner) => {
                has_decimals(inner)
            }
            CqlType::Vector(inner, _) => has_decimals(inner),
            CqlType::Map(key, mapped) => has_decimals(key) || has_decimals(mapped),
            CqlType::Tuple(parts) => parts.iter().any(has_decimals),
            other => matches!(other, CqlType::Decimal),
        }
    }
    let field = field.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap();
    // A name in quotes has them in the row too.
    let field = field.replace("\\\"", "\"");
    let own = table.statics.iter().chain(&table.regulars).chain(&table.fickle);
    let mut own = own.filter(|column| column.name == field);
    let mut keys = table.clustering.iter().map(|(column, _)| column);
    let has_paths = |ty: &CqlType| match ty {
        CqlType::Set(path) | CqlType::Map(path, _) => {
            (read == Read::Shuffled || table.fickle.is_some()) && has_decimals(path)
        }
        _ => false,
    };
    own.any(|column| has_paths(&column.ty))
        || keys.any(|column| column.name == field && has_decimals(&column.ty))
}

fn same_value(left: &str, right: &str) -> bool {
    fn same(left: &serde_json::Value, right: &serde_json::Value) -> bool {
        use serde_json::Value::{Array, Number, Object};
        match (left, right) {
            (Number(left), Number(right)) => left.as_f64() == right.as_f64(),
            (Array(left), Array(right)) => {
                left.len() == right.len() && left.iter().zip(right).all(|(l, r)| same(l, r))
            }
            (Object(left), Object(right)) => {
                left.len() == right.len()
                    && left.iter().zip(right).all(|((lk, l), (rk, r))| {
                        (lk == rk || lk.parse::<f64>().ok().is_some_and(|n| rk.parse() == Ok(n)))
                            && same(l, r)
                    })
            }
            (left, right) => left == right,
        }
    }
    let parse = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
    same(&parse(left), &parse(right))
}

/// The fields of a printed row, each with its text.
fn fields(row: &str) -> Vec<(&str, &str)> {
    let inner = row.strip_prefix('{').and_then(|row| row.strip_suffix('}')).unwrap();
    let (mut depth, mut quoted, mut escaped) = (0, false, false);
    let (mut start, mut colon) = (0, None);
    let mut found = Vec::new();
    for (at, c) in inner.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' if quoted => escaped = true,
            '"' => quoted = !quoted,
            _ if quoted => {}
            '{' | '[' => depth += 1,
            '}' | ']' => depth -= 1,
            ':' if depth == 0 && colon.is_none() => colon = Some(at),
            ',' if depth == 0 => {
                let split = colon.take().unwrap();
                found.push((inner[start..split].trim(), inner[split + 1..at].trim()));
                start = at + 1;
            }
            _ => {}
        }
    }
    let split = colon.unwrap();
    found.push((inner[start..split].trim(), inner[split + 1..].trim()));
    found
}

#[test]
fn rows_are_split_into_their_fields() {
    let row = r#"{"a": 1, "\"B\"": {"x,": [1, 2]}, "c": "}, \""}"#;
    let expected =
        [("\"a\"", "1"), ("\"\\\"B\\\"\"", r#"{"x,": [1, 2]}"#), ("\"c\"", r#""}, \"""#)];
    assert_eq!(fields(row), expected);
    assert!(same_value("[1.0, {\"1.0\": 2}]", "[1, {\"1\": 2.0}]"));
    assert!(!same_value("1", "2"));
}
