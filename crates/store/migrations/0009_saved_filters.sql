-- The filters of lists of runs that people have saved, each with a name of its own for each person.
CREATE TABLE saved_filters (
    owner TEXT NOT NULL,
    name TEXT NOT NULL,
    query TEXT NOT NULL,
    PRIMARY KEY (owner, name)
);
