-- Who reads the feed, how far they are, and what they could not handle. Positions are
-- global_sequence numbers; the last one a reader is done with, 0 before the first.
CREATE TABLE helenus_subscriptions (
    subscription   TEXT    PRIMARY KEY NOT NULL,
    lanes          INTEGER NOT NULL CHECK (lanes >= 1),
    on_poison      TEXT    NOT NULL CHECK (on_poison IN ('stop_stream', 'go_on')),
    created_at_utc INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Written only by whoever holds the lease 'subscription/{subscription}/{lane}'. The attempts are
-- those at the lane's next event.
CREATE TABLE helenus_subscription_lanes (
    subscription TEXT    NOT NULL REFERENCES helenus_subscriptions ON DELETE CASCADE,
    lane         INTEGER NOT NULL,
    position     INTEGER NOT NULL CHECK (position >= 0),
    attempts     INTEGER NOT NULL DEFAULT 0,
    last_error   TEXT,
    PRIMARY KEY (subscription, lane)
) STRICT, WITHOUT ROWID;

-- Consumers that are there, so that they can share the lanes evenly.
CREATE TABLE helenus_subscription_consumers (
    subscription   TEXT    NOT NULL REFERENCES helenus_subscriptions ON DELETE CASCADE,
    consumer       TEXT    NOT NULL,
    expires_at_utc INTEGER NOT NULL,
    PRIMARY KEY (subscription, consumer)
) STRICT, WITHOUT ROWID;

-- Events set aside; without last_error because an earlier one of their stream was.
CREATE TABLE helenus_parked_events (
    subscription    TEXT    NOT NULL REFERENCES helenus_subscriptions ON DELETE CASCADE,
    global_sequence INTEGER NOT NULL,
    lane            INTEGER NOT NULL,
    stream_id       TEXT    NOT NULL,
    attempts        INTEGER NOT NULL,
    last_error      TEXT,
    parked_at_utc   INTEGER NOT NULL,
    replay          INTEGER NOT NULL DEFAULT 0 CHECK (replay IN (0, 1)),
    PRIMARY KEY (subscription, global_sequence)
) STRICT, WITHOUT ROWID;

CREATE INDEX helenus_parked_streams ON helenus_parked_events (subscription, stream_id);
CREATE INDEX helenus_parked_replays ON helenus_parked_events (subscription, lane) WHERE replay = 1;

-- Builds of projections: the one that is read, and at most one being built beside it. Each reads the
-- feed by a subscription of its own; its number is part of its tables' names and never given again.
CREATE TABLE helenus_projections (
    generation     INTEGER PRIMARY KEY AUTOINCREMENT,
    projection     TEXT    NOT NULL,
    version        TEXT    NOT NULL,
    state          TEXT    NOT NULL CHECK (state IN ('live', 'building')),
    subscription   TEXT    NOT NULL,
    created_at_utc INTEGER NOT NULL,
    UNIQUE (projection, state)
) STRICT;

-- The tables of a build as readers name them; in the file they are called {name}__g{generation}.
CREATE TABLE helenus_projection_tables (
    generation INTEGER NOT NULL REFERENCES helenus_projections ON DELETE CASCADE,
    name       TEXT    NOT NULL,
    PRIMARY KEY (generation, name)
) STRICT, WITHOUT ROWID;
