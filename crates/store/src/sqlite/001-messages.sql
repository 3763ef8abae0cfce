-- Names are the seeds'; times are milliseconds since 1970, as Cassandra's timestamp has them.
CREATE TABLE helenus_outbox_messages (
    staged_seq             INTEGER PRIMARY KEY AUTOINCREMENT,
    message_id             TEXT    NOT NULL UNIQUE,
    channel_id             TEXT    NOT NULL,
    message_type           TEXT    NOT NULL,
    payload                BLOB    NOT NULL,
    content_type           TEXT    NOT NULL,
    correlation_id         TEXT,
    tenant_id              TEXT,
    occurred_at_utc        INTEGER NOT NULL,
    created_at_utc         INTEGER NOT NULL,
    dispatched_at_utc      INTEGER,
    dispatch_attempt_count INTEGER NOT NULL DEFAULT 0,
    next_attempt_at_utc    INTEGER NOT NULL,
    headers_json           TEXT    NOT NULL,
    metadata_json          TEXT    NOT NULL,
    ordering_key           TEXT,
    deliver_at_utc         INTEGER,
    content_hash           BLOB    NOT NULL,
    state                  TEXT    NOT NULL DEFAULT 'pending'
                           CHECK (state IN ('pending', 'dispatched', 'skipped'))
) STRICT;

-- What the relay reads: settled history costs it nothing.
CREATE INDEX helenus_outbox_due
    ON helenus_outbox_messages (next_attempt_at_utc, staged_seq) WHERE state = 'pending';

CREATE TABLE helenus_inbox_receipts (
    message_id       TEXT    PRIMARY KEY NOT NULL,
    channel_id       TEXT    NOT NULL,
    message_type     TEXT    NOT NULL,
    correlation_id   TEXT,
    tenant_id        TEXT,
    received_at_utc  INTEGER NOT NULL,
    processed_at_utc INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
