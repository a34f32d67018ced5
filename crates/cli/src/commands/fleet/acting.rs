//! Asking the control plane for something, from this machine's own terminal.

use std::sync::Arc;

use bailiwick_engine::context::Context;
use bailiwick_engine::fleet::{LocalPlane, plane};
use bailiwick_engine::{database, system};
use bailiwick_fleet::ports::{ActionError, Caller, TokenScope};
use bailiwick_store::Store;
use tokio::runtime::Runtime;

use super::{actor, now};
use crate::failure::Failure;

impl From<ActionError> for Failure {
    fn from(error: ActionError) -> Self {
        let text = error.to_string();
        match error {
            ActionError::Store(error) => error.into(),
            ActionError::Denied { message, reasons } => {
                let each = reasons.iter().map(|why| format!("{}: {}", why.code, why.message));
                let each = each.collect::<Vec<_>>().join("\n      ");
                Self::usage(message).maybe_help((!each.is_empty()).then_some(each))
            }
            ActionError::Invalid(faults) => {
                let each = faults.iter().map(|fault| format!("{}: {}", fault.field, fault.message));
                Self::usage(each.collect::<Vec<_>>().join("; "))
            }
            ActionError::NotFound(_) | ActionError::Conflict { .. } => Self::usage(text),
            ActionError::TooMany(_) | ActionError::Unavailable(_) => Self::general(text),
        }
    }
}

/// The person at the keyboard has the database, and so everything.
pub(super) fn caller() -> Result<Caller, Failure> {
    let request = format!("local-{:x}-{:04x}", system::now_ms(), system::random()?);
    Ok(Caller {
        actor: actor()?,
        scope: TokenScope::Admin,
        token: "local".to_owned(),
        correlation: request.clone(),
        request,
        at: now(),
    })
}

/// One thread is enough for one request.
pub(crate) fn runtime() -> Result<Runtime, Failure> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .map_err(|error| Failure::general(format!("no runtime: {error}")))
}

/// Has the control plane do something.
pub fn ask<T>(
    context: &Context,
    work: impl AsyncFnOnce(LocalPlane, Caller) -> Result<T, Failure>,
) -> Result<T, Failure> {
    database::wait(&runtime()?, async {
        let store = Arc::new(Store::open(context.database.location().clone()).await?);
        work(plane(context, store), caller()?).await
    })
}
