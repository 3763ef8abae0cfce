-- Snapshots of streams, and where events go that are retired. Times are milliseconds since 1970.
CREATE TABLE helenus_event_snapshots (
    stream_id      TEXT    NOT NULL,
    stream_version INTEGER NOT NULL CHECK (stream_version >= 1),
    snapshot_type  TEXT    NOT NULL,
    schema_version INTEGER NOT NULL,
    payload        BLOB    NOT NULL,
    content_type   TEXT    NOT NULL,
    metadata_json  TEXT,
    saved_at_utc   INTEGER NOT NULL,
    content_hash   BLOB    NOT NULL,
    UNIQUE (stream_id, stream_version)
) STRICT;

-- Versions from archived_from up to truncated_before are in the archive; those before were dropped.
ALTER TABLE helenus_event_heads ADD COLUMN archived_from INTEGER NOT NULL DEFAULT 1;

-- Events that were archived, with the numbers they had.
CREATE TABLE helenus_event_archive (
    global_sequence INTEGER PRIMARY KEY,
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
    operation_count INTEGER,
    content_hash    BLOB,
    UNIQUE (stream_id, stream_version)
) STRICT;

CREATE UNIQUE INDEX helenus_event_archived_operation
    ON helenus_event_archive (operation_id, stream_id) WHERE operation_count IS NOT NULL;

-- Numbers of the global sequence whose events were dropped, as ranges that do not touch: a reader
-- of the feed is told of them.
CREATE TABLE helenus_event_dropped (
    first_sequence INTEGER PRIMARY KEY,
    last_sequence  INTEGER NOT NULL UNIQUE CHECK (last_sequence >= first_sequence)
) STRICT;

-- What dropped events remembered of their operations, for as long as such ids are taken.
CREATE TABLE helenus_event_dropped_operations (
    stream_id       TEXT    NOT NULL,
    operation_id    BLOB    NOT NULL CHECK (length(operation_id) = 16),
    stream_version  INTEGER NOT NULL,
    operation_count INTEGER NOT NULL,
    content_hash    BLOB,
    expires_at_utc  INTEGER NOT NULL,
    PRIMARY KEY (stream_id, operation_id)
) STRICT, WITHOUT ROWID;
