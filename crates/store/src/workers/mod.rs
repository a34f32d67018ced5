//! Workers and the queue of attempts that they run.
//!
//! ```text
//!  registry   workers, their tokens and credentials
//!  registered the same workers, for the metrics of a server
//!  queue      attempts: queued, reported and ended
//!  claim      how a worker gets one of them
//!  jobs       what the operator records of Kubernetes Jobs
//!  reports    what the worker of a claim reports, with its fence
//!  rows       how a row is read
//!  signals    what tasks of this process can wait for
//! ```
//!
//! All times are on the database's clock. Whatever a worker writes is checked against the fence of the claim that
//! counts, in the transaction that writes it.

mod claim;
mod jobs;
mod queue;
mod registered;
mod registry;
mod reports;
mod rows;
mod signals;

use bailiwick_lifecycle::ports::StoreError;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::connections::WriteConnection;
use crate::open::Store;

pub use claim::MAX_CLAIMS;
pub use queue::CancelOutcome;
pub use registered::RegisteredWorkers;

impl Store {
    /// Begins a transaction on rows of the queue. It waits only for writers of the same rows, if the database permits.
    async fn begin_queue_write(&self) -> Result<WriteConnection, StoreError> {
        let begun =
            WriteConnection::begin(&self.pool, self.database_kind().begin_row_write()).await;
        let mut write = begun.map_err(|error| self.error(&error))?;
        match write.is_fenced(self.fence).await {
            Ok(false) => Ok(write),
            Ok(true) => {
                write.rollback().await;
                Err(self.failure(crate::connections::LEASE_LOST.to_owned()))
            }
            Err(error) => Err(self.error(&error)),
        }
    }

    fn to_json(&self, value: &impl Serialize) -> Result<String, StoreError> {
        serde_json::to_string(value)
            .map_err(|error| self.failure(format!("it cannot be written as JSON: {error}")))
    }

    fn parse_json<T: DeserializeOwned>(&self, text: &str) -> Result<T, StoreError> {
        serde_json::from_str(text)
            .map_err(|error| self.failure(format!("a row of the queue cannot be read: {error}")))
    }
}

fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
