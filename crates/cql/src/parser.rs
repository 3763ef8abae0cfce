//! Reads one CQL statement and finds every table it names.
//!
//! The grammar is that of Cassandra 5.0, a little wider: what Cassandra accepts must be accepted
//! here, while some of what it refuses (a wrong order of operators, an aggregate in `WHERE`) passes,
//! because the server will say so better. What decides is that a table name can stand in few
//! places only, each after a reserved word, and that nothing else is ever taken for one: not a
//! column of that name, a field, a keyspace-qualified function, a role, nor text in a string.
//! `SELECT`, `INSERT`, `UPDATE`, `DELETE`, `BATCH`, `USE` and `TRUNCATE` are read to the last
//! token; of the other statements the head with the tables is read and the rest skimmed.
//!
//! The parser builds nothing: it tells a [`Visit`] what it meets, so that the rewriter pays for no
//! tree and a test can still print one. It never panics, and nesting is bounded by [`DEPTH_MAX`].
//! It does not check types, columns or the number of values.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

use crate::lexer::{Open, Token};

mod cursor;
mod expression;
mod manipulation;
mod schema;
mod select;

/// How deeply expressions and types may nest; a collection in a collection is one level more.
pub const DEPTH_MAX: usize = 100;

/// What sort of statement was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// `SELECT`
    Select,
    /// `INSERT`
    Insert,
    /// `UPDATE`
    Update,
    /// `DELETE`
    Delete,
    /// `BEGIN … BATCH … APPLY BATCH`
    Batch,
    /// `USE`
    Use,
    /// `TRUNCATE`
    Truncate,
    /// `DESCRIBE`
    Describe,
    /// Everything else that is known: `CREATE`, `ALTER`, `DROP`, `GRANT`, `REVOKE`, `LIST`.
    Schema,
}

/// What a statement does to a table it names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Operation {
    /// Reads rows.
    Select,
    /// Reads the definition.
    Describe,
    /// Writes a row.
    Insert,
    /// Writes cells.
    Update,
    /// Deletes cells, rows or ranges.
    Delete,
    /// Deletes everything.
    Truncate,
    /// Creates the table.
    CreateTable,
    /// Creates another table like it.
    CopyTable,
    /// Changes the table.
    AlterTable,
    /// Drops the table.
    DropTable,
    /// Creates an index on the table.
    CreateIndex,
    /// Creates a view of the table, or under its name.
    CreateView,
    /// Changes the view.
    AlterView,
    /// Drops the view.
    DropView,
    /// Creates a trigger on the table.
    CreateTrigger,
    /// Drops a trigger of the table.
    DropTrigger,
    /// Grants a permission on the table.
    Grant,
    /// Revokes a permission on the table.
    Revoke,
    /// Lists the permissions on the table.
    ListPermissions,
}

impl Operation {
    /// Whether the table is only read, so that another can stand in for it.
    pub const fn reads(self) -> bool {
        matches!(self, Operation::Select | Operation::Describe)
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Operation::Select => "SELECT",
            Operation::Describe => "DESCRIBE",
            Operation::Insert => "INSERT",
            Operation::Update => "UPDATE",
            Operation::Delete => "DELETE",
            Operation::Truncate => "TRUNCATE",
            Operation::CreateTable => "CREATE TABLE",
            Operation::CopyTable => "CREATE TABLE LIKE",
            Operation::AlterTable => "ALTER TABLE",
            Operation::DropTable => "DROP TABLE",
            Operation::CreateIndex => "CREATE INDEX",
            Operation::CreateView => "CREATE MATERIALIZED VIEW",
            Operation::AlterView => "ALTER MATERIALIZED VIEW",
            Operation::DropView => "DROP MATERIALIZED VIEW",
            Operation::CreateTrigger => "CREATE TRIGGER",
            Operation::DropTrigger => "DROP TRIGGER",
            Operation::Grant => "GRANT",
            Operation::Revoke => "REVOKE",
            Operation::ListPermissions => "LIST PERMISSIONS",
        })
    }
}

/// A name in a statement: an unquoted word or a quoted name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Name<'a>(Token<'a>);

impl<'a> Name<'a> {
    /// The name as Cassandra stores it: case folded or unquoted.
    pub fn folded(&self) -> Cow<'a, str> {
        self.0.identifier().unwrap_or(Cow::Borrowed(self.0.text))
    }

    /// The bytes it was written in, quotes included.
    pub const fn span(&self) -> Range<usize> {
        self.0.span()
    }

    /// Whether it was written in quotes.
    pub fn is_quoted(&self) -> bool {
        self.0.kind == crate::lexer::TokenKind::QuotedName
    }
}

/// A table that a statement names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableRef<'a> {
    /// The keyspace, if the name is qualified.
    pub keyspace: Option<Name<'a>>,
    /// The table.
    pub table: Name<'a>,
    /// What the statement does to it.
    pub operation: Operation,
}

