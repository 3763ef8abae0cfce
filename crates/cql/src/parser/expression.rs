//! Expressions, relations and types.
//!
//! One rule serves selectors, terms, conditions and left sides: operands joined by arithmetic, an
//! operand being a literal, a marker, a name with what may follow it (`.field`, `[key]`,
//! `(arguments)`), or something in brackets. That is wider than Cassandra's grammar, which lists
//! what may stand where, and needs no precedence, since nobody here asks for the value.

use crate::lexer::{Token, TokenKind, is_reserved};

use super::cursor::{Cursor, Parsed, is_name};
use super::{Node, Visit};

/// Reserved words that are values.
const CONSTANTS: [&str; 5] = ["null", "true", "false", "nan", "infinity"];

/// Words that follow an operand although they are not reserved, and so begin no operand there.
const SOFT_OPERATORS: [&str; 4] = ["as", "between", "contains", "like"];

impl<'a, V: Visit<'a>> Cursor<'a, '_, V> {
    /// Operands joined by arithmetic.
    pub(super) fn expression(&mut self) -> Parsed {
        self.nested(Node::Expression, |cursor| {
            loop {
                while cursor.eat(TokenKind::Minus) || cursor.eat(TokenKind::Plus) {}
                cursor.operand()?;
                let Some(token) = cursor.current else { return Ok(()) };
                match token.kind {
                    TokenKind::Plus
                    | TokenKind::Minus
                    | TokenKind::Star
                    | TokenKind::Slash
                    | TokenKind::Percent => cursor.bump(),
                    _ => return Ok(()),
                }
            }
        })
    }

    fn operand(&mut self) -> Parsed {
        while self.at_type_hint() {
            self.bump();
            self.type_name()?;
            self.expect(TokenKind::RightParen, "`)`")?;
        }
        let Some(token) = self.current else { return Err(self.expected("a value")) };
        match token.kind {
            TokenKind::LeftParen => self.parentheses()?,
            TokenKind::LeftBracket => self.list()?,
            TokenKind::LeftBrace => self.braces()?,
            TokenKind::Colon => self.within(Node::Marker, |cursor| {
                cursor.bump();
                cursor.name("the name of a marker").map(|_| ())
            })?,
            TokenKind::QuotedName | TokenKind::Word => self.word_operand(token)?,
            kind if is_literal(kind) => self.bump(),
            _ => return Err(self.expected("a value")),
        }
        self.postfixes()
    }

    fn word_operand(&mut self, token: Token<'a>) -> Parsed {
        if is_name(&token) || (token.is_word("token") && self.next_is(TokenKind::LeftParen)) {
            self.bump();
            // `name(…)` here, `keyspace.name(…)` below.
            return if self.at(TokenKind::LeftParen) { self.arguments() } else { Ok(()) };
        }
        if is_constant(&token) {
            self.bump();
            return Ok(());
        }
        Err(self.expected("a value"))
    }

    /// `.field`, `[key]`, `[from..to]`, and the call of a keyspace-qualified function.
    fn postfixes(&mut self) -> Parsed {
        loop {
            if self.eat(TokenKind::Dot) {
                if self.at_word("token") && self.next_is(TokenKind::LeftParen) {
                    self.bump();
                } else {
                    self.name("a field")?;
                }
                if self.at(TokenKind::LeftParen) {
                    self.arguments()?;
                }
            } else if self.at(TokenKind::LeftBracket) {
                self.subscript()?;
            } else {
                return Ok(());
            }
        }
    }

    /// `(…)` after a function's name. `CAST(x AS type)` and `COUNT(*)` are calls like others.
    fn arguments(&mut self) -> Parsed {
        self.within(Node::Arguments, |cursor| {
            cursor.bump();
            if cursor.eat(TokenKind::RightParen) {
                return Ok(());
            }
            cursor.comma_separated(|cursor| {
                if cursor.at(TokenKind::Star) && cursor.next_is(TokenKind::RightParen) {
                    cursor.bump();
                    return Ok(());
                }
                cursor.expression()?;
                if cursor.eat_word("as") { cursor.type_name() } else { Ok(()) }
            })?;
            cursor.expect(TokenKind::RightParen, "`)`")
        })
    }

    fn subscript(&mut self) -> Parsed {
        self.within(Node::Subscript, |cursor| {
            cursor.bump();
            if !cursor.at(TokenKind::Range) {
                cursor.expression()?;
            }
            if cursor.eat(TokenKind::Range) && !cursor.at(TokenKind::RightBracket) {
                cursor.expression()?;
            }
            cursor.expect(TokenKind::RightBracket, "`]`")
        })
    }

    /// A tuple, the list after `IN`, or relations and expressions in parentheses.
    fn parentheses(&mut self) -> Parsed {
        self.within(Node::Parentheses, |cursor| {
            cursor.bump();
            if cursor.eat(TokenKind::RightParen) {
                return Ok(());
            }
            cursor.comma_separated(|cursor| {
                cursor.expression()?;
                if cursor.comparison()? { cursor.more_relations() } else { Ok(()) }
            })?;
            cursor.expect(TokenKind::RightParen, "`)`")
        })
    }

    fn list(&mut self) -> Parsed {
        self.within(Node::List, |cursor| {
            cursor.bump();
            if cursor.eat(TokenKind::RightBracket) {
                return Ok(());
            }
            cursor.comma_separated(Self::expression)?;
            cursor.expect(TokenKind::RightBracket, "`]`")
        })
    }

