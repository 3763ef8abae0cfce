//! Why a statement is not sent, and what to do instead.
//!
//! Both errors are the caller's to fix and none is worth a retry: nothing was sent.

use std::fmt;

use helenus_model::{Failure, Kind};

use super::SyntaxError;
use crate::lexer::{Lexer, TokenKind, quote};
use crate::parser::Operation;

/// Why a statement was not rewritten.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The statement would change a versioned table, or its schema.
    #[error(transparent)]
    Refused(Box<Refusal>),
    /// The statement cannot be parsed, and a name in it is that of a versioned table.
    #[error("the statement names versioned table {table} but is not understood: {syntax}")]
    NotUnderstood {
        /// The table.
        table: Box<TableName>,
        /// What the parser could not read, and where.
        syntax: SyntaxError,
    },
}

impl Failure for Error {
    fn kind(&self) -> Kind {
        Kind::Invalid
    }

    fn code(&self) -> &'static str {
        match self {
            Error::Refused(_) => "refused",
            Error::NotUnderstood { .. } => "not_understood",
        }
    }
}

impl Error {
    /// Where in the statement, in bytes; see [`caret`](super::caret).
    pub fn position(&self) -> usize {
        match self {
            Error::Refused(refusal) => refusal.position,
            Error::NotUnderstood { syntax, .. } => syntax.position,
        }
    }

    /// The versioned table.
    pub fn table(&self) -> &TableName {
        match self {
            Error::Refused(refusal) => &refusal.table,
            Error::NotUnderstood { table, .. } => table,
        }
    }
}

impl From<Refusal> for Error {
    fn from(refusal: Refusal) -> Self {
        Error::Refused(Box::new(refusal))
    }
}

/// A change of a versioned table that is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{operation} on versioned table {table} is refused: {}", self.remedy())]
pub struct Refusal {
    /// What the statement would have done.
    pub operation: Operation,
    /// The table as the application knows it.
    pub table: TableName,
    /// The version that stands for it now.
    pub version: String,
    /// Where the table's name stands in the statement, in bytes.
    pub position: usize,
}

impl Refusal {
    /// What to do instead.
    pub fn remedy(&self) -> String {
        match self.operation {
            Operation::Insert | Operation::Update | Operation::Delete => "a version is never \
                changed, publish a new one with `helenus versions publish`"
                .to_owned(),
            Operation::Truncate | Operation::DropTable => "go back with `helenus versions \
                rollback`, or drop old versions with `helenus versions recycle`"
                .to_owned(),
            Operation::AlterTable => "publish a version with the new schema, `helenus versions \
                publish --schema`"
                .to_owned(),
            Operation::CreateTable => {
                "the name is taken, and no reader would see a table created under it".to_owned()
            }
            _ => {
                let keyspace = quote(self.table.keyspace());
                format!(
                    "name the table of a version instead, now {keyspace}.{}",
                    quote(&self.version)
                )
            }
        }
    }
}

/// A keyspace and a table, as Cassandra stores them; printed as CQL.
///
/// ```
/// use helenus_cql::rewrite::TableName;
/// assert_eq!(TableName::new("shop", "Orders").to_string(), "shop.\"Orders\"");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TableName {
    keyspace: String,
    table: String,
}

impl TableName {
    /// The name of `table` in `keyspace`.
    pub fn new(keyspace: &str, table: &str) -> Self {
        TableName { keyspace: keyspace.to_owned(), table: table.to_owned() }
    }

    /// Reads `keyspace.table` as CQL does: unquoted names fold to lower case.
    ///
    /// ```
    /// use helenus_cql::rewrite::TableName;
    /// assert_eq!(TableName::parse("Shop.\"Orders\""), Some(TableName::new("shop", "Orders")));
    /// assert_eq!(TableName::parse("orders"), None);
    /// ```
    pub fn parse(text: &str) -> Option<Self> {
        let mut tokens = Lexer::new(text);
        let (keyspace, dot, table) = (tokens.next()?, tokens.next()?, tokens.next()?);
        let is_name = dot.kind == TokenKind::Dot && tokens.next().is_none();
        is_name.then(|| Some(TableName::new(&keyspace.identifier()?, &table.identifier()?)))?
    }

    /// The keyspace.
    pub fn keyspace(&self) -> &str {
        &self.keyspace
    }

    /// The table.
    pub fn table(&self) -> &str {
        &self.table
    }
}

impl fmt::Display for TableName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", quote(&self.keyspace), quote(&self.table))
    }
}
