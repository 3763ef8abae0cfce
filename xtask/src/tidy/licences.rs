//! Licences of dependencies: each must leave one way of use that is on the list.
//!
//! `cargo deny` checks the same and more where it is installed; this needs nothing.

use std::iter::Peekable;
use std::path::Path;

use crate::metadata::Package;

/// Licences that ask for no more than attribution. `deny.toml` has the same list.
const ALLOWED: [&str; 14] = [
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "CDLA-Permissive-2.0",
    "ISC",
    "MIT",
    "MIT-0",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
];

/// Packages under other terms, looked at one by one. `deny.toml` has the same exceptions.
const EXCEPTIONS: [(&str, &str); 0] = [];

/// Every package whose licence is not on the list.
pub(super) fn check(packages: &[Package]) -> Vec<String> {
    let foreign = packages.iter().filter(|package| !package.in_workspace);
    foreign
        .filter_map(|package| {
            let (name, version) = (&package.name, &package.version);
            let Some(licence) = &package.licence else {
                return Some(format!("{name} {version} names no licence"));
            };
            let granted =
                |id: &str| ALLOWED.contains(&id) || EXCEPTIONS.contains(&(name.as_str(), id));
            match evaluate(licence, &granted) {
                Some(true) => None,
                Some(false) => {
                    Some(format!("{name} {version}: licence {licence} is not on the list"))
                }
                None => Some(format!("{name} {version}: cannot read the licence {licence}")),
            }
        })
        .collect()
}

/// Whether `deny.toml` lists exactly the same licences.
pub(super) fn check_deny_toml(path: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let list = text.split_once("\nallow = [").and_then(|(_, rest)| rest.split_once(']'));
    let listed: Vec<&str> =
        list.map(|(list, _)| list.split('"').skip(1).step_by(2).collect()).unwrap_or_default();
    if listed == ALLOWED {
        return Vec::new();
    }
    vec!["deny.toml and xtask/src/tidy/licences.rs allow different licences".to_owned()]
}

/// Evaluates an SPDX expression; also the old `MIT/Apache-2.0`. None: not an expression.
fn evaluate(expression: &str, granted: &dyn Fn(&str) -> bool) -> Option<bool> {
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    let mut words = spaced.split_whitespace().peekable();
    let value = either(&mut words, granted)?;
    words.next().is_none().then_some(value)
}

fn either<'a>(
    words: &mut Peekable<impl Iterator<Item = &'a str>>,
    granted: &dyn Fn(&str) -> bool,
) -> Option<bool> {
    let mut value = all(words, granted)?;
    while words.next_if_eq(&"OR").is_some() {
        value |= all(words, granted)?;
    }
    Some(value)
}

fn all<'a>(
    words: &mut Peekable<impl Iterator<Item = &'a str>>,
    granted: &dyn Fn(&str) -> bool,
) -> Option<bool> {
    let mut value = one(words, granted)?;
    while words.next_if_eq(&"AND").is_some() {
        value &= one(words, granted)?;
    }
    Some(value)
}

fn one<'a>(
    words: &mut Peekable<impl Iterator<Item = &'a str>>,
    granted: &dyn Fn(&str) -> bool,
) -> Option<bool> {
    match words.next()? {
        "(" => {
            let value = either(words, granted)?;
            words.next_if_eq(&")").map(|_| value)
        }
        ")" | "OR" | "AND" | "WITH" => None,
        id => match words.next_if_eq(&"WITH") {
            Some(_) => {
                let exception = words.next()?;
                Some(granted(&format!("{id} WITH {exception}")) || granted(id))
            }
            None => Some(granted(id)),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_are_evaluated() {
        let cases = [
            ("MIT", Some(true)),
            ("MIT OR Apache-2.0", Some(true)),
            ("MIT/Apache-2.0", Some(true)),
            ("GPL-3.0-only", Some(false)),
            ("GPL-3.0-only OR MIT", Some(true)),
            ("GPL-3.0-only AND MIT", Some(false)),
            ("(MIT OR Apache-2.0) AND Unicode-3.0", Some(true)),
            ("MIT AND (GPL-2.0-only OR LGPL-2.1-only)", Some(false)),
            ("Apache-2.0 WITH LLVM-exception OR Apache-2.0 OR MIT", Some(true)),
            ("GPL-2.0-only WITH Classpath-exception-2.0", Some(false)),
            ("MIT OR GPL-3.0-only AND LGPL-3.0-only", Some(true)),
            ("MPL-2.0", Some(false)),
            ("(MIT", None),
            ("MIT OR", None),
            ("MIT Apache-2.0", None),
            ("", None),
        ];
        for (expression, expected) in cases {
            let granted = |id: &str| ALLOWED.contains(&id);
            assert_eq!(evaluate(expression, &granted), expected, "{expression}");
        }
    }
}
