//! Change events to a target that equals Cassandra cell for cell.