/// A part of a statement, as told to a [`Visit`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Node {
    /// A whole statement, or one of a batch.
    Statement(Kind),
    /// A table's name.
    Table,
    /// What `SELECT` returns, `JSON` and `DISTINCT` included; the columns of `DELETE`.
    Selection,
    /// `WHERE …`
    Where,
    /// `IF …`
    If,
    /// `GROUP BY …`
    GroupBy,
    /// `ORDER BY …`
    OrderBy,
    /// `PER PARTITION LIMIT …`
    PerPartitionLimit,
    /// `LIMIT …`
    Limit,
    /// `ALLOW FILTERING`
    AllowFiltering,
    /// `USING …`
    Using,
    /// The columns of `INSERT`.
    Columns,
    /// `VALUES (…)` or `JSON …`
    Values,
    /// `SET …`
    Set,
    /// An operand, an operator, and what it is compared with.
    Relation,
    /// Operands joined by arithmetic.
    Expression,
    /// `(…)`: a tuple, a list for `IN`, or plain parentheses.
    Parentheses,
    /// The arguments of a function.
    Arguments,
    /// `[…]` after an operand.
    Subscript,
    /// `[…]`: a list or a vector.
    List,
    /// `{…}`: a set, a map, or a value of a user type.
    Braces,
    /// `:name`
    Marker,
    /// A type, in `CAST` or as a hint.
    Type,
    /// Tokens that were not looked at.
    Skimmed,
}

/// Is told what the parser meets, in the order of the text.
///
/// Everything has a default that does nothing. On a syntax error what was told before stands, and
/// the nodes that were open are not left.
///
/// ```
/// use helenus_cql::parser::{TableRef, Visit, walk};
///
/// struct Tables(Vec<String>);
/// impl<'a> Visit<'a> for Tables {
///     fn table(&mut self, table: TableRef<'a>) {
///         self.0.push(table.table.folded().into_owned());
///     }
/// }
/// let mut tables = Tables(Vec::new());
/// walk("SELECT features FROM Models WHERE id = 'features'", &mut tables).unwrap();
/// assert_eq!(tables.0, ["models"]);
/// ```
pub trait Visit<'a> {
    /// A part begins.
    fn enter(&mut self, node: Node) {
        let _ = node;
    }

    /// A token that is neither white space nor comment.
    fn token(&mut self, token: Token<'a>) {
        let _ = token;
    }

    /// A part ends.
    fn leave(&mut self, node: Node) {
        let _ = node;
    }

    /// A table was named; its tokens have been told already.
    fn table(&mut self, table: TableRef<'a>) {
        let _ = table;
    }

    /// The session is to use this keyspace from now on.
    fn use_keyspace(&mut self, keyspace: Name<'a>) {
        let _ = keyspace;
    }
}

/// A statement that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statement<'a> {
    /// What sort of statement it is.
    pub kind: Kind,
    /// Every table it names, in the order of the text.
    pub tables: Vec<TableRef<'a>>,
}

/// Why a statement could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason} at byte {position}")]
pub struct SyntaxError {
    /// Where, in bytes from the beginning.
    pub position: usize,
    /// What was wrong there.
    pub reason: Reason,
}

/// What was wrong with a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Reason {
    /// Something else should have stood here.
    #[error("expected {0}")]
    Expected(&'static str),
    /// A comment, string or name is opened here and never closed.
    #[error("{0} is never closed")]
    Unterminated(Open),
    /// More than [`DEPTH_MAX`] levels.
    #[error("nested more than {DEPTH_MAX} levels deep")]
    TooDeep,
}

impl fmt::Display for Open {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Open::Comment => "comment",
            Open::String => "string",
            Open::DollarString => "$$ string",
            Open::QuotedName => "quoted name",
        })
    }
}

/// Reads one statement and tells `visit` its parts.
///
/// # Errors
///
/// If the statement is not one the parser knows, at the first token that does not fit.
pub fn walk<'a>(statement: &'a str, visit: &mut impl Visit<'a>) -> Result<Kind, SyntaxError> {
    cursor::Cursor::new(statement, visit).statement()
}

/// Reads one statement and collects its tables.
///
/// ```
/// use helenus_cql::parser::{Kind, Operation, parse};
/// let statement = parse("DELETE FROM shop.\"Orders\" WHERE id = ?").unwrap();
/// assert_eq!(statement.kind, Kind::Delete);
/// assert_eq!(statement.tables[0].operation, Operation::Delete);
/// assert_eq!(statement.tables[0].table.folded(), "Orders");
/// assert_eq!(statement.tables[0].table.span(), 17..25);
/// assert_eq!(parse("SELECT a FORM t").unwrap_err().to_string(), "expected FROM at byte 9");
/// ```
///
/// # Errors
///
/// As for [`walk`].
pub fn parse(statement: &str) -> Result<Statement<'_>, SyntaxError> {
    let mut collect = Collect(Vec::new());
    let kind = walk(statement, &mut collect)?;
    Ok(Statement { kind, tables: collect.0 })
}

struct Collect<'a>(Vec<TableRef<'a>>);

impl<'a> Visit<'a> for Collect<'a> {
    fn table(&mut self, table: TableRef<'a>) {
        self.0.push(table);
    }
}
