-- What the pod of an attempt is granted of its cluster, as JSON: names only. Empty if nothing.
ALTER TABLE worker_attempts ADD COLUMN pod_grants TEXT NOT NULL DEFAULT '';
