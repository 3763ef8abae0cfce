//! Splits CQL text into tokens, one at a time.
//!
//! The rewriter must know what is a name and what merely looks like one inside a string or a
//! comment, so the text is cut here exactly as Cassandra 5.0 cuts it: `--`, `//` and `/* */`
//! comments (a line comment ends at a carriage return too), strings with doubled quotes, `$$`
//! strings, quoted names, UUIDs that begin with letters, durations, blobs. Where Cassandra's own
//! lexer gives up on input that could not be valid anyway (`10ALLOW`), this one goes on.
//!
//! **Invariant:** the tokens tile the input: each begins where the one before it ended, the last
//! ends at the end, none is empty. Trivia (white space and comments) are tokens as well. Lexing
//! cannot fail: what is not CQL becomes [`TokenKind::Unknown`], and what is never closed becomes
//! [`TokenKind::Unterminated`] up to the end of the text.
//!
//! It does not decide which words are keywords: that depends on the place, and the parser asks
//! with [`Token::is_word`]. Bind markers with a name are two tokens (`:` and the name), because
//! `{k:v}` and `:v` differ only by what stands before.

use std::borrow::Cow;
use std::ops::Range;

mod keyword;
mod number;

pub use keyword::{is_reserved, quote, quoted};

/// What a token is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TokenKind {
    /// Spaces, tabs, line feeds and carriage returns.
    Whitespace,
    /// `-- …` or `// …`, without the line end.
    LineComment,
    /// `/* … */`; these do not nest.
    BlockComment,
    /// A keyword or an unquoted identifier: a letter, then letters, digits and underscores.
    Word,
    /// `"Name"`, with `""` for a quote inside.
    QuotedName,
    /// `'text'`, with `''` for a quote inside.
    String,
    /// `$$text$$`.
    DollarString,
    /// Decimal digits.
    Integer,
    /// Digits with a point or an exponent.
    Float,
    /// `0x` and hexadecimal digits.
    Blob,
    /// A UUID, bare.
    Uuid,
    /// `1h30m`, `P1Y2M`, `P0001-02-03T04:05:06`.
    Duration,
    /// `?`
    Question,
    /// `:`
    Colon,
    /// `;`
    Semicolon,
    /// `,`
    Comma,
    /// `.`
    Dot,
    /// `..`
    Range,
    /// `(`
    LeftParen,
    /// `)`
    RightParen,
    /// `[`
    LeftBracket,
    /// `]`
    RightBracket,
    /// `{`
    LeftBrace,
    /// `}`
    RightBrace,
    /// `+`
    Plus,
    /// `-`
    Minus,
    /// `*`
    Star,
    /// `/`
    Slash,
    /// `%`
    Percent,
    /// `=`
    Equal,
    /// `!=`
    NotEqual,
    /// `<`
    Less,
    /// `<=`
    LessEqual,
    /// `>`
    Greater,
    /// `>=`
    GreaterEqual,
    /// `+=`
    PlusEqual,
    /// `-=`
    MinusEqual,
    /// One character that begins no token.
    Unknown,
    /// Something opened and never closed; it reaches to the end of the text.
    Unterminated(Open),
}

/// What was opened and never closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Open {
    /// `/*` without `*/`.
    Comment,
    /// `'` without its partner.
    String,
    /// `$$` without its partner.
    DollarString,
    /// `"` without its partner.
    QuotedName,
}

/// A piece of the text.
///
/// ```
/// use helenus_cql::lexer::{Lexer, TokenKind};
/// let token = Lexer::new("\"Größe\" = 1").next().unwrap();
/// assert_eq!(token.kind, TokenKind::QuotedName);
/// assert_eq!(token.span(), 0..9);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token<'a> {
    /// What it is.
    pub kind: TokenKind,
    /// The bytes as they were written.
    pub text: &'a str,
    /// Where it begins, in bytes.
    pub start: usize,
}

impl<'a> Token<'a> {
    /// Where the token ends, in bytes.
    pub const fn end(&self) -> usize {
        self.start + self.text.len()
    }

