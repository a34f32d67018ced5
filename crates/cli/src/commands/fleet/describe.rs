//! `bailiwick describe`: an object with its conditions, for people.

use bailiwick_resources::{AnyObject, Condition, Standing};
use clap::Args;

use super::access::FleetAccess;
use super::named::{fetch, named};
use super::{Namespace, ago, documents, now};
use crate::failure::Failure;
use crate::output::{self, Format, FormatOption, GREEN, RED, styled};

/// Show resources with their conditions and reasons
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  bailiwick describe stack fixer\n  bailiwick describe run/adr-…"
)]
pub struct Describe {
    /// KIND NAME…, or KIND/NAME…
    #[arg(required = true, value_name = "OBJECT")]
    objects: Vec<String>,
    #[command(flatten)]
    namespace: Namespace,
    #[command(flatten)]
    format: FormatOption,
}

impl Describe {
    /// Runs the command.
    pub fn run(self, fleet: &FleetAccess) -> Result<(), Failure> {
        let all = named(&self.objects)?;
        let namespace = fleet.namespace(&self.namespace);
        if all.iter().any(|one| one.names.is_empty()) {
            return Err(Failure::usage("say which one").help("list them with `bailiwick get`"));
        }
        let found = fleet.ask(async |client| {
            let mut found = Vec::new();
            for one in &all {
                found.extend(fetch(client, one, &namespace).await?);
            }
            Ok(found)
        })?;
        if self.format.format == Format::Json {
            return output::json(&found);
        }
        for (number, object) in found.iter().enumerate() {
            if number > 0 {
                output::line("");
            }
            show(object)?;
        }
        Ok(())
    }
}

fn show(object: &AnyObject) -> Result<(), Failure> {
    let metadata = &object.metadata;
    output::line(format_args!("{} {}/{}", object.kind, metadata.namespace, metadata.name));
    if let Some(born) = metadata.creation_timestamp {
        let age = ago(born, now());
        output::line(format_args!("  generation {}, {age} old", metadata.generation));
    }
    let conditions = object.conditions();
    if !conditions.is_empty() {
        output::line("conditions");
        for condition in &conditions {
            tell(condition, metadata.generation);
        }
    }
    let mut rest = object.clone();
    if let Some(status) = rest.status.as_object_mut() {
        status.remove("conditions");
    }
    for (title, part) in [("spec", &rest.spec), ("status", &rest.status)] {
        if part.is_null() {
            continue;
        }
        output::line(title);
        let only = AnyObject { spec: part.clone(), ..rest.clone() };
        let text = documents::yaml(&only)?;
        let lines = text.lines().skip_while(|line| !line.starts_with("spec:")).skip(1);
        for line in lines.take_while(|line| line.starts_with(' ') || line.starts_with('-')) {
            output::line(line);
        }
    }
    Ok(())
}

fn tell(condition: &Condition, generation: u64) {
    let mark = match condition.status {
        Standing::True => styled(GREEN, "✓"),
        Standing::False => styled(RED, "✗"),
        Standing::Unknown => "?".to_owned(),
    };
    let stale =
        if condition.observed_generation == generation { "" } else { " (of an older spec)" };
    let title = format!("  {mark} {:22} ", condition.kind.as_str());
    let text = format!("{}: {}{stale}", condition.reason.as_str(), condition.message);
    output::wrapped_behind(&title, &" ".repeat(27), &text);
}
