-- Runs that were started by another run, or by a person's tool; and runs that started others.
CREATE TABLE delegates (
    run TEXT NOT NULL PRIMARY KEY,
    parent TEXT,
    closed BIGINT NOT NULL DEFAULT 0,
    created_at BIGINT NOT NULL,
    -- All of it, as JSON.
    detail TEXT NOT NULL
);
CREATE INDEX delegates_parent ON delegates (parent);
