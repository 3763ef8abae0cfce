//! What a page shows, and how it is drawn.

use maud::{DOCTYPE, Markup, html};
use serde::Serialize;

/// The state of a run, as far as it has come.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Board {
    /// What is running.
    pub title: String,
    /// Where it runs.
    pub subtitle: String,
    /// Whether it has ended.
    pub ended: bool,
    /// Counters, in the order they are shown.
    pub figures: Vec<Figure>,
    /// Messages a second, oldest first.
    pub rates: Vec<f64>,
    /// What was proven, once it has been.
    pub checks: Vec<Check>,
}

/// A counter.
#[derive(Clone, Debug, Serialize)]
pub struct Figure {
    /// What is counted.
    pub name: &'static str,
    /// How many.
    pub value: u64,
}

/// Something that must hold.
#[derive(Clone, Debug, Serialize)]
pub struct Check {
    /// What must hold.
    pub name: &'static str,
    /// Whether it does.
    pub ok: bool,
    /// What was seen.
    pub detail: String,
}

impl Board {
    /// Whether it has ended and every check holds.
    pub fn passed(&self) -> bool {
        self.ended && self.checks.iter().all(|check| check.ok)
    }

    pub(crate) fn page(&self) -> Markup {
        html! {
            (DOCTYPE)
            html lang="en" {
                head {
                    meta charset="utf-8";
                    meta name="viewport" content="width=device-width, initial-scale=1";
                    title { "Helenus: " (self.title) }
                    link rel="stylesheet" href="/page.css";
                    script src="/page.js" defer {}
                }
                body {
                    main id="board" { (self.draw()) }
                }
            }
        }
    }

    /// The part of the page that changes.
    pub(crate) fn draw(&self) -> Markup {
        html! {
            header {
                h1 { "Helenus" span.title { " " (self.title) } }
                p { (self.subtitle) }
                p.state data-ended=(self.ended) {
                    @if !self.ended { "running" } @else if self.passed() { "all checks hold" }
                    @else { "a check failed" }
                }
            }
            section.figures {
                @for figure in &self.figures {
                    div { strong { (figure.value) } span { (figure.name) } }
                }
            }
            @if self.rates.len() > 1 { figure { (self.chart()) figcaption { "messages a second" } } }
            @if !self.checks.is_empty() {
                table {
                    caption { "Checks" }
                    @for check in &self.checks {
                        tr class=(if check.ok { "holds" } else { "fails" }) {
                            td { (if check.ok { "holds" } else { "FAILS" }) }
                            th scope="row" { (check.name) }
                            td { (check.detail) }
                        }
                    }
                }
            }
        }
    }

    fn chart(&self) -> Markup {
        let (width, height) = (600.0, 120.0);
        let highest = self.rates.iter().copied().fold(1.0, f64::max);
        let step = width / (self.rates.len() - 1) as f64;
        let points: Vec<String> = self
            .rates
            .iter()
            .enumerate()
            .map(|(n, rate)| {
                format!("{:.1},{:.1}", n as f64 * step, height * (1.0 - rate / highest))
            })
            .collect();
        html! {
            svg viewBox={ "0 0 " (width) " " (height) } role="img"
                aria-label={ "messages a second, at most " (highest.round()) } {
                polyline points=(points.join(" ")) fill="none" stroke="currentColor" stroke-width="2" {}
                text x="4" y="14" { (highest.round()) }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_board_passes_when_it_has_ended_and_everything_holds() {
        let check = |ok| Check { name: "a check", ok, detail: "<seen>".to_owned() };
        let board = |ended, checks| Board { ended, checks, ..Board::default() };
        assert!(board(true, vec![check(true)]).passed());
        assert!(!board(false, vec![check(true)]).passed());
        let failed = board(true, vec![check(true), check(false)]);
        assert!(!failed.passed());
        let page = failed.page().into_string();
        assert!(page.contains("a check failed") && page.contains("FAILS"), "{page}");
        assert!(page.contains("&lt;seen&gt;"), "text is escaped: {page}");
    }
}
