//! `bailiwick wait`: until an object is as it should be.

use std::time::Duration;

use bailiwick_fleet::ports::Selection;
use bailiwick_resources::{AnyObject, RunPhase, Span};
use clap::Args;
use serde_json::json;

use super::access::FleetAccess;
use super::named::named;
use super::{Namespace, now};
use crate::failure::Failure;
use crate::output::{self, FormatOption};

/// How long it waits for a change before it looks again.
const MAX_WAIT_MILLIS: u64 = 5_000;

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
    /// Runs the command.
    pub fn run(self, fleet: &FleetAccess) -> Result<(), Failure> {
        let all = named(std::slice::from_ref(&self.object))?;
        let [one] = all.as_slice() else { return Err(Failure::usage("name one object")) };
        let Some(name) = one.names.first() else {
            return Err(Failure::usage("name one object, as stack/fixer"));
        };
        let target = fleet.target(&self.namespace, name);
        let deadline = now().plus_millis(self.timeout.millis());
        fleet.ask(async |client| {
            // Watched before it is read: a change between the two ends the wait below.
            let newest = Selection { limit: 1, ..Selection::of(one.kind) };
            let version = client.list(&newest).await?.version;
            let mut changes = client.watch(one.kind, version).await?;
            loop {
                match self.met(client.get(one.kind, &target).await?.as_ref())? {
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
                    let message = format!(
                        "timed out after {}: {} has not reached `{}`",
                        self.timeout, self.object, self.what
                    );
                    let help = format!("bailiwick describe {}", self.object);
                    return Err(Failure::general(message).help(help));
                }
                let timeout = Duration::from_millis(left.min(MAX_WAIT_MILLIS));
                if let Ok(changed) = tokio::time::timeout(timeout, changes.next()).await {
                    changed?;
                }
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
