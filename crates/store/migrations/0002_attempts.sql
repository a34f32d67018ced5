-- Executions of a run: the first, and one for each time that it was taken up again.
CREATE TABLE attempts (
    run TEXT NOT NULL,
    number BIGINT NOT NULL,
    cli TEXT NOT NULL,
    version TEXT NOT NULL,
    model TEXT NOT NULL,
    login TEXT NOT NULL,
    sandbox TEXT NOT NULL,
    session TEXT,
    phase TEXT NOT NULL,
    ending TEXT,
    detail TEXT NOT NULL DEFAULT '',
    started_at BIGINT NOT NULL,
    ended_at BIGINT,
    tokens BIGINT NOT NULL DEFAULT 0,
    micro_usd BIGINT NOT NULL DEFAULT 0,
    turns BIGINT NOT NULL DEFAULT 0,
    tool_calls BIGINT NOT NULL DEFAULT 0,
    denied BIGINT NOT NULL DEFAULT 0,
    budget TEXT NOT NULL DEFAULT '{}',
    PRIMARY KEY (run, number)
);

-- 1 for an event of a run's own list, whose detail is its JSON text.
ALTER TABLE events ADD COLUMN listed BIGINT NOT NULL DEFAULT 0;
