-- The server that runs the controllers. Each new leader has a higher epoch. `renewed_at` is the time of the last renewal
-- in milliseconds, by the database's clock.
CREATE TABLE leader_lease (
    id INTEGER NOT NULL PRIMARY KEY,
    epoch BIGINT NOT NULL,
    host TEXT NOT NULL,
    process BIGINT NOT NULL,
    renewed_at BIGINT NOT NULL
);
INSERT INTO leader_lease (id, epoch, host, process, renewed_at) VALUES (1, 0, '', 0, 0);
