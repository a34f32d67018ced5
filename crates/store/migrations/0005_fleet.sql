-- The resources of the control plane. Times are milliseconds since 1970.
--
-- `born` is the version of the store at which an object was made: the order of every list. It is the
-- place of the row as well, so that a page is read in one go.
CREATE TABLE resources (
    born INTEGER NOT NULL PRIMARY KEY,
    kind TEXT NOT NULL,
    namespace TEXT NOT NULL,
    name TEXT NOT NULL,
    uid TEXT NOT NULL,
    generation BIGINT NOT NULL,
    version BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    api_version TEXT NOT NULL,
    labels TEXT NOT NULL,
    annotations TEXT NOT NULL,
    status TEXT NOT NULL,
    spec TEXT NOT NULL,
    UNIQUE (kind, namespace, name)
);
CREATE INDEX resources_kind ON resources (kind, born);
CREATE INDEX resources_namespace ON resources (kind, namespace, born);

-- What objects are selected by: `Kind.field` or `Kind#label`, its value, and the object.
CREATE TABLE resource_terms (
    term TEXT NOT NULL,
    value TEXT NOT NULL,
    born BIGINT NOT NULL,
    PRIMARY KEY (term, value, born)
) WITHOUT ROWID;

-- Every change, one for each version of the store. The last one is never forgotten: it is the version.
CREATE TABLE resource_changes (
    version INTEGER NOT NULL PRIMARY KEY,
    change TEXT NOT NULL CHECK (change IN ('ADDED', 'MODIFIED', 'DELETED')),
    object TEXT NOT NULL
);

-- Bytes under their digest.
CREATE TABLE blobs (
    digest TEXT NOT NULL PRIMARY KEY,
    bytes BLOB NOT NULL
);

-- Values of secrets, encrypted. `key_id` tells by which key, without telling the key.
CREATE TABLE secret_values (
    namespace TEXT NOT NULL,
    name TEXT NOT NULL,
    key TEXT NOT NULL,
    version BIGINT NOT NULL,
    key_id TEXT NOT NULL,
    nonce BLOB NOT NULL,
    sealed BLOB NOT NULL,
    PRIMARY KEY (namespace, name, key)
);
CREATE INDEX secret_values_key_id ON secret_values (key_id);

CREATE TABLE tokens (
    id TEXT NOT NULL PRIMARY KEY,
    actor TEXT NOT NULL,
    scope TEXT NOT NULL,
    digest TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    expires_at BIGINT,
    revoked_at BIGINT
);
CREATE INDEX tokens_digest ON tokens (digest, id);

CREATE TABLE audit (
    number INTEGER NOT NULL PRIMARY KEY,
    at BIGINT NOT NULL,
    actor TEXT NOT NULL,
    event TEXT NOT NULL,
    subject TEXT NOT NULL,
    correlation TEXT NOT NULL,
    detail TEXT NOT NULL
);

-- Which fields the terms were made from: with others, they are made anew.
CREATE TABLE resource_index (fields TEXT NOT NULL);
INSERT INTO resource_index (fields) VALUES ('');
