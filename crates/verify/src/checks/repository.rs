//! The verdict on whether the state of git is unchanged.

use super::Subject;
use crate::facts::{Baseline, Facts, Needs, RepositoryFacts, ValueChange};
use crate::verdict::Verdict;

pub(super) fn needs(_subject: &Subject<'_>) -> Needs {
    Needs { repository: true, ..Needs::default() }
}

/// Passes if the state of git is unchanged.
pub(super) fn unchanged(facts: &Facts) -> Verdict {
    let Some(repository) = &facts.repository else {
        return Verdict::fail("the state of the repository could not be measured");
    };
    let found = differences(repository);
    let compared = match repository.baseline {
        Baseline::Spawn => "since the spawn",
        Baseline::MergeBase => "since the merge base (there is no record of the spawn)",
    };
    match found.first() {
        Some(first) if found.len() == 1 => Verdict::fail(format!("{first}, {compared}")),
        Some(first) => {
            let more = found.len() - 1;
            Verdict::fail_with(format!("{first}, and {more} more, {compared}"), found.join("\n"))
        }
        None => Verdict::pass(match repository.baseline {
            Baseline::Spawn => {
                "HEAD, its commit, the configuration, the hooks and the references are unchanged \
                 since the spawn, and no commit was made"
            }
            Baseline::MergeBase => {
                "no commit was made since the merge base; the configuration and the hooks were not \
                 compared, because there is no record of the spawn"
            }
        }),
    }
}

fn differences(repository: &RepositoryFacts) -> Vec<String> {
    let mut found = Vec::new();
    if repository.head.is_changed() {
        found.push(format!("HEAD moved from {}", describe(&repository.head)));
    }
    if repository.commit.is_changed() {
        found.push(format!("the commit under HEAD moved from {}", describe(&repository.commit)));
    }
    match (repository.configuration, repository.baseline) {
        (Some(true), _) => found.push("git's configuration changed".to_owned()),
        (None, Baseline::Spawn) => {
            found.push("git's configuration could not be compared".to_owned())
        }
        (Some(false), _) | (None, Baseline::MergeBase) => {}
    }
    match (&repository.hooks, repository.baseline) {
        (Some(hooks), _) if !hooks.is_empty() => {
            found.push(format!("hooks changed: {}", hooks.join(", ")));
        }
        (None, Baseline::Spawn) => found.push("git's hooks could not be compared".to_owned()),
        (Some(_), _) | (None, Baseline::MergeBase) => {}
    }
    if !repository.references.is_empty() {
        let names = repository.references.join(", ");
        found.push(format!("references reach commits of the agent: {names}"));
    }
    if !repository.commits.is_empty() {
        let count = repository.commits.len();
        let ids = repository.commits.iter().take(20).map(String::as_str).collect::<Vec<_>>();
        found.push(format!("commits were made in the worktree ({count}): {}", ids.join(", ")));
    }
    found
}

fn describe(change: &ValueChange) -> String {
    let shown = |side: &Option<String>| side.clone().unwrap_or_else(|| "nothing".to_owned());
    format!("{} to {}", shown(&change.before), shown(&change.now))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example::{evidence, facts, reason};

    fn judged(repository: RepositoryFacts) -> Verdict {
        unchanged(&Facts { repository: Some(repository), ..facts() })
    }

    fn at_spawn() -> RepositoryFacts {
        let unchanged_value =
            |name: &str| ValueChange { before: Some(name.into()), now: Some(name.into()) };
        RepositoryFacts {
            baseline: Baseline::Spawn,
            head: unchanged_value("refs/heads/agent/ag-1"),
            commit: unchanged_value("c0ffee"),
            configuration: Some(false),
            hooks: Some(Vec::new()),
            references: Vec::new(),
            commits: Vec::new(),
        }
    }

    #[test]
    fn unchanged_repository_passes() {
        assert!(evidence(&judged(at_spawn())).contains("since the spawn"));
    }

    #[test]
    fn fault_4_missing_worktree_fails() {
        assert!(reason(&unchanged(&facts())).contains("could not be measured"));
    }

    #[test]
    fn every_change_fails_and_is_named() {
        let moved = || ValueChange { before: Some("a".into()), now: Some("b".into()) };
        let deleted = || ValueChange { before: Some("a".into()), now: None };
        for (changed, message) in [
            (RepositoryFacts { head: moved(), ..at_spawn() }, "HEAD moved from a to b"),
            (RepositoryFacts { head: deleted(), ..at_spawn() }, "HEAD moved from a to nothing"),
            (RepositoryFacts { commit: moved(), ..at_spawn() }, "under HEAD moved"),
            (RepositoryFacts { configuration: Some(true), ..at_spawn() }, "configuration"),
            (RepositoryFacts { configuration: None, ..at_spawn() }, "could not be compared"),
            (RepositoryFacts { hooks: Some(vec!["pre-push".into()]), ..at_spawn() }, "pre-push"),
            (RepositoryFacts { hooks: None, ..at_spawn() }, "hooks could not be compared"),
            (RepositoryFacts { references: vec!["refs/tags/x".into()], ..at_spawn() }, "tags/x"),
            (RepositoryFacts { commits: vec!["beef".into()], ..at_spawn() }, "beef"),
        ] {
            let reason = reason(&judged(changed));
            assert!(reason.contains(message) && reason.contains("since the spawn"), "{reason}");
        }
    }

    #[test]
    fn without_a_record_of_the_spawn_the_merge_base_is_the_baseline() {
        let unknown =
            RepositoryFacts { baseline: Baseline::MergeBase, ..RepositoryFacts::default() };
        assert!(evidence(&judged(unknown.clone())).contains("no record of the spawn"));
        let committed = RepositoryFacts { commits: vec!["beef".into()], ..unknown };
        assert!(reason(&judged(committed)).contains("merge base"));
    }
}
