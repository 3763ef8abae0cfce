//! Publishing: from sources to a version that readers get.
//!
//! PENDING row with a heartbeat, table, rows, checks, COMPLETED. Readers see nothing before the last
//! step, and that step is refused unless the run is still this publisher's. Killed anywhere, the
//! run stays PENDING: it is resumed (everything is read again, what is durable is not written again,
//! and what is written twice is written the same) or recycled.

mod assemble;
mod checks;
mod error;
mod feed;
mod run;
mod schema;

use std::path::PathBuf;
use std::sync::Arc;

use helenus_cql::rewrite::TableName;
use helenus_model::Timestamp;
use serde::Serialize;

use crate::catalog::{CheckResult, Heartbeat, Status};
use crate::row::MappingOptions;
use crate::source::{ReadOptions, Storage};
use crate::tables::LoadOptions;
use crate::{Catalog, TableSchema};

pub use checks::CheckOptions;
pub use error::PublishError;
pub use run::publish;

use crate::tables::Tables;

/// What a run publishes, and how.
#[derive(Clone)]
pub struct Publish {
    /// The name that readers use.
    pub table: TableName,
    /// The time the data stands for.
    pub data_ts: Timestamp,
    /// Names the run: letters, digits and `._:-`.
    pub run_id: String,
    /// Files and trees, or `-`.
    pub sources: Vec<PathBuf>,
    /// Where the files are.
    pub storage: Arc<dyn Storage>,
    /// Where the schema comes from.
    pub schema: SchemaFrom,
    /// How text is read.
    pub read: ReadOptions,
    /// Which field goes where.
    pub mapping: MappingOptions,
    /// What must hold before readers get it.
    pub checks: CheckOptions,
    /// How fast it is loaded.
    pub load: LoadOptions,
    /// How a publisher is told from a dead one.
    pub heartbeat: Heartbeat,
    /// Where bad records are written, with their reasons; nowhere if not given.
    pub bad_rows: Option<PathBuf>,
    /// Override what vetoes.
    pub force: bool,
    /// Take the run over even if its publisher seems to live.
    pub resume: bool,
    /// Who publishes.
    pub who: String,
}

impl std::fmt::Debug for Publish {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Publish")
            .field("table", &self.table)
            .field("run_id", &self.run_id)
            .field("sources", &self.sources)
            .finish_non_exhaustive()
    }
}

impl Publish {
    /// A run with the usual options.
    pub fn new(table: TableName, data_ts: Timestamp, run_id: &str, sources: Vec<PathBuf>) -> Self {
        Publish {
            table,
            data_ts,
            run_id: run_id.to_owned(),
            sources,
            storage: Arc::new(crate::source::LocalFiles),
            schema: SchemaFrom::Previous,
            read: ReadOptions::default(),
            mapping: MappingOptions::default(),
            checks: CheckOptions::default(),
            load: LoadOptions::default(),
            heartbeat: Heartbeat::default(),
            bad_rows: None,
            force: false,
            resume: false,
            who: String::new(),
        }
    }
}

/// Where a schema comes from.
#[derive(Clone, Debug)]
pub enum SchemaFrom {
    /// It is given.
    Given(TableSchema),
    /// From the first records, with these fields as the key.
    Infer {
        /// The first is the partition key.
        key: Vec<String>,
    },
    /// As the version before has it.
    Previous,
}

/// What came of a run.
#[derive(Clone, Debug, Serialize)]
pub struct Published {
    /// The run.
    pub run_id: String,
    /// The table of the version.
    pub version_name: String,
    /// COMPLETED, or PENDING if a check vetoed.
    pub status: Status,
    /// Whether readers get it.
    pub routed: bool,
    /// Rows that were loaded.
    pub rows: u64,
    /// Records that were left out.
    pub bad_rows: u64,
    /// What was checked.
    pub checks: Vec<CheckResult>,
    /// How long it took.
    pub seconds: f64,
    /// Why readers do not get it, where they do not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// The schema, in CQL.
    #[serde(skip)]
    pub schema: String,
}

/// What reading the sources would give, without writing anything.
pub async fn dry_run<B: Catalog + Tables>(
    backend: &B,
    publish: &Publish,
) -> Result<DryRun, PublishError> {
    run::dry_run(backend, publish).await
}

/// What a publish would do.
#[derive(Clone, Debug, Serialize)]
pub struct DryRun {
    /// Rows that would be loaded.
    pub rows: u64,
    /// Records that would be left out.
    pub bad_rows: u64,
    /// The statement that would create the table.
    pub schema: String,
    /// The checks that need no table.
    pub checks: Vec<CheckResult>,
}
