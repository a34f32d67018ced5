//! `bailiwick delete`: takes resources away.

use bailiwick_control::resources;
use clap::Args;

use super::named::{fetch, named};
use super::{Namespace, actor, now};
use crate::context::Context;
use crate::failure::Failure;
use crate::output;
use crate::wire;

/// Take resources away
///
/// What was recorded (runs, deliveries, approvals) cannot be deleted: it is the record.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  bailiwick delete stack fixer\n  bailiwick delete trigger/ci pool/small"
)]
pub struct Delete {
    /// KIND NAME…, or KIND/NAME…
    #[arg(required = true, value_name = "OBJECT")]
    objects: Vec<String>,
    #[command(flatten)]
    namespace: Namespace,
}

impl Delete {
    /// Does what was asked.
    pub fn run(self, context: &Context) -> Result<(), Failure> {
        let all = named(&self.objects)?;
        if all.iter().any(|one| one.names.is_empty()) {
            return Err(Failure::usage("say which one; there is no word for all"));
        }
        let (actor, namespace) = (actor()?, &self.namespace.namespace);
        wire::with_store(context, async |store| {
            for one in &all {
                fetch(&store, one, namespace).await?;
            }
            for one in &all {
                for name in &one.names {
                    resources::delete(&store, one.kind, namespace, name, 0, &actor, now()).await?;
                    output::line(format_args!("{}/{name} deleted", one.kind.short()));
                }
            }
            Ok(())
        })
    }
}
