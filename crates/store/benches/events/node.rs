//! What a plain client does with the same node: the measures the event store is compared with.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;
use scylla::policies::retry::FallthroughRetryPolicy;
use scylla::response::query_result::QueryResult;
use scylla::statement::batch::{Batch, BatchType};
use scylla::statement::prepared::PreparedStatement;
use scylla::value::Row;
use uuid::Uuid;

use crate::Result;

/// A session with tables of its own and everything prepared.
pub(crate) struct Bare {
    pub(crate) session: Arc<Session>,
    insert: PreparedStatement,
    move_head: PreparedStatement,
    event: PreparedStatement,
    next: AtomicUsize,
}

pub(crate) const KEYSPACE: &str = "bench";

impl Bare {
    pub(crate) async fn open(address: &str) -> Result<Bare> {
        let session = SessionBuilder::new().known_node(address).build().await?;
        let replication = "{'class': 'SimpleStrategy', 'replication_factor': 1}";
        for cql in [
            format!("CREATE KEYSPACE IF NOT EXISTS {KEYSPACE} WITH replication = {replication}"),
            format!("CREATE TABLE IF NOT EXISTS {KEYSPACE}.bare (id text PRIMARY KEY, payload text)"),
            format!(
                "CREATE TABLE IF NOT EXISTS {KEYSPACE}.looped (stream text, version bigint, head bigint,
                 payload text, PRIMARY KEY (stream, version))"
            ),
        ] {
            session.query_unpaged(cql, ()).await?;
        }
        let insert = "bare (id, payload) VALUES (?, ?) IF NOT EXISTS";
        let move_head = "looped SET head = ? WHERE stream = ? AND version = 0 IF head = ?";
        let event = "looped (stream, version, payload) VALUES (?, ?, ?)";
        Ok(Bare {
            insert: prepare(&session, format!("INSERT INTO {KEYSPACE}.{insert}")).await?,
            move_head: prepare(&session, format!("UPDATE {KEYSPACE}.{move_head}")).await?,
            event: prepare(&session, format!("INSERT INTO {KEYSPACE}.{event}")).await?,
            session: Arc::new(session),
            next: AtomicUsize::new(0),
        })
    }

    /// One row, if it is not there.
    pub(crate) async fn insert(&self, payload: &str) -> Result<()> {
        let id = format!("row-{}-{}", self.next.fetch_add(1, Ordering::Relaxed), Uuid::new_v4());
        let values = (id.as_str(), payload);
        let answer = self.session.execute_unpaged(&self.insert, values).await?;
        if refused(answer)?.is_some() { Err("the row was there".into()) } else { Ok(()) }
    }

    /// Gives the looped stream its head.
    pub(crate) async fn start_loop(&self, stream: &str) -> Result<()> {
        let cql = format!("INSERT INTO {KEYSPACE}.looped (stream, version, head) VALUES (?, 0, 0)");
        self.session.query_unpaged(cql + " IF NOT EXISTS", (stream,)).await?;
        Ok(())
    }

    /// One event at the head, tried again with the head that a refusal brings back.
    pub(crate) async fn append_in_loop(
        &self,
        stream: &str,
        payload: &str,
        known: &mut i64,
    ) -> Result<()> {
        loop {
            let mut batch = Batch::new(BatchType::Unlogged);
            batch.set_retry_policy(Some(Arc::new(FallthroughRetryPolicy)));
            batch.append_statement(self.move_head.clone());
            batch.append_statement(self.event.clone());
            let next = *known + 1;
            let values = ((next, stream, *known), (stream, next, payload));
            match refused(self.session.batch(&batch, values).await?)? {
                None => {
                    *known = next;
                    return Ok(());
                }
                Some(head) => *known = head,
            }
        }
    }
}

async fn prepare(session: &Session, cql: String) -> Result<PreparedStatement> {
    let mut statement = session.prepare(cql).await?;
    statement.set_retry_policy(Some(Arc::new(FallthroughRetryPolicy)));
    Ok(statement)
}

/// The head that came back with a refusal; `None` if it was applied.
fn refused(answer: QueryResult) -> Result<Option<i64>> {
    let rows = answer.into_rows_result()?;
    let specs = rows.column_specs();
    let place = |name| specs.get_by_name(name).map(|(index, _)| index);
    let (applied, head) = (place("[applied]").ok_or("no [applied]")?, place("head"));
    let Row { columns } = rows.first_row()?;
    if columns[applied].as_ref().and_then(|value| value.as_boolean()) == Some(true) {
        return Ok(None);
    }
    let head = head.and_then(|head| columns[head].as_ref()).and_then(|value| value.as_bigint());
    Ok(Some(head.unwrap_or_default()))
}
