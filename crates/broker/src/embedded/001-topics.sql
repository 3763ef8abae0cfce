CREATE TABLE helenus_topics (
    topic_id   INTEGER PRIMARY KEY,
    topic      TEXT    NOT NULL UNIQUE,
    partitions INTEGER NOT NULL CHECK (partitions > 0)
) STRICT;

-- Where each partition ends: offsets go on from here after old records have been removed.
CREATE TABLE helenus_topic_ends (
    topic_id    INTEGER NOT NULL REFERENCES helenus_topics ON DELETE CASCADE,
    partition   INTEGER NOT NULL,
    next_offset INTEGER NOT NULL,
    PRIMARY KEY (topic_id, partition)
) STRICT, WITHOUT ROWID;

CREATE TABLE helenus_topic_records (
    topic_id      INTEGER NOT NULL REFERENCES helenus_topics ON DELETE CASCADE,
    partition     INTEGER NOT NULL,
    record_offset INTEGER NOT NULL,
    record_key    BLOB,
    headers       BLOB    NOT NULL,
    payload       BLOB    NOT NULL,
    timestamp     INTEGER NOT NULL,
    PRIMARY KEY (topic_id, partition, record_offset)
) STRICT, WITHOUT ROWID;

CREATE TABLE helenus_consumer_offsets (
    consumer_group TEXT    NOT NULL,
    topic          TEXT    NOT NULL,
    partition      INTEGER NOT NULL,
    next_offset    INTEGER NOT NULL,
    PRIMARY KEY (consumer_group, topic, partition)
) STRICT, WITHOUT ROWID;
