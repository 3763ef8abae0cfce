-- What is recorded once: the store's name among all stores, and over how many shards it spreads.
CREATE TABLE helenus_settings (
    name  TEXT PRIMARY KEY NOT NULL,
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- A version 4 UUID: 122 random bits and the six that say so.
WITH drawn(hex) AS MATERIALIZED (SELECT lower(hex(randomblob(16))))
INSERT INTO helenus_settings
SELECT 'store_id', substr(hex, 1, 8) || '-' || substr(hex, 9, 4) || '-4' || substr(hex, 14, 3)
    || '-a' || substr(hex, 18, 3) || '-' || substr(hex, 21, 12)
FROM drawn;

INSERT INTO helenus_settings VALUES ('shards', '16');

-- A table's checks cannot be changed, so it is written anew.
CREATE TABLE helenus_outbox_staged (
    staged_seq             INTEGER PRIMARY KEY AUTOINCREMENT,
    message_id             TEXT    NOT NULL UNIQUE,
    shard_id               INTEGER NOT NULL,
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
                           CHECK (state IN ('pending', 'parked', 'dispatched', 'skipped')),
    last_error             TEXT
) STRICT;

-- Messages staged before there were shards stay together in one.
INSERT INTO helenus_outbox_staged
SELECT staged_seq, message_id, 0, channel_id, message_type, payload, content_type, correlation_id,
       tenant_id, occurred_at_utc, created_at_utc, dispatched_at_utc, dispatch_attempt_count,
       next_attempt_at_utc, headers_json, metadata_json, ordering_key, deliver_at_utc, content_hash,
       state, NULL
FROM helenus_outbox_messages;

DROP TABLE helenus_outbox_messages;
ALTER TABLE helenus_outbox_staged RENAME TO helenus_outbox_messages;

-- What the relay reads: settled history costs it nothing.
CREATE INDEX helenus_outbox_due
    ON helenus_outbox_messages (shard_id, next_attempt_at_utc, staged_seq) WHERE state = 'pending';

-- Messages that failed, were put off or were parked, and whose key waits for them.
CREATE TABLE helenus_outbox_held (
    shard_id     INTEGER NOT NULL,
    ordering_key TEXT    NOT NULL,
    staged_seq   INTEGER NOT NULL,
    message_id   TEXT    NOT NULL,
    PRIMARY KEY (shard_id, ordering_key, staged_seq)
) STRICT, WITHOUT ROWID;
