//! What a source may be like, and what becomes of one that is not right.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use helenus_model::{Failure, Timestamp};
use helenus_versions::publish::{CheckOptions, Publish, Published, publish};
use helenus_versions::row::MappingOptions;
use helenus_versions::{
    Catalog, Created, LoadOptions, Progress, RecycleOptions, Recycled, Status, TableName,
    TableSchema, Tables, Target, recycle,
};
use uuid::Uuid;

use super::{Fixture, Query, SCHEMA};

fn write<B: Catalog + Tables>(fixture: &Fixture<B>, name: &str, bytes: &[u8]) -> PathBuf {
    let path = fixture.folder.path().join(name);
    std::fs::write(&path, bytes).unwrap();
    path
}

fn vetoes(published: &Published) -> Vec<&str> {
    let failed = published.checks.iter().filter(|check| !check.ok);
    failed.map(|check| check.name.as_str()).collect()
}

pub(super) async fn columns_take_fields_of_other_names<B>(fixture: &Fixture<B>)
where
    B: Catalog + Tables + Query,
{
    let path = write(fixture, "other.csv", b"user,Name,points,extra\n7,ada,1.5,x\n");
    let mapped = |renamed: &[(&str, &str)], ignore_extra| {
        let pair = |(column, field): &(&str, &str)| ((*column).to_owned(), (*field).to_owned());
        let renamed = renamed.iter().map(pair).collect();
        let mapping = MappingOptions { renamed, ignore_extra };
        Publish { mapping, ..fixture.run("run", 1, path.clone()) }
    };
    let code = async |run: Publish| {
        let progress = Progress::default();
        let error = publish(&fixture.backend, &fixture.ports, run, &progress).await.unwrap_err();
        (error.code(), error.to_string())
    };
    let both = [("id", "user"), ("score", "points")];
    let (mapping, text) = code(mapped(&both, false)).await;
    assert!(mapping == "mapping" && text.contains("takes the source's extra"), "{text}");
    let (_, text) = code(mapped(&both[1..], true)).await;
    assert!(text.contains("no field for key column id"), "{text}");
    let (_, text) = code(mapped(&[both[0], ("socre", "points")], true)).await;
    assert!(text.contains("--map names 'socre', which is no column"), "{text}");
    let (_, text) = code(mapped(&[("id", "usr")], true)).await;
    assert!(text.contains("'usr', which is no field"), "{text}");
    let published = fixture.publish(mapped(&both, true)).await;
    assert_eq!((published.status, published.rows), (Status::Completed, 1), "{published:?}");
    let all = format!("SELECT id, name, score FROM {}", fixture.table);
    assert_eq!(fixture.backend.rows(&all).await, [r#"{"id": 7, "name": "ada", "score": 1.5}"#]);
}

pub(super) async fn too_many_nulls_veto<B>(fixture: &Fixture<B>)
where
    B: Catalog + Tables + Query,
{
    let path = write(fixture, "nulls.csv", b"id,name,score\n1,a,\n2,,2\n3,,3\n4,d,4\n");
    let run = |name: &str, share| {
        let max_nulls = BTreeMap::from([("name".to_owned(), share), ("score".to_owned(), 0.25)]);
        let checks = CheckOptions { max_nulls, ..CheckOptions::default() };
        Publish { checks, ..fixture.run(name, 1, path.clone()) }
    };
    let vetoed = fixture.publish(run("strict", 0.49)).await;
    assert_eq!((vetoed.status, vetoes(&vetoed)), (Status::Pending, vec!["null_rate"]));
    let detail = &vetoed.checks.iter().find(|check| !check.ok).unwrap().detail;
    assert_eq!(detail, "50.0 % of name is null, 49.0 % allowed");
    let max_nulls = BTreeMap::from([("nmae".to_owned(), 0.1)]);
    let checks = CheckOptions { max_nulls, ..CheckOptions::default() };
    let wrong = Publish { checks, ..fixture.run("wrong", 1, path.clone()) };
    let error = publish(&fixture.backend, &fixture.ports, wrong, &Progress::default()).await;
    let error = error.unwrap_err().to_string();
    assert_eq!(error, "--max-nulls names 'nmae', which is no column");
    let published = fixture.publish(run("lenient", 0.5)).await;
    assert_eq!((published.status, vetoes(&published)), (Status::Completed, vec![]));
    let rates = fixture.backend.snapshot(&fixture.table).await.unwrap();
    let rates = &rates.run("lenient").unwrap().story.null_rates;
    assert_eq!(*rates, BTreeMap::from([("name".to_owned(), 0.5), ("score".to_owned(), 0.25)]));
}

pub(super) async fn text_in_another_encoding_is_a_bad_row<B>(fixture: &Fixture<B>)
where
    B: Catalog + Tables + Query,
{
    // An umlaut as Latin-1 writes it.
    let path = write(fixture, "latin.csv", b"id,name,score\n1,J\xfcrgen,1\n2,Ren\xc3\xa9e,2\n");
    let report = fixture.folder.path().join("bad.jsonl");
    let checks = CheckOptions { max_bad_rows: 1, ..CheckOptions::default() };
    let run = Publish { checks, bad_rows: Some(report.clone()), ..fixture.run("run", 1, path) };
    let published = fixture.publish(run).await;
    assert_eq!((published.rows, published.bad_rows), (1, 1), "{published:?}");
    let told: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(&report).unwrap()).unwrap();
    assert_eq!((&told["line"], &told["reason"]), (&2.into(), &"field 2 is not UTF-8 text".into()));
    assert_eq!(told["record"], "1,J\u{fffd}rgen,1", "as it stands in the file");
}

pub(super) async fn a_key_that_comes_twice_vetoes<B>(fixture: &Fixture<B>)
where
    B: Catalog + Tables + Query,
{
    let path = write(fixture, "twice.csv", b"id,name,score\n1,a,1\n2,b,2\n1,c,3\n");
    let vetoed = fixture.publish(fixture.run("run", 1, path)).await;
    assert_eq!((vetoed.status, vetoes(&vetoed)[0]), (Status::Pending, "unique_keys"));
    let detail = &vetoed.checks.iter().find(|check| !check.ok).unwrap().detail;
    assert_eq!(detail, "1 of 3 rows have the key of another");
    assert_eq!(fixture.routed().await, None);
}

/// A table that somebody else made, under a name that a version would have, or readers use.
async fn strange<B: Catalog + Tables>(fixture: &Fixture<B>, table: &TableName, name: &str) {
    let target = Target {
        table: table.clone(),
        version_name: name.to_owned(),
        run_id: "somebody-elses".to_owned(),
        publisher: Uuid::nil(),
        schema: Arc::new(TableSchema::parse(SCHEMA).unwrap()),
        data_ts: Timestamp::EPOCH,
        duplicates: false,
    };
    let created = fixture.backend.create(&target).await.unwrap();
    assert!(matches!(created, Created::Ours(_)), "{created:?}");
    assert_eq!(fixture.backend.count(&target).await.unwrap(), 0, "it is there");
}

pub(super) async fn a_table_that_is_not_ours_is_left_alone<B>(fixture: &Fixture<B>)
where
    B: Catalog + Tables + Query,
{
    let (backend, ports, table) = (&fixture.backend, &fixture.ports, &fixture.table);
    let taken = async |run: Publish, name: &str| {
        let error = publish(backend, ports, run, &Progress::default()).await.unwrap_err();
        assert_eq!((error.code(), error.applied()), ("name_taken", Some(false)), "{error}");
        assert!(error.to_string().contains(&format!("{name} is a table already")), "{error}");
    };
    let plain = TableName::new(table.keyspace(), "plain");
    strange(fixture, &plain, "plain").await;
    let run = Publish { table: plain, ..fixture.run("run", 1, fixture.file(1, 3)) };
    taken(run, "plain").await;
    strange(fixture, table, "features_v1").await;
    taken(fixture.run("unlucky", 1, fixture.file(1, 3)), "features_v1").await;
    let next = fixture.day(2).await;
    assert_eq!(next.version_name, "features_v2", "the next number is free");
    // The run that failed is recycled; the table was never its own.
    let options = RecycleOptions { drain: std::time::Duration::ZERO, ..RecycleOptions::default() };
    let told = &mut |_: &Recycled| ();
    backend.drop_table(table, "features_v1", "unlucky").await.unwrap();
    let marked = backend.marked(table).await.unwrap();
    assert!(marked.contains(&("features_v1".to_owned(), "somebody-elses".to_owned())));
    let done = recycle(backend, ports, table, options, told).await.unwrap();
    assert!(done.iter().any(|gone| gone.run_id == "unlucky"), "{done:?}");
    assert_eq!(fixture.routed().await, Some(2));
}

pub(super) async fn a_rate_leaves_nothing_out<B>(fixture: &Fixture<B>)
where
    B: Catalog + Tables + Query,
{
    let load = LoadOptions { rows_per_second: Some(20_000), ..LoadOptions::default() };
    let run = Publish { load, ..fixture.run("run", 1, fixture.file(1, 3_500)) };
    let progress = Progress::default();
    let published = publish(&fixture.backend, &fixture.ports, run, &progress).await.unwrap();
    assert_eq!((published.status, published.rows), (Status::Completed, 3_500));
    assert_eq!((progress.written(), progress.durable().rows), (3_500, 3_500));
    let source = progress.source_bytes().unwrap();
    assert_eq!(progress.durable().bytes, source, "how far it is, is known in the end");
    assert!(progress.is_loaded());
}
