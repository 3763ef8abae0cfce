//! Move data into and out of Apache Cassandra without losing, doubling or inventing a change.
