//! Records the commit log segments that the decoder's tests read: `cargo xtask fixtures`.
//!
//! For each release one private Cassandra node, one schema, one run a variant: empty the tables, restart the node
//! with the variant's setting, write filler until a fresh segment begins, run the statements, wait
//! until what has a short TTL is gone, ask for the rows, copy the segment. What the
//! node answers is the expectation; no byte is made here.

#![allow(
    clippy::disallowed_methods,
    clippy::print_stderr,
    reason = "a recorder asks the real clock, as the node does, and says how far it is"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use helenus_commitlog::{CdcIndex, FileKind, FileName, Options, Segment};
use helenus_cql::schema::Catalog;
use helenus_testkit::serial;
use helenus_testkit::services::{Instance, Service, Spec, workspace};
use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;
use serde_json::{Map, Value, json};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// A file of the fixtures, and what differs in `cassandra.yaml` when it is recorded.
type Variant = (&'static str, &'static str, &'static str);

/// What one release recorded.
struct Set {
    service: Service,
    /// Its folder in the fixtures.
    folder: &'static str,
    variants: &'static [Variant],
    /// Parts of schema and statements that the release does not know.
    without: &'static [&'static str],
}

const PLAIN: Variant = ("plain", "commitlog_compression", "");
const LZ4: Variant = ("lz4", "commitlog_compression", "[{class_name: LZ4Compressor}]");

const SETS: [Set; 2] = [
    Set {
        service: Service::Cassandra,
        folder: "",
        variants: &[
            PLAIN,
            LZ4,
            ("snappy", "commitlog_compression", "[{class_name: SnappyCompressor}]"),
            ("deflate", "commitlog_compression", "[{class_name: DeflateCompressor}]"),
            ("zstd", "commitlog_compression", "[{class_name: ZstdCompressor}]"),
            ("v8", "storage_compatibility_mode", "NONE"),
        ],
        without: &[],
    },
    Set {
        service: Service::Cassandra41,
        folder: "4.1",
        variants: &[PLAIN, LZ4],
        without: &[", vf vector<float, 3>, vt vector<text, 2>", ",vf,vt", ",[1.5,-2,0],['a','']"],
    },
];

const TABLES: [&str; 6] = ["scalars", "nested", "rows", "hits", "wide", "readded"];

/// The columns of `system_schema` that a reader of segments needs.
const SCHEMA: [(&str, &[&str]); 5] = [
    ("keyspaces", &["keyspace_name", "durable_writes"]),
    ("tables", &["keyspace_name", "table_name", "id", "cdc", "flags"]),
    (
        "columns",
        &[
            "keyspace_name",
            "table_name",
            "column_name",
            "column_name_bytes",
            "clustering_order",
            "kind",
            "position",
            "type",
        ],
    ),
    (
        "dropped_columns",
        &["keyspace_name", "table_name", "column_name", "dropped_time", "kind", "type"],
    ),
    ("types", &["keyspace_name", "type_name", "field_names", "field_types"]),
];

#[tokio::main]
async fn main() -> Result<()> {
    let _alone = serial()?;
    let chosen: Vec<String> = std::env::args().skip(1).collect();
    for set in &SETS {
        let name = set.service.name();
        if chosen.is_empty() || chosen.iter().any(|word| word == name) {
            record_set(set).await?;
        }
    }
    Ok(())
}

async fn record_set(set: &Set) -> Result<()> {
    let statements = workspace().join("crates/commitlog/tests/fixtures");
    let fixtures = statements.join(set.folder);
    fs::create_dir_all(&fixtures)?;
    let spec = || Spec::of(set.service).name("fixtures").heap("512M").commitlog_periodic("200ms");
    let mut node = Instance::start(spec())?;
    run_file(&connect(&node).await?, &statements.join("schema.cql"), set).await?;

    let mut recorded = Vec::new();
    for (variant, key, value) in set.variants {
        eprintln!("recording {} {variant}", set.service.name());
        empty_tables(&connect(&node).await?).await?;
        node.restart_as(if value.is_empty() { spec() } else { spec().set(key, value) })?;
        let session = connect(&node).await?;
        begin_segment(&session, &node.dir().join("cdc_raw")).await?;
        run_file(&session, &statements.join("statements.cql"), set).await?;
        recorded.push(record(&node, &session, variant, &fixtures).await?);
    }
    let schema = system_schema(&connect(&node).await?).await?;
    write_schema(&schema, set.variants, &fixtures)?;
    write_answers(recorded, &fixtures)
}

/// What one run gave.
struct Recorded {
    variant: &'static str,
    at: u64,
    index: usize,
    rows: BTreeMap<String, Vec<String>>,
}

