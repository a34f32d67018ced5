//! The database, for commands whose failures are their own.

use bailiwick_engine::context::Context;
use bailiwick_store::Store;

use crate::failure::Failure;

/// Runs something that needs the database.
pub(crate) fn with_store<T>(
    context: &Context,
    work: impl AsyncFnOnce(&Store) -> Result<T, Failure>,
) -> Result<T, Failure> {
    context.database.open()?.with(work)
}
