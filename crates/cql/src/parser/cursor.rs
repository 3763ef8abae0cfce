//! The place in the statement, and the small moves every rule is made of.
//!
//! One token is held; looking further ahead copies the lexer, which is two words. Rules return
//! `Parsed` and stop at the first error. Which statement it is gets decided here; the statements
//! themselves are in the files next to this one.

use crate::lexer::{Lexer, Token, TokenKind, is_reserved};

use super::{DEPTH_MAX, Kind, Name, Node, Operation, Reason, SyntaxError, TableRef, Visit};

/// What a rule returns.
pub(super) type Parsed<T = ()> = Result<T, SyntaxError>;

/// A place in a statement.
pub(super) struct Cursor<'a, 'v, V> {
    lexer: Lexer<'a>,
    /// The token that is looked at; `None` at the end.
    pub(super) current: Option<Token<'a>>,
    /// The kind of the token before it.
    pub(super) previous: Option<TokenKind>,
    end: usize,
    depth: usize,
    pub(super) visit: &'v mut V,
}

impl<'a, 'v, V: Visit<'a>> Cursor<'a, 'v, V> {
    pub(super) fn new(statement: &'a str, visit: &'v mut V) -> Self {
        let mut lexer = Lexer::new(statement);
        let current = lexer.next_significant();
        Cursor { lexer, current, previous: None, end: statement.len(), depth: 0, visit }
    }

    /// One statement, semicolons after it, and nothing more.
    pub(super) fn statement(&mut self) -> Parsed<Kind> {
        let kind = self.kind()?;
        self.visit.enter(Node::Statement(kind));
        match kind {
            Kind::Select => self.select(),
            Kind::Insert => self.insert(),
            Kind::Update => self.update(),
            Kind::Delete => self.delete(),
            Kind::Batch => self.batch(),
            Kind::Use => self.use_keyspace(),
            Kind::Truncate => self.truncate(),
            Kind::Describe => self.describe(),
            Kind::Schema => self.schema(),
        }?;
        self.visit.leave(Node::Statement(kind));
        while self.eat(TokenKind::Semicolon) {}
        if self.current.is_some() { Err(self.expected("the end")) } else { Ok(kind) }
    }

    fn kind(&self) -> Parsed<Kind> {
        const KINDS: [(&str, Kind); 15] = [
            ("select", Kind::Select),
            ("insert", Kind::Insert),
            ("update", Kind::Update),
            ("delete", Kind::Delete),
            ("begin", Kind::Batch),
            ("use", Kind::Use),
            ("truncate", Kind::Truncate),
            ("describe", Kind::Describe),
            ("desc", Kind::Describe),
            ("create", Kind::Schema),
            ("alter", Kind::Schema),
            ("drop", Kind::Schema),
            ("grant", Kind::Schema),
            ("revoke", Kind::Schema),
            ("list", Kind::Schema),
        ];
        let known = KINDS.iter().find(|(word, _)| self.at_word(word));
        known.map(|(_, kind)| *kind).ok_or_else(|| self.expected("a statement"))
    }

    /// A table's name, with its keyspace or without.
    pub(super) fn table(&mut self, operation: Operation) -> Parsed {
        self.within(Node::Table, |cursor| {
            let first = cursor.name("a table")?;
            let (keyspace, table) = if cursor.eat(TokenKind::Dot) {
                (Some(first), cursor.name("a table")?)
            } else {
                (None, first)
            };
            cursor.visit.table(TableRef { keyspace, table, operation });
            Ok(())
        })
    }

    /// A name: a quoted one or a word that is not reserved.
    #[inline]
    pub(super) fn name(&mut self, what: &'static str) -> Parsed<Name<'a>> {
        match self.current {
            Some(token) if is_name(&token) => {
                self.bump();
                Ok(Name(token))
            }
            _ => Err(self.expected(what)),
        }
    }

    /// Runs `rule` as the inside of `node`.
    #[inline]
    pub(super) fn within(&mut self, node: Node, rule: impl FnOnce(&mut Self) -> Parsed) -> Parsed {
        self.visit.enter(node);
        rule(self)?;
        self.visit.leave(node);
        Ok(())
    }

    /// Like [`within`](Self::within), for the rules through which all nesting goes: expressions
    /// and types.
    #[inline]
    pub(super) fn nested(&mut self, node: Node, rule: impl FnOnce(&mut Self) -> Parsed) -> Parsed {
        if self.depth == DEPTH_MAX {
            return Err(SyntaxError { position: self.position(), reason: Reason::TooDeep });
        }
        self.depth += 1;
        self.within(node, rule)?;
        self.depth -= 1;
        Ok(())
    }

    /// One or more of what `rule` reads, with commas between.
    #[inline]
    pub(super) fn comma_separated(&mut self, mut rule: impl FnMut(&mut Self) -> Parsed) -> Parsed {
        rule(self)?;
        while self.eat(TokenKind::Comma) {
            rule(self)?;
        }
        Ok(())
    }

    /// Moves on by one token. The lexer is in here: one copy of it is enough.
    #[inline(never)]
    pub(super) fn bump(&mut self) {
        if let Some(token) = self.current {
            self.visit.token(token);
            self.previous = Some(token.kind);
            self.current = self.lexer.next_significant();
        }
    }

    #[inline]
    pub(super) fn at(&self, kind: TokenKind) -> bool {
        self.current.is_some_and(|token| token.kind == kind)
    }

    #[inline]
    pub(super) fn at_word(&self, word: &str) -> bool {
        self.current.is_some_and(|token| token.is_word(word))
    }

    #[inline]
    pub(super) fn eat(&mut self, kind: TokenKind) -> bool {
        let found = self.at(kind);
        if found {
            self.bump();
        }
        found
    }

    #[inline]
    pub(super) fn eat_word(&mut self, word: &str) -> bool {
        let found = self.at_word(word);
        if found {
            self.bump();
        }
        found
    }

    #[inline]
    pub(super) fn expect(&mut self, kind: TokenKind, what: &'static str) -> Parsed {
        if self.eat(kind) { Ok(()) } else { Err(self.expected(what)) }
    }

    /// `word` in any case; it is given in capitals for the message.
    #[inline]
    pub(super) fn expect_word(&mut self, word: &'static str) -> Parsed {
        if self.eat_word(word) { Ok(()) } else { Err(self.expected(word)) }
    }

    /// The significant tokens after the one that is looked at.
    pub(super) fn ahead(&self) -> impl Iterator<Item = Token<'a>> {
        self.lexer.clone().filter(|token| !token.is_trivia())
    }

    /// Whether the token after this one is of `kind`.
    pub(super) fn next_is(&self, kind: TokenKind) -> bool {
        self.ahead().next().is_some_and(|token| token.kind == kind)
    }

    fn position(&self) -> usize {
        self.current.map_or(self.end, |token| token.start)
    }

    /// The error that `what` should have stood here; or that the text here is never closed.
    #[cold]
    pub(super) fn expected(&self, what: &'static str) -> SyntaxError {
        let reason = match self.current {
            Some(Token { kind: TokenKind::Unterminated(open), .. }) => Reason::Unterminated(open),
            _ => Reason::Expected(what),
        };
        SyntaxError { position: self.position(), reason }
    }

    /// Passes over everything up to the end of the statement.
    pub(super) fn skim(&mut self) -> Parsed {
        self.within(Node::Skimmed, |cursor| {
            while let Some(token) = cursor.current {
                match token.kind {
                    TokenKind::Semicolon => break,
                    TokenKind::Unterminated(_) => return Err(cursor.expected("the end")),
                    _ => cursor.bump(),
                }
            }
            Ok(())
        })
    }
}

/// Whether `token` can name something.
#[inline]
pub(super) fn is_name(token: &Token<'_>) -> bool {
    match token.kind {
        TokenKind::QuotedName => true,
        TokenKind::Word => !is_reserved(token.text),
        _ => false,
    }
}
