//! What must hold before readers get a version. Pure: figures in, verdicts out.

use std::collections::BTreeMap;

use crate::catalog::CheckResult;
use crate::tables::Mark;

/// What is checked.
#[derive(Clone, Debug)]
pub struct CheckOptions {
    /// Rows there must be at least; an empty version is never right.
    pub min_rows: u64,
    /// The share of the previous version's rows that may be missing.
    pub max_drop: Option<f64>,
    /// The share of nulls a column may have.
    pub max_nulls: BTreeMap<String, f64>,
    /// Records that may be bad.
    pub max_bad_rows: u64,
    /// Whether one key may come twice; the last one stands.
    pub allow_duplicates: bool,
    /// Keys that are read back and compared.
    pub sample: usize,
}

impl Default for CheckOptions {
    fn default() -> Self {
        CheckOptions {
            min_rows: 1,
            max_drop: None,
            max_nulls: BTreeMap::new(),
            max_bad_rows: 0,
            allow_duplicates: false,
            sample: 100,
        }
    }
}

/// What is known once everything is loaded.
#[derive(Clone, Debug, Default)]
pub(super) struct Facts {
    pub(super) read: Mark,
    /// Whether the rest was not even read, because more was bad than may be.
    pub(super) stopped_early: bool,
    /// Shares of nulls of the columns that have any.
    pub(super) null_rates: BTreeMap<String, f64>,
    /// Rows of the version readers have now.
    pub(super) previous_rows: Option<u64>,
    /// Rows of the table; `None` where nothing was written.
    pub(super) counted: Option<u64>,
    /// Keys read back, and those that were not as they were written.
    pub(super) read_back: Option<(usize, usize)>,
}

pub(super) fn evaluate(facts: &Facts, options: &CheckOptions) -> Vec<CheckResult> {
    let Mark { rows, bad, .. } = facts.read;
    let mut checks = Vec::new();
    let mut check = |name: &str, ok: bool, detail: String| {
        checks.push(CheckResult { name: name.to_owned(), ok, detail });
    };
    let allowed = options.max_bad_rows;
    if facts.stopped_early {
        // Of the rest nothing is known, so nothing is said.
        check(
            "bad_rows",
            false,
            format!("{bad} bad rows, {allowed} allowed: the rest was not read"),
        );
        return checks;
    }
    check("bad_rows", bad <= allowed, format!("{bad} bad rows, {allowed} allowed"));
    let min = options.min_rows.max(1);
    check("min_rows", rows >= min, format!("{rows} rows, at least {min} wanted"));
    if let (Some(share), Some(previous)) = (options.max_drop, facts.previous_rows) {
        let lost = if previous == 0 { 0.0 } else { 1.0 - ratio(rows, previous) };
        let detail = format!(
            "{rows} rows, {previous} in the previous version: {:.1} % fewer, {:.1} % allowed",
            lost.max(0.0) * 100.0,
            share * 100.0
        );
        check("max_drop", lost <= share, detail);
    }
    for (column, share) in &options.max_nulls {
        let found = facts.null_rates.get(column).copied().unwrap_or(0.0);
        let detail =
            format!("{:.1} % of {column} is null, {:.1} % allowed", found * 100.0, share * 100.0);
        check("null_rate", found <= *share, detail);
    }
    if let Some(counted) = facts.counted {
        let twice = rows.saturating_sub(counted);
        let detail = format!("{twice} of {rows} rows have the key of another");
        check("unique_keys", twice == 0 || options.allow_duplicates, detail);
        let ok = counted == rows || (options.allow_duplicates && counted < rows);
        check("row_count", ok, format!("{counted} rows in the table, {rows} from the source"));
    }
    if let Some((keys, wrong)) = facts.read_back {
        let detail = format!("{wrong} of {keys} keys did not read back as they were written");
        check("read_back", wrong == 0, detail);
    }
    checks
}

pub(super) fn ratio(part: u64, whole: u64) -> f64 {
    part as f64 / whole as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failing(facts: &Facts, options: &CheckOptions) -> Vec<String> {
        let checks = evaluate(facts, options).into_iter();
        checks.filter(|check| !check.ok).map(|check| check.name).collect()
    }

    #[test]
    fn each_check_vetoes_what_it_is_for() {
        let read = Mark { records: 100, rows: 100, ..Mark::default() };
        let good = Facts { read, counted: Some(100), read_back: Some((10, 0)), ..Facts::default() };
        let options = CheckOptions {
            max_drop: Some(0.2),
            max_nulls: BTreeMap::from([("score".to_owned(), 0.1)]),
            ..CheckOptions::default()
        };
        assert_eq!(failing(&good, &options), [""; 0]);
        assert_eq!(failing(&Facts::default(), &options), ["min_rows"]);
        let bad = Facts { read: Mark { bad: 1, ..read }, ..good.clone() };
        assert_eq!(failing(&bad, &options), ["bad_rows"]);
        let stopped =
            Facts { stopped_early: true, read: Mark { bad: 1, ..Mark::default() }, ..bad };
        assert_eq!(failing(&stopped, &options), ["bad_rows"]);
        let dropped = |previous| Facts { previous_rows: Some(previous), ..good.clone() };
        assert_eq!(failing(&dropped(125), &options), [""; 0]);
        assert_eq!(failing(&dropped(126), &options), ["max_drop"]);
        assert_eq!(failing(&dropped(0), &options), [""; 0]);
        let null_rates = BTreeMap::from([("score".to_owned(), 0.11)]);
        assert_eq!(failing(&Facts { null_rates, ..good.clone() }, &options), ["null_rate"]);
        let twice = Facts { counted: Some(99), ..good.clone() };
        assert_eq!(failing(&twice, &options), ["unique_keys", "row_count"]);
        let allowed = CheckOptions { allow_duplicates: true, ..options.clone() };
        assert_eq!(failing(&twice, &allowed), [""; 0]);
        let more = Facts { counted: Some(101), ..good.clone() };
        assert_eq!(failing(&more, &allowed), ["row_count"]);
        let wrong = Facts { read_back: Some((10, 1)), ..good };
        assert_eq!(failing(&wrong, &options), ["read_back"]);
    }
}
