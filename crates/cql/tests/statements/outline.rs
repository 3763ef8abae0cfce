//! Prints what the parser tells as nested parentheses, a line for every clause.

use helenus_cql::lexer::Token;
use helenus_cql::parser::{Node, SyntaxError, Visit, walk};

#[derive(Default)]
struct Outline {
    parts: Vec<Vec<String>>,
    hide_tables: bool,
}

impl<'a> Visit<'a> for Outline {
    fn enter(&mut self, node: Node) {
        let name = match node {
            Node::Statement(kind) => format!("{kind:?}"),
            other => format!("{other:?}"),
        };
        self.parts.push(vec![name.to_lowercase()]);
    }

    fn token(&mut self, token: Token<'a>) {
        self.add(token.text.to_owned());
    }

    fn leave(&mut self, node: Node) {
        let parts = self.parts.pop().expect("a part that was entered");
        // An expression of one part says nothing that the part does not.
        if node == Node::Expression && parts.len() == 2 {
            self.add(parts[1].clone());
        } else if node == Node::Table && self.hide_tables {
            self.add("(table …)".to_owned());
        } else if matches!(node, Node::Statement(_)) {
            self.add(format!("({})", clauses(&parts)));
        } else {
            self.add(format!("({})", parts.join(" ")));
        }
    }
}

impl Outline {
    fn add(&mut self, part: String) {
        match self.parts.last_mut() {
            Some(parts) => parts.push(part),
            None => self.parts.push(vec![part]),
        }
    }
}

/// Joins the parts of a statement: what stands before the first clause, then a line for each.
fn clauses(parts: &[String]) -> String {
    let mut text = String::new();
    for part in parts {
        let clause = part.starts_with('(')
            && !["(table", "(selection"].iter().any(|inline| part.starts_with(inline));
        if !text.is_empty() {
            text.push_str(if clause { "\n  " } else { " " });
        }
        text.push_str(part);
    }
    text
}

/// The outline of a statement.
pub(crate) fn outline(statement: &str) -> Result<String, SyntaxError> {
    print(statement, Outline::default())
}

/// The same without the names of the tables.
pub(crate) fn shape(statement: &str) -> Result<String, SyntaxError> {
    print(statement, Outline { hide_tables: true, ..Outline::default() })
}

fn print(statement: &str, mut outline: Outline) -> Result<String, SyntaxError> {
    walk(statement, &mut outline)?;
    Ok(outline.parts.concat().join(" ") + "\n")
}
