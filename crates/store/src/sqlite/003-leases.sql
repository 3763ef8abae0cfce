-- Who owns which work. A row stays when it is given back, so that epochs only ever rise.
CREATE TABLE helenus_leases (
    name           TEXT    PRIMARY KEY NOT NULL,
    owner          TEXT,
    epoch          INTEGER NOT NULL,
    expires_at_utc INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
