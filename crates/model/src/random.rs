//! Where chance comes from. Ids and jitter are drawn from a [`Random`], so a test can replay them.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use uuid::Uuid;

/// A source of random bits.
pub trait Random: Send + Sync + fmt::Debug {
    /// Sixty-four random bits.
    fn next_u64(&self) -> u64;

    /// A number below `bound`; zero for a bound of zero.
    fn below(&self, bound: u64) -> u64 {
        // The multiply-shift map is biased by less than bound / 2^64: of no matter to jitter.
        let scaled = u128::from(self.next_u64()) * u128::from(bound);
        u64::try_from(scaled >> 64).unwrap_or(0)
    }

    /// A random (version 4) UUID.
    fn uuid(&self) -> Uuid {
        let bits = (u128::from(self.next_u64()) << 64) | u128::from(self.next_u64());
        uuid::Builder::from_random_bytes(bits.to_be_bytes()).into_uuid()
    }
}

/// The system's random source.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemRandom;

impl Random for SystemRandom {
    fn next_u64(&self) -> u64 {
        let (high, low) = Uuid::new_v4().as_u64_pair();
        // Six of the 128 bits are fixed: bits 12 to 15 of `high` and the top two of `low`. Turned
        // by half a word, neither meets the other, so each is covered by a random bit.
        high ^ low.rotate_left(32)
    }

    // One question to the system instead of two.
    fn uuid(&self) -> Uuid {
        Uuid::new_v4()
    }
}

/// A repeatable source: the same seed gives the same run.
///
/// ```
/// use helenus_model::{Random, SeededRandom};
///
/// let (a, b) = (SeededRandom::new(7), SeededRandom::new(7));
/// assert_eq!(a.uuid(), b.uuid());
/// assert_ne!(a.uuid(), a.uuid());
/// ```
#[derive(Debug)]
pub struct SeededRandom {
    state: AtomicU64,
}

impl SeededRandom {
    /// A source that starts at `seed`.
    pub fn new(seed: u64) -> Self {
        SeededRandom { state: AtomicU64::new(seed) }
    }
}

impl Random for SeededRandom {
    fn next_u64(&self) -> u64 {
        // SplitMix64 (Steele, Lea, Flood 2014): one addition of state, so threads may share it.
        let step = 0x9E37_79B9_7F4A_7C15_u64;
        let mut z = self.state.fetch_add(step, Ordering::Relaxed).wrapping_add(step);
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn below_stays_below_and_reaches_everything() {
        let random = SeededRandom::new(1);
        let mut seen = [false; 5];
        for _ in 0..200 {
            seen[usize::try_from(random.below(5)).unwrap()] = true;
        }
        assert_eq!(seen, [true; 5]);
        assert_eq!(random.below(0), 0);
    }

    #[test]
    fn every_bit_of_the_system_source_varies() {
        let (mut ones, mut zeros) = (0_u64, 0_u64);
        for _ in 0..200 {
            let drawn = SystemRandom.next_u64();
            ones |= drawn;
            zeros |= !drawn;
        }
        assert_eq!((ones, zeros), (u64::MAX, u64::MAX));
    }
}
