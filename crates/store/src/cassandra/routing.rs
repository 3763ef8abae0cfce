//! Where requests go: to a replica of their partition, in the local data centre first; those that
//! run Paxos always to the same one.
//!
//! Two coordinators that run rounds for one partition outbid each other's ballots, and each lost
//! ballot is a round trip to every replica. So all conditional writes of a partition go to one
//! replica first, in every process, and to the next in the ring's order where that one is down.
//! The driver does this for ScyllaDB, whose nodes mark such statements; Cassandra's do not.

use std::sync::Arc;
use std::time::Duration;

use scylla::cluster::{ClusterState, NodeRef};
use scylla::errors::RequestAttemptError;
use scylla::policies::load_balancing::{
    DefaultPolicy, FallbackPlan, LoadBalancingPolicy, RoutingInfo,
};
use scylla::routing::Shard;
use uuid::Uuid;

use super::Options;

/// For everything that runs no Paxos.
pub(super) fn spread(options: &Options) -> Arc<dyn LoadBalancingPolicy> {
    let mut policy = DefaultPolicy::builder().token_aware(true);
    if let Some(name) = &options.local_dc {
        policy = policy.prefer_datacenter(name.clone()).permit_dc_failover(true);
    }
    policy.build()
}

/// For conditional writes.
pub(super) fn pinned(options: &Options) -> Arc<dyn LoadBalancingPolicy> {
    Arc::new(Pinned { inner: spread(options) })
}

/// Tells the driver's own policy what the node did not: that the request is conditional.
#[derive(Debug)]
struct Pinned {
    inner: Arc<dyn LoadBalancingPolicy>,
}

type Target = (Uuid, Option<Shard>);

fn conditional<'a>(request: &RoutingInfo<'a>) -> RoutingInfo<'a> {
    let mut request = request.clone();
    request.is_confirmed_lwt = true;
    request
}

fn target((node, shard): (NodeRef<'_>, Option<Shard>)) -> Target {
    (node.host_id, shard)
}

/// A node of the plan as the cluster has it: the plan itself ends with the request it was made for.
fn of_cluster(
    cluster: &ClusterState,
    (host_id, shard): Target,
) -> Option<(NodeRef<'_>, Option<Shard>)> {
    Some((cluster.get_node_by_host_id(host_id)?, shard))
}

impl LoadBalancingPolicy for Pinned {
    fn pick<'a>(
        &'a self,
        request: &'a RoutingInfo<'_>,
        cluster: &'a ClusterState,
    ) -> Option<(NodeRef<'a>, Option<Shard>)> {
        let picked = self.inner.pick(&conditional(request), cluster).map(target);
        of_cluster(cluster, picked?)
    }

    fn fallback<'a>(
        &'a self,
        request: &'a RoutingInfo<'_>,
        cluster: &'a ClusterState,
    ) -> FallbackPlan<'a> {
        let request = conditional(request);
        let plan: Vec<Target> = self.inner.fallback(&request, cluster).map(target).collect();
        Box::new(plan.into_iter().filter_map(|target| of_cluster(cluster, target)))
    }

    fn on_request_success(&self, request: &RoutingInfo<'_>, latency: Duration, node: NodeRef<'_>) {
        self.inner.on_request_success(request, latency, node);
    }

    fn on_request_failure(
        &self,
        request: &RoutingInfo<'_>,
        latency: Duration,
        node: NodeRef<'_>,
        error: &RequestAttemptError,
    ) {
        self.inner.on_request_failure(request, latency, node, error);
    }

    fn name(&self) -> String {
        "PinnedReplica".to_owned()
    }
}
