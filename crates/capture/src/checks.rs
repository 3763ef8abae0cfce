//! What is wrong with an agent's options, as far as the schema tells: each would lose or show changes
//! without a word.

use std::collections::HashMap;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use helenus_cql::schema::Catalog;

use crate::agent::AgentError;
use crate::options::{Options, TablePattern};
use crate::schema::History;
use crate::segments::list;
use crate::state::documents;

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
    let before = documents(&options.state)?;
    check(options, &history.catalog(), before.iter().map(|(_, catalog)| catalog))
}

/// Refuses a folder that cannot be read, or where nothing can be deleted: the node would fill it up.
///
/// ```
/// use helenus_capture::check_folder;
///
/// let refused = check_folder("no/such/folder".as_ref()).unwrap_err();
/// assert_eq!(refused.to_string(), "no/such/folder cannot be read");
/// ```
pub fn check_folder(folder: &Path) -> Result<(), AgentError> {
    list(folder)?;
    let probe = folder.join(format!("helenus-{}.probe", std::process::id()));
    let tried = File::create(&probe).and_then(|_| std::fs::remove_file(&probe));
    tried.map_err(|source| AgentError::FolderKept { folder: folder.to_owned(), source })
}

/// The same with the schemas that an agent has seen before: of a table that is gone the log may still
/// hold changes, and its columns are masked in them.
pub(crate) fn check<'c>(
    options: &Options,
    catalog: &Catalog,
    before: impl Iterator<Item = &'c Catalog> + Clone,
) -> Result<(), AgentError> {
    for pattern in &options.tables {
        let Err(refused) = check_table(pattern, catalog) else { continue };
        // It was captured before: what is left of it in the log is published, and the rest can go on.
        if !before.clone().any(|seen| check_table(pattern, seen).is_ok()) {
            return Err(refused);
        }
        tracing::warn!("{refused} any more; what the log still has of it is published");
    }
    let mut unknown = options.policy.unknown(catalog).1;
    for catalog in before {
        let missing = options.policy.unknown(catalog).1;
        unknown.retain(|table| missing.contains(table));
    }
    if let Some(table) = unknown.into_iter().next() {
        return Err(AgentError::UnknownMaskedTable { table });
    }
    check_masks(options, catalog)?;
    let mut topics = HashMap::new();
    for table in catalog.tables().filter(|table| options.captures(table)) {
        if !catalog.is_logged(table) {
            let name = format!("{}.{}", table.keyspace, table.name);
            tracing::warn!(
                table = name,
                "nothing is captured: its keyspace has durable_writes = false"
            );
        }
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

fn check_table(pattern: &TablePattern, catalog: &Catalog) -> Result<(), AgentError> {
    let (keyspace, name) = pattern.names();
    let mut found = catalog.tables().filter(|table| pattern.names_table(table));
    let table = || format!("{keyspace}.{}", name.unwrap_or("*"));
    match (found.next(), name) {
        (None, _) => Err(AgentError::UnknownTable { table: table() }),
        (Some(found), _) if !catalog.is_logged(found) => {
            Err(AgentError::TableNotLogged { table: table() })
        }
        (Some(found), Some(_)) if !found.cdc => Err(AgentError::TableWithoutCdc { table: table() }),
        _ => Ok(()),
    }
}

/// Refuses masks of columns that their tables do not have, or no longer have under that name.
pub(crate) fn check_masks(options: &Options, catalog: &Catalog) -> Result<(), AgentError> {
    match options.policy.unknown(catalog).0.into_iter().next() {
        Some(column) => Err(AgentError::UnknownColumn { column }),
        None => Ok(()),
    }
}
