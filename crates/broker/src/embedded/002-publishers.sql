-- A compacted topic keeps the last record of each key.
ALTER TABLE helenus_topics ADD COLUMN compacted INTEGER NOT NULL DEFAULT 0;

-- Who publishes under a name: each taking raises the epoch and fences those before it.
CREATE TABLE helenus_publishers (
    name  TEXT    PRIMARY KEY,
    epoch INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
