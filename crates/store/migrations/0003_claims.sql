-- Exclusive leases on paths; rows stay when they end. Times are milliseconds since 1970.
CREATE TABLE claims (
    fence BIGINT NOT NULL PRIMARY KEY,
    run TEXT NOT NULL,
    line TEXT NOT NULL,
    repository TEXT NOT NULL,
    inside TEXT NOT NULL,
    outside TEXT NOT NULL,
    taken_at BIGINT NOT NULL,
    leased_until BIGINT NOT NULL,
    outcome TEXT CHECK (outcome IN ('done', 'failed', 'conflict', 'expired', 'revoked')),
    released_at BIGINT
);
CREATE INDEX claims_run ON claims (run, fence);
CREATE INDEX claims_open ON claims (outcome, leased_until);

-- How the paths of a claim begin: two claims can meet only where one beginning begins with another.
CREATE TABLE claim_beginnings (
    repository TEXT NOT NULL,
    is_open BIGINT NOT NULL,
    beginning TEXT NOT NULL,
    fence BIGINT NOT NULL,
    PRIMARY KEY (repository, is_open, beginning, fence)
);
CREATE INDEX claim_beginnings_fence ON claim_beginnings (fence);

-- The last fence that was given, kept apart so that none is given twice whatever becomes of its claim.
CREATE TABLE last_fence (fence BIGINT NOT NULL);
INSERT INTO last_fence (fence) VALUES (0);
