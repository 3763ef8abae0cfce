-- What changes of a message stands apart from what does not: settling writes a few bytes of a narrow
-- table, not the page that holds the payload.
CREATE TABLE helenus_outbox_dispatch (
    staged_seq             INTEGER PRIMARY KEY,
    shard_id               INTEGER NOT NULL,
    next_attempt_at_utc    INTEGER NOT NULL,
    dispatch_attempt_count INTEGER NOT NULL DEFAULT 0,
    state                  TEXT    NOT NULL DEFAULT 'pending'
                           -- As IN, SQLite would fill a table of the words for each row it checks.
                           CHECK (state = 'pending' OR state = 'parked' OR state = 'dispatched'
                                  OR state = 'skipped'),
    dispatched_at_utc      INTEGER,
    last_error             TEXT
) STRICT;

INSERT INTO helenus_outbox_dispatch
SELECT staged_seq, shard_id, next_attempt_at_utc, dispatch_attempt_count, state, dispatched_at_utc,
       last_error
FROM helenus_outbox_messages;

DROP INDEX helenus_outbox_due;
ALTER TABLE helenus_outbox_messages RENAME TO helenus_outbox_contents;
ALTER TABLE helenus_outbox_contents DROP COLUMN shard_id;
ALTER TABLE helenus_outbox_contents DROP COLUMN next_attempt_at_utc;
ALTER TABLE helenus_outbox_contents DROP COLUMN dispatch_attempt_count;
ALTER TABLE helenus_outbox_contents DROP COLUMN state;
ALTER TABLE helenus_outbox_contents DROP COLUMN dispatched_at_utc;
ALTER TABLE helenus_outbox_contents DROP COLUMN last_error;

-- What the relay reads, all of it in the index: settled history costs it nothing.
CREATE INDEX helenus_outbox_due
    ON helenus_outbox_dispatch (shard_id, next_attempt_at_utc, staged_seq, dispatch_attempt_count)
    WHERE state = 'pending';

-- A message as the other stores have it.
CREATE VIEW helenus_outbox_messages AS
SELECT staged_seq, message_id, shard_id, channel_id, message_type, payload, content_type,
       correlation_id, tenant_id, occurred_at_utc, created_at_utc, dispatched_at_utc,
       dispatch_attempt_count, next_attempt_at_utc, headers_json, metadata_json, ordering_key,
       deliver_at_utc, content_hash, state, last_error
FROM helenus_outbox_contents JOIN helenus_outbox_dispatch USING (staged_seq);
