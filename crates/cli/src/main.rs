//! The `helenus` command.

fn main() {}
