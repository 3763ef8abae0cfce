//! What a catalog promises, whatever it runs on.

use std::future::Future;

use helenus_cql::rewrite::TableName;
use helenus_model::{BackendError, Timestamp};
use uuid::Uuid;

use super::{Edit, Snapshot, Story};

/// Where versions are recorded.
///
/// Every change but a heartbeat goes through [`commit`](Catalog::commit), which is one atomic step
/// on the condition that the catalog is still as it was planned on. So two publishers cannot take
/// the same number, and a recycle cannot pass a rollback.
pub trait Catalog: Send + Sync {
    /// A table's catalog, no older than any change that was answered.
    fn snapshot(
        &self,
        table: &TableName,
    ) -> impl Future<Output = Result<Snapshot, BackendError>> + Send;

    /// Every table that has versions.
    fn tables(&self) -> impl Future<Output = Result<Vec<TableName>, BackendError>> + Send;

    /// Makes a change; `false` if the catalog is no longer what it was planned on. An error of kind
    /// `OutcomeUnknown` leaves open which: the functions that change it settle that.
    fn commit(
        &self,
        table: &TableName,
        edit: Edit,
    ) -> impl Future<Output = Result<bool, BackendError>> + Send;

    /// Says that a publisher lives, and how far it is; `false` if the run is no longer pending or
    /// no longer that publisher's. Changes no epoch.
    fn beat(
        &self,
        table: &TableName,
        run_id: &str,
        publisher: Uuid,
        story: &Story,
    ) -> impl Future<Output = Result<bool, BackendError>> + Send;

    /// Writes or renews a reader's hold on a version. Durable before it returns, so that whoever
    /// marks the version afterwards as going away sees it.
    fn hold(
        &self,
        table: &TableName,
        lease: &ViewLease,
    ) -> impl Future<Output = Result<(), BackendError>> + Send;

    /// Gives a hold back.
    fn release(
        &self,
        table: &TableName,
        lease: &ViewLease,
    ) -> impl Future<Output = Result<(), BackendError>> + Send;

    /// Every hold on versions of a table, expired ones included.
    fn leases(
        &self,
        table: &TableName,
    ) -> impl Future<Output = Result<Vec<ViewLease>, BackendError>> + Send;
}

/// A reader's hold on a version: it is not dropped before that time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ViewLease {
    /// The version's number.
    pub version: u32,
    /// Names the hold.
    pub lease_id: Uuid,
    /// When it no longer counts.
    pub expires_at: Timestamp,
}
