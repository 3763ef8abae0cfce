//! cdc_raw to change events to topics.
