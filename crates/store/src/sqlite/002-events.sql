-- Streams of events. Names are the seeds'; times are milliseconds since 1970.
--
-- A row lives where the feed reads it: global_sequence counts every event of the file without a
-- gap (a commit that is undone takes its numbers back), so an append writes at the end of the
-- table whatever its stream, and large payloads never move.
CREATE TABLE helenus_event_streams (
    global_sequence INTEGER PRIMARY KEY AUTOINCREMENT,
    stream_id       TEXT    NOT NULL,
    stream_version  INTEGER NOT NULL CHECK (stream_version >= 1),
    event_type      TEXT    NOT NULL,
    payload         BLOB    NOT NULL,
    occurred_at_utc INTEGER NOT NULL,
    appended_at_utc INTEGER NOT NULL,
    event_id        BLOB    NOT NULL CHECK (length(event_id) = 16),
    schema_version  INTEGER NOT NULL,
    content_type    TEXT    NOT NULL,
    correlation_id  TEXT,
    causation_id    TEXT,
    tenant_id       TEXT,
    metadata_json   TEXT,
    operation_id    BLOB    NOT NULL CHECK (length(operation_id) = 16),
    -- On the first event of an append alone: how many events it has, and the hash of its content.
    operation_count INTEGER,
    content_hash    BLOB,
    UNIQUE (stream_id, stream_version)
) STRICT;

-- An operation is remembered by its own events for as long as they are there.
CREATE UNIQUE INDEX helenus_event_operation
    ON helenus_event_streams (operation_id, stream_id) WHERE operation_count IS NOT NULL;

CREATE TABLE helenus_event_heads (
    stream_id        TEXT    PRIMARY KEY NOT NULL,
    head_version     INTEGER NOT NULL CHECK (head_version >= 1),
    truncated_before INTEGER NOT NULL DEFAULT 1
) STRICT, WITHOUT ROWID;

-- Operations that have no events to be remembered by: those that were cancelled.
CREATE TABLE helenus_event_operations (
    stream_id       TEXT    NOT NULL,
    operation_id    BLOB    NOT NULL CHECK (length(operation_id) = 16),
    operation_state TEXT    NOT NULL CHECK (operation_state IN ('cancelled')),
    expires_at_utc  INTEGER NOT NULL,
    PRIMARY KEY (stream_id, operation_id)
) STRICT, WITHOUT ROWID;
