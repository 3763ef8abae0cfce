//! Tables of versions in a cluster.

use std::time::Duration;

use futures_util::{StreamExt, TryStreamExt, stream};
use helenus_cql::lexer::quote;
use helenus_cql::rewrite::TableName;
use helenus_model::BackendError;
use helenus_store::cassandra::link::{change_schema, ensure_keyspace, prepare_error, read_error};
use scylla::deserialize::row::ColumnIterator;
use scylla::statement::prepared::PreparedStatement;
use tokio::sync::mpsc;
use uuid::Uuid;

use super::catalog::damaged;
use super::row_values::BoundKey;
use super::statements::ASK_ANOTHER_SOON;
use super::{CassandraVersions, Shared, load};
use crate::TableSchema;
use crate::row::push;
use crate::tables::{Chunk, Created, LoadOptions, Progress, Tables, Target};

/// Ranges of tokens that are counted one by one.
const COUNT_RANGES: i128 = 64;

/// Ranges that are counted at once.
const COUNT_AT_ONCE: usize = 2;

/// Counting reads a lot.
const COUNT_TIMEOUT: Duration = Duration::from_secs(60);

impl Tables for CassandraVersions {
    async fn is_taken(&self, table: &TableName) -> Result<bool, BackendError> {
        Ok(self.shared.comment(table.keyspace(), table.table()).await?.is_some())
    }

    async fn create(&self, target: &Target) -> Result<Created, BackendError> {
        let shared = &self.shared;
        let (keyspace, name) = (target.table.keyspace(), target.version_name.as_str());
        let mark = shared.names.mark(&target.run_id);
        if shared.comment(keyspace, name).await?.is_none() {
            Box::pin(ensure_keyspace(&shared.session, keyspace, &shared.options)).await?;
            let create = with_options(&target.schema).create_cql(keyspace, name, Some(&mark));
            let create = create.replacen("CREATE TABLE", "CREATE TABLE IF NOT EXISTS", 1);
            Box::pin(change_schema(&shared.session, create)).await?;
        }
        Ok(match shared.comment(keyspace, name).await? {
            Some((comment, id)) if comment == mark => Created::Ours(Some(id)),
            _ => Created::Taken,
        })
    }

    async fn load(
        &self,
        target: &Target,
        options: &LoadOptions,
        chunks: mpsc::Receiver<Chunk>,
        progress: &Progress,
    ) -> Result<(), BackendError> {
        let insert = target.schema.insert_cql(target.table.keyspace(), &target.version_name);
        let insert = self.shared.prepare(&insert).await?;
        Box::pin(load::load(&self.shared, target, options, insert, chunks, progress)).await
    }

    async fn count(&self, target: &Target) -> Result<u64, BackendError> {
        let cql = target.schema.count_cql(target.table.keyspace(), &target.version_name);
        let mut count = self.shared.prepare(&cql).await?;
        count.set_request_timeout(Some(COUNT_TIMEOUT));
        let (shared, count) = (&self.shared, &count);
        let ranges = stream::iter(ranges()).map(|range| async move {
            let rows = Box::pin(shared.session.execute_unpaged(count, range)).await;
            let rows = rows.map_err(read_error)?.into_rows_result().map_err(damaged)?;
            let (rows,) = rows.single_row::<(i64,)>().map_err(damaged)?;
            Ok::<u64, BackendError>(u64::try_from(rows).unwrap_or(0))
        });
        ranges
            .buffer_unordered(COUNT_AT_ONCE)
            .try_fold(0, |sum, rows| async move { Ok(sum + rows) })
            .await
    }

    async fn fetch(&self, target: &Target, key: &[u8]) -> Result<Option<Vec<u8>>, BackendError> {
        let cql = target.schema.select_cql(target.table.keyspace(), &target.version_name);
        let select = self.shared.prepare(&cql).await?;
        let read = Box::pin(self.shared.session.execute_unpaged(&select, BoundKey(key))).await;
        let rows = read.map_err(read_error)?.into_rows_result().map_err(damaged)?;
        let Some(row) = rows.rows::<ColumnIterator<'_, '_>>().map_err(damaged)?.next() else {
            return Ok(None);
        };
        let mut cells = Vec::new();
        for column in row.map_err(damaged)? {
            let column = column.map_err(damaged)?;
            push(column.slice.map(|slice| slice.as_slice()), &mut cells);
        }
        Ok(Some(cells))
    }

