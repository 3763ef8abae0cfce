//! The list of promises, and the backends they hold for.

mod topics;

/// A broker under test, and a prefix that keeps its topics apart from other tests'.
struct Fixture<B> {
    broker: B,
    prefix: String,
    /// Whatever must outlive the broker.
    _keep: Box<dyn std::any::Any + Send + Sync>,
}

impl<B> Fixture<B> {
    fn topic(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }
}

/// Runs every promise against the broker that `$setup` opens.
macro_rules! conformance {
    ($backend:ident, $setup:path) => {
        mod $backend {
            conformance!(@promises $setup, topics:
                records_come_back_in_order_with_all_their_fields,
                a_key_has_one_partition,
                offsets_have_no_gaps,
                a_batch_is_published_whole_or_not_at_all,
                creating_a_topic_twice_is_fine_with_the_same_partitions,
                a_topic_or_partition_that_is_not_there_is_named,
                a_group_goes_on_where_it_committed,
                many_publishers_share_a_partition_without_gaps,
            );
        }
    };
    (@promises $setup:path, $area:ident: $($promise:ident),+ $(,)?) => {
        $(
            #[tokio::test(flavor = "multi_thread")]
            async fn $promise() {
                $crate::conformance::$area::$promise(&$setup().await).await;
            }
        )+
    };
}

#[cfg(feature = "embedded")]
async fn open_embedded() -> Fixture<helenus_broker::embedded::EmbeddedBroker> {
    use helenus_broker::embedded::{COMPONENT, EmbeddedBroker};
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store.db");
    let options = helenus_sqlite::Options::default();
    let engine = helenus_sqlite::Engine::open(path, options, &[&COMPONENT]).await.unwrap();
    let broker = EmbeddedBroker::on(engine);
    Fixture { broker, prefix: String::new(), _keep: Box::new(dir) }
}

#[cfg(feature = "embedded")]
conformance!(embedded, crate::conformance::open_embedded);
