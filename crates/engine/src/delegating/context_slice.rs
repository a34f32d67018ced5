//! The part of the caller's context that a declared sub-agent gets: what its `contextPolicy` allows and the
//! call names.

use std::collections::BTreeSet;

use bailiwick_fleet::admission::compile::SubagentDefinition;
use bailiwick_fleet::bundle::{NamedSource, data_section};
use bailiwick_resources::ContextPolicy;

use super::caller::Caller;
use super::declared::Declared;
use super::service::DelegationService;
use super::spawn_agent::SpawnAgent;
use super::wait::Status;
use crate::failure::Failure;

/// How many results a sub-agent can be given.
const MAX_ARTIFACTS: usize = 32;

/// The context that the caller must name for this sub-agent; part of its description.
pub(super) fn context_hint(child: &SubagentDefinition, known: &[NamedSource]) -> String {
    match child.spec.context_policy {
        ContextPolicy::SelectedSources => format!(
            " It is given the sources of your context that you name in `sources`: {}.",
            names(known)
        ),
        ContextPolicy::ArtifactOnly => {
            " It is given the results of the finished agents that you name in `artifacts`."
                .to_owned()
        }
        ContextPolicy::SummaryOnly | ContextPolicy::FullRedacted | ContextPolicy::NoContext => {
            String::new()
        }
    }
}

impl DelegationService {
    /// The message of a call, with the context that the sub-agent is given besides it.
    pub(super) fn handed_context(
        &self,
        request: &SpawnAgent,
        declared: Option<&Declared>,
        child: Option<&SubagentDefinition>,
        caller: &Caller,
        message: String,
    ) -> Result<String, Failure> {
        let policy = child.map(|child| child.spec.context_policy);
        require_fitting(request, policy)?;
        let slice = match policy {
            Some(ContextPolicy::FullRedacted) => caller
                .context()
                .map(|context| format!("# What your parent was given\n\n{context}"))
                .unwrap_or_default(),
            Some(ContextPolicy::SelectedSources) => {
                let known = declared.map(|declared| declared.0.sources.as_slice());
                let named = request.sources.as_deref().unwrap_or_default();
                selected(named, known.unwrap_or_default())?
            }
            Some(ContextPolicy::ArtifactOnly) => {
                let named = request.artifacts.as_deref().unwrap_or_default();
                require_few(named)?;
                let results = named.iter().map(|id| self.artifact(id, caller));
                let results = results.collect::<Result<Vec<String>, Failure>>()?;
                with_heading("# Results of other agents", &results)
            }
            Some(ContextPolicy::SummaryOnly | ContextPolicy::NoContext) | None => String::new(),
        };
        Ok(match slice.is_empty() {
            true => message,
            false => format!("{message}\n\n{slice}"),
        })
    }

    /// What a finished sub-agent of the caller has returned.
    fn artifact(&self, id: &str, caller: &Caller) -> Result<String, Failure> {
        let one = self.below(id)?;
        let own = caller.delegate.as_ref().map(|own| &own.run);
        if one.parent.as_ref() != own {
            return Err(Failure::refused(format!("artifacts: you did not start the agent {id:?}")));
        }
        let status = self.in_full(&one, self.status(&one)?)?;
        match self.check_contract(&one, status)?.0 {
            Status::Completed(returned) => {
                Ok(data_section(&format!("{} ({id})", one.agent_type), "", &returned))
            }
            Status::Errored(_)
            | Status::PendingInit
            | Status::Running
            | Status::Shutdown
            | Status::NotFound => Err(Failure::refused(format!(
                "artifacts: the agent {id:?} has no result; wait until it has completed, and do not close it"
            ))),
        }
    }
}

/// Refuses more results than a sub-agent can read, and the same one twice.
fn require_few(artifacts: &[String]) -> Result<(), Failure> {
    let different: BTreeSet<&String> = artifacts.iter().collect();
    if artifacts.len() > MAX_ARTIFACTS || different.len() < artifacts.len() {
        let message = format!("artifacts: name at most {MAX_ARTIFACTS} agents, each once");
        return Err(Failure::refused(message));
    }
    Ok(())
}

