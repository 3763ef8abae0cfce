//! Standard input, which can be read once only: what was read of it to infer a schema is kept, and
//! comes first when the rows are read.

use std::io::{Cursor, Error, Read};
use std::sync::Arc;

/// Bytes that are looked at before the rows are read.
const HEAD_BYTES: u64 = 1024 * 1024;

/// What is known of standard input.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Standard {
    /// Its first bytes, where they have been read.
    head: Arc<[u8]>,
    /// Whether what follows them is left alone.
    head_only: bool,
}

impl Standard {
    /// Reads the first bytes of standard input.
    pub(crate) fn peek() -> Result<Standard, Error> {
        Self::head_of(std::io::stdin().lock())
    }

    fn head_of(input: impl Read) -> Result<Standard, Error> {
        let mut head = Vec::new();
        input.take(HEAD_BYTES).read_to_end(&mut head)?;
        Ok(Standard { head: head.into(), head_only: false })
    }

    /// The first bytes alone, without the line that may have been cut.
    pub(crate) fn sample(&self) -> Standard {
        let is_whole = (self.head.len() as u64) < HEAD_BYTES;
        let last_end = self.head.iter().rposition(|byte| *byte == b'\n');
        let head = match last_end.filter(|_| !is_whole) {
            Some(end) => self.head.get(..=end).unwrap_or_default().into(),
            None => Arc::clone(&self.head),
        };
        Standard { head, head_only: true }
    }

    /// All of it, from its start.
    pub(super) fn reader(&self) -> Box<dyn Read> {
        let head = Cursor::new(Arc::clone(&self.head));
        if self.head_only { Box::new(head) } else { Box::new(head.chain(std::io::stdin().lock())) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(standard: &Standard) -> String {
        let mut text = String::new();
        standard.reader().read_to_string(&mut text).unwrap();
        text
    }

    #[test]
    fn a_sample_ends_with_a_line() {
        let short = Standard::head_of("id\n1\n2".as_bytes()).unwrap();
        assert_eq!(text(&short.sample()), "id\n1\n2", "it is all there");
        let long = "id\n".to_owned() + &"1234567\n".repeat(200_000);
        let head = Standard::head_of(long.as_bytes()).unwrap();
        assert_eq!(head.head.len() as u64, HEAD_BYTES);
        let sample = text(&head.sample());
        assert!(sample.ends_with("1234567\n") && long.starts_with(&sample));
        let endless = Standard::head_of(std::io::repeat(b'x')).unwrap();
        assert_eq!(text(&endless.sample()).len() as u64, HEAD_BYTES, "no line to end with");
    }
}
