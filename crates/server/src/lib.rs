//! What an operator sees: the live page, health and metrics over HTTP.
