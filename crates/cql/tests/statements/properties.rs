//! What must hold for every statement, and for every text that is none.

use std::borrow::Cow;

use helenus_cql::lexer::{Lexer, quote};
use helenus_cql::parser::{Visit, parse, walk};
use helenus_cql::rewrite::{Error, caret, rewrite};
use proptest::prelude::*;

use crate::generator::statement;
use crate::outline::shape;
use crate::spelling::{KnownTable, Piece, Spelled, spell};

const SESSION: &str = "shop";

fn spelled() -> impl Strategy<Value = Spelled> {
    (statement(), any::<u64>()).prop_map(|(pieces, seed): (Vec<Piece>, u64)| spell(&pieces, seed))
}

/// New names, some of which need quotes.
fn suffix() -> impl Strategy<Value = &'static str> {
    proptest::sample::select(&["_v7", "_V7", " \"x\"", "é"][..])
}

/// The original with `suffix` on every table, put together here.
fn expected(original: &Spelled, suffix: &str) -> String {
    let mut text = original.text.clone();
    for table in original.tables.iter().rev() {
        let name = format!("{}{suffix}", table.table);
        let quoted = text[table.span.clone()].starts_with('"');
        let name = match quote(&name) {
            Cow::Borrowed(bare) if quoted => format!("\"{bare}\""),
            other => other.into_owned(),
        };
        text.replace_range(table.span.clone(), &name);
    }
    text
}

proptest! {
    #[test]
    fn every_table_is_found_and_nothing_else(spelled in spelled()) {
        let parsed = parse(&spelled.text).map_err(|error| {
            TestCaseError::fail(format!("{error}\n{}", caret(&spelled.text, error.position)))
        })?;
        let found: Vec<KnownTable> = parsed.tables.iter().map(|table| KnownTable {
            keyspace: table.keyspace.map(|name| name.folded().into_owned()),
            table: table.table.folded().into_owned(),
            operation: table.operation,
            span: table.table.span(),
        }).collect();
        prop_assert_eq!(found, spelled.tables);
    }

    #[test]
    fn rewriting_touches_the_names_alone(spelled in spelled(), suffix in suffix()) {
        let route = |_: &str, table: &str| Some(format!("{table}{suffix}"));
        let changed = spelled.tables.iter().find(|table| !table.operation.reads());
        match (rewrite(&spelled.text, Some(SESSION), route), changed) {
            (Ok(rewritten), None) => {
                prop_assert_eq!(rewritten.text.as_ref(), expected(&spelled, suffix));
                prop_assert_eq!(rewritten.tables.len(), spelled.tables.len());
                prop_assert_eq!(shape(&rewritten.text).unwrap(), shape(&spelled.text).unwrap());
                for (after, before) in parse(&rewritten.text).unwrap().tables.iter().zip(&spelled.tables) {
                    prop_assert_eq!(after.table.folded(), format!("{}{suffix}", before.table));
                }
            }
            (Err(Error::Refused(refusal)), Some(table)) => {
                prop_assert_eq!(refusal.operation, table.operation);
                prop_assert_eq!(refusal.table.table(), &table.table);
                prop_assert_eq!(refusal.table.keyspace(), table.keyspace.as_deref().unwrap_or(SESSION));
                prop_assert_eq!(refusal.position, table.span.start);
            }
            (outcome, _) => prop_assert!(false, "{:?}", outcome),
        }
    }

    #[test]
    fn one_table_is_routed_by_keyspace_and_name(spelled in spelled()) {
        let route = |keyspace: &str, table: &str| {
            (keyspace == SESSION && table == "features").then_some("features_v7")
        };
        let named: Vec<&KnownTable> = spelled.tables.iter().filter(|table| {
            table.table == "features" && table.keyspace.as_deref().is_none_or(|name| name == SESSION)
        }).collect();
        match rewrite(&spelled.text, Some(SESSION), route) {
            Ok(rewritten) => {
                prop_assert_eq!(rewritten.tables.len(), named.len());
                prop_assert!(named.iter().all(|table| table.operation.reads()));
                prop_assert_eq!(matches!(rewritten.text, Cow::Borrowed(_)), named.is_empty());
            }
            Err(_) => prop_assert!(named.iter().any(|table| !table.operation.reads())),
        }
    }

    #[test]
    fn without_versions_nothing_changes(spelled in spelled()) {
        let none = |_: &str, _: &str| None::<String>;
        let rewritten = rewrite(&spelled.text, Some(SESSION), none).unwrap();
        prop_assert!(matches!(rewritten.text, Cow::Borrowed(_)));
        prop_assert_eq!(rewritten.text.as_ref(), &spelled.text);

        let identity = |_: &str, table: &str| Some(table.to_owned());
        if let Ok(rewritten) = rewrite(&spelled.text, Some(SESSION), identity) {
            prop_assert!(matches!(rewritten.text, Cow::Borrowed(_)));
            prop_assert_eq!(rewritten.text.as_ref(), &spelled.text);
        }
    }

    #[test]
    fn without_keyspace_unqualified_tables_stay(spelled in spelled()) {
        let route = |_: &str, _: &str| Some("other");
        if spelled.tables.iter().all(|table| table.keyspace.is_none()) {
            let rewritten = rewrite(&spelled.text, None, route).unwrap();
            prop_assert!(matches!(rewritten.text, Cow::Borrowed(_)));
        }
    }

    #[test]
    fn any_text_is_tiled_and_survives(text in any::<String>()) {
        survives(&text)?;
    }

    #[test]
    fn token_soup_is_tiled_and_survives(text in soup()) {
        survives(&text)?;
    }

    #[test]
    fn statements_cut_or_damaged_survive(
        spelled in spelled(),
        cut in any::<prop::sample::Index>(),
        insert in soup(),
    ) {
        let mut text = spelled.text;
        let at = text.floor_char_boundary(cut.index(text.len() + 1));
        survives(&text[..at])?;
        survives(&text[at..])?;
        text.insert_str(at, &insert);
        survives(&text)?;
    }

    #[test]
    fn quoted_names_read_back(name in "\\PC{1,12}|[a-zA-Z0-9_\"]{1,12}") {
        let written = quote(&name);
        let tokens: Vec<_> = Lexer::new(&written).collect();
        prop_assert_eq!(tokens.len(), 1);
        let read = tokens[0].identifier();
        prop_assert_eq!(read.as_deref(), Some(name.as_str()));
    }

    #[test]
    fn a_caret_can_stand_anywhere(text in any::<String>(), position in 0..200_usize) {
        let shown = caret(&text, position);
        prop_assert_eq!(shown.lines().count(), 2);
    }
}

