//! Stores connect to the server itself, and create the schema.

use crate::test_database::TestDatabase;

pub(crate) fn prepare(_: &TestDatabase) {}

/// The URL for stores.
pub(crate) fn url(database: &TestDatabase) -> String {
    database.url.clone()
}
