//! Where checkpoints, heartbeats and locks are shown; a folder per backend.

#[cfg(feature = "redis")]
pub mod redis;
