//! Topics: one contract, embedded topics in the SQLite file and Kafka behind it.
