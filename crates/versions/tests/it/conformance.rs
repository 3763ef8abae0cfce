//! The list of promises, and the backends they hold for.

mod catalog;
mod input;
mod publishing;
mod recycling;

use std::path::PathBuf;
use std::sync::Arc;

use helenus_model::{Clock, Random, SystemRandom, Timestamp};
use helenus_store::Ports;
use helenus_versions::publish::{Publish, Published, SchemaFrom, publish};
use helenus_versions::sqlite::SqliteVersions;
use helenus_versions::{Catalog, Progress, TableName, TableSchema, Tables};

/// A backend under test.
pub(crate) struct Fixture<B> {
    pub(crate) backend: B,
    pub(crate) ports: Ports,
    pub(crate) table: TableName,
    pub(crate) folder: tempfile::TempDir,
}

pub(crate) const SCHEMA: &str =
    "CREATE TABLE features (id int PRIMARY KEY, name text, score double)";

/// Runs a query and gives its rows as JSON.
pub(crate) trait Query {
    fn rows(&self, cql: &str) -> impl Future<Output = Vec<String>> + Send;
}

impl Query for SqliteVersions {
    async fn rows(&self, cql: &str) -> Vec<String> {
        self.query(cql).await.unwrap()
    }
}

#[cfg(feature = "service-tests")]
impl Query for helenus_versions::cassandra::CassandraVersions {
    async fn rows(&self, cql: &str) -> Vec<String> {
        self.query(cql).await.unwrap()
    }
}

impl<B: Catalog + Tables> Fixture<B> {
    /// A file with `rows` rows, each saying which day it is of.
    pub(crate) fn file(&self, day: i64, rows: usize) -> PathBuf {
        let path = self.folder.path().join(format!("day-{day}-{rows}.csv"));
        let mut text = String::from("id,name,score\n");
        for id in 0..rows {
            text.push_str(&format!("{id},day {day},{id}.5\n"));
        }
        std::fs::write(&path, text).unwrap();
        path
    }

    pub(crate) fn run(&self, run_id: &str, day: i64, source: PathBuf) -> Publish {
        let schema = SchemaFrom::Given(TableSchema::parse(SCHEMA).unwrap());
        let data_ts = Timestamp::from_millis(day * 86_400_000);
        let run = Publish::new(self.table.clone(), data_ts, run_id, vec![source]);
        Publish { schema, who: "tester".to_owned(), ..run }
    }

    pub(crate) async fn publish(&self, publish_: Publish) -> Published {
        let progress = Progress::default();
        publish(&self.backend, &self.ports, publish_, &progress).await.unwrap()
    }

    /// Publishes a day of 20 rows.
    pub(crate) async fn day(&self, day: i64) -> Published {
        self.publish(self.run(&format!("run-{day}"), day, self.file(day, 20))).await
    }

    pub(crate) async fn routed(&self) -> Option<u32> {
        let snapshot = self.backend.snapshot(&self.table).await.unwrap();
        snapshot.routed().map(|version| version.number)
    }
}

macro_rules! conformance {
    ($backend:ident, $setup:path) => {
        mod $backend {
            conformance!(@promises $setup, catalog:
                of_many_beginnings_each_gets_its_own_number,
                a_change_on_an_old_epoch_is_refused,
                a_heartbeat_counts_for_its_publisher_alone,
                rolling_back_excludes_and_the_next_publish_routes,
                a_pin_holds_until_it_is_undone,
                rollback_and_recycle_agree_who_won,
                a_hold_is_seen_until_it_is_given_back,
            );
            conformance!(@promises $setup, publishing:
                readers_get_what_was_published,
                the_same_run_twice_is_one_version,
                a_vetoed_run_stays_pending_and_readers_notice_nothing,
                who_forces_is_recorded,
                older_data_is_complete_but_not_routed,
                two_publishers_at_once_both_land,
                a_run_that_was_taken_over_stops,
                a_resumed_run_equals_an_undisturbed_one,
                the_last_row_of_a_key_stands,
                a_schema_comes_from_the_previous_version,
                what_cannot_be_published_says_why,
            );
            conformance!(@promises $setup, input:
                columns_take_fields_of_other_names,
                too_many_nulls_veto,
                text_in_another_encoding_is_a_bad_row,
                a_key_that_comes_twice_vetoes,
                a_table_that_is_not_ours_is_left_alone,
                a_rate_leaves_nothing_out,
            );
            conformance!(@promises $setup, recycling:
                old_versions_go_and_the_routed_one_stays,
                pinned_and_held_versions_stay,
                failures_go_and_an_orphan_is_dropped,
                a_dry_run_drops_nothing,
            );
        }
    };
    (@promises $setup:path, $area:ident: $($promise:ident),+ $(,)?) => {
        mod $area {
            $(
                #[tokio::test(flavor = "multi_thread")]
                async fn $promise() {
                    let fixture = Box::pin($setup()).await;
                    Box::pin($crate::conformance::$area::$promise(&fixture)).await;
                }
            )+
        }
    };
}

pub(crate) async fn open_sqlite() -> Fixture<SqliteVersions> {
    let folder = tempfile::tempdir().unwrap();
    let ports = Ports::system();
    let path = folder.path().join("versions.db");
    let backend = SqliteVersions::open(path, ports.clone()).await.unwrap();
    Fixture { backend, ports, table: TableName::new("shop", "features"), folder }
}

conformance!(sqlite, crate::conformance::open_sqlite);

#[cfg(feature = "service-tests")]
pub(crate) async fn open_cassandra() -> Fixture<helenus_versions::cassandra::CassandraVersions> {
    use helenus_store::cassandra::Options;
    let keyspace = helenus_testkit::isolated::Keyspace::create().await;
    let ports = Ports::system();
    let options = Options { keyspace: Some(keyspace.name.clone()), ..Options::default() };
    let session = Arc::clone(&keyspace.session);
    let on = helenus_versions::cassandra::CassandraVersions::on;
    let backend = Box::pin(on(session, options, ports.clone())).await.unwrap();
    let table = TableName::new(&keyspace.name, "features");
    Fixture { backend, ports, table, folder: tempfile::tempdir().unwrap() }
}

#[cfg(feature = "service-tests")]
conformance!(cassandra, crate::conformance::open_cassandra);

/// Ports whose clock is the caller's.
pub(crate) fn ports_at(clock: Arc<dyn Clock>) -> Ports {
    Ports { clock, random: Arc::new(SystemRandom) as Arc<dyn Random> }
}
