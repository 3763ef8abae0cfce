//! The list of promises, and the backends they hold for.

mod publishers;
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
                offsets_rise,
                a_batch_with_a_record_that_is_refused_is_not_published,
                a_record_over_the_limit_is_refused,
                what_would_be_refused_is_told_beforehand,
                creating_a_topic_twice_is_fine_with_the_same_partitions,
                a_topic_or_partition_that_is_not_there_is_named,
                a_group_goes_on_where_it_committed,
                many_publishers_share_a_partition,
                bounds_are_where_reading_begins_and_ends,
                a_compacted_topic_is_told_from_others,
            );
            conformance!(@promises $setup, publishers:
                a_transaction_is_published_whole,
                a_transaction_with_a_record_that_is_refused_is_not_published,
                a_later_publisher_of_a_name_fences_an_earlier_one,
                the_last_marker_is_that_of_the_last_transaction,
                publishers_of_other_names_do_not_disturb_each_other,
            );
        }
    };
    (@promises $setup:path, $area:ident: $($promise:ident),+ $(,)?) => {
        mod $area {
            $(
                #[tokio::test(flavor = "multi_thread")]
                async fn $promise() {
                    $crate::conformance::$area::$promise(&$setup().await).await;
                }
            )+
        }
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

#[cfg(feature = "service-tests")]
fn open_kafka() -> std::future::Ready<Fixture<helenus_broker::kafka::KafkaBroker>> {
    let (broker, prefix) = (crate::kafka::shared(), crate::kafka::prefix());
    std::future::ready(Fixture { broker, prefix, _keep: Box::new(()) })
}

#[cfg(feature = "service-tests")]
conformance!(kafka, crate::conformance::open_kafka);
