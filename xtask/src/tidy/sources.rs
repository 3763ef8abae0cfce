//! What source files must and must not contain.

use std::path::{Path, PathBuf};

use anyhow::Context;

use super::layers;

/// Lines of a file that are not tests.
const LINES_MAX: usize = 800;
/// In the first lines of a file, exempts a table of data from the limit.
const TABLE_MARK: &str = "// tidy: table";
const TABLE_MARK_WITHIN: usize = 10;

/// Where sources are.
const ROOTS: [&str; 3] = ["crates", "testkit", "xtask"];

/// Text that nothing may contain. Spelled in two parts, or this file would be found.
const FORBIDDEN: [(&str, &str); 6] = [
    (concat!("todo", "!("), "unfinished code"),
    (concat!("unimplemented", "!("), "unfinished code"),
    (concat!("#[", "ignore"), "an ignored test"),
    (concat!("/ho", "me/"), "a path of somebody's machine"),
    (concat!("/ro", "ot/"), "a path of somebody's machine"),
    (concat!("/Us", "ers/"), "a path of somebody's machine"),
];

/// What pure crates must not mention.
const IMPURE: [&str; 2] = ["std::fs", "std::net"];

/// Each driver, and where it may be mentioned: a crate, and the start of a file's or folder's
/// name in its `src` (empty: anywhere in it). Tests and test support may use any.
const DRIVERS: [(&str, &[(&str, &str)]); 5] = [
    (
        "scylla",
        &[
            ("store", "cassandra"),
            ("versions", "cassandra"),
            ("capture", "node"),
            ("helenus", "interop"),
        ],
    ),
    ("rdkafka", &[("broker", "kafka")]),
    ("tokio_postgres", &[("replicate", "postgres")]),
    ("redis", &[("replicate", "redis")]),
    (
        "rusqlite",
        &[
            ("sqlite", ""),
            ("store", "sqlite"),
            ("broker", "embedded"),
            ("replicate", "sqlite"),
            ("replicate", "embedded"),
            ("versions", "sqlite"),
            ("helenus", "interop"),
        ],
    ),
];

/// A Rust file.
#[derive(Debug)]
pub(super) struct Source {
    /// Relative to the workspace, with forward slashes.
    path: String,
    text: String,
}

/// Reads every Rust file below the source directories, but for fixtures.
pub(super) fn read(workspace: &Path) -> anyhow::Result<Vec<Source>> {
    let mut sources = Vec::new();
    let mut directories: Vec<PathBuf> = ROOTS.iter().map(|root| workspace.join(root)).collect();
    while let Some(directory) = directories.pop() {
        let entries = std::fs::read_dir(&directory)
            .with_context(|| format!("cannot read {}", directory.display()))?;
        for entry in entries {
            let path = entry?.path();
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            if path.is_dir() && !matches!(name, "target" | "fixtures") {
                directories.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = std::fs::read_to_string(&path)
                    .with_context(|| format!("cannot read {}", path.display()))?;
                let relative = path.strip_prefix(workspace).unwrap_or(&path);
                sources.push(Source { path: relative.display().to_string(), text });
            }
        }
    }
    sources.sort_unstable_by(|one, two| one.path.cmp(&two.path));
    Ok(sources)
}

/// Every finding, in the order of the files.
pub(super) fn check(sources: &[Source]) -> Vec<String> {
    let local_paths = local_paths();
    sources.iter().flat_map(|source| check_one(source, &local_paths)).collect()
}

/// The places of this machine that must not get into sources.
fn local_paths() -> Vec<String> {
    let home = std::env::var("HOME").ok();
    let workspace = helenus_testkit::services::workspace().display().to_string();
    home.into_iter().chain([workspace]).filter(|path| path.matches('/').count() > 1).collect()
}

fn check_one(source: &Source, local_paths: &[String]) -> Vec<String> {
    let mut findings = Vec::new();
    let path = &source.path;
    if !source.text.starts_with("//!") {
        findings.push(format!("{path}: does not open with `//!` and its purpose"));
    }
    for (number, line) in source.text.lines().enumerate() {
        let place = format!("{path}:{}", number + 1);
        for (text, what) in FORBIDDEN.iter().filter(|(text, _)| line.contains(text)) {
            findings.push(format!("{place}: `{text}`: {what}"));
        }
        if local_paths.iter().any(|local| line.contains(local.as_str())) {
            findings.push(format!("{place}: a path of this machine"));
        }
    }
    if !source.is_test() {
        findings.extend(check_size(source));
        findings.extend(check_purity(source));
        findings.extend(check_drivers(source));
    }
    findings
}

impl Source {
    /// Tests, benches and examples stand outside of what they use.
    fn is_test(&self) -> bool {
        let mut parts = self.path.split('/');
        parts.any(|part| matches!(part, "tests" | "benches" | "examples" | "tests.rs"))
    }

