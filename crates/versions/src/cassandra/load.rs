//! Writing rows as fast as the cluster takes them.
//!
//! Rows of a chunk are put together by the node that owns them, a few in an unlogged batch, which
//! costs the node far less than as many requests. Batches stay below the sizes at which a node
//! complains. How many are under way adapts, see `pace`.

mod pace;

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use helenus_cql::token::Token;
use helenus_model::{BackendError, Failure};
use helenus_store::cassandra::link::request_error;
use scylla::routing::Token as DriverToken;
use scylla::statement::batch::{Batch, BatchType};
use scylla::statement::prepared::PreparedStatement;
use tokio::sync::mpsc;
use uuid::Uuid;

use super::Shared;
use super::row_values::BoundRow;
use crate::row::{Mapping, MappingOptions, Row};
use crate::tables::{Chunk, LoadOptions, Mark, Progress, Target};
use pace::Pace;

/// Rows of a batch: nodes warn of more than ten partitions.
const BATCH_ROWS_MAX: usize = 10;

/// Bytes of a batch: nodes warn at 5 KiB.
const BATCH_BYTES_MAX: usize = 4 * 1024;

struct Group {
    chunk: u64,
    rows: Vec<Row>,
    attempt: u32,
    first_failed: Option<Duration>,
}

pub(super) async fn load(
    shared: &Shared,
    target: &Target,
    options: &LoadOptions,
    insert: PreparedStatement,
    mut chunks: mpsc::Receiver<Chunk>,
    progress: &Progress,
) -> Result<(), BackendError> {
    let places = Places::new(shared, target);
    let mut pace = Pace::new(&shared.ports, options);
    let mut under_way = UnderWay::default();
    let mut queue: VecDeque<Group> = VecDeque::new();
    let mut sent = FuturesUnordered::new();
    let mut is_open = true;
    loop {
        while sent.len() < pace.in_flight() {
            let Some(group) = queue.pop_front() else { break };
            let wait = pace.turn(group.rows.len(), group.attempt);
            sent.push(send(shared, target, &insert, group, wait));
        }
        if sent.is_empty() && queue.is_empty() && !is_open {
            return Ok(());
        }
        tokio::select! {
            biased;
            Some((group, took, outcome)) = sent.next(), if !sent.is_empty() => match outcome {
                Ok(()) => {
                    pace.answered(took);
                    progress.wrote(group.rows.len(), took);
                    under_way.done(group.chunk, progress);
                }
                Err(error) => {
                    pace.overloaded();
                    let now = shared.ports.clock.elapsed();
                    let since = group.first_failed.unwrap_or(now);
                    if !error.is_retryable() || now.saturating_sub(since) > options.give_up_after {
                        return Err(error);
                    }
                    progress.retried();
                    let attempt = group.attempt + 1;
                    queue.push_front(Group { attempt, first_failed: Some(since), ..group });
                }
            },
            chunk = chunks.recv(), if is_open && queue.is_empty() => match chunk {
                Some(Chunk { rows, end }) => {
                    let groups = places.groups(rows);
                    let chunk = under_way.began(groups.len(), end, progress);
                    queue.extend(groups.into_iter().map(|rows| {
                        Group { chunk, rows, attempt: 0, first_failed: None }
                    }));
                }
                None => is_open = false,
            },
        }
    }
}

