//! Versioned tables: publish whole data sets, switch atomically, roll back, recycle.
