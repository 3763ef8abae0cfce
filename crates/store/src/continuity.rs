//! Checks after a read what an append promised: a stream has every version once, in order.

use helenus_model::Version;

use crate::contract::{Direction, ReadError};

/// Follows the versions a reader is given.
#[derive(Debug)]
pub(crate) struct Continuity {
    direction: Direction,
    next: Option<Version>,
}

impl Continuity {
    /// `from` is where the read starts; backward it may be past the stream's end.
    pub(crate) fn new(direction: Direction, from: Option<Version>) -> Self {
        let next = match direction {
            Direction::Forward => Some(from.unwrap_or(Version::FIRST)),
            Direction::Backward => None,
        };
        Continuity { direction, next }
    }

    /// Takes the next version found. A gap means that events were truncated under the reader.
    pub(crate) fn step(&mut self, found: Version) -> Result<(), ReadError> {
        let previous = self.next.filter(|next| *next != found);
        if let Some(next) = previous {
            let first = match self.direction {
                Direction::Forward => found,
                Direction::Backward => next.next(),
            };
            return Err(ReadError::Truncated { first });
        }
        self.next = match self.direction {
            Direction::Forward => Some(found.next()),
            Direction::Backward => Version::new(found.as_i64() - 1),
        };
        Ok(())
    }

    /// The stored stream has no further events in this direction.
    pub(crate) fn end(&self) -> Result<(), ReadError> {
        match (self.direction, self.next) {
            // Backward, the first event has nothing before it.
            (Direction::Backward, Some(next)) => Err(ReadError::Truncated { first: next.next() }),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn walk(direction: Direction, from: Option<i64>, found: &[i64]) -> Result<(), ReadError> {
        let mut continuity = Continuity::new(direction, from.and_then(Version::new));
        for version in found {
            continuity.step(Version::new(*version).unwrap())?;
        }
        continuity.end()
    }

    #[test]
    fn a_gap_is_never_passed_over() {
        use Direction::{Backward, Forward};
        for (direction, from, found, first) in [
            (Forward, None, [].as_slice(), None),
            (Forward, None, &[1, 2, 3], None),
            (Forward, Some(2), &[2, 3], None),
            (Forward, None, &[2, 3], Some(2)),
            (Forward, None, &[1, 2, 5], Some(5)),
            (Backward, None, &[3, 2, 1], None),
            (Backward, Some(9), &[3, 2, 1], None),
            (Backward, None, &[5, 4], Some(4)),
            (Backward, None, &[5, 4, 1], Some(4)),
        ] {
            let truncated = match walk(direction, from, found) {
                Ok(()) => None,
                Err(ReadError::Truncated { first }) => Some(first.as_i64()),
                Err(other) => panic!("{other}"),
            };
            assert_eq!(truncated, first, "{direction:?} {found:?}");
        }
    }
}