    /// A set, a map, or a value of a user type: they differ by the colons and the keys.
    pub(super) fn braces(&mut self) -> Parsed {
        self.within(Node::Braces, |cursor| {
            cursor.bump();
            if cursor.eat(TokenKind::RightBrace) {
                return Ok(());
            }
            cursor.comma_separated(|cursor| {
                cursor.expression()?;
                if cursor.eat(TokenKind::Colon) { cursor.expression() } else { Ok(()) }
            })?;
            cursor.expect(TokenKind::RightBrace, "`}`")
        })
    }

    /// Relations joined by `AND`.
    pub(super) fn relations(&mut self) -> Parsed {
        self.relation()?;
        self.more_relations()
    }

    fn more_relations(&mut self) -> Parsed {
        while self.eat_word("and") || self.eat_word("or") {
            self.relation()?;
        }
        Ok(())
    }

    fn relation(&mut self) -> Parsed {
        self.within(Node::Relation, |cursor| {
            cursor.expression()?;
            // A relation in parentheses or `expr(index, …)` stands alone.
            if cursor.comparison()? || cursor.previous == Some(TokenKind::RightParen) {
                Ok(())
            } else {
                Err(cursor.expected("an operator"))
            }
        })
    }

    /// The operator and right side of a relation; false if there is none.
    fn comparison(&mut self) -> Parsed<bool> {
        let Some(token) = self.current else { return Ok(false) };
        match token.kind {
            TokenKind::Equal
            | TokenKind::NotEqual
            | TokenKind::Less
            | TokenKind::LessEqual
            | TokenKind::Greater
            | TokenKind::GreaterEqual => {
                self.bump();
                self.expression()?;
                return Ok(true);
            }
            TokenKind::Word => {}
            _ => return Ok(false),
        }
        if self.eat_word("is") {
            self.eat_word("not");
            self.expect_word("NULL")?;
            return Ok(true);
        }
        let negated = self.eat_word("not");
        if self.eat_word("in") || self.eat_word("like") {
            self.expression()?;
        } else if self.eat_word("contains") {
            self.eat_word("key");
            self.expression()?;
        } else if self.eat_word("between") {
            self.expression()?;
            self.expect_word("AND")?;
            self.expression()?;
        } else if negated {
            return Err(self.expected("IN, CONTAINS, LIKE or BETWEEN"));
        } else {
            return Ok(false);
        }
        Ok(true)
    }

    /// A type: `int`, `ks.address`, `map<text, frozen<list<int>>>`, `vector<float, 3>`, `'class'`.
    pub(super) fn type_name(&mut self) -> Parsed {
        self.nested(Node::Type, |cursor| {
            if cursor.eat(TokenKind::String) || cursor.eat(TokenKind::Integer) {
                return Ok(());
            }
            // `set` is reserved and a type all the same.
            if !cursor.eat_word("set") {
                cursor.name("a type")?;
                if cursor.eat(TokenKind::Dot) {
                    cursor.name("a type")?;
                }
            }
            if cursor.eat(TokenKind::Less) {
                cursor.comma_separated(Self::type_name)?;
                cursor.expect(TokenKind::Greater, "`>`")?;
            }
            Ok(())
        })
    }

    /// Whether a type in parentheses begins here, with the value it is meant for after it.
    fn at_type_hint(&self) -> bool {
        if !self.at(TokenKind::LeftParen) {
            return false;
        }
        let mut ahead = self.ahead();
        let mut angles = 0_usize;
        let mut tokens = 0;
        loop {
            let Some(token) = ahead.next() else { return false };
            tokens += 1;
            match token.kind {
                TokenKind::QuotedName | TokenKind::Dot | TokenKind::String => {}
                TokenKind::Word if token.is_word("set") || !is_reserved(token.text) => {}
                TokenKind::Comma | TokenKind::Integer if angles > 0 => {}
                TokenKind::Less => angles += 1,
                TokenKind::Greater if angles > 0 => angles -= 1,
                TokenKind::RightParen if angles == 0 && tokens > 1 => break,
                _ => return false,
            }
        }
        let Some(value) = ahead.next() else { return false };
        match value.kind {
            TokenKind::LeftParen | TokenKind::LeftBracket | TokenKind::LeftBrace => true,
            TokenKind::Colon => true,
            TokenKind::Word if is_constant(&value) => true,
            TokenKind::Word | TokenKind::QuotedName => {
                !SOFT_OPERATORS.iter().any(|word| value.is_word(word))
                    && (is_name(&value) || value.is_word("token"))
                    && ahead.next().is_some_and(|after| {
                        matches!(after.kind, TokenKind::LeftParen | TokenKind::Dot)
                    })
            }
            kind => is_literal(kind),
        }
    }
}

fn is_constant(token: &Token<'_>) -> bool {
    CONSTANTS.iter().any(|word| token.is_word(word))
}

/// Literals of one token, and the marker `?`.
fn is_literal(kind: TokenKind) -> bool {
    matches!(
        kind,
        TokenKind::Integer
            | TokenKind::Float
            | TokenKind::String
            | TokenKind::DollarString
            | TokenKind::Question
            | TokenKind::Uuid
            | TokenKind::Blob
            | TokenKind::Duration
    )
}
