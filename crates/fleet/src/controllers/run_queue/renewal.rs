//! Renews what a waiting run is launched with: never more than it was admitted with, never more than today allows.

use std::collections::BTreeSet;

use bailiwick_resources::{AgentDispatchRun, KeyRef, Object, ValueFrom};

use super::start_refusal::StartRefusal;
use crate::admission::compile::{CompileInput, LaunchLimits, compile};
use crate::admission::conditions::{KitRole, StackFacts};
use crate::admission::validations::Candidate;
use crate::controllers::prepared_launch::{PreparedLaunch, PreparedValue, configs_of, values_of};
use crate::subagents::ParallelLimits;

/// The launch narrowed to what is allowed today, and how it differs from what was admitted.
pub(super) fn renewed(
    mut kept: PreparedLaunch,
    candidate: &Candidate<'_>,
    run: &Object<AgentDispatchRun>,
    ignored: Option<&[String]>,
) -> Result<(PreparedLaunch, Option<&'static str>), StartRefusal> {
    let compiled = compile(&CompileInput {
        frozen: candidate.frozen,
        repository: candidate.repository,
        approval_policy: &run.spec.approval_policy,
        review: Some(candidate.review),
        accepted: accepted(candidate.facts),
        ignored,
        discovered: &candidate.facts.discovered(),
        child: None,
        body: &run.spec.task,
    });
    let compiled = compiled.map_err(|faults| {
        StartRefusal::Objections(faults.into_iter().map(|fault| fault.message).collect())
    })?;
    for list in [
        "hosts",
        "secrets",
        "secret-files",
        "configs",
        "config-files",
        "mcp-servers",
        "allowed-subagents",
    ] {
        let then = listed(&kept.task, list)?;
        let today = listed(&compiled.task, list)?;
        if let Some(closed) = then.difference(&today).next() {
            return Err(StartRefusal::Withdrawn { entry: closed.clone(), list });
        }
    }
    let mut limits = kept.limits.clone();
    let before = limits.clone();
    // Every limit must allow a call, so that one more limit only narrows.
    for limit in compiled.limits.0 {
        if !limits.limits.0.contains(&limit) {
            limits.limits.0.push(limit);
        }
    }
    // Servers and sub-agents: today's definitions of those that it was admitted with.
    let named = listed(&kept.task, "mcp-servers")?;
    limits.mcp_servers = compiled.mcp_servers;
    limits.mcp_servers.retain(|server| named.contains(&server.name));
    let named = listed(&kept.task, "allowed-subagents")?;
    limits.subagents = compiled.subagents;
    limits.subagents.retain(|subagent| named.contains(&subagent.name));
    // The stricter of both: fewer in parallel, more recorded.
    limits.parallel = fewer(limits.parallel, compiled.parallel);
    limits.audit_level = limits.audit_level.max(compiled.audit_level);
    let change = difference(&before, &limits);
    store_values(&mut kept, candidate, &limits);
    kept.limits = limits;
    Ok((kept, change))
}

fn difference(then: &LaunchLimits, today: &LaunchLimits) -> Option<&'static str> {
    if today.limits != then.limits || today.parallel != then.parallel {
        Some("less is allowed")
    } else if today.mcp_servers != then.mcp_servers || today.subagents != then.subagents {
        Some("its servers or sub-agents are others")
    } else if today.audit_level != then.audit_level {
        Some("more is written down")
    } else {
        None
    }
}

/// The lower of two limits; an absent one does not limit.
fn fewer(then: ParallelLimits, today: ParallelLimits) -> ParallelLimits {
    let lower = |one: Option<u32>, other: Option<u32>| one.into_iter().chain(other).min();
    ParallelLimits {
        run: lower(then.run, today.run),
        stack: lower(then.stack, today.stack),
        pool: lower(then.pool, today.pool),
        repository: lower(then.repository, today.repository),
    }
}

/// The values to mount: the admitted ones that are still granted, and those that today's servers need.
fn store_values(kept: &mut PreparedLaunch, candidate: &Candidate<'_>, limits: &LaunchLimits) {
    let arriving = values_of(candidate.review);
    for value in &mut kept.values {
        let home = || candidate.repository.metadata.namespace.clone();
        value.namespace.get_or_insert_with(home);
    }
    kept.values.retain(|value| arriving.contains(value));
    for value in arriving {
        let needed = needs(limits, &value, |from| from.secret_ref.as_ref());
        if needed && !kept.values.contains(&value) {
            kept.values.push(value);
        }
    }
    let arriving = configs_of(candidate.review);
    kept.configs.retain(|value| arriving.contains(value));
    for value in arriving {
        let needed = needs(limits, &value, |from| from.config_map_ref.as_ref());
        if needed && !kept.configs.contains(&value) {
            kept.configs.push(value);
        }
    }
}

/// Whether a server refers to a value.
fn needs(
    limits: &LaunchLimits,
    value: &PreparedValue,
    names: fn(&ValueFrom) -> Option<&KeyRef>,
) -> bool {
    let servers = limits.mcp_servers.iter();
    let all = servers.flat_map(|server| server.env_from.iter().chain(&server.headers_from));
    let mut keys = all.filter_map(names);
    keys.any(|key| key.name == value.secret && key.key == value.key)
}

fn accepted(facts: &StackFacts) -> &[String] {
    match &facts.role {
        KitRole::Found(role) => role.accepted.as_slice(),
        KitRole::NotYet | KitRole::Missing(_) => &[],
    }
}

/// A list in the `[agent]` table of a task.
fn listed(task: &str, list: &str) -> Result<BTreeSet<String>, StartRefusal> {
    let task: toml::Table = task.parse()?;
    let values = task.get("agent").and_then(|agent| agent.get(list));
    let values = values.and_then(|values| values.as_array());
    let texts = values.into_iter().flatten().filter_map(|value| value.as_str());
    Ok(texts.map(str::to_owned).collect())
}
