//! Real services for tests.
