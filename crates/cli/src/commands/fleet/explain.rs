//! `bailiwick explain KIND/NAME`: why an object is as it is, and what to do next.

use std::collections::VecDeque;

use bailiwick_client::FleetClient;
use bailiwick_fleet::explanation::{Explanation, RelatedObjects, explain};
use bailiwick_fleet::ports::{RunEvent, Selection, Target};
use bailiwick_resources::{
    AgentDispatchRun, AgentWorkspace, AnyObject, Kind, Object, Resource, RunnerPool, Standing,
};

use super::access::FleetAccess;
use super::named::{Named, fetch};
use super::{Namespace, ago, now};
use crate::failure::Failure;
use crate::output::{self, BOLD, Format, GREEN, RED, YELLOW, styled};

/// How many events of a run are shown.
const EVENTS: usize = 5;
/// The number of events in one read.
const PAGE: usize = 1_000;

/// The object that these words mean; nothing if they are a command.
pub fn object(words: &[String]) -> Option<Named> {
    let [word] = words else { return None };
    let (kind, name) = word.split_once('/')?;
    let kind = kind.parse::<Kind>().ok()?;
    let plain = bailiwick_resources::is_object_name(name);
    plain.then(|| Named { kind, names: vec![name.to_owned()] })
}

/// Explains it.
pub fn run(
    fleet: &FleetAccess,
    named: &Named,
    namespace: &Namespace,
    format: Format,
) -> Result<(), Failure> {
    let namespace = fleet.namespace(namespace);
    let explanation = fleet.ask(async |client| {
        let found = fetch(client, named, &namespace).await?;
        let Some(object) = found.into_iter().next() else {
            return Err(Failure::general("it was deleted meanwhile"));
        };
        let related = related(client, &object).await?;
        Ok(explain(&object, &related))
    })?;
    if format == Format::Json {
        return output::json(&explanation);
    }
    show(&explanation);
    Ok(())
}

async fn related(client: &dyn FleetClient, object: &AnyObject) -> Result<RelatedObjects, Failure> {
    let mut related = RelatedObjects::default();
    let Ok(run) = object.typed::<AgentDispatchRun>() else { return Ok(related) };
    let name = run.name();
    let target =
        |name: &str| Target { namespace: run.metadata.namespace.clone(), name: name.to_owned() };
    if let Some(execution) = &run.spec.source_refs.trigger_execution {
        related.execution = get(client, &target(execution)).await?;
    }
    related.approvals = all(client, Kind::AgentApproval, ("run", name)).await?;
    related.children = all(client, Kind::AgentDispatchRun, ("parent", name)).await?;
    related.pool = get::<RunnerPool>(client, &target(&run.spec.runner_pool)).await?;
    if let Some(agent) = &run.status.ledger_run_id {
        related.workspaces =
            all::<AgentWorkspace>(client, Kind::AgentWorkspace, ("run", agent)).await?;
        related.events = events(client, &target(name)).await?;
    }
    Ok(related)
}

/// The last events of a run.
async fn events(client: &dyn FleetClient, run: &Target) -> Result<Vec<String>, Failure> {
    let mut last: VecDeque<RunEvent> = VecDeque::new();
    let mut after = 0;
    loop {
        let page = client.run_events(run, None, after, PAGE).await?.events;
        let Some(newest) = page.last() else { break };
        after = newest.cursor;
        last.extend(page);
        last.drain(..last.len().saturating_sub(EVENTS));
    }
    // The lower half of a cursor numbers the events of an agent.
    let number = |event: &RunEvent| event.cursor & u64::from(u32::MAX);
    let told = last
        .iter()
        .map(|event| format!("{} {}, {} ago", number(event), event.kind, ago(event.at, now())));
    Ok(told.collect())
}

async fn get<R: Resource>(
    client: &dyn FleetClient,
    target: &Target,
) -> Result<Option<Object<R>>, Failure> {
    let found = client.get(R::KIND, target).await?;
    let typed = found.map(|object| object.typed::<R>()).transpose();
    typed.map_err(|error| Failure::general(error.to_string()))
}

async fn all<R: Resource>(
    client: &dyn FleetClient,
    kind: Kind,
    (field, value): (&str, &str),
) -> Result<Vec<Object<R>>, Failure> {
    let page = client.list(&Selection::of(kind).field(field, value)).await?;
    let typed = page.objects.iter().map(AnyObject::typed::<R>).collect::<Result<_, _>>();
    typed.map_err(|error| Failure::general(error.to_string()))
}

fn show(explanation: &Explanation) {
    output::line(styled(BOLD, &explanation.subject));
    output::wrapped_behind("  ", "  ", &explanation.summary);
    if !explanation.conditions.is_empty() {
        output::line("conditions");
    }
    for condition in &explanation.conditions {
        let mark = match condition.status {
            Standing::True => styled(GREEN, "✓"),
            Standing::False => styled(RED, "✗"),
            Standing::Unknown => styled(YELLOW, "?"),
        };
        let stale = if condition.stale { " (of an older spec)" } else { "" };
        output::line(format_args!("  {mark} {} {}{stale}", condition.kind, condition.reason));
        if condition.status == Standing::True {
            continue;
        }
        output::wrapped_behind("      means: ", "             ", condition.meaning);
        output::wrapped_behind("      found: ", "             ", &condition.message);
        if let Some(advice) = condition.advice {
            output::wrapped_behind("      do:    ", "             ", advice);
        }
    }
    for fact in &explanation.facts {
        output::line(fact.title);
        for line in &fact.lines {
            output::wrapped_behind("  ", "    ", line);
        }
    }
    for step in &explanation.next {
        output::next_step(step);
    }
}

#[cfg(test)]
mod tests {
    use bailiwick_resources::Kind;

    use super::object;

    #[test]
    fn object_name_is_distinguished_from_a_command() {
        let words = |words: &[&str]| words.iter().map(ToString::to_string).collect::<Vec<_>>();
        let found = object(&words(&["stack/fixer"])).unwrap();
        assert_eq!((found.kind, found.names), (Kind::AgentStack, words(&["fixer"])));
        for command in ["cargo test", "./run/it", "bin/it", "run/a b", "rm", "/bin/ls", "run/"] {
            assert!(object(&words(&[command])).is_none(), "{command}");
        }
        assert!(object(&words(&["stack/fixer", "x"])).is_none());
    }
}