async fn record(
    node: &Instance,
    session: &Session,
    variant: &'static str,
    fixtures: &Path,
) -> Result<Recorded> {
    until_expired(session).await?;
    let at = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
    let mut rows = BTreeMap::new();
    for table in TABLES {
        let query = format!("SELECT JSON * FROM fx.{table}");
        rows.insert(format!("fx.{table}"), texts(session, &query).await?);
    }
    // One more write, and what came before it is on the disk as well. A node that stops would
    // write a good deal of its own into the segment.
    let cdc_raw = node.dir().join("cdc_raw");
    let (log, index) = fill(session, &cdc_raw, 1).await?;
    let mut bytes = fs::read(log)?;
    // Only a segment that is not compressed is longer than what was written into it.
    let written = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    bytes.truncate(written + 64);
    fs::write(fixtures.join(format!("{variant}.log")), &bytes)?;
    eprintln!("  {} bytes", bytes.len());
    Ok(Recorded { variant, at, index, rows })
}

async fn connect(node: &Instance) -> Result<Session> {
    Ok(SessionBuilder::new().known_node(node.endpoint().to_string()).build().await?)
}

/// Runs the statements of a file, which a line of two dashes separates.
async fn run_file(session: &Session, file: &Path, set: &Set) -> Result<()> {
    let mut text = fs::read_to_string(file)?;
    for part in set.without {
        text = text.replace(part, "");
    }
    for statement in text.split("\n--\n") {
        let ran = session.query_unpaged(statement.trim_end(), ()).await;
        ran.map_err(|error| format!("{statement}: {error}"))?;
    }
    Ok(())
}

async fn empty_tables(session: &Session) -> Result<()> {
    // The statements end by dropping this column; the first run still has it.
    let columns = "SELECT column_name FROM system_schema.columns \
                   WHERE keyspace_name = 'fx' AND table_name = 'readded' AND column_name = 'c'";
    if texts(session, columns).await?.is_empty() {
        session.query_unpaged("ALTER TABLE fx.readded ADD c int", ()).await?;
    }
    for table in TABLES {
        session.query_unpaged(format!("TRUNCATE fx.{table}"), ()).await?;
    }
    Ok(())
}

/// Writes until the node has begun a new segment, so that the statements fit into one.
async fn begin_segment(session: &Session, cdc_raw: &Path) -> Result<()> {
    let first = fill(session, cdc_raw, 1).await?;
    let mut current = first.clone();
    while current.0 == first.0 {
        let left = (1_usize << 20).saturating_sub(current.1 + 200);
        current = match left {
            300_001.. => fill(session, cdc_raw, 250_000).await?,
            7_001.. => fill(session, cdc_raw, left - 4_000).await?,
            _ => fill(session, cdc_raw, 1_200).await?,
        };
    }
    Ok(())
}

