//! The spelling of types in `system_schema`: `map<text, frozen<"Addr">>`, `vector<float, 3>`,
//! `'org.apache.cassandra.db.marshal.…'`.

use std::sync::Arc;

use thiserror::Error;

use super::{CqlType, UserType, marshal};

/// Types nested deeper than this are refused, so that no input can exhaust the stack.
pub(super) const DEPTH_MAX: usize = 48;

/// Why a type could not be parsed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ParseError {
    /// Not the spelling of a type.
    #[error("{expected} expected at {at} in type {text:?}")]
    Syntax {
        /// The whole text.
        text: Box<str>,
        /// Byte offset.
        at: usize,
        /// What would have been right.
        expected: &'static str,
    },
    /// A user-defined type that the keyspace does not have.
    #[error("type {0:?} is not known")]
    Unknown(Box<str>),
    /// Nested too deeply.
    #[error("type {0:?} is nested deeper than 48 levels")]
    Deep(Box<str>),
}

pub(super) fn parse(
    text: &str,
    user_type: &dyn Fn(&str) -> Option<Arc<UserType>>,
) -> Result<CqlType, ParseError> {
    let mut parser = Parser { text, rest: text, user_type, depth: 0 };
    let ty = parser.ty()?;
    parser.skip_space();
    if parser.rest.is_empty() { Ok(ty) } else { Err(parser.expected("the end")) }
}

struct Parser<'a> {
    text: &'a str,
    rest: &'a str,
    user_type: &'a dyn Fn(&str) -> Option<Arc<UserType>>,
    depth: usize,
}

impl<'a> Parser<'a> {
    fn ty(&mut self) -> Result<CqlType, ParseError> {
        if self.depth == DEPTH_MAX {
            return Err(ParseError::Deep(self.text.into()));
        }
        self.depth += 1;
        let ty = self.ty_at_depth();
        self.depth -= 1;
        ty
    }

    fn ty_at_depth(&mut self) -> Result<CqlType, ParseError> {
        self.skip_space();
        if let Some(rest) = self.rest.strip_prefix('\'') {
            let (class, rest) = rest.split_once('\'').ok_or_else(|| self.expected("a quote"))?;
            self.rest = rest;
            return marshal::parse(class);
        }
        if self.rest.starts_with('"') {
            let name = self.quoted()?;
            return self.user(&name);
        }
        let word = self.word()?;
        self.skip_space();
        let name = word.to_ascii_lowercase();
        if !self.rest.starts_with('<') {
            return CqlType::native(&name).map_or_else(|| self.user(&name), Ok);
        }
        self.parameterised(&name)
    }

    fn parameterised(&mut self, name: &str) -> Result<CqlType, ParseError> {
        self.punctuation('<', "'<'")?;
        let first = Arc::new(self.ty()?);
        let ty = match name {
            "frozen" => CqlType::Frozen(first),
            "list" => CqlType::List(first),
            "set" => CqlType::Set(first),
            "map" => {
                self.punctuation(',', "','")?;
                CqlType::Map(first, Arc::new(self.ty()?))
            }
            "vector" => {
                self.punctuation(',', "','")?;
                CqlType::Vector(first, self.dimension()?)
            }
            "tuple" => {
                let mut parts = vec![CqlType::clone(&first)];
                while self.next_is(',') {
                    self.punctuation(',', "','")?;
                    parts.push(self.ty()?);
                }
                CqlType::Tuple(parts.into())
            }
            _ => return Err(self.expected("frozen, list, set, map, tuple or vector before '<'")),
        };
        self.punctuation('>', "'>'")?;
        Ok(ty)
    }

    fn user(&self, name: &str) -> Result<CqlType, ParseError> {
        (self.user_type)(name).map(CqlType::User).ok_or_else(|| ParseError::Unknown(name.into()))
    }

    fn word(&mut self) -> Result<&'a str, ParseError> {
        let length =
            self.rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(self.rest.len());
        match self.rest.split_at_checked(length) {
            Some((word, rest)) if !word.is_empty() => {
                self.rest = rest;
                Ok(word)
            }
            _ => Err(self.expected("a type")),
        }
    }

    /// A quoted identifier, in which a doubled quote stands for one.
    fn quoted(&mut self) -> Result<String, ParseError> {
        let mut name = String::new();
        let mut chars = self.rest.char_indices().skip(1).peekable();
        while let Some((at, c)) = chars.next() {
            match c {
                '"' if chars.next_if(|(_, next)| *next == '"').is_some() => name.push('"'),
                '"' => {
                    self.rest = self.rest.split_at_checked(at + 1).map_or("", |(_, rest)| rest);
                    return Ok(name);
                }
                other => name.push(other),
            }
        }
        Err(self.expected("a closing quote"))
    }

    fn dimension(&mut self) -> Result<u32, ParseError> {
        self.skip_space();
        let expected = self.expected("a dimension");
        self.word()?.parse().map_err(|_| expected)
    }

    fn next_is(&mut self, wanted: char) -> bool {
        self.skip_space();
        self.rest.starts_with(wanted)
    }

    fn punctuation(&mut self, wanted: char, name: &'static str) -> Result<(), ParseError> {
        self.skip_space();
        self.rest = self.rest.strip_prefix(wanted).ok_or_else(|| self.expected(name))?;
        Ok(())
    }

    fn skip_space(&mut self) {
        self.rest = self.rest.trim_start();
    }

    fn expected(&self, expected: &'static str) -> ParseError {
        let at = self.text.len() - self.rest.len();
        ParseError::Syntax { text: self.text.into(), at, expected }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address() -> Arc<UserType> {
        let fields = vec![("street".into(), CqlType::Text), ("no".into(), CqlType::Int)];
        Arc::new(UserType { keyspace: "ks".into(), name: "Addr \"x\"".into(), fields })
    }

    fn check(text: &str, printed: &str) {
        let find = |name: &str| (name == "Addr \"x\"").then(address);
        let outcome = match CqlType::parse(text, &find) {
            Ok(ty) => ty.to_string(),
            Err(error) => error.to_string(),
        };
        assert_eq!(outcome, printed);
    }

    #[test]
    fn what_system_schema_prints_comes_back_as_it_was() {
        for text in [
            "int",
            "counter",
            "frozen<set<inet>>",
            "map<text, frozen<list<int>>>",
            "tuple<int, frozen<tuple<text, uuid>>, vector<float, 3>>",
            "vector<frozen<map<int, text>>, 12>",
            "frozen<\"Addr \"\"x\"\"\">",
            "\"Addr \"\"x\"\"\"",
            "'com.example.Odd'",
        ] {
            check(text, text);
        }
        check(" varchar ", "text");
    }

    #[test]
    fn what_is_no_type() {
        check("", "a type expected at 0 in type \"\"");
        check("list<int", "'>' expected at 8 in type \"list<int\"");
        check("map<int>", "',' expected at 7 in type \"map<int>\"");
        check("vector<int, x>", "a dimension expected at 12 in type \"vector<int, x>\"");
        check("int int", "the end expected at 4 in type \"int int\"");
        check("missing", "type \"missing\" is not known");
        check("\"open", "a closing quote expected at 0 in type \"\\\"open\"");
        let deep = "list<".repeat(200);
        assert!(matches!(deep.parse::<CqlType>(), Err(ParseError::Deep(_))));
        let deep = format!("'{}'", "ListType(".repeat(200));
        assert!(matches!(deep.parse::<CqlType>(), Err(ParseError::Deep(_))));
    }
}
