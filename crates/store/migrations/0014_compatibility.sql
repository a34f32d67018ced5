-- The oldest schema version whose programs can still use this database. Only a migration that takes something away raises
-- it.
CREATE TABLE schema_compatibility (
    id INTEGER NOT NULL PRIMARY KEY,
    oldest_usable BIGINT NOT NULL
);
INSERT INTO schema_compatibility (id, oldest_usable) VALUES (1, 14);
-- The version of the list of indexed fields, and whether a program with an older list has written since.
ALTER TABLE resource_index ADD COLUMN version BIGINT NOT NULL DEFAULT 0;
ALTER TABLE resource_index ADD COLUMN has_older_terms BIGINT NOT NULL DEFAULT 0;
