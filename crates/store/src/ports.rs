//! What a store needs from outside besides its backend.

use std::sync::Arc;

use helenus_model::{Clock, Random, SystemClock, SystemRandom};

/// Clock and chance, passed in so that tests own both.
#[derive(Clone, Debug)]
pub struct Ports {
    /// Where time comes from.
    pub clock: Arc<dyn Clock>,
    /// Where ids and jitter come from.
    pub random: Arc<dyn Random>,
}

impl Ports {
    /// The system's clock and random source.
    pub fn system() -> Self {
        Ports { clock: Arc::new(SystemClock::new()), random: Arc::new(SystemRandom) }
    }
}
