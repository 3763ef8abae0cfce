//! Shows a position in a statement to a human.
//!
//! It cuts long lines around the position; it knows nothing of colours or of the width of glyphs.

/// How many characters of the line are shown before and after the position.
const CONTEXT_CHARS: usize = 60;

/// The line of `statement` that `position` (in bytes) is in, with a caret below it.
///
/// Tabs become spaces, so that the caret stands right; a position past the end, or inside a
/// character, is moved to the nearest one before.
///
/// ```
/// use helenus_cql::rewrite::caret;
/// assert_eq!(caret("SELECT a\nFORM t", 9), "FORM t\n^");
/// ```
pub fn caret(statement: &str, position: usize) -> String {
    let position = statement.floor_char_boundary(position);
    let (before, after) = statement.split_at_checked(position).unwrap_or((statement, ""));
    let before = before.rsplit(['\n', '\r']).next().unwrap_or_default();
    let after = after.split(['\n', '\r']).next().unwrap_or_default();

    let before_chars = before.chars().count();
    let (mark, skipped) = match before_chars.checked_sub(CONTEXT_CHARS) {
        None | Some(0) => ("", 0),
        Some(skipped) => ("…", skipped),
    };
    let mut line = String::from(mark);
    line.extend(
        before.chars().skip(skipped).chain(after.chars().take(CONTEXT_CHARS)).map(printable),
    );
    if after.chars().nth(CONTEXT_CHARS).is_some() {
        line.push('…');
    }
    let column = before_chars - skipped + mark.chars().count();
    format!("{line}\n{:column$}^", "")
}

fn printable(character: char) -> char {
    if character.is_control() { ' ' } else { character }
}
