//! Sends a statement to another table: replaces table names and nothing else.
//!
//! Applications write queries on a table (`features`) of which several versions exist
//! (`features_v7`); [`rewrite`] asks a router which version stands for the table and puts that name
//! in the place of the old one. Every other byte stays: comments, case, white space, literals. A
//! statement that names no versioned table comes back borrowed.
//!
//! A version is written once, by its publisher, so statements that would change a versioned table
//! are refused. A statement the parser does not know passes untouched if nothing in it could be a
//! versioned table, and is refused otherwise: **nothing is ever rewritten by guess.**
//!
//! It keeps no map of versions and no cache; both belong to the session that calls it. Nor does it
//! remember `USE`: the caller is told the keyspace and passes it in from then on.

use std::borrow::Cow;
use std::ops::Range;

use crate::lexer::{Lexer, TokenKind, quote, quoted};
use crate::parser::{self, Kind, Name, SyntaxError, TableRef, Visit};

mod caret;
mod error;

pub use caret::caret;
pub use error::{Error, Refusal, TableName};

/// A statement that may be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rewritten<'a> {
    /// The text to send; borrowed if it is the text that came in.
    pub text: Cow<'a, str>,
    /// What sort of statement it is; `None` if the parser does not know it.
    pub kind: Option<Kind>,
    /// The versioned tables it names, in the order of the text.
    pub tables: Vec<Routed>,
    /// The keyspace that the session will be in after this statement, if that is `USE`.
    pub use_keyspace: Option<Cow<'a, str>>,
}

/// A versioned table that a statement names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Routed {
    /// The table as the application knows it.
    pub table: TableName,
    /// The name that stands for it now.
    pub version: String,
    /// Where the table's name stood in the original text, without the keyspace.
    pub span: Range<usize>,
}

/// Replaces the names of versioned tables in `statement`.
///
/// `route` gets a keyspace and a table as Cassandra stores them (case folded or unquoted) and
/// returns the name of the version to use, or `None` for a table that is not versioned. A table
/// without keyspace belongs to `session_keyspace`, also given as stored; without one it is left
/// alone. A name that was written in quotes is replaced in quotes, and the others get quotes only
/// if the new name needs them.
///
/// ```
/// use helenus_cql::rewrite::rewrite;
/// let route = |keyspace: &str, table: &str| {
///     (keyspace == "shop" && table == "features").then_some("features_v7")
/// };
/// let read = rewrite("SELECT features FROM shop.Features -- features\n", None, route).unwrap();
/// assert_eq!(read.text, "SELECT features FROM shop.features_v7 -- features\n");
///
/// let error = rewrite("DELETE FROM features WHERE id = 1", Some("shop"), route).unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     "DELETE on versioned table shop.features is refused: \
///      a version is never changed, publish a new one with `helenus versions publish`"
/// );
/// ```
///
/// # Errors
///
/// [`Error::Refused`] if the statement would change a versioned table or its schema, and
/// [`Error::NotUnderstood`] if it cannot be parsed and may name a versioned table.
pub fn rewrite<'a, N: AsRef<str>>(
    statement: &'a str,
    session_keyspace: Option<&str>,
    route: impl Fn(&str, &str) -> Option<N>,
) -> Result<Rewritten<'a>, Error> {
    let mut router =
        Router { session_keyspace, route, routed: Vec::new(), refusal: None, use_keyspace: None };
    let parsed = parser::walk(statement, &mut router);
    if let Some(refusal) = router.refusal {
        return Err(refusal.into());
    }
    let kind = match parsed {
        Ok(kind) => Some(kind),
        Err(syntax) => {
            if let Some(table) = router.first_routed(statement) {
                return Err(Error::NotUnderstood { table: Box::new(table), syntax });
            }
            router.routed.clear();
            router.use_keyspace = None;
            None
        }
    };
    let text = splice(statement, &router.routed);
    Ok(Rewritten { text, kind, tables: router.routed, use_keyspace: router.use_keyspace })
}

/// Asks `route` about every table the parser meets.
struct Router<'a, 's, F> {
    session_keyspace: Option<&'s str>,
    route: F,
    routed: Vec<Routed>,
    refusal: Option<Refusal>,
    use_keyspace: Option<Cow<'a, str>>,
}

impl<'a, F, N> Visit<'a> for Router<'a, '_, F>
where
    F: Fn(&str, &str) -> Option<N>,
    N: AsRef<str>,
{
    fn table(&mut self, found: TableRef<'a>) {
        let keyspace = match (found.keyspace, self.session_keyspace) {
            (Some(name), _) => name.folded(),
            (None, Some(session)) => Cow::Borrowed(session),
            (None, None) => return,
        };
        let table = found.table.folded();
        let Some(version) = (self.route)(&keyspace, &table) else { return };
        let version = version.as_ref().to_owned();
        let table = TableName::new(&keyspace, &table);
        let span = found.table.span();
        if found.operation.reads() {
            self.routed.push(Routed { table, version, span });
        } else if self.refusal.is_none() {
            let (operation, position) = (found.operation, span.start);
            self.refusal = Some(Refusal { operation, table, version, position });
        }
    }

    fn use_keyspace(&mut self, keyspace: Name<'a>) {
        self.use_keyspace = Some(keyspace.folded());
    }
}

impl<F, N> Router<'_, '_, F>
where
    F: Fn(&str, &str) -> Option<N>,
{
    /// The first name in a statement nobody understands that could be a versioned table.
    fn first_routed(&self, statement: &str) -> Option<TableName> {
        let mut tokens = Lexer::new(statement).filter(|token| !token.is_trivia()).peekable();
        let mut qualifier: Option<Cow<'_, str>> = None;
        while let Some(token) = tokens.next() {
            let Some(name) = token.identifier() else {
                if token.kind != TokenKind::Dot {
                    qualifier = None;
                }
                continue;
            };
            let dot = tokens.peek().is_some_and(|next| next.kind == TokenKind::Dot);
            let keyspace = match &qualifier {
                Some(keyspace) => Some(keyspace.as_ref()),
                None if dot => None,
                None => self.session_keyspace,
            };
            if let Some(keyspace) = keyspace
                && (self.route)(keyspace, &name).is_some()
            {
                return Some(TableName::new(keyspace, &name));
            }
            qualifier = dot.then_some(name);
        }
        None
    }
}

/// `statement` with the routed names in it; borrowed if that changes nothing.
fn splice<'a>(statement: &'a str, routed: &[Routed]) -> Cow<'a, str> {
    let mut text = String::new();
    let mut copied = 0;
    for Routed { table, version, span } in routed {
        if table.table() == version {
            continue;
        }
        let written = statement.get(span.clone()).unwrap_or_default();
        if text.is_empty() {
            // Quotes and one name: enough for nearly every statement.
            text.reserve(statement.len() + version.len() + 2);
        }
        text.push_str(statement.get(copied..span.start).unwrap_or_default());
        // Quotes also hold words apart (`FROM"t"WHERE`), so they stay.
        if written.starts_with('"') {
            text.push_str(&quoted(version));
        } else {
            text.push_str(&quote(version));
        }
        copied = span.end;
    }
    if copied == 0 {
        return Cow::Borrowed(statement);
    }
    text.push_str(statement.get(copied..).unwrap_or_default());
    Cow::Owned(text)
}
