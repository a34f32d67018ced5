//! How git stands against how it stood, as a verdict.

use super::Subject;
use crate::facts::{Facts, Moved, Needs, RepositoryFacts, Since};
use crate::verdict::Verdict;

pub(super) fn needs(_subject: &Subject<'_>) -> Needs {
    Needs { repository: true, ..Needs::default() }
}

/// Whether git stands as it stood.
pub(super) fn untouched(facts: &Facts) -> Verdict {
    let Some(repository) = &facts.repository else {
        return Verdict::fail("the state of the repository could not be measured");
    };
    let found = differences(repository);
    let compared = match repository.since {
        Since::Spawn => "since the spawn",
        Since::MergeBase => "since the merge base (there is no record of the spawn)",
    };
    match found.first() {
        Some(first) if found.len() == 1 => Verdict::fail(format!("{first}, {compared}")),
        Some(first) => {
            let more = found.len() - 1;
            Verdict::fail_with(format!("{first}, and {more} more, {compared}"), found.join("\n"))
        }
        None => Verdict::pass(match repository.since {
            Since::Spawn => {
                "HEAD, its commit, the configuration, the hooks and the references are \
                             as they were at the spawn, and no commit was made"
            }
            Since::MergeBase => {
                "no commit was made since the merge base; there is no record of \
                                 the spawn to compare the configuration and the hooks with"
            }
        }),
    }
}

fn differences(repository: &RepositoryFacts) -> Vec<String> {
    let mut found = Vec::new();
    if repository.head.is_moved() {
        found.push(format!("HEAD moved from {}", both(&repository.head)));
    }
    if repository.commit.is_moved() {
        found.push(format!("the commit under HEAD moved from {}", both(&repository.commit)));
    }
    match (repository.configuration, repository.since) {
        (Some(true), _) => found.push("git's configuration is another one".to_owned()),
        (None, Since::Spawn) => found.push("git's configuration could not be compared".to_owned()),
        (Some(false), _) | (None, Since::MergeBase) => {}
    }
    match (&repository.hooks, repository.since) {
        (Some(hooks), _) if !hooks.is_empty() => {
            found.push(format!("hooks differ: {}", hooks.join(", ")));
        }
        (None, Since::Spawn) => found.push("git's hooks could not be compared".to_owned()),
        (Some(_), _) | (None, Since::MergeBase) => {}
    }
    if !repository.references.is_empty() {
        let names = repository.references.join(", ");
        found.push(format!("references reach work of the agent: {names}"));
    }
    if !repository.commits.is_empty() {
        let count = repository.commits.len();
        let ids = repository.commits.iter().take(20).map(String::as_str).collect::<Vec<_>>();
        found.push(format!("commits were made in the worktree ({count}): {}", ids.join(", ")));
    }
    found
}

fn both(moved: &Moved) -> String {
    let shown = |side: &Option<String>| side.clone().unwrap_or_else(|| "nothing".to_owned());
    format!("{} to {}", shown(&moved.before), shown(&moved.now))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example::{evidence, facts, reason};

    fn judged(repository: RepositoryFacts) -> Verdict {
        untouched(&Facts { repository: Some(repository), ..facts() })
    }

    fn at_spawn() -> RepositoryFacts {
        let same = |name: &str| Moved { before: Some(name.into()), now: Some(name.into()) };
        RepositoryFacts {
            since: Since::Spawn,
            head: same("refs/heads/agent/ag-1"),
            commit: same("c0ffee"),
            configuration: Some(false),
            hooks: Some(Vec::new()),
            references: Vec::new(),
            commits: Vec::new(),
        }
    }

    #[test]
    fn git_as_it_was_passes() {
        assert!(evidence(&judged(at_spawn())).contains("at the spawn"));
    }

    #[test]
    fn fault_4_a_worktree_that_does_not_exist_fails() {
        assert!(reason(&untouched(&facts())).contains("could not be measured"));
    }

    #[test]
    fn everything_that_moved_fails_by_its_name() {
        let moved = || Moved { before: Some("a".into()), now: Some("b".into()) };
        let gone = || Moved { before: Some("a".into()), now: None };
        for (changed, told) in [
            (RepositoryFacts { head: moved(), ..at_spawn() }, "HEAD moved from a to b"),
            (RepositoryFacts { head: gone(), ..at_spawn() }, "HEAD moved from a to nothing"),
            (RepositoryFacts { commit: moved(), ..at_spawn() }, "under HEAD moved"),
            (RepositoryFacts { configuration: Some(true), ..at_spawn() }, "configuration"),
            (RepositoryFacts { configuration: None, ..at_spawn() }, "could not be compared"),
            (RepositoryFacts { hooks: Some(vec!["pre-push".into()]), ..at_spawn() }, "pre-push"),
            (RepositoryFacts { hooks: None, ..at_spawn() }, "hooks could not be compared"),
            (RepositoryFacts { references: vec!["refs/tags/x".into()], ..at_spawn() }, "tags/x"),
            (RepositoryFacts { commits: vec!["beef".into()], ..at_spawn() }, "beef"),
        ] {
            let reason = reason(&judged(changed));
            assert!(reason.contains(told) && reason.contains("since the spawn"), "{reason}");
        }
    }

    #[test]
    fn without_a_record_of_the_spawn_the_merge_base_is_named() {
        let unknown = RepositoryFacts { since: Since::MergeBase, ..RepositoryFacts::default() };
        assert!(evidence(&judged(unknown.clone())).contains("no record of the spawn"));
        let committed = RepositoryFacts { commits: vec!["beef".into()], ..unknown };
        assert!(reason(&judged(committed)).contains("merge base"));
    }
}