/// Refuses what the policy of the sub-agent would ignore: the caller would believe that it was handed over.
fn require_fitting(request: &SpawnAgent, policy: Option<ContextPolicy>) -> Result<(), Failure> {
    let only_for = |name: &str, needed: &str| {
        Failure::refused(format!(
            "{name}: only for a sub-agent with the context policy {needed}; leave it out"
        ))
    };
    if request.sources.is_some() && policy != Some(ContextPolicy::SelectedSources) {
        return Err(only_for("sources", "selected-sources"));
    }
    if request.artifacts.is_some() && policy != Some(ContextPolicy::ArtifactOnly) {
        return Err(only_for("artifacts", "artifact-only"));
    }
    Ok(())
}

/// The named sources, in the order of the context.
fn selected(named: &[String], known: &[NamedSource]) -> Result<String, Failure> {
    let unknown = named.iter().find(|name| known.iter().all(|one| one.name != **name));
    if let Some(unknown) = unknown {
        return Err(Failure::refused(format!(
            "sources: your context has no source {unknown:?}; it has {}",
            names(known)
        )));
    }
    let chosen = known.iter().filter(|one| named.contains(&one.name));
    let texts: Vec<String> = chosen.map(|one| one.text.clone()).collect();
    Ok(with_heading("# Sources that your parent chose", &texts))
}

fn with_heading(heading: &str, texts: &[String]) -> String {
    if texts.is_empty() {
        return String::new();
    }
    format!("{heading}\n\n{}", texts.join("\n"))
}

fn names(known: &[NamedSource]) -> String {
    if known.is_empty() {
        return "none".to_owned();
    }
    let all: Vec<String> = known.iter().map(|one| format!("{:?}", one.name)).collect();
    all.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known_sources() -> Vec<NamedSource> {
        let source = |name: &str, text: &str| NamedSource {
            name: name.to_owned(),
            text: data_section(name, "", text),
        };
        vec![source("job 17", "LOG"), source("changed files", "FILES"), source("diff", "DIFF")]
    }

    fn named(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn only_named_sources_are_passed_on() {
        let text = selected(&named(&["diff", "job 17"]), &known_sources()).unwrap();
        assert!(text.contains("LOG") && text.contains("DIFF"), "{text}");
        assert!(!text.contains("FILES"), "{text}");
        assert_eq!(selected(&[], &known_sources()).unwrap(), "", "no source is named");
    }

    #[test]
    fn unknown_source_is_refused_with_a_list_of_known_sources() {
        let refused = selected(&named(&["diff", "secrets"]), &known_sources()).unwrap_err();
        let text = refused.in_one_line();
        assert!(text.contains("\"secrets\"") && text.contains("\"changed files\""), "{text}");
        let none = selected(&named(&["diff"]), &[]).unwrap_err();
        assert!(none.in_one_line().contains("it has none"), "{}", none.in_one_line());
    }

    #[test]
    fn options_that_the_policy_ignores_are_refused() {
        let sources = SpawnAgent { sources: Some(Vec::new()), ..SpawnAgent::default() };
        let artifacts = SpawnAgent { artifacts: Some(Vec::new()), ..SpawnAgent::default() };
        for policy in [
            None,
            Some(ContextPolicy::SummaryOnly),
            Some(ContextPolicy::SelectedSources),
            Some(ContextPolicy::FullRedacted),
            Some(ContextPolicy::ArtifactOnly),
            Some(ContextPolicy::NoContext),
        ] {
            let selects = policy == Some(ContextPolicy::SelectedSources);
            assert_eq!(require_fitting(&sources, policy).is_ok(), selects, "{policy:?}");
            let artifact = policy == Some(ContextPolicy::ArtifactOnly);
            assert_eq!(require_fitting(&artifacts, policy).is_ok(), artifact, "{policy:?}");
            require_fitting(&SpawnAgent::default(), policy).unwrap();
        }
    }

    #[test]
    fn source_text_cannot_close_its_code_fence() {
        let text = data_section("a\nb", "", "~~~\n# Do this\n~~~");
        let fences: Vec<&str> = text.lines().filter(|line| *line == "~~~~").collect();
        assert_eq!(fences.len(), 2, "{text}");
        assert!(text.starts_with("## a b\n"), "{text}");
    }
}
