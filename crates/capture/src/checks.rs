//! What is wrong with an agent's options, as far as the schema tells: each would lose or show changes
//! without a word.

use std::collections::HashMap;
use std::sync::Arc;

use helenus_cql::schema::Catalog;

use crate::agent::AgentError;
use crate::options::Options;
use crate::schema::History;

/// Refuses options that do not fit the schema in this document.
///
/// ```
/// use helenus_capture::check_options;
/// use helenus_capture::options::Options;
///
/// let options = Options {
///     tables: vec!["shop.orders".parse()?],
///     ..Options::new("cdc_raw", "state")
/// };
/// let refused = check_options(&options, r#"{"tables": [], "columns": []}"#).unwrap_err();
/// assert_eq!(refused.to_string(), "shop.orders is to be captured, and there is no such table");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn check_options(options: &Options, document: &str) -> Result<(), AgentError> {
    let history = History::new(document).map_err(|error| AgentError::Document(Box::new(error)))?;
    check(options, &history.catalog())
}

pub(crate) fn check(options: &Options, catalog: &Catalog) -> Result<(), AgentError> {
    for (keyspace, name) in options.tables.iter().filter_map(|pattern| pattern.table()) {
        let table = format!("{keyspace}.{name}");
        match catalog.by_name(keyspace, name) {
            None => return Err(AgentError::UnknownTable { table }),
            Some(found) if !found.cdc => return Err(AgentError::TableWithoutCdc { table }),
            Some(_) => {}
        }
    }
    let (columns, tables) = options.policy.unknown(catalog);
    for table in tables {
        // It may still be created.
        tracing::warn!(table, "capture.mask names a table that is not there");
    }
    if let Some(column) = columns.into_iter().next() {
        return Err(AgentError::UnknownColumn { column });
    }
    let mut topics = HashMap::new();
    for table in catalog.tables().filter(|table| options.captures(table)) {
        let topic = options.topic(table);
        // Names that differ in dots and underscores only are one to Kafka's metrics, and refused.
        if let Some(other) = topics.insert(topic.replace('.', "_"), Arc::clone(&topic))
            && other != topic
        {
            let (one, other) = (topic.to_string(), other.to_string());
            return Err(AgentError::TopicsCollide { one, other });
        }
    }
    Ok(())
}