    /// The byte range of the token.
    pub const fn span(&self) -> Range<usize> {
        self.start..self.end()
    }

    /// Whether this is white space or a comment.
    pub const fn is_trivia(&self) -> bool {
        matches!(
            self.kind,
            TokenKind::Whitespace | TokenKind::LineComment | TokenKind::BlockComment
        )
    }

    /// Whether this is the unquoted word `word`, in whatever case it was written.
    #[inline]
    pub fn is_word(&self, word: &str) -> bool {
        self.kind == TokenKind::Word && self.text.eq_ignore_ascii_case(word)
    }

    /// The identifier this token spells, as Cassandra stores it: a word in lower case, a quoted
    /// name without its quotes; `None` for anything else, reserved words included.
    ///
    /// ```
    /// use helenus_cql::lexer::Lexer;
    /// let name = |text| Lexer::new(text).next().and_then(|token| token.identifier());
    /// assert_eq!(name("Features").as_deref(), Some("features"));
    /// assert_eq!(name("\"Say \"\"hi\"\"\"").as_deref(), Some("Say \"hi\""));
    /// assert_eq!(name("SELECT"), None);
    /// ```
    pub fn identifier(&self) -> Option<Cow<'a, str>> {
        match self.kind {
            TokenKind::Word if !is_reserved(self.text) => Some(fold(self.text)),
            TokenKind::QuotedName => Some(unquote(self.text)),
            _ => None,
        }
    }
}

fn fold(word: &str) -> Cow<'_, str> {
    if word.bytes().any(|byte| byte.is_ascii_uppercase()) {
        Cow::Owned(word.to_ascii_lowercase())
    } else {
        Cow::Borrowed(word)
    }
}

fn unquote(quoted: &str) -> Cow<'_, str> {
    let inner = quoted.get(1..quoted.len().saturating_sub(1)).unwrap_or_default();
    if inner.contains('"') { Cow::Owned(inner.replace("\"\"", "\"")) } else { Cow::Borrowed(inner) }
}

/// The tokens of a text, in order, trivia included.
///
/// ```
/// use helenus_cql::lexer::Lexer;
/// let words: Vec<&str> = Lexer::new("SELECT/**/a").map(|token| token.text).collect();
/// assert_eq!(words, ["SELECT", "/**/", "a"]);
/// ```
#[derive(Clone, Debug)]
pub struct Lexer<'a> {
    rest: &'a str,
    position: usize,
}

impl<'a> Lexer<'a> {
    /// A lexer at the beginning of `text`.
    pub const fn new(text: &'a str) -> Self {
        Lexer { rest: text, position: 0 }
    }

    /// The next token that is not trivia.
    #[inline]
    pub fn next_significant(&mut self) -> Option<Token<'a>> {
        self.by_ref().find(|token| !token.is_trivia())
    }
}

impl<'a> Iterator for Lexer<'a> {
    type Item = Token<'a>;

    #[inline]
    fn next(&mut self) -> Option<Token<'a>> {
        let first = *self.rest.as_bytes().first()?;
        let (kind, length) = scan(self.rest, first);
        // The scanners stop at ASCII or after whole characters; should one be wrong, the rest of
        // the text becomes one unknown token rather than a panic.
        let (kind, (text, rest)) = match self.rest.split_at_checked(length) {
            Some(parts) if length > 0 => (kind, parts),
            _ => (TokenKind::Unknown, (self.rest, "")),
        };
        let token = Token { kind, text, start: self.position };
        self.rest = rest;
        self.position += text.len();
        Some(token)
    }
}

