-- Runs, the tasks they were given, and what happened to them. Times are milliseconds since 1970.
CREATE TABLE runs (
    id TEXT NOT NULL PRIMARY KEY,
    branch TEXT NOT NULL,
    parent TEXT,
    spec_sha TEXT NOT NULL,
    status TEXT NOT NULL CHECK (status IN ('running', 'done', 'failed', 'merged', 'rejected')),
    started_at BIGINT NOT NULL,
    finished_at BIGINT,
    summary TEXT,
    worktree TEXT,
    dna TEXT,
    creator TEXT,
    fork_parent TEXT,
    cost_micro_cents BIGINT NOT NULL DEFAULT 0,
    provider TEXT NOT NULL DEFAULT '',
    model TEXT NOT NULL DEFAULT '',
    half_spawned BIGINT NOT NULL DEFAULT 0,
    base TEXT
);
CREATE INDEX runs_status ON runs (status);
CREATE INDEX runs_parent ON runs (parent);
CREATE INDEX runs_branch ON runs (branch);
CREATE INDEX runs_creator ON runs (creator);
CREATE INDEX runs_fork_parent ON runs (fork_parent);
CREATE INDEX runs_started ON runs (started_at);
CREATE INDEX idx_agents_dna_prefix ON runs (substr(dna, 1, 30));

-- A task.toml under its SHA-256, so that an old one can be shown again.
CREATE TABLE specs (
    sha TEXT NOT NULL PRIMARY KEY,
    task TEXT NOT NULL
);

-- What happened, in order; append-only. An empty run is the ledger itself.
CREATE TABLE events (
    run TEXT NOT NULL,
    number BIGINT NOT NULL,
    at BIGINT NOT NULL,
    kind TEXT NOT NULL,
    detail TEXT NOT NULL,
    PRIMARY KEY (run, number)
);

-- The ledger with the seed's columns.
CREATE VIEW agents AS
SELECT
    id,
    branch,
    parent AS parent_branch,
    spec_sha,
    status,
    started_at / 1000 AS started_ts,
    finished_at / 1000 AS finished_ts,
    summary,
    worktree AS worktree_path,
    dna,
    creator AS creator_id,
    fork_parent AS fork_parent_id,
    (cost_micro_cents + 500000) / 1000000 AS cost_cents,
    cost_micro_cents,
    provider,
    model,
    half_spawned
FROM runs;
