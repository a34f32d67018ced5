-- Attempts in Kubernetes Jobs. A token can be for one attempt only; `agent` is empty for those of a whole pool.
ALTER TABLE worker_tokens ADD COLUMN agent TEXT NOT NULL DEFAULT '';
-- How many Jobs have ended without running the attempt to its end, and what is wrong with the last one.
ALTER TABLE worker_attempts ADD COLUMN jobs_ended BIGINT NOT NULL DEFAULT 0;
ALTER TABLE worker_attempts ADD COLUMN pod_problem TEXT NOT NULL DEFAULT '';
ALTER TABLE worker_attempts ADD COLUMN job_detail TEXT NOT NULL DEFAULT '';