/// The kind and length of the token at the beginning of `rest`, whose first byte is `first`.
#[inline]
fn scan(rest: &str, first: u8) -> (TokenKind, usize) {
    let bytes = rest.as_bytes();
    match first {
        b' ' | b'\t' | b'\n' | b'\r' => {
            (TokenKind::Whitespace, run(bytes, |byte| matches!(byte, b' ' | b'\t' | b'\n' | b'\r')))
        }
        b'a'..=b'z' | b'A'..=b'Z' => number::word(bytes),
        b'0'..=b'9' => number::number(bytes),
        b'\'' => enclosed(bytes, b'\'', TokenKind::String, Open::String),
        b'"' => enclosed(bytes, b'"', TokenKind::QuotedName, Open::QuotedName),
        b'$' => dollar(rest),
        b'-' if bytes.get(1) == Some(&b'-') => line_comment(bytes),
        b'/' if bytes.get(1) == Some(&b'/') => line_comment(bytes),
        b'/' if bytes.get(1) == Some(&b'*') => block_comment(rest),
        _ => symbol(rest, first, bytes.get(1).copied()),
    }
}

fn symbol(rest: &str, first: u8, second: Option<u8>) -> (TokenKind, usize) {
    let two = match (first, second) {
        (b'.', Some(b'.')) => Some(TokenKind::Range),
        (b'!', Some(b'=')) => Some(TokenKind::NotEqual),
        (b'<', Some(b'=')) => Some(TokenKind::LessEqual),
        (b'>', Some(b'=')) => Some(TokenKind::GreaterEqual),
        (b'+', Some(b'=')) => Some(TokenKind::PlusEqual),
        (b'-', Some(b'=')) => Some(TokenKind::MinusEqual),
        _ => None,
    };
    if let Some(kind) = two {
        return (kind, 2);
    }
    let kind = match first {
        b'?' => TokenKind::Question,
        b':' => TokenKind::Colon,
        b';' => TokenKind::Semicolon,
        b',' => TokenKind::Comma,
        b'.' => TokenKind::Dot,
        b'(' => TokenKind::LeftParen,
        b')' => TokenKind::RightParen,
        b'[' => TokenKind::LeftBracket,
        b']' => TokenKind::RightBracket,
        b'{' => TokenKind::LeftBrace,
        b'}' => TokenKind::RightBrace,
        b'+' => TokenKind::Plus,
        b'-' => TokenKind::Minus,
        b'*' => TokenKind::Star,
        b'/' => TokenKind::Slash,
        b'%' => TokenKind::Percent,
        b'=' => TokenKind::Equal,
        b'<' => TokenKind::Less,
        b'>' => TokenKind::Greater,
        _ => {
            return (TokenKind::Unknown, rest.chars().next().map_or(1, char::len_utf8));
        }
    };
    (kind, 1)
}

/// How many bytes from the beginning satisfy `belongs`.
#[inline]
fn run(bytes: &[u8], belongs: impl Fn(u8) -> bool) -> usize {
    bytes.iter().position(|&byte| !belongs(byte)).unwrap_or(bytes.len())
}

fn line_comment(bytes: &[u8]) -> (TokenKind, usize) {
    (TokenKind::LineComment, run(bytes, |byte| !matches!(byte, b'\n' | b'\r')))
}

fn block_comment(rest: &str) -> (TokenKind, usize) {
    match rest.get(2..).and_then(|body| body.find("*/")) {
        Some(length) => (TokenKind::BlockComment, length + 4),
        None => (TokenKind::Unterminated(Open::Comment), rest.len()),
    }
}

fn dollar(rest: &str) -> (TokenKind, usize) {
    match rest.strip_prefix("$$").map(|body| body.find("$$")) {
        Some(Some(length)) => (TokenKind::DollarString, length + 4),
        Some(None) => (TokenKind::Unterminated(Open::DollarString), rest.len()),
        None => (TokenKind::Unknown, 1),
    }
}

fn enclosed(bytes: &[u8], quote: u8, kind: TokenKind, open: Open) -> (TokenKind, usize) {
    let mut length = 1;
    loop {
        let body = bytes.get(length..).unwrap_or_default();
        let Some(offset) = body.iter().position(|&byte| byte == quote) else {
            return (TokenKind::Unterminated(open), bytes.len());
        };
        length += offset + 1;
        if bytes.get(length) != Some(&quote) {
            return (kind, length);
        }
        length += 1;
    }
}

#[cfg(test)]
mod tests;
