//! `bailiwick wait`: until an object is as it should be.

use bailiwick_engine::context::Context;
use bailiwick_fleet::ports::{FleetStore, Selection};
use bailiwick_resources::{AnyObject, RunPhase, Span};
use clap::Args;
use serde_json::json;

use super::named::named;
use super::{Namespace, now};
use crate::commands::store::with_store;
use crate::failure::Failure;
use crate::output::{self, FormatOption};

/// Wait for a condition, a phase or the deletion of a resource
///
/// For runs, `phase=succeeded` exits at once with code 2 if the run failed or was cancelled.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  bailiwick wait stack/fixer --for condition=Ready\n  bailiwick wait \
                  run/adr-… --for phase=succeeded --timeout 1h\n  bailiwick wait stack/old --for delete"
)]
pub struct Wait {
    /// KIND/NAME
    #[arg(value_name = "OBJECT")]
    object: String,
    /// condition=TYPE, phase=PHASE, or delete
    #[arg(long = "for", value_name = "WHAT")]
    what: String,
    /// Timeout, as 30s, 10m or 1h
    #[arg(long, value_name = "SPAN", default_value = "10m")]
    timeout: Span,
    #[command(flatten)]
    namespace: Namespace,
    #[command(flatten)]
    format: FormatOption,
}

enum Met {
    Yes,
    NotYet,
    Never(String),
}

impl Wait {
    /// Does what was asked.
    pub fn run(self, context: &Context) -> Result<(), Failure> {
        let all = named(std::slice::from_ref(&self.object))?;
        let Some((one, name)) = all.first().and_then(|one| Some((one, one.names.first()?))) else {
            return Err(Failure::usage("name one object, as stack/fixer"));
        };
        let deadline = now().plus_millis(self.timeout.millis());
        with_store(context, async |store| {
            loop {
                // Read first: a change between the two wakes the wait. An object's own version would not
                // do, because every newer change of another object would end the wait at once.
                let newest = Selection { limit: 1, ..Selection::of(one.kind) };
                let version = FleetStore::list(store, &newest).await?.version;
                let found =
                    FleetStore::get(store, one.kind, &self.namespace.namespace, name).await?;
                match self.met(found.as_ref())? {
                    Met::Yes => {
                        let value = json!({ "object": self.object, "for": self.what });
                        let text = format!("{} {}", self.object, self.what);
                        return output::done(self.format.format, text, &value);
                    }
                    Met::Never(why) => return Err(Failure::usage(why)),
                    Met::NotYet => {}
                }
                let left = deadline.millis().saturating_sub(now().millis());
                if left == 0 {
                    let message = format!("{} is not so after {}", self.object, self.timeout);
                    let help = format!("bailiwick describe {}", self.object);
                    return Err(Failure::general(message).help(help));
                }
                store.wait_for_change(version, left.min(1_000)).await;
            }
        })
    }

    fn met(&self, found: Option<&AnyObject>) -> Result<Met, Failure> {
        if self.what == "delete" {
            return Ok(if found.is_none() { Met::Yes } else { Met::NotYet });
        }
        let Some(object) = found else { return Ok(Met::NotYet) };
        let wrong = || {
            Failure::usage(format!("`{}` cannot be waited for", self.what))
                .help("write condition=Ready, phase=succeeded or delete")
        };
        let (what, wanted) = self.what.split_once('=').ok_or_else(wrong)?;
        match what {
            "condition" => {
                let generation = object.metadata.generation;
                let conditions = object.conditions();
                let holds = conditions.iter().any(|condition| {
                    condition.kind.as_str() == wanted && condition.holds(generation)
                });
                Ok(if holds { Met::Yes } else { Met::NotYet })
            }
            "phase" => {
                let phase = object.status.pointer("/phase").and_then(|phase| phase.as_str());
                let phase = phase.unwrap_or_default();
                let last = RunPhase::ALL.into_iter().find(|one| one.as_str() == phase);
                if phase == wanted {
                    return Ok(Met::Yes);
                }
                Ok(match last.filter(|phase| phase.is_final()) {
                    Some(phase) => Met::Never(format!("{} is {}", self.object, phase.as_str())),
                    None => Met::NotYet,
                })
            }
            _ => Err(wrong()),
        }
    }
}
