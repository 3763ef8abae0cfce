//! Reads `CREATE TABLE`.

use std::borrow::Cow;

use helenus_cql::datatype::CqlType;
use helenus_cql::lexer::{Lexer, Token, TokenKind};
use helenus_model::{Failure, Kind};

use super::{Column, TableSchema};

/// Why a schema cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SchemaError {
    /// It is not the statement that was expected.
    #[error("{expected} expected at byte {position} of the schema")]
    Syntax {
        /// Where.
        position: usize,
        /// What should have stood there.
        expected: &'static str,
    },
    /// A type that cannot be loaded, or that nobody knows.
    #[error("column {column} is {ty}, which cannot be published")]
    Type {
        /// The column.
        column: Box<str>,
        /// Its type, as it was written.
        ty: Box<str>,
    },
    /// The key names a column that is not there, or names none.
    #[error("the primary key names '{column}', which is not a column")]
    Key {
        /// The name.
        column: Box<str>,
    },
    /// Two columns have one name.
    #[error("column {column} is there twice")]
    Twice {
        /// The name.
        column: Box<str>,
    },
    /// An option that a version must not have.
    #[error("the table must not have {option}: versions are dropped as a whole and never expire")]
    Option {
        /// Which.
        option: Box<str>,
    },
}

impl Failure for SchemaError {
    fn kind(&self) -> Kind {
        Kind::Invalid
    }

    fn code(&self) -> &'static str {
        "invalid_schema"
    }

    fn remedy(&self) -> Option<Cow<'static, str>> {
        Some(
            "write the schema as one CREATE TABLE statement of native types and collections".into(),
        )
    }
}

impl TableSchema {
    /// Reads one `CREATE TABLE` statement; the name it gives is not looked at.
    pub fn parse(cql: &str) -> Result<TableSchema, SchemaError> {
        let tokens: Vec<Token<'_>> = Lexer::new(cql).filter(|token| !token.is_trivia()).collect();
        Parser { cql, tokens: &tokens, next: 0 }.create_table()
    }
}

struct Parser<'a, 't> {
    cql: &'a str,
    tokens: &'t [Token<'a>],
    next: usize,
}

type Parsed<T> = Result<T, SchemaError>;

