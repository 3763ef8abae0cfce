-- Versions of tables: one row a run. Times are milliseconds since 1970.
CREATE TABLE helenus_table_versions (
    key_space    TEXT    NOT NULL,
    "table"      TEXT    NOT NULL,
    run_id       TEXT    NOT NULL,
    data_ts      INTEGER NOT NULL,
    create_ts    INTEGER NOT NULL,
    version_name TEXT    NOT NULL,
    status       TEXT    NOT NULL,
    version      INTEGER NOT NULL,
    excluded     INTEGER NOT NULL,
    heartbeat_ts INTEGER NOT NULL,
    publisher    TEXT    NOT NULL,
    deleting_ts  INTEGER,
    story        TEXT    NOT NULL,
    change_id    TEXT    NOT NULL,
    PRIMARY KEY (key_space, "table", run_id)
) STRICT, WITHOUT ROWID;

-- What is one value a table: Cassandra's static columns.
CREATE TABLE helenus_table_catalogs (
    key_space     TEXT    NOT NULL,
    "table"       TEXT    NOT NULL,
    next_version  INTEGER NOT NULL,
    pinned        INTEGER,
    catalog_epoch INTEGER NOT NULL,
    PRIMARY KEY (key_space, "table")
) STRICT, WITHOUT ROWID;

-- Readers' holds on versions.
CREATE TABLE helenus_version_leases (
    key_space  TEXT    NOT NULL,
    "table"    TEXT    NOT NULL,
    version    INTEGER NOT NULL,
    lease_id   TEXT    NOT NULL,
    expires_at INTEGER NOT NULL,
    PRIMARY KEY (key_space, "table", version, lease_id)
) STRICT, WITHOUT ROWID;
