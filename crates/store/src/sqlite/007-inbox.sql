-- A receipt may be begun before it is processed, and keeps what came of it.
CREATE TABLE helenus_inbox_begun (
    message_id       TEXT    PRIMARY KEY NOT NULL,
    channel_id       TEXT    NOT NULL,
    message_type     TEXT    NOT NULL,
    correlation_id   TEXT,
    tenant_id        TEXT,
    received_at_utc  INTEGER NOT NULL,
    processed_at_utc INTEGER,
    state            TEXT    NOT NULL DEFAULT 'processed' CHECK (state IN ('started', 'processed')),
    owner            TEXT,
    epoch            INTEGER NOT NULL DEFAULT 0,
    lease_until_utc  INTEGER,
    content_hash     BLOB,
    result           BLOB
) STRICT, WITHOUT ROWID;

INSERT INTO helenus_inbox_begun
    (message_id, channel_id, message_type, correlation_id, tenant_id, received_at_utc,
     processed_at_utc)
SELECT message_id, channel_id, message_type, correlation_id, tenant_id, received_at_utc,
       processed_at_utc
FROM helenus_inbox_receipts;

DROP TABLE helenus_inbox_receipts;
ALTER TABLE helenus_inbox_begun RENAME TO helenus_inbox_receipts;

-- What the sweeper reads.
CREATE INDEX helenus_inbox_processed ON helenus_inbox_receipts (processed_at_utc)
    WHERE processed_at_utc IS NOT NULL;
