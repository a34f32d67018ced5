//! `scope::no-rule-edits`: no file that instructs or limits agents was changed.

use bailiwick_model::well_known::is_rule;

use super::{Subject, paths};
use crate::facts::{Facts, Needs};
use crate::verdict::Verdict;

pub(super) fn needs(_subject: &Subject<'_>) -> Needs {
    Needs::default()
}

pub(super) fn judge(subject: &Subject<'_>, _facts: &Facts) -> Verdict {
    let rules: Vec<String> = paths::touched(subject)
        .filter(|touched| !touched.is_report && is_rule(touched.path))
        .map(|touched| touched.path.to_owned())
        .collect();
    if rules.is_empty() {
        Verdict::pass("no file that instructs or limits agents was changed")
    } else {
        paths::fail_for_paths(&rules, "was changed and is a rule for agents")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example::{added, agent, changed, deleted, facts, linked, renamed, subject, task};

    #[test]
    fn rules_for_agents_must_not_change() {
        let task = task("[scope]\nfiles-whitelist = [\"**\"]");
        let judged = |changes: &[_]| judge(&subject(&task, &agent(), changes), &facts()).is_pass();
        assert!(judged(&[changed("src/a.rs"), added("docs/agents.md")]));
        assert!(judged(&[added(".claude/agents/ag-1/review.md")]), "the agent's own report");
        for path in [
            "AGENTS.md",
            "crates/x/CLAUDE.md",
            ".bailiwick/roles/edit-local.toml",
            ".claude/settings.json",
            ".claude/agents/ag-2/review.md",
            "deep/.codex/config.toml",
        ] {
            assert!(!judged(&[changed(path)]), "{path}");
            assert!(!judged(&[deleted(path)]), "{path}");
            assert!(!judged(&[renamed(path, "notes.md")]), "{path}");
        }
        assert!(!judged(&[linked(".claude/agents/ag-1/review.md")]), "a link is not a report");
    }
}
