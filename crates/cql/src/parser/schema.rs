//! Statements on schema and permissions: only their heads, where the tables are.
//!
//! After the tables the rest of such a statement is skimmed: a table's columns, options and
//! permissions can name no other table. A head that is not known is an error, so that nobody
//! mistakes "not understood" for "names no table".

use crate::lexer::TokenKind;

use super::cursor::{Cursor, Parsed, is_name};
use super::{Operation, Visit};

/// Things that are created, changed and dropped without naming a table.
const TABLELESS: [&str; 8] =
    ["keyspace", "schema", "type", "function", "aggregate", "role", "user", "identity"];

/// What `DESCRIBE` lists as a whole.
const COLLECTIONS: [&str; 6] =
    ["keyspaces", "tables", "types", "functions", "aggregates", "cluster"];

impl<'a, V: Visit<'a>> Cursor<'a, '_, V> {
    pub(super) fn schema(&mut self) -> Parsed {
        if self.eat_word("create") {
            self.create()?;
        } else if self.eat_word("alter") {
            self.alter()?;
        } else if self.eat_word("drop") {
            self.drop_object()?;
        } else if self.eat_word("grant") {
            self.permissions(Operation::Grant)?;
        } else if self.eat_word("revoke") {
            self.permissions(Operation::Revoke)?;
        } else {
            self.expect_word("LIST")?;
            self.permissions(Operation::ListPermissions)?;
        }
        self.skim()
    }

    fn create(&mut self) -> Parsed {
        if self.eat_word("or") {
            self.expect_word("REPLACE")?;
        }
        if self.eat_table_word() {
            self.if_not_exists()?;
            self.table(Operation::CreateTable)?;
            // `CREATE TABLE new LIKE old`, from Cassandra 6 on.
            return if self.eat_word("like") { self.table(Operation::CopyTable) } else { Ok(()) };
        }
        let custom = self.eat_word("custom");
        if custom || self.at_word("index") {
            self.expect_word("INDEX")?;
            return self.named_on(Operation::CreateIndex);
        }
        if self.eat_word("materialized") {
            self.expect_word("VIEW")?;
            self.if_not_exists()?;
            self.table(Operation::CreateView)?;
            self.expect_word("AS")?;
            self.expect_word("SELECT")?;
            self.selection()?;
            self.expect_word("FROM")?;
            return self.table(Operation::CreateView);
        }
        if self.eat_word("trigger") {
            return self.named_on(Operation::CreateTrigger);
        }
        self.tableless()
    }

    fn alter(&mut self) -> Parsed {
        if self.eat_table_word() {
            self.if_exists()?;
            return self.table(Operation::AlterTable);
        }
        if self.eat_word("materialized") {
            self.expect_word("VIEW")?;
            self.if_exists()?;
            return self.table(Operation::AlterView);
        }
        self.tableless()
    }

    fn drop_object(&mut self) -> Parsed {
        if self.eat_table_word() {
            self.if_exists()?;
            return self.table(Operation::DropTable);
        }
        if self.eat_word("materialized") {
            self.expect_word("VIEW")?;
            self.if_exists()?;
            return self.table(Operation::DropView);
        }
        if self.eat_word("trigger") {
            self.if_exists()?;
            self.name("a trigger")?;
            self.expect_word("ON")?;
            return self.table(Operation::DropTrigger);
        }
        // An index is dropped by its own name, which is a name of the keyspace.
        if self.eat_word("index") { Ok(()) } else { self.tableless() }
    }

    fn tableless(&mut self) -> Parsed {
        if TABLELESS.iter().any(|word| self.eat_word(word)) {
            Ok(())
        } else {
            Err(self.expected("TABLE, INDEX, KEYSPACE, TYPE or the like"))
        }
    }

    /// `[IF NOT EXISTS] [name] ON table`
    fn named_on(&mut self, operation: Operation) -> Parsed {
        self.if_not_exists()?;
        if !self.at_word("on") {
            self.name("a name")?;
        }
        self.expect_word("ON")?;
        self.table(operation)
    }

    fn eat_table_word(&mut self) -> bool {
        self.eat_word("table") || self.eat_word("columnfamily")
    }

    fn if_not_exists(&mut self) -> Parsed {
        if self.eat_word("if") {
            self.expect_word("NOT")?;
            self.expect_word("EXISTS")?;
        }
        Ok(())
    }

    fn if_exists(&mut self) -> Parsed {
        if self.eat_word("if") { self.expect_word("EXISTS") } else { Ok(()) }
    }

    /// `… ON resource …`; without `ON` it is about roles.
    fn permissions(&mut self, operation: Operation) -> Parsed {
        while !self.at_word("on") {
            match self.current.map(|token| token.kind) {
                None | Some(TokenKind::Semicolon) => return Ok(()),
                Some(TokenKind::Unterminated(_)) => return Err(self.expected("ON")),
                Some(_) => self.bump(),
            }
        }
        self.bump();
        if self.eat_word("table") {
            return self.table(operation);
        }
        if self.at_word("keyspace") || self.resource_word() {
            return Ok(());
        }
        self.table(operation)
    }

    /// Whether a word like `ALL`, `ROLE` or `FUNCTION` stands here that says what is meant, and not
    /// a table of that name: then the thing itself must follow.
    fn resource_word(&self) -> bool {
        self.current.is_some_and(|token| token.kind == TokenKind::Word && is_name(&token))
            && self.ahead().next().is_some_and(|next| match next.kind {
                TokenKind::Dot | TokenKind::Semicolon => false,
                TokenKind::Word => {
                    !["to", "from", "of", "norecursive"].iter().any(|word| next.is_word(word))
                }
                _ => true,
            })
    }

    pub(super) fn describe(&mut self) -> Parsed {
        if !self.eat_word("describe") {
            self.expect_word("DESC")?;
        }
        if self.eat_table_word() {
            self.table(Operation::Describe)?;
        } else if self.eat_word("materialized") {
            self.expect_word("VIEW")?;
            self.table(Operation::Describe)?;
        } else if self.next_is(TokenKind::Dot) {
            self.table(Operation::Describe)?;
        } else {
            // An unqualified name alone may be a keyspace or a table: that is not guessed.
            let known = ["full", "only", "index"].iter().chain(&TABLELESS).chain(&COLLECTIONS);
            if !known.copied().any(|word| self.at_word(word)) {
                return Err(self.expected("TABLE or another thing to describe"));
            }
        }
        self.skim()
    }
}
