//! `bailiwick explain KIND/NAME`: why an object is as it is, and what to do next.

use bailiwick_engine::context::Context;
use bailiwick_fleet::explanation::{Explanation, RelatedObjects, explain};
use bailiwick_fleet::ports::{FleetStore, Selection};
use bailiwick_model::AgentId;
use bailiwick_resources::{
    AgentDispatchRun, AgentWorkspace, AnyObject, Kind, Object, Resource, RunnerPool, Standing,
};
use bailiwick_store::Store;

use super::named::{Named, fetch};
use super::{ago, now};
use crate::commands::store::with_store;
use crate::failure::Failure;
use crate::output::{self, BOLD, Format, GREEN, RED, YELLOW, styled};

/// How many events of a run are told.
const EVENTS: u32 = 5;

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
    context: &Context,
    named: &Named,
    namespace: &str,
    format: Format,
) -> Result<(), Failure> {
    let explanation = with_store(context, async |store| {
        let found = fetch(store, named, namespace).await?;
        let Some(object) = found.into_iter().next() else {
            return Err(Failure::general("it is gone"));
        };
        let around = around(store, &object).await?;
        Ok(explain(&object, &around))
    })?;
    if format == Format::Json {
        return output::json(&explanation);
    }
    show(&explanation);
    Ok(())
}

async fn around(store: &Store, object: &AnyObject) -> Result<RelatedObjects, Failure> {
    let mut around = RelatedObjects::default();
    let Ok(run) = object.typed::<AgentDispatchRun>() else { return Ok(around) };
    let (namespace, name) = (&run.metadata.namespace, run.name());
    if let Some(execution) = &run.spec.source_refs.trigger_execution {
        around.execution = get(store, namespace, execution).await?;
    }
    around.approvals = all(store, Kind::AgentApproval, ("run", name)).await?;
    around.children = all(store, Kind::AgentDispatchRun, ("parent", name)).await?;
    around.pool = get::<RunnerPool>(store, namespace, &run.spec.runner_pool).await?;
    if let Some(agent) = &run.status.agent_mux_run_id {
        around.workspaces =
            all::<AgentWorkspace>(store, Kind::AgentWorkspace, ("run", agent)).await?;
        around.events = events(store, agent).await?;
    }
    Ok(around)
}

/// The last events of a run of the ledger.
async fn events(store: &Store, agent: &str) -> Result<Vec<String>, Failure> {
    let Ok(id) = AgentId::parse(agent) else { return Ok(Vec::new()) };
    let last = store.last_event(&id).await?;
    let after = last.saturating_sub(u64::from(EVENTS));
    let events = store.run_events(&id, after, EVENTS).await?;
    let told = events.into_iter().map(|event| {
        let then = bailiwick_resources::Moment::from_millis(event.at);
        let body = serde_json::to_value(&event).unwrap_or_default();
        let kind = body.get("kind").and_then(|kind| kind.as_str()).unwrap_or("event").to_owned();
        format!("{} {kind}, {} ago", event.number, ago(then, now()))
    });
    Ok(told.collect())
}

async fn get<R: Resource>(
    store: &Store,
    namespace: &str,
    name: &str,
) -> Result<Option<Object<R>>, Failure> {
    let found = FleetStore::get(store, R::KIND, namespace, name).await?;
    let typed = found.map(|object| object.typed::<R>()).transpose();
    typed.map_err(|error| Failure::general(error.to_string()))
}

async fn all<R: Resource>(
    store: &Store,
    kind: Kind,
    (field, value): (&str, &str),
) -> Result<Vec<Object<R>>, Failure> {
    let page = FleetStore::list(store, &Selection::of(kind).field(field, value)).await?;
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
    fn an_object_is_told_apart_from_a_command() {
        let words = |words: &[&str]| words.iter().map(ToString::to_string).collect::<Vec<_>>();
        let found = object(&words(&["stack/fixer"])).unwrap();
        assert_eq!((found.kind, found.names), (Kind::AgentStack, words(&["fixer"])));
        for command in ["cargo test", "./run/it", "bin/it", "run/a b", "rm", "/bin/ls", "run/"] {
            assert!(object(&words(&[command])).is_none(), "{command}");
        }
        assert!(object(&words(&["stack/fixer", "x"])).is_none());
    }
}
