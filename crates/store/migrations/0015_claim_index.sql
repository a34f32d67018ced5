-- Finds the sets of labels that are needed in a pool, and the oldest attempt of each, without reading the others.
CREATE INDEX worker_attempts_to_claim ON worker_attempts (pool, state, LABEL_SET(labels), queued_at, agent);
DROP INDEX worker_attempts_in_queue;
