-- Names of runs count within a repository; `id` stays unique in the whole ledger. The repository of older
-- runs is not known here: whoever looks at them from it writes it down.
ALTER TABLE runs ADD COLUMN name TEXT NOT NULL DEFAULT '';
UPDATE runs SET name = id;
ALTER TABLE runs ADD COLUMN repository TEXT;
CREATE UNIQUE INDEX runs_name ON runs (repository, name);
CREATE INDEX runs_by_name ON runs (name);

-- When what a run had landed was reverted; its status stays `merged`.
ALTER TABLE runs ADD COLUMN rolled_back_at BIGINT;
UPDATE runs SET rolled_back_at = (
    SELECT MAX(events.at) FROM events WHERE events.run = runs.id AND events.kind = 'rolled-back'
);
