//! Which words Cassandra keeps for itself, and how a name is printed so that it reads back.
//!
//! Only *reserved* words matter here: every other keyword (`key`, `json`, `ttl`, `timestamp`, …)
//! may name a table or a column. The list is Cassandra 5.0's. It does not know which keyword
//! stands where; that is the parser's business.

use std::borrow::Cow;

/// Whether `word` cannot be a name unless it is quoted, in any case.
///
/// ```
/// use helenus_cql::lexer::is_reserved;
/// assert!(is_reserved("From"));
/// assert!(!is_reserved("timestamp"));
/// ```
#[inline]
pub fn is_reserved(word: &str) -> bool {
    let candidates: &[&str] = match word.len() {
        2 => &["by", "if", "in", "is", "of", "on", "or", "to"],
        3 => &["add", "and", "asc", "nan", "not", "set", "use"],
        4 => &["desc", "drop", "from", "full", "into", "null", "true", "view", "with"],
        5 => &[
            "allow", "alter", "apply", "batch", "begin", "false", "grant", "index", "limit",
            "order", "table", "token", "using", "where",
        ],
        6 => &[
            "create", "delete", "insert", "modify", "rename", "revoke", "schema", "select",
            "update",
        ],
        7 => &["entries", "execute", "primary"],
        8 => &["describe", "infinity", "keyspace", "truncate", "unlogged"],
        9 => &["authorize"],
        11 => &["norecursive"],
        12 => &["columnfamily", "materialized"],
        _ => return false,
    };
    // Asked of every name there is: the first letter settles nearly all.
    let first = word.as_bytes().first().map(u8::to_ascii_lowercase);
    candidates.iter().any(|candidate| {
        candidate.as_bytes().first().copied() == first && word.eq_ignore_ascii_case(candidate)
    })
}

/// Words that were reserved before 5.0 or may become so: accepted bare, printed in quotes.
const QUOTED_FOR_SAFETY: &[&str] = &["between", "default", "mbean", "mbeans", "replace", "unset"];

/// `name` as it must be written in CQL: bare if it can be, otherwise in quotes.
///
/// ```
/// use helenus_cql::lexer::quote;
/// assert_eq!(quote("features_v7"), "features_v7");
/// assert_eq!(quote("Features"), "\"Features\"");
/// assert_eq!(quote("table"), "\"table\"");
/// assert_eq!(quote("a\"b"), "\"a\"\"b\"");
/// ```
pub fn quote(name: &str) -> Cow<'_, str> {
    let mut bytes = name.bytes();
    let bare = bytes.next().is_some_and(|byte| byte.is_ascii_lowercase())
        && bytes.all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
        && !is_reserved(name)
        && !QUOTED_FOR_SAFETY.contains(&name);
    if bare { Cow::Borrowed(name) } else { Cow::Owned(quoted(name)) }
}

/// `name` in quotes, whether it needs them or not.
pub fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}