    /// The lines before the inline tests, numbered.
    fn code(&self) -> impl Iterator<Item = (usize, &str)> {
        let lines = self.text.lines().enumerate().map(|(index, line)| (index + 1, line));
        lines.take_while(|(_, line)| *line != "#[cfg(test)]")
    }

    /// The crate's directory under `crates/`.
    fn crate_directory(&self) -> Option<&str> {
        self.path.strip_prefix("crates/")?.split('/').next()
    }
}

fn check_size(source: &Source) -> Option<String> {
    let lines = source.code().count();
    let is_table = source.text.lines().take(TABLE_MARK_WITHIN).any(|line| line == TABLE_MARK);
    (lines > LINES_MAX && !is_table)
        .then(|| format!("{}: {lines} lines, more than {LINES_MAX}", source.path))
}

fn check_purity(source: &Source) -> Vec<String> {
    let directory = source.crate_directory();
    if !layers::pure_directories().any(|pure| directory == Some(pure)) {
        return Vec::new();
    }
    let found = source.code().flat_map(|(number, line)| {
        IMPURE.iter().filter(|text| line.contains(**text)).map(move |text| (number, *text))
    });
    found
        .map(|(number, text)| format!("{}:{number}: `{text}` in a pure crate", source.path))
        .collect()
}

fn check_drivers(source: &Source) -> Vec<String> {
    let Some(directory) = source.crate_directory() else { return Vec::new() };
    let mut findings = Vec::new();
    for (driver, places) in DRIVERS {
        let belongs = places.iter().any(|(crate_directory, prefix)| {
            directory == *crate_directory
                && source.path.split('/').skip(3).any(|part| part.starts_with(prefix))
        });
        // A module of the driver's name hides the driver.
        let module = format!("mod {driver};");
        if belongs || source.text.lines().any(|line| line.ends_with(&module)) {
            continue;
        }
        for (number, line) in source.code().filter(|(_, line)| mentions(line, driver)) {
            let line = line.trim();
            findings.push(format!("{}:{number}: {driver} outside its folder: {line}", source.path));
        }
    }
    findings
}

/// Whether a line of code names the crate: `driver::` that is no part of a longer path or name.
fn mentions(line: &str, driver: &str) -> bool {
    let path = format!("{driver}::");
    !line.trim_start().starts_with("//")
        && line.match_indices(&path).any(|(at, _)| {
            let before = line.get(..at).and_then(|before| before.chars().next_back());
            before.is_none_or(|c| !c.is_alphanumeric() && c != '_' && c != ':')
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(path: &str, text: &str) -> Vec<String> {
        let source = Source { path: path.to_owned(), text: text.to_owned() };
        check_one(&source, &["/srv/checkout".to_owned()])
    }

    #[test]
    fn a_good_file_has_no_findings() {
        let text = "//! Purpose.\n\nuse crate::metadata::redis::Lease;\n// scylla::Session is not used\n\
                    #[cfg(test)]\nmod tests { use std::fs; }\n";
        assert_eq!(findings("crates/model/src/lib.rs", text), Vec::<String>::new());
    }

    #[test]
    fn each_rule_finds_its_offence() {
        let cases = [
            ("crates/model/src/a.rs", "use x;".to_owned(), "does not open with"),
            ("crates/model/src/a.rs", "//!\nuse std::fs;".to_owned(), "in a pure crate"),
            ("crates/store/src/a.rs", format!("//!\n{}", FORBIDDEN[0].0), "unfinished"),
            ("crates/store/tests/it/a.rs", format!("//!\n    {}]", FORBIDDEN[2].0), "ignored test"),
            ("crates/store/src/a.rs", "//!\n\"/srv/checkout/x\"".to_owned(), "this machine"),
            ("crates/store/src/a.rs", "//!\nuse rusqlite::Row;".to_owned(), "outside its folder"),
            ("crates/store/src/a.rs", "//!\nfn f(r: &redis::Client)".to_owned(), "outside"),
            ("crates/store/src/a.rs", "//!\n".repeat(801), "801 lines"),
        ];
        for (path, text, expected) in cases {
            let found = findings(path, &text);
            assert_eq!(found.len(), 1, "{expected}: {found:?}");
            assert!(found[0].contains(expected), "{found:?}");
        }
    }

    #[test]
    fn exemptions_hold() {
        for (path, text) in [
            ("crates/store/src/sqlite/rows.rs", "//!\nuse rusqlite::Row;".to_owned()),
            ("crates/sqlite/src/lib.rs", "//!\nuse rusqlite::Row;".to_owned()),
            (
                "crates/replicate/src/metadata/mod.rs",
                "//!\nmod redis;\nuse redis::Lease;".to_owned(),
            ),
            ("crates/store/tests/it/a.rs", "//!\nuse scylla::Session;\n".repeat(500)),
            ("crates/cql/src/words.rs", format!("//!\n{TABLE_MARK}\n{}", "x\n".repeat(900))),
        ] {
            assert_eq!(findings(path, &text), Vec::<String>::new(), "{path}");
        }
    }
}