    async fn drop_table(
        &self,
        table: &TableName,
        version_name: &str,
        run_id: &str,
    ) -> Result<(), BackendError> {
        let comment = self.shared.comment(table.keyspace(), version_name).await?;
        if comment.is_none_or(|(comment, _)| comment != self.shared.names.mark(run_id)) {
            return Ok(());
        }
        let (keyspace, name) = (quote(table.keyspace()), quote(version_name));
        let drop = format!("DROP TABLE IF EXISTS {keyspace}.{name}");
        Ok(Box::pin(change_schema(&self.shared.session, drop)).await?)
    }

    async fn marked(&self, table: &TableName) -> Result<Vec<(String, String)>, BackendError> {
        let query = "SELECT table_name, comment FROM system_schema.tables WHERE keyspace_name = ?";
        let read = self.shared.session.query_unpaged(query, (table.keyspace(),));
        let rows = Box::pin(read).await.map_err(read_error)?.into_rows_result().map_err(damaged)?;
        let start = format!("{} run ", self.shared.names.mark_start());
        let mut marked = Vec::new();
        for row in rows.rows::<(String, Option<String>)>().map_err(damaged)? {
            let (name, comment) = row.map_err(damaged)?;
            let number = name.strip_prefix(table.table()).and_then(|rest| rest.strip_prefix("_v"));
            let is_version = number.is_some_and(|number| number.parse::<u32>().is_ok());
            let run = comment.as_deref().and_then(|comment| comment.strip_prefix(&start));
            if let Some(run) = run.filter(|_| is_version) {
                marked.push((name.clone(), run.to_owned()));
            }
        }
        Ok(marked)
    }
}

impl Shared {
    /// A table's comment and id; `None` if there is no such table.
    async fn comment(
        &self,
        keyspace: &str,
        table: &str,
    ) -> Result<Option<(String, Uuid)>, BackendError> {
        let query = "SELECT comment, id FROM system_schema.tables
                     WHERE keyspace_name = ? AND table_name = ?";
        let read = Box::pin(self.session.query_unpaged(query, (keyspace, table))).await;
        let rows = read.map_err(read_error)?.into_rows_result().map_err(damaged)?;
        let row = rows.maybe_first_row::<(Option<String>, Uuid)>().map_err(damaged)?;
        Ok(row.map(|(comment, id)| (comment.unwrap_or_default(), id)))
    }

    pub(super) async fn prepare(&self, cql: &str) -> Result<PreparedStatement, BackendError> {
        let mut statement = Box::pin(self.session.prepare(cql)).await.map_err(prepare_error)?;
        statement.set_consistency(self.options.consistency.level());
        statement.set_request_timeout(Some(self.options.request_timeout));
        statement.set_is_idempotent(true);
        Ok(statement)
    }
}

/// The schema with what every version's table has, unless it says otherwise itself.
fn with_options(schema: &TableSchema) -> TableSchema {
    let mut schema = schema.clone();
    let is_set = |option: &String| option.to_ascii_lowercase().starts_with("speculative_retry");
    if !schema.options.iter().any(is_set) {
        schema.options.push(ASK_ANOTHER_SOON.to_owned());
    }
    schema
}

/// All tokens, in ranges of equal width; both ends of each are in it.
fn ranges() -> Vec<(i64, i64)> {
    let (first, last) = (i128::from(i64::MIN), i128::from(i64::MAX));
    let width = (last - first + 1) / COUNT_RANGES;
    let end = |index: i128| if index == COUNT_RANGES { last + 1 } else { first + index * width };
    let narrow = |token: i128| i64::try_from(token).unwrap_or(i64::MAX);
    (0..COUNT_RANGES).map(|index| (narrow(end(index)), narrow(end(index + 1) - 1))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_schema_says_itself_stands() {
        let plain = "CREATE TABLE t (a int PRIMARY KEY)";
        let options = |cql: &str| with_options(&TableSchema::parse(cql).unwrap()).options;
        assert_eq!(options(plain), [ASK_ANOTHER_SOON]);
        let own = options(&format!("{plain} WITH Speculative_Retry = 'NEVER'"));
        assert_eq!(own, ["Speculative_Retry = 'NEVER'"]);
    }

    #[test]
    fn every_token_is_in_one_range() {
        let ranges = ranges();
        assert_eq!(ranges.first().map(|range| range.0), Some(i64::MIN));
        assert_eq!(ranges.last().map(|range| range.1), Some(i64::MAX));
        for pair in ranges.windows(2) {
            assert_eq!(pair[0].1 + 1, pair[1].0);
        }
    }
}