/// What soup is made of.
#[rustfmt::skip]
const SOUP: &[&str] = &[
    "SELECT", "FROM", "INSERT INTO", "UPDATE", "DELETE", "SET", "WHERE", "BEGIN BATCH",
    "APPLY BATCH", "TRUNCATE", "CREATE TABLE", "GRANT", "ON", "IN", "AND", "JSON", "AS", "*",
    "features", "shop.features", "\"features\"", "\"", "'", "''", "$$", "$", "/*", "*/", "--",
    "//", "\n", "\r", " ", ".", "..", "1", "1.", "1e5", "0x", "P1Y", "1h", "abcdefab-", "(",
    ")", "[", "]", "{", "}", "<", ">", "=", "!=", ":", "?", ";", ",", "-", "+", "é", "µs", "\u{0}",
];

/// Pieces of CQL in no order.
fn soup() -> impl Strategy<Value = String> {
    let piece = (proptest::sample::select(SOUP), proptest::sample::select(&["", " "][..]));
    prop::collection::vec(piece, 0..24)
        .prop_map(|pieces| pieces.iter().flat_map(|(piece, space)| [*piece, *space]).collect())
}

struct Nothing;
impl Visit<'_> for Nothing {}

/// Nothing panics, the tokens tile the text, errors point into it, and what is rewritten by
/// whatever chance parses to the same shape again.
fn survives(text: &str) -> Result<(), TestCaseError> {
    let mut end = 0;
    for token in Lexer::new(text) {
        prop_assert_eq!(token.start, end);
        prop_assert!(!token.text.is_empty());
        prop_assert_eq!(text.get(token.span()), Some(token.text));
        end = token.end();
    }
    prop_assert_eq!(end, text.len());
    if let Err(error) = walk(text, &mut Nothing) {
        prop_assert!(error.position <= text.len());
    }
    match rewrite(text, Some(SESSION), |_: &str, table: &str| Some(format!("{table}_v7"))) {
        Ok(rewritten) if rewritten.tables.is_empty() => prop_assert_eq!(&rewritten.text, text),
        Ok(rewritten) => prop_assert_eq!(shape(&rewritten.text), shape(text)),
        Err(error) => {
            prop_assert!(error.position() <= text.len());
            prop_assert!(
                !error.to_string().contains('\n')
                    || error.table().table().contains('\n')
                    || error.table().keyspace().contains('\n')
            );
        }
    }
    Ok(())
}
