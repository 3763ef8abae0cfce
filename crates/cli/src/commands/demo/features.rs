//! A table published whole, day by day: a bad file that is not let through, and a step back.

use std::path::Path;

use helenus::backend::StoreUrl;
use helenus::versions::{CheckOptions, Progress, Publish, Published, SchemaFrom, TableName};
use helenus::{Ports, Timestamp, Versions};
use helenus_server::Check;

use super::pipeline::Run;
use crate::exit::Failed;

const ROWS: usize = 1_000;
/// Rows of the file that was cut short.
const ROWS_CUT: usize = 10;
/// What readers ask for.
const QUERY: &str = "SELECT day FROM demo.features WHERE id = 7";

pub(super) async fn run(path: &Path, run: &Run) -> Result<Vec<Check>, Failed> {
    let ports = Ports::system();
    let now = ports.clock.now().as_millis();
    let versions = Versions::open(&StoreUrl::Sqlite(path.to_owned()), ports).await?;
    let files = tempfile::tempdir()
        .map_err(Failed::system("make a temporary folder", "look at the folder's rights"))?;
    let publish = async |day: &str, rows: usize, data_ts: i64| -> Result<Published, Failed> {
        let file = files.path().join(format!("{day}.csv"));
        let lines = (0..rows).map(|id| format!("{id},{day}\n"));
        let text: String = std::iter::once("id,day\n".to_owned()).chain(lines).collect();
        std::fs::write(&file, text)
            .map_err(Failed::system("write a file to publish", "make room in the folder"))?;
        let table = TableName::new("demo", "features");
        let run_id = format!("{}-{day}", run.prefix);
        let publish = Publish {
            schema: SchemaFrom::Infer { key: vec!["id".to_owned()] },
            checks: CheckOptions { max_drop: Some(0.2), ..CheckOptions::default() },
            ..Publish::new(table, Timestamp::from_millis(data_ts), &run_id, vec![file])
        };
        Ok(versions.publish(publish, &Progress::default()).await?)
    };
    // Days are told apart by what they show, and are newer than those of an earlier demo.
    publish("monday", ROWS, now - 2).await?;
    let tuesday = publish("tuesday", ROWS, now - 1).await?;
    let after_publish = versions.query(QUERY).await?;
    let cut = publish("cut", ROWS_CUT, now).await?;
    let after_veto = versions.query(QUERY).await?;
    versions.rollback(&TableName::new("demo", "features"), None).await?;
    let after_rollback = versions.query(QUERY).await?;
    let shows = |rows: &[String], day: &str| rows == [format!("{{\"day\": \"{day}\"}}")];
    let reasons: Vec<&str> =
        cut.checks.iter().filter(|check| !check.ok).map(|check| check.detail.as_str()).collect();
    let check = |name, ok, detail: String| Check { name, ok, detail };
    Ok(vec![
        check(
            "a published table is what readers get",
            tuesday.routed && shows(&after_publish, "tuesday"),
            format!("{} rows in {}", tuesday.rows, tuesday.version_name),
        ),
        check(
            "a file that was cut short is not",
            !cut.routed && shows(&after_veto, "tuesday"),
            reasons.join("; "),
        ),
        check(
            "a rollback gives them the day before",
            shows(&after_rollback, "monday"),
            after_rollback.join(", "),
        ),
    ])
}
