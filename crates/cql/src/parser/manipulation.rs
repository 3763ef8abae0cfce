//! `INSERT`, `UPDATE`, `DELETE`, batches of them, `USE` and `TRUNCATE`.
//!
//! In a batch the semicolons are optional; every statement begins with a reserved word, so that
//! none can run into the next.

use crate::lexer::TokenKind;

use super::cursor::{Cursor, Parsed};
use super::{Kind, Node, Operation, Visit};

impl<'a, V: Visit<'a>> Cursor<'a, '_, V> {
    pub(super) fn insert(&mut self) -> Parsed {
        self.expect_word("INSERT")?;
        self.expect_word("INTO")?;
        self.table(Operation::Insert)?;
        if self.at_word("json") {
            self.within(Node::Values, Self::json_value)?;
        } else {
            self.within(Node::Columns, |cursor| {
                cursor.expect(TokenKind::LeftParen, "`(` or JSON")?;
                cursor.comma_separated(|cursor| cursor.name("a column").map(|_| ()))?;
                cursor.expect(TokenKind::RightParen, "`)`")
            })?;
            self.within(Node::Values, |cursor| {
                cursor.expect_word("VALUES")?;
                cursor.expect(TokenKind::LeftParen, "`(`")?;
                cursor.comma_separated(Self::expression)?;
                cursor.expect(TokenKind::RightParen, "`)`")
            })?;
        }
        if self.at_word("if") {
            self.within(Node::If, |cursor| {
                cursor.bump();
                cursor.expect_word("NOT")?;
                cursor.expect_word("EXISTS")
            })?;
        }
        self.using()
    }

    fn json_value(&mut self) -> Parsed {
        self.expect_word("JSON")?;
        self.expression()?;
        if self.eat_word("default") && !self.eat_word("null") {
            self.expect_word("UNSET")?;
        }
        Ok(())
    }

    pub(super) fn update(&mut self) -> Parsed {
        self.expect_word("UPDATE")?;
        self.table(Operation::Update)?;
        self.using()?;
        self.within(Node::Set, |cursor| {
            cursor.expect_word("SET")?;
            cursor.comma_separated(Self::assignment)
        })?;
        self.where_clause()?;
        self.if_clause()
    }

    fn assignment(&mut self) -> Parsed {
        self.expression()?;
        match self.current.map(|token| token.kind) {
            Some(TokenKind::Equal | TokenKind::PlusEqual | TokenKind::MinusEqual) => {
                self.bump();
                self.expression()
            }
            _ => Err(self.expected("`=`, `+=` or `-=`")),
        }
    }

    pub(super) fn delete(&mut self) -> Parsed {
        self.expect_word("DELETE")?;
        if !self.at_word("from") {
            self.within(Node::Selection, |cursor| cursor.comma_separated(Self::expression))?;
        }
        self.expect_word("FROM")?;
        self.table(Operation::Delete)?;
        self.using()?;
        self.where_clause()?;
        self.if_clause()
    }

    /// `USING TIMESTAMP … AND TTL …`
    fn using(&mut self) -> Parsed {
        if !self.at_word("using") {
            return Ok(());
        }
        self.within(Node::Using, |cursor| {
            cursor.bump();
            loop {
                cursor.name("TIMESTAMP or TTL")?;
                cursor.expression()?;
                if !cursor.eat_word("and") {
                    return Ok(());
                }
            }
        })
    }

    /// `IF EXISTS`, or `IF` with conditions, one of which may be on a column called `exists`.
    fn if_clause(&mut self) -> Parsed {
        if !self.at_word("if") {
            return Ok(());
        }
        self.within(Node::If, |cursor| {
            cursor.bump();
            if cursor.at_word("exists") && !cursor.condition_follows() {
                cursor.bump();
                return Ok(());
            }
            cursor.relations()
        })
    }

    fn condition_follows(&self) -> bool {
        self.ahead().next().is_some_and(|token| match token.kind {
            TokenKind::Equal
            | TokenKind::NotEqual
            | TokenKind::Less
            | TokenKind::LessEqual
            | TokenKind::Greater
            | TokenKind::GreaterEqual
            | TokenKind::LeftBracket
            | TokenKind::Dot => true,
            _ => ["in", "contains", "not", "like"].iter().any(|word| token.is_word(word)),
        })
    }

    pub(super) fn batch(&mut self) -> Parsed {
        self.expect_word("BEGIN")?;
        if !self.eat_word("unlogged") {
            self.eat_word("counter");
        }
        self.expect_word("BATCH")?;
        self.using()?;
        loop {
            while self.eat(TokenKind::Semicolon) {}
            if self.at_word("insert") {
                self.within(Node::Statement(Kind::Insert), Self::insert)?;
            } else if self.at_word("update") {
                self.within(Node::Statement(Kind::Update), Self::update)?;
            } else if self.at_word("delete") {
                self.within(Node::Statement(Kind::Delete), Self::delete)?;
            } else if self.eat_word("apply") {
                return self.expect_word("BATCH");
            } else {
                return Err(self.expected("INSERT, UPDATE, DELETE or APPLY BATCH"));
            }
        }
    }

    pub(super) fn use_keyspace(&mut self) -> Parsed {
        self.expect_word("USE")?;
        let keyspace = self.name("a keyspace")?;
        self.visit.use_keyspace(keyspace);
        Ok(())
    }

    pub(super) fn truncate(&mut self) -> Parsed {
        self.expect_word("TRUNCATE")?;
        if !self.eat_word("table") {
            self.eat_word("columnfamily");
        }
        self.table(Operation::Truncate)
    }
}
