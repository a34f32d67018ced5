-- Programs on other machines that run the attempts of a pool. All times are milliseconds by the database's clock.
CREATE TABLE workers (
    name TEXT NOT NULL PRIMARY KEY,
    pool TEXT NOT NULL,
    labels TEXT NOT NULL,
    capabilities TEXT NOT NULL,
    version TEXT NOT NULL,
    state TEXT NOT NULL,
    joined_at BIGINT NOT NULL,
    seen_at BIGINT NOT NULL
);

-- Tokens with which one worker can join a pool. `used_by` is empty until then.
CREATE TABLE worker_tokens (
    digest TEXT NOT NULL PRIMARY KEY,
    pool TEXT NOT NULL,
    created_by TEXT NOT NULL,
    expires_at BIGINT NOT NULL,
    used_by TEXT NOT NULL
);

-- The credentials of workers. A renewal adds one; the old one stays until it expires.
CREATE TABLE worker_credentials (
    digest TEXT NOT NULL PRIMARY KEY,
    worker TEXT NOT NULL,
    expires_at BIGINT NOT NULL
);

-- The queue. Each claim has a higher fence. `launch` is encrypted, and empty once the attempt has ended.
CREATE TABLE worker_attempts (
    agent TEXT NOT NULL PRIMARY KEY,
    attempt TEXT NOT NULL,
    pool TEXT NOT NULL,
    labels TEXT NOT NULL,
    key_id TEXT NOT NULL,
    nonce BLOB NOT NULL,
    launch BLOB NOT NULL,
    state TEXT NOT NULL,
    worker TEXT NOT NULL,
    fence BIGINT NOT NULL,
    lease_until BIGINT NOT NULL,
    queued_at BIGINT NOT NULL,
    cancelled BIGINT NOT NULL,
    -- The number of the last event of earlier claims, and of the last event at all.
    events_before BIGINT NOT NULL,
    last_event BIGINT NOT NULL,
    report TEXT NOT NULL,
    spent TEXT NOT NULL,
    answers TEXT NOT NULL,
    work BLOB NOT NULL,
    finish TEXT NOT NULL,
    detail TEXT NOT NULL
);
CREATE INDEX worker_attempts_in_queue ON worker_attempts (pool, state, queued_at, agent);

CREATE TABLE worker_events (
    agent TEXT NOT NULL,
    number BIGINT NOT NULL,
    event TEXT NOT NULL,
    PRIMARY KEY (agent, number)
);
