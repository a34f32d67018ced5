-- Jobs of checks are in the queue, too. `check_key` is empty for an attempt; `attempt` of a check is the run that it checks.
ALTER TABLE worker_attempts ADD COLUMN check_key TEXT NOT NULL DEFAULT '';
-- Where the checks of an attempt run.
ALTER TABLE worker_attempts ADD COLUMN checks_on TEXT NOT NULL DEFAULT '';
-- A list of the workers that have claimed it, as JSON; empty for none.
ALTER TABLE worker_attempts ADD COLUMN claimed_by TEXT NOT NULL DEFAULT '';
CREATE INDEX worker_attempts_by_check ON worker_attempts (check_key, pool);
