//! `SELECT`, and the clauses it shares with other statements.
//!
//! `FROM` is reserved, so the first one outside quotes ends the selection, whatever stands in it.
//! The clauses come in Cassandra's order.

use crate::lexer::TokenKind;

use super::cursor::{Cursor, Parsed};
use super::{Node, Operation, Visit};

impl<'a, V: Visit<'a>> Cursor<'a, '_, V> {
    pub(super) fn select(&mut self) -> Parsed {
        self.expect_word("SELECT")?;
        self.selection()?;
        self.expect_word("FROM")?;
        self.table(Operation::Select)?;
        self.where_clause()?;
        self.group_by()?;
        self.order_by()?;
        if self.at_word("per") {
            self.within(Node::PerPartitionLimit, |cursor| {
                cursor.bump();
                cursor.expect_word("PARTITION")?;
                cursor.expect_word("LIMIT")?;
                cursor.expression()
            })?;
        }
        if self.at_word("limit") {
            self.within(Node::Limit, |cursor| {
                cursor.bump();
                cursor.expression()
            })?;
        }
        if self.at_word("allow") {
            self.within(Node::AllowFiltering, |cursor| {
                cursor.bump();
                cursor.expect_word("FILTERING")
            })?;
        }
        Ok(())
    }

    /// What stands between `SELECT` and `FROM`.
    pub(super) fn selection(&mut self) -> Parsed {
        self.within(Node::Selection, |cursor| {
            if cursor.at_modifier("json") {
                cursor.bump();
            }
            if cursor.at_modifier("distinct") {
                cursor.bump();
            }
            if cursor.eat(TokenKind::Star) {
                return Ok(());
            }
            cursor.comma_separated(|cursor| {
                cursor.expression()?;
                if cursor.eat_word("as") {
                    cursor.name("an alias")?;
                }
                Ok(())
            })
        })
    }

    /// Whether `word` stands here as a modifier of `SELECT` and not as a column of that name: then
    /// something to select must follow.
    fn at_modifier(&self, word: &str) -> bool {
        if !self.at_word(word) {
            return false;
        }
        let mut ahead = self.ahead();
        let Some(next) = ahead.next() else { return false };
        match next.kind {
            TokenKind::Word if next.is_word("as") => {
                !ahead.next().is_some_and(|after| super::cursor::is_name(&after))
            }
            TokenKind::Word => !next.is_word("from"),
            TokenKind::Comma
            | TokenKind::Dot
            | TokenKind::LeftBracket
            | TokenKind::Plus
            | TokenKind::Slash
            | TokenKind::Percent => false,
            _ => true,
        }
    }

    pub(super) fn where_clause(&mut self) -> Parsed {
        if !self.at_word("where") {
            return Ok(());
        }
        self.within(Node::Where, |cursor| {
            cursor.bump();
            cursor.relations()
        })
    }

    fn group_by(&mut self) -> Parsed {
        if !self.at_word("group") {
            return Ok(());
        }
        self.within(Node::GroupBy, |cursor| {
            cursor.bump();
            cursor.expect_word("BY")?;
            cursor.comma_separated(Self::expression)
        })
    }

    fn order_by(&mut self) -> Parsed {
        if !self.at_word("order") {
            return Ok(());
        }
        self.within(Node::OrderBy, |cursor| {
            cursor.bump();
            cursor.expect_word("BY")?;
            cursor.comma_separated(|cursor| {
                cursor.expression()?;
                if cursor.eat_word("ann") {
                    cursor.expect_word("OF")?;
                    cursor.expression()?;
                }
                if !cursor.eat_word("asc") {
                    cursor.eat_word("desc");
                }
                Ok(())
            })
        })
    }
}
