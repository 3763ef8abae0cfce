//! Outbox, inbox, dispatch and event store: one contract, SQLite and Cassandra behind it.
