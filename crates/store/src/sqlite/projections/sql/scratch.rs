//! Trying a SQL projection where it can do no harm.

use std::sync::{Arc, Mutex, PoisonError};

use rusqlite::Connection;
use rusqlite::hooks::{AuthAction, AuthContext, Authorization};

use super::{PARAMETERS, SqlProjection, expanded, invalid, refuse_reserved};
use crate::sqlite::projections::{ProjectionError, suffix};

/// The generation it is tried as; the store counts from 1.
const GENERATION: i64 = 0;
/// Functions that are tables.
const TABLE_FUNCTIONS: [&str; 2] = ["json_each", "json_tree"];

const ROWS_ONLY: &str = "a statement reads and writes rows, nothing else";

/// What the authorizer had against a statement, in words.
type Objection = Arc<Mutex<Option<String>>>;

/// Which part of the file is tried.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Create,
    Statement,
}

/// Refuses a projection that does anything but fill its own tables from its events.
pub(super) fn check(projection: &SqlProjection) -> Result<(), ProjectionError> {
    let objection = Objection::default();
    let mut db = Connection::open_in_memory()?;
    let told = |place: &str, error: &rusqlite::Error| {
        let objection = objection.lock().unwrap_or_else(PoisonError::into_inner).take();
        let problem = objection.unwrap_or_else(|| plainly(error));
        invalid(format!("{place}: {problem}"))
    };
    refuse_reserved(&projection.create)?;
    db.authorizer(Some(authorizer(Part::Create, &objection)))?;
    db.execute_batch(&expanded(&projection.create, GENERATION))
        .map_err(|error| told("the '-- create' part", &error))?;
    db.authorizer(Some(authorizer(Part::Statement, &objection)))?;
    for statement in &projection.statements {
        let place = format!("'-- on {}' on line {}", statement.event_type, statement.line);
        let text = expanded(&statement.text, GENERATION);
        if text.trim().is_empty() {
            return Err(invalid(format!("{place}: there is no statement")));
        }
        let prepared = db.prepare(&text).map_err(|error| told(&place, &error))?;
        for index in 1..=prepared.parameter_count() {
            let name = prepared.parameter_name(index).unwrap_or("?");
            if !PARAMETERS.contains(&name) {
                let known = PARAMETERS.join(", ");
                return Err(invalid(format!("{place}: {name} is not one of {known}")));
            }
        }
    }
    Ok(())
}

/// SQLite's words; for what is not to be seen here, the reason.
fn plainly(error: &rusqlite::Error) -> String {
    let text = match error {
        rusqlite::Error::SqlInputError { msg, .. } => msg.clone(),
        rusqlite::Error::SqliteFailure(_, Some(message)) => message.clone(),
        rusqlite::Error::MultipleStatement => {
            "one statement a part; repeat the '-- on' line for a second".to_owned()
        }
        error => error.to_string(),
    };
    let own = suffix(GENERATION);
    let text = text.replace(&own, "");
    if text.starts_with("no such table") {
        return format!("{text}; a projection sees its own tables only, written as {{name}}");
    }
    text
}

fn authorizer(
    part: Part,
    objection: &Objection,
) -> impl for<'r> FnMut(AuthContext<'r>) -> Authorization + Send + 'static + use<> {
    let objection = Arc::clone(objection);
    move |context: AuthContext<'_>| match objection_to(part, &context.action) {
        None => Authorization::Allow,
        Some(words) => {
            objection.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(words);
            Authorization::Deny
        }
    }
}

fn objection_to(part: Part, action: &AuthAction<'_>) -> Option<String> {
    let own = |name: &str| name.ends_with(&suffix(GENERATION));
    let internal = |name: &str| part == Part::Create && name.starts_with("sqlite_");
    let unbraced = |name: &str| format!("write the name '{name}' in braces: {{{name}}}");
    match *action {
        AuthAction::Select | AuthAction::Recursive => None,
        AuthAction::Function { function_name } => {
            let is_loader = function_name.eq_ignore_ascii_case("load_extension");
            is_loader.then(|| "load_extension() is not for projections".to_owned())
        }
        AuthAction::Read { table_name: name, .. } => {
            let is_seen = name.is_empty() || own(name) || TABLE_FUNCTIONS.contains(&name);
            (!is_seen && !internal(name)).then(|| format!("'{name}' is not its own table"))
        }
        AuthAction::Insert { table_name: name }
        | AuthAction::Update { table_name: name, .. }
        | AuthAction::Delete { table_name: name } => match name {
            name if own(name) || internal(name) => None,
            // How SQLite sees a statement that changes the schema.
            name if name.starts_with("sqlite_") => Some(ROWS_ONLY.to_owned()),
            name => Some(format!("'{name}' is not its own table")),
        },
        AuthAction::CreateTable { table_name: name }
        | AuthAction::CreateView { view_name: name }
        | AuthAction::CreateTrigger { trigger_name: name, .. }
            if part == Part::Create =>
        {
            (!own(name)).then(|| unbraced(name))
        }
        AuthAction::CreateIndex { index_name: name, .. } if part == Part::Create => {
            (!own(name) && !internal(name)).then(|| unbraced(name))
        }
        AuthAction::Reindex { .. } if part == Part::Create => None,
        _ if part == Part::Create => {
            Some("it creates tables, indexes, views and triggers, nothing else".to_owned())
        }
        _ => Some(ROWS_ONLY.to_owned()),
    }
}
