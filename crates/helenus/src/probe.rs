//! Asking services whether they are there, each within a time limit.

#[cfg(feature = "kafka")]
pub use helenus_broker::kafka::probe as kafka;
#[cfg(feature = "registry")]
pub use helenus_broker::registry::probe as registry;
#[cfg(feature = "redis")]
pub use helenus_replicate::metadata::redis::probe as redis;
#[cfg(feature = "postgres")]
pub use helenus_replicate::target::postgres::probe as postgres;
#[cfg(feature = "cassandra")]
pub use helenus_store::cassandra::probe as cassandra;