/// Writes `size` bytes and waits until the node has synced them: the index is another segment's
/// then, or further by at least as much.
async fn fill(session: &Session, cdc_raw: &Path, size: usize) -> Result<(PathBuf, usize)> {
    let mut before = newest_index(cdc_raw)?;
    let insert = "INSERT INTO fx.filler (id, v) VALUES (0, ?)";
    session.query_unpaged(insert, (vec![0_u8; size],)).await?;
    for _ in 0..600 {
        if let Some(after) = newest_index(cdc_raw)? {
            let (log, from) = before.get_or_insert_with(|| after.clone());
            if *log != after.0 || after.1 >= *from + size {
                return Ok(after);
            }
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    Err("the node does not sync its commit log".into())
}

/// The newest segment with an index, and how far it is written; nothing while there is none or the
/// index is being rewritten.
fn newest_index(cdc_raw: &Path) -> Result<Option<(PathBuf, usize)>> {
    let mut newest = None;
    for entry in fs::read_dir(cdc_raw)? {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| FileName::parse(name.to_str()?));
        newest = newest
            .max(name.filter(|name| name.kind == FileKind::Index).map(|name| (name.id, path)));
    }
    let Some((_, path)) = newest else { return Ok(None) };
    let Some(index) = CdcIndex::parse(&fs::read_to_string(&path)?) else { return Ok(None) };
    let log = path.to_string_lossy().replace("_cdc.idx", ".log");
    Ok(Some((PathBuf::from(log), usize::try_from(index.offset)?)))
}

/// Waits until the values with a TTL of a second are gone.
async fn until_expired(session: &Session) -> Result<()> {
    for _ in 0..200 {
        let gone = texts(session, "SELECT t FROM fx.scalars WHERE id = 5").await?.is_empty();
        let null = "SELECT JSON sm FROM fx.scalars WHERE id = 8";
        if gone && texts(session, null).await? == [r#"{"sm": null}"#] {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    Err("values with a TTL of a second do not expire".into())
}

/// The rows of a query with one column of text.
async fn texts(session: &Session, query: &str) -> Result<Vec<String>> {
    let rows = session.query_unpaged(query, ()).await?.into_rows_result()?;
    let texts = rows.rows::<(String,)>()?.map(|row| row.map(|(text,)| text));
    Ok(texts.collect::<std::result::Result<_, _>>()?)
}

/// Every row of `system_schema`, reduced to what a reader needs.
async fn system_schema(
    session: &Session,
) -> Result<BTreeMap<&'static str, Vec<Map<String, Value>>>> {
    let mut schema = BTreeMap::new();
    for (table, columns) in SCHEMA {
        let mut rows = Vec::new();
        for text in texts(session, &format!("SELECT JSON * FROM system_schema.{table}")).await? {
            let mut row: Map<String, Value> = serde_json::from_str(&text)?;
            row.retain(|column, _| columns.contains(&column.as_str()));
            rows.push(row);
        }
        schema.insert(table, rows);
    }
    Ok(schema)
}

/// Writes the schema of the tables that occur in the recorded segments, and of no other.
fn write_schema(
    schema: &BTreeMap<&'static str, Vec<Map<String, Value>>>,
    variants: &[Variant],
    fixtures: &Path,
) -> Result<()> {
    let mut wanted = BTreeSet::from(["fx".to_owned()]);
    loop {
        let document = document(schema, &wanted);
        let catalog = Catalog::from_document(&document)?;
        let unknown = unknown_tables(&catalog, variants, fixtures)?;
        let known =
            schema["tables"].iter().filter(|row| unknown.iter().any(|id| row["id"] == id.as_str()));
        let more: BTreeSet<String> = known
            .map(|row| format!("{}.{}", text(row, "keyspace_name"), text(row, "table_name")))
            .collect();
        if more.is_empty() {
            fs::write(fixtures.join("schema.json"), document)?;
            return Ok(());
        }
        wanted.extend(more);
    }
}

fn text<'a>(row: &'a Map<String, Value>, column: &str) -> &'a str {
    row.get(column).and_then(Value::as_str).unwrap_or_default()
}

/// The rows of wanted keyspaces and tables, one a line.
fn document(
    schema: &BTreeMap<&'static str, Vec<Map<String, Value>>>,
    wanted: &BTreeSet<String>,
) -> String {
    let parts: Vec<String> = SCHEMA
        .iter()
        .map(|(table, _)| {
            let rows = schema[table].iter().filter(|row| {
                let keyspace = text(row, "keyspace_name");
                let qualified = format!("{keyspace}.{}", text(row, "table_name"));
                wanted.contains(keyspace) || wanted.contains(&qualified)
            });
            let rows: Vec<String> = rows.map(|row| json!(row).to_string()).collect();
            format!("\"{table}\": [\n{}\n]", rows.join(",\n"))
        })
        .collect();
    format!("{{\n{}\n}}\n", parts.join(",\n"))
}

/// The ids of tables in the segments that the catalog does not have.
fn unknown_tables(
    catalog: &Catalog,
    variants: &[Variant],
    fixtures: &Path,
) -> Result<BTreeSet<String>> {
    let mut unknown = BTreeSet::new();
    for (variant, ..) in variants {
        let bytes = fs::read(fixtures.join(format!("{variant}.log")))?;
        let segment = Segment::parse(&bytes)?;
        let mut records = segment.records(Options::default());
        while let Some(next) = records.next_record() {
            if let Err(damage) = next.and_then(|record| record.decode(catalog)) {
                unknown.extend(damage.table.map(|id| id.to_string()));
            }
        }
    }
    Ok(unknown)
}

/// Writes what the node answered: the same rows in every run, each run at its own time.
fn write_answers(recorded: Vec<Recorded>, fixtures: &Path) -> Result<()> {
    let (mut at, mut indexes) = (Map::new(), Map::new());
    let mut answers = None;
    for Recorded { variant, at: asked, index, rows } in recorded {
        at.insert(variant.to_owned(), json!(asked));
        indexes.insert(variant.to_owned(), json!(index));
        if *answers.get_or_insert_with(|| rows.clone()) != rows {
            return Err(format!("the node answered otherwise in the run {variant}").into());
        }
    }
    let document = json!({ "at": at, "index": indexes, "rows": answers });
    fs::write(fixtures.join("rows.json"), format!("{document:#}\n"))?;
    eprintln!("recorded into {}", fixtures.display());
    Ok(())
}
