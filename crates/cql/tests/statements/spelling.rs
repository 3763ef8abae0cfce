//! Writes a statement in one of the many ways in which it can be written.
//!
//! Keywords and bare names in any case, names in quotes or not, white space and comments of every
//! sort between the pieces, or nothing where nothing is needed. Comments and strings are full of
//! things that look like tables.

use std::ops::Range;

use helenus_cql::lexer::is_reserved;
use helenus_cql::parser::Operation;

/// A piece of a statement, before it is spelled.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Piece {
    /// A keyword: any case will do.
    Keyword(&'static str),
    /// A name, as it is stored.
    Name(String),
    /// A literal or a symbol, to be written as it is.
    Exact(String),
    /// The name of a table.
    Table { keyspace: Option<String>, table: String, operation: Operation },
}

/// A table of a spelled statement.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct KnownTable {
    pub(crate) keyspace: Option<String>,
    pub(crate) table: String,
    pub(crate) operation: Operation,
    pub(crate) span: Range<usize>,
}

/// A statement in writing.
#[derive(Clone, Debug, Default)]
pub(crate) struct Spelled {
    pub(crate) text: String,
    pub(crate) tables: Vec<KnownTable>,
}

/// Spells `pieces`; the same seed gives the same text.
pub(crate) fn spell(pieces: &[Piece], seed: u64) -> Spelled {
    let mut speller = Speller { spelled: Spelled::default(), state: seed };
    for piece in pieces {
        match piece {
            Piece::Keyword(word) => {
                let word = speller.in_any_case(word);
                speller.write(&word);
            }
            Piece::Name(name) => {
                let name = speller.name(name);
                speller.write(&name);
            }
            Piece::Exact(text) => {
                speller.write(text);
            }
            Piece::Table { keyspace, table, operation } => {
                speller.table(keyspace.as_deref(), table, *operation);
            }
        }
    }
    if speller.one_in(2) {
        speller.separator("\n");
    }
    speller.spelled
}

struct Speller {
    spelled: Spelled,
    state: u64,
}

impl Speller {
    /// One number of a sequence of its own (splitmix64), so that the pieces shrink separately.
    fn below(&mut self, bound: u64) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ (mixed >> 31)) % bound
    }

    fn one_in(&mut self, bound: u64) -> bool {
        self.below(bound) == 0
    }

    fn pick(&mut self, choices: &[&'static str]) -> &'static str {
        let index = self.below(choices.len() as u64);
        choices[usize::try_from(index).unwrap()]
    }

    fn table(&mut self, keyspace: Option<&str>, table: &str, operation: Operation) {
        if let Some(keyspace) = keyspace {
            let keyspace = self.name(keyspace);
            self.write(&keyspace);
            self.write(".");
        }
        let name = self.name(table);
        let start = self.write(&name);
        self.spelled.tables.push(KnownTable {
            keyspace: keyspace.map(str::to_owned),
            table: table.to_owned(),
            operation,
            span: start..start + name.len(),
        });
    }

    fn name(&mut self, name: &str) -> String {
        let bare = name.starts_with(|first: char| first.is_ascii_lowercase())
            && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
            && !is_reserved(name);
        if !bare || self.one_in(4) {
            return format!("\"{}\"", name.replace('"', "\"\""));
        }
        // `p1d` is a name, `P1D` is a duration.
        let spelled = self.in_any_case(name);
        if spelled.starts_with('P') { spelled.replacen('P', "p", 1) } else { spelled }
    }

    fn in_any_case(&mut self, word: &str) -> String {
        match self.below(3) {
            0 => word.to_ascii_lowercase(),
            1 => word.to_ascii_uppercase(),
            _ => word
                .chars()
                .map(|c| if self.one_in(2) { c.to_ascii_uppercase() } else { c })
                .collect(),
        }
    }

    /// Writes `text` after what stands there, apart from it if need be; returns where.
    fn write(&mut self, text: &str) -> usize {
        let touch = self.spelled.text.is_empty() || may_touch(&self.spelled.text, text);
        if !touch || self.one_in(3) {
            self.separator(text);
        }
        let start = self.spelled.text.len();
        self.spelled.text.push_str(text);
        start
    }

    fn separator(&mut self, next: &str) {
        // `/` and `-` would make comments, or other comments, of what touches them.
        let before = self.spelled.text.ends_with(['/', '-', '*']);
        if before || next.starts_with(['/', '-', '*']) {
            self.spelled.text.push(' ');
            if self.one_in(2) {
                return;
            }
        }
        for _ in 0..=self.below(2) {
            let trivia = self.pick(&[
                " ",
                " ",
                "  ",
                "\n",
                "\t",
                "\r\n",
                "/**/",
                "/* FROM features ' \" */",
                "-- FROM features '\n",
                "// \"features\" /*\r",
                "--\n",
                "/* größer $$ */",
            ]);
            // After eight hexadecimal digits Cassandra takes a `-` for the middle of a UUID.
            if trivia.starts_with('-')
                && self.spelled.text.ends_with(|c: char| c.is_ascii_hexdigit())
            {
                self.spelled.text.push(' ');
            }
            self.spelled.text.push_str(trivia);
        }
        if next.starts_with(['/', '-', '*']) {
            self.spelled.text.push(' ');
        }
    }
}

/// Whether `next` can follow `text` at once and stay a token of its own.
fn may_touch(text: &str, next: &str) -> bool {
    let (Some(last), Some(first)) = (text.chars().next_back(), next.chars().next()) else {
        return true;
    };
    let solid = |c: char| c.is_ascii_alphanumeric() || c == '_' || matches!(c, '"' | '\'' | '$');
    let bracket = |c: char| "()[]{},;?".contains(c);
    let relation = |c: char| "=<>:".contains(c);
    match (last, first) {
        (last, first) if bracket(last) && first != '.' && last != '?' => {
            solid(first) || bracket(first) || relation(first)
        }
        (last, first) if bracket(first) && first != '?' => solid(last) || bracket(last),
        (last, first) if relation(last) => solid(first),
        (last, '!') => solid(last),
        (last, first) if relation(first) => solid(last),
        ('"', '"') | ('\'', '\'') | ('$', '$') => false,
        ('"' | '\'', first) => solid(first),
        (last, '"') => solid(last) || last == '.',
        ('.', first) => first.is_ascii_lowercase() || first.is_ascii_uppercase(),
        // A name before the point may end with a digit, a number may not.
        (last, '.') => next == "." && (last.is_ascii_alphanumeric() || last == '_'),
        _ => false,
    }
}
