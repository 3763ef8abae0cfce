//! Every kind of source, published into a file.

use std::io::Write;
use std::path::{Path, PathBuf};

use helenus_model::Failure;
use helenus_versions::Progress;
use helenus_versions::publish::{Publish, SchemaFrom, dry_run, publish};

use crate::conformance::{Query, open_sqlite};

const CSV: &str = "id,name,score\n1,ada,1.5\n2,\"grace, h\",2\n";
const JSON: &str = "{\"id\": 1, \"name\": \"ada\", \"score\": 1.5}\n\n{\"score\": 2, \"name\": \"grace, h\", \"id\": 2}\n";
const EXPECTED: [&str; 2] =
    [r#"{"id": 1, "name": "ada", "score": 1.5}"#, r#"{"id": 2, "name": "grace, h", "score": 2.0}"#];

fn gzip(text: &str) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(text.as_bytes()).unwrap();
    encoder.finish().unwrap()
}

async fn published(path: &Path) -> Vec<String> {
    let fixture = open_sqlite().await;
    fixture.publish(fixture.run("run", 1, path.to_owned())).await;
    fixture.backend.rows("SELECT * FROM shop.features ORDER BY id").await
}

#[tokio::test]
async fn text_is_read_however_it_is_written_and_compressed() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, bytes: Vec<u8>| -> PathBuf {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        path
    };
    let two_members = [gzip("id,name,score\n1,ada,1.5\n"), gzip("2,\"grace, h\",2\n")].concat();
    for path in [
        write("a.csv", CSV.into()),
        write("bom.csv", format!("\u{feff}{CSV}").into()),
        write("crlf.csv", CSV.replace('\n', "\r\n").into()),
        write("a.csv.gz", gzip(CSV)),
        write("two.csv.gz", two_members),
        write("a.csv.zst", zstd::encode_all(CSV.as_bytes(), 1).unwrap()),
        write("a.jsonl", JSON.into()),
        write("a.ndjson.gz", gzip(JSON)),
    ] {
        assert_eq!(published(&path).await, EXPECTED, "{}", path.display());
    }
}

#[tokio::test]
async fn a_partition_tree_gives_columns() {
    let fixture = open_sqlite().await;
    let root = fixture.folder.path().join("tree");
    for day in ["2026-11-14", "2026-11-15"] {
        let folder = root.join(format!("dt={day}"));
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("part-0.csv"), "id,n\n1,10\n").unwrap();
    }
    let key = vec!["id".to_owned(), "dt".to_owned()];
    let run = Publish { schema: SchemaFrom::Infer { key }, ..fixture.run("run", 1, root) };
    let dry = dry_run(&fixture.backend, &run).await.unwrap();
    let create =
        "CREATE TABLE shop.features (id bigint, dt date, n bigint, PRIMARY KEY ((id), dt))";
    assert_eq!((dry.rows, dry.schema.as_str()), (2, create));
    assert_eq!(fixture.routed().await, None, "a dry run publishes nothing");
    fixture.publish(run).await;
    let rows = fixture.backend.rows("SELECT dt FROM shop.features ORDER BY dt").await;
    assert_eq!(rows, [r#"{"dt": "2026-11-14"}"#, r#"{"dt": "2026-11-15"}"#]);
}

#[tokio::test]
async fn what_is_no_text_is_refused_by_name() {
    let fixture = open_sqlite().await;
    let utf16: Vec<u8> = CSV.encode_utf16().flat_map(u16::to_le_bytes).collect();
    let path = fixture.folder.path().join("utf16.csv");
    std::fs::write(&path, [vec![0xff, 0xfe], utf16].concat()).unwrap();
    let progress = Progress::default();
    let run = fixture.run("run", 1, path);
    let error = publish(&fixture.backend, &fixture.ports, run, &progress).await.unwrap_err();
    assert_eq!(error.code(), "source_malformed");
    assert!(error.to_string().contains("not UTF-8"), "{error}");
}

#[cfg(feature = "parquet")]
#[tokio::test]
async fn parquet_gives_rows_and_types() {
    use std::sync::Arc;

    use arrow::array::{
        ArrayRef, Float64Array, Int32Array, ListArray, RecordBatch, StringArray, StructArray,
        TimestampMicrosecondArray,
    };
    use arrow::datatypes::{DataType, Field, Int32Type};

    let fixture = open_sqlite().await;
    let write = |name: &str, columns: Vec<(&str, ArrayRef)>| {
        let batch = RecordBatch::try_from_iter(columns).unwrap();
        let path = fixture.folder.path().join(name);
        let file = std::fs::File::create(&path).unwrap();
        let mut writer = parquet::arrow::ArrowWriter::try_new(file, batch.schema(), None).unwrap();
        writer.write(&batch).unwrap();
        writer.close().unwrap();
        path
    };
    let list = ListArray::from_iter_primitive::<Int32Type, _, _>([
        Some(vec![Some(1), Some(2)]),
        Some(vec![]),
    ]);
    let path = write(
        "a.parquet",
        vec![
            ("id", Arc::new(Int32Array::from(vec![1, 2])) as ArrayRef),
            ("name", Arc::new(StringArray::from(vec![Some("ada"), None]))),
            ("score", Arc::new(Float64Array::from(vec![1.5, 2.0]))),
            ("at", Arc::new(TimestampMicrosecondArray::from(vec![1_500_000, 0]))),
            ("tags", Arc::new(list)),
        ],
    );
    let key = vec!["id".to_owned()];
    let run = Publish { schema: SchemaFrom::Infer { key }, ..fixture.run("run", 1, path) };
    let published = fixture.publish(run).await;
    assert!(published.schema.contains("at timestamp, tags list<int>"), "{}", published.schema);
    let rows = fixture.backend.rows("SELECT * FROM shop.features ORDER BY id").await;
    assert_eq!(
        rows[0],
        r#"{"id": 1, "name": "ada", "score": 1.5, "at": "1970-01-01 00:00:01.500Z", "tags": [1, 2]}"#
    );
    let field = Arc::new(Field::new("x", DataType::Int32, false));
    let nested = StructArray::from(vec![(field, Arc::new(Int32Array::from(vec![1])) as ArrayRef)]);
    let path = write(
        "nested.parquet",
        vec![("id", Arc::new(Int32Array::from(vec![1])) as ArrayRef), ("s", Arc::new(nested))],
    );
    let progress = Progress::default();
    let run = fixture.run("nested", 2, path);
    let error = publish(&fixture.backend, &fixture.ports, run, &progress).await.unwrap_err();
    assert_eq!(error.code(), "source_type");
    assert!(error.to_string().contains("column s is Struct"), "{error}");
}
