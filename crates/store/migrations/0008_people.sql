-- The people who have signed in by OpenID Connect, and the groups that the provider named. Sessions are tokens.
CREATE TABLE people (
    name TEXT NOT NULL PRIMARY KEY,
    groups TEXT NOT NULL,
    signed_in_at BIGINT NOT NULL,
    valid_until BIGINT NOT NULL
);
