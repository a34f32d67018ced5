//! Asking the control plane for something, from this machine's own terminal.

use std::sync::Arc;

use bailiwick_engine::context::Context;
use bailiwick_engine::fleet::{LocalPlane, plane};
use bailiwick_engine::{database, system};
use bailiwick_fleet::ports::{ActionError, Caller, Target, TokenScope};
use bailiwick_store::Store;

use super::{Namespace, actor, now};
use crate::failure::Failure;

impl From<ActionError> for Failure {
    fn from(error: ActionError) -> Self {
        let text = error.to_string();
        match error {
            ActionError::Store(error) => error.into(),
            ActionError::Denied { message, reasons } => {
                let each = reasons.iter().map(|why| format!("{}: {}", why.code, why.message));
                Self::usage(message).maybe_help(Some(each.collect::<Vec<_>>().join("\n      ")))
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

/// Whoever is at the keyboard has the database, and so everything.
fn caller() -> Result<Caller, Failure> {
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

/// An object that something is done to.
pub fn target(namespace: &Namespace, name: &str) -> Target {
    Target { namespace: namespace.namespace.clone(), name: name.to_owned() }
}

/// Has the control plane do something.
pub fn ask<T>(
    context: &Context,
    work: impl AsyncFnOnce(LocalPlane, Caller) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .map_err(|error| Failure::general(format!("no runtime: {error}")))?;
    database::wait(&runtime, async {
        let store = Arc::new(Store::open(context.database.location().clone()).await?);
        work(plane(context, store), caller()?).await
    })
}