async fn send(
    shared: &Shared,
    target: &Target,
    insert: &PreparedStatement,
    group: Group,
    wait: Duration,
) -> (Group, Duration, Result<(), BackendError>) {
    if !wait.is_zero() {
        tokio::time::sleep(wait).await;
    }
    let began = shared.ports.clock.elapsed();
    let bound = |row| BoundRow {
        row,
        write_time: target.write_time(row.ordinal),
        unset_nulls: !target.duplicates,
    };
    let sent = if let [row] = group.rows.as_slice() {
        Box::pin(shared.session.execute_unpaged(insert, bound(row))).await
    } else {
        let mut batch = Batch::new(BatchType::Unlogged);
        batch.set_consistency(shared.options.consistency.level());
        batch.set_request_timeout(Some(shared.options.request_timeout));
        batch.set_is_idempotent(true);
        for _ in &group.rows {
            batch.append_statement(insert.clone());
        }
        let values: Vec<BoundRow<'_>> = group.rows.iter().map(bound).collect();
        Box::pin(shared.session.batch(&batch, values)).await
    };
    let took = shared.ports.clock.elapsed().saturating_sub(began);
    let outcome = sent.map(drop).map_err(|error| request_error("write rows", error).into());
    (group, took, outcome)
}

/// Which node owns which row.
struct Places<'a> {
    shared: &'a Shared,
    target: &'a Target,
    mapping: Option<Mapping>,
    one_node: bool,
}

impl<'a> Places<'a> {
    fn new(shared: &'a Shared, target: &'a Target) -> Self {
        let names: Vec<String> =
            target.schema.columns.iter().map(|column| column.name.clone()).collect();
        let schema = std::sync::Arc::clone(&target.schema);
        let mapping = Mapping::new(schema, &names, 0, &MappingOptions::default()).ok();
        let one_node = shared.session.get_cluster_state().get_nodes_info().len() == 1;
        Places { shared, target, mapping, one_node }
    }

    /// The rows in batches, those of one partition side by side.
    fn groups(&self, rows: Vec<Row>) -> Vec<Vec<Row>> {
        let state = self.shared.session.get_cluster_state();
        let (keyspace, table) = (self.target.table.keyspace(), &self.target.version_name);
        let mut placed: Vec<(Uuid, i64, Row)> = Vec::with_capacity(rows.len());
        for row in rows {
            let key = self.mapping.as_ref().map(|mapping| mapping.partition_key(&row));
            let token = Token::of(&key.unwrap_or_default()).0;
            let owner = if self.one_node {
                Uuid::nil()
            } else {
                let owners = state.get_token_endpoints(keyspace, table, DriverToken::new(token));
                owners.first().map_or(Uuid::nil(), |(node, _)| node.host_id)
            };
            placed.push((owner, token, row));
        }
        placed.sort_by_key(|(owner, token, row)| (*owner, *token, row.ordinal));
        let mut groups: Vec<Vec<Row>> = Vec::new();
        let (mut bytes, mut last) = (0, None);
        for (owner, _, row) in placed {
            let size = row.cells.len();
            let fits = groups.last().is_some_and(|group| {
                last == Some(owner)
                    && group.len() < BATCH_ROWS_MAX
                    && bytes + size <= BATCH_BYTES_MAX
            });
            match groups.last_mut() {
                Some(group) if fits => {
                    group.push(row);
                    bytes += size;
                }
                _ => {
                    groups.push(vec![row]);
                    bytes = size;
                }
            }
            last = Some(owner);
        }
        groups
    }
}

/// Chunks of which something is not durable yet.
#[derive(Default)]
struct UnderWay {
    next: u64,
    chunks: BTreeMap<u64, (usize, Mark)>,
}

impl UnderWay {
    fn began(&mut self, groups: usize, end: Mark, progress: &Progress) -> u64 {
        let chunk = self.next;
        self.next += 1;
        self.chunks.insert(chunk, (groups, end));
        self.settle(progress);
        chunk
    }

    fn done(&mut self, chunk: u64, progress: &Progress) {
        if let Some((left, _)) = self.chunks.get_mut(&chunk) {
            *left = left.saturating_sub(1);
        }
        self.settle(progress);
    }

    /// Only what has nothing unfinished before it is durable without a gap.
    fn settle(&mut self, progress: &Progress) {
        while let Some(first) = self.chunks.first_entry().filter(|first| first.get().0 == 0) {
            progress.reached(first.remove().1);
        }
    }
}
