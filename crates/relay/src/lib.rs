//! Outbox to broker: claim, publish, settle.