impl<'a> Parser<'a, '_> {
    fn create_table(&mut self) -> Parsed<TableSchema> {
        self.word("create", "CREATE TABLE")?;
        self.word("table", "TABLE")?;
        if self.eat_word("if") {
            self.word("not", "NOT EXISTS")?;
            self.word("exists", "EXISTS")?;
        }
        self.name()?;
        if self.eat(TokenKind::Dot) {
            self.name()?;
        }
        self.expect(TokenKind::LeftParen, "(")?;
        let mut columns = Vec::new();
        let mut key: Option<(Vec<String>, Vec<String>)> = None;
        loop {
            if self.eat_word("primary") {
                self.word("key", "KEY")?;
                key = Some(self.primary_key()?);
            } else {
                let (column, is_key) = self.column()?;
                if is_key {
                    key = Some((vec![column.name.clone()], Vec::new()));
                }
                if columns.iter().any(|other: &Column| other.name == column.name) {
                    return Err(SchemaError::Twice { column: column.name.into() });
                }
                columns.push(column);
            }
            if !self.eat(TokenKind::Comma) {
                break;
            }
        }
        self.expect(TokenKind::RightParen, ")")?;
        let (partition, clustering) = key.ok_or_else(|| self.expected("PRIMARY KEY"))?;
        let place = |name: &String| {
            let place = columns.iter().position(|column| column.name == *name);
            place.ok_or_else(|| SchemaError::Key { column: name.as_str().into() })
        };
        let partition_key = partition.iter().map(place).collect::<Parsed<Vec<usize>>>()?;
        let clustering = clustering.iter().map(|name| Ok((place(name)?, false)));
        let clustering = clustering.collect::<Parsed<Vec<(usize, bool)>>>()?;
        let mut schema = TableSchema { columns, partition_key, clustering, options: Vec::new() };
        if self.eat_word("with") {
            self.options(&mut schema)?;
        }
        while self.eat(TokenKind::Semicolon) {}
        if self.next < self.tokens.len() { Err(self.expected("the end")) } else { Ok(schema) }
    }

    fn column(&mut self) -> Parsed<(Column, bool)> {
        let name = self.name()?;
        let start = self.position();
        let mut depth = 0_usize;
        let mut end = start;
        while let Some(token) = self.peek() {
            let is_end = matches!(token.kind, TokenKind::Comma | TokenKind::RightParen);
            if depth == 0 && (is_end || token.is_word("static") || token.is_word("primary")) {
                break;
            }
            match token.kind {
                TokenKind::Less => depth += 1,
                TokenKind::Greater => depth = depth.saturating_sub(1),
                _ => {}
            }
            end = token.end();
            self.next += 1;
        }
        let text = self.cql.get(start..end).unwrap_or_default();
        let refused = || SchemaError::Type { column: name.as_str().into(), ty: text.into() };
        let ty: CqlType = text.to_ascii_lowercase().parse().map_err(|_| refused())?;
        if !crate::row::is_loadable(&ty) {
            return Err(refused());
        }
        let is_static = self.eat_word("static");
        let is_key = self.eat_word("primary");
        if is_key {
            self.word("key", "KEY")?;
        }
        Ok((Column { name, ty, is_static }, is_key))
    }

    fn primary_key(&mut self) -> Parsed<(Vec<String>, Vec<String>)> {
        self.expect(TokenKind::LeftParen, "(")?;
        let partition =
            if self.eat(TokenKind::LeftParen) { self.names()? } else { vec![self.name()?] };
        let clustering = if self.eat(TokenKind::Comma) {
            self.names()?
        } else {
            self.expect(TokenKind::RightParen, ")")?;
            Vec::new()
        };
        Ok((partition, clustering))
    }

    /// Names up to the closing parenthesis, which goes with them.
    fn names(&mut self) -> Parsed<Vec<String>> {
        let mut names = vec![self.name()?];
        while self.eat(TokenKind::Comma) {
            names.push(self.name()?);
        }
        self.expect(TokenKind::RightParen, ")")?;
        Ok(names)
    }

    fn options(&mut self, schema: &mut TableSchema) -> Parsed<()> {
        loop {
            if self.eat_word("clustering") {
                self.word("order", "ORDER BY")?;
                self.word("by", "BY")?;
                self.expect(TokenKind::LeftParen, "(")?;
                self.order(schema)?;
            } else {
                self.option(schema)?;
            }
            if !self.eat_word("and") {
                return Ok(());
            }
        }
    }

    fn order(&mut self, schema: &mut TableSchema) -> Parsed<()> {
        loop {
            let name = self.name()?;
            let descends = self.eat_word("desc");
            if !descends {
                self.eat_word("asc");
            }
            let columns = &schema.columns;
            let of = |place: usize| columns.get(place).is_some_and(|column| column.name == name);
            match schema.clustering.iter_mut().find(|(place, _)| of(*place)) {
                Some((_, order)) => *order = descends,
                None => return Err(SchemaError::Key { column: name.into() }),
            }
            if !self.eat(TokenKind::Comma) {
                return self.expect(TokenKind::RightParen, ")");
            }
        }
    }

    fn option(&mut self, schema: &mut TableSchema) -> Parsed<()> {
        let start = self.position();
        let name = self.name()?;
        let mut end = start;
        while let Some(token) = self.peek() {
            if token.is_word("and") || token.kind == TokenKind::Semicolon {
                break;
            }
            end = token.end();
            self.next += 1;
        }
        match name.as_str() {
            // The publisher's own mark stands there.
            "comment" => {}
            "default_time_to_live" | "compact" | "id" => {
                return Err(SchemaError::Option { option: name.into() });
            }
            _ => schema.options.push(self.cql.get(start..end).unwrap_or_default().to_owned()),
        }
        Ok(())
    }

    fn peek(&self) -> Option<Token<'a>> {
        self.tokens.get(self.next).copied()
    }

    fn position(&self) -> usize {
        self.peek().map_or(self.cql.len(), |token| token.start)
    }

    fn expected(&self, expected: &'static str) -> SchemaError {
        SchemaError::Syntax { position: self.position(), expected }
    }

    fn eat(&mut self, kind: TokenKind) -> bool {
        let found = self.peek().is_some_and(|token| token.kind == kind);
        self.next += usize::from(found);
        found
    }

    fn eat_word(&mut self, word: &str) -> bool {
        let found = self.peek().is_some_and(|token| token.is_word(word));
        self.next += usize::from(found);
        found
    }

    fn expect(&mut self, kind: TokenKind, expected: &'static str) -> Parsed<()> {
        if self.eat(kind) { Ok(()) } else { Err(self.expected(expected)) }
    }

    fn word(&mut self, word: &str, expected: &'static str) -> Parsed<()> {
        if self.eat_word(word) { Ok(()) } else { Err(self.expected(expected)) }
    }

    fn name(&mut self) -> Parsed<String> {
        let name = self.peek().and_then(|token| token.identifier());
        let name = name.ok_or_else(|| self.expected("a name"))?.into_owned();
        self.next += 1;
        Ok(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schema_prints_as_it_was_read() {
        let cql = "create table IF NOT EXISTS shop.\"Features\" (
                a text, \"B\" map<text, frozen<list<int>>>, c bigint, s int static, d timestamp,
                PRIMARY KEY ((a, c), d)
            ) WITH compaction = {'class': 'LeveledCompactionStrategy'} AND comment = 'mine'
              AND CLUSTERING ORDER BY (d DESC) AND gc_grace_seconds = 0;";
        let schema = TableSchema::parse(cql).unwrap();
        let printed = schema.create_cql("shop", "t_v1", Some("it's ours"));
        assert_eq!(
            printed,
            "CREATE TABLE shop.t_v1 (a text, \"B\" map<text, frozen<list<int>>>, c bigint, \
             s int STATIC, d timestamp, PRIMARY KEY ((a, c), d)) \
             WITH CLUSTERING ORDER BY (d DESC) \
             AND compaction = {'class': 'LeveledCompactionStrategy'} \
             AND gc_grace_seconds = 0 AND comment = 'it''s ours'"
        );
        assert_eq!(TableSchema::parse(&printed).unwrap(), schema);
    }

    #[test]
    fn what_a_version_cannot_be_is_refused() {
        for (cql, words) in [
            ("CREATE TABLE t (a int PRIMARY KEY, b counter)", "b is counter"),
            ("CREATE TABLE t (a int PRIMARY KEY, b shop_type)", "b is shop_type"),
            ("CREATE TABLE t (a int PRIMARY KEY) WITH default_time_to_live = 5", "never expire"),
            ("CREATE TABLE t (a int, PRIMARY KEY (b))", "'b', which is not a column"),
            ("CREATE TABLE t (a int, a text, PRIMARY KEY (a))", "a is there twice"),
            ("CREATE TABLE t (a int)", "PRIMARY KEY expected"),
            ("CREATE TABLE t (a int PRIMARY KEY) x", "the end expected"),
            ("DROP TABLE t", "CREATE TABLE expected at byte 0"),
            ("", "CREATE TABLE expected"),
        ] {
            let error = TableSchema::parse(cql).unwrap_err().to_string();
            assert!(error.contains(words), "{cql}: {error}");
        }
    }
}
