//! `scope::files-denylist`: no changed path matches the denylist of the task.

use super::{Subject, paths};
use crate::facts::{Facts, Needs};
use crate::verdict::Verdict;

pub(super) fn needs(_subject: &Subject<'_>) -> Needs {
    Needs::default()
}

pub(super) fn judge(subject: &Subject<'_>, _facts: &Facts) -> Verdict {
    let globs = paths::globs(subject.task.scope.files_denylist.get());
    let denied: Vec<String> = paths::touched(subject)
        .filter(|touched| globs.matches(touched.path, touched.is_directory))
        .map(|touched| touched.path.to_owned())
        .collect();
    if denied.is_empty() {
        Verdict::pass("no changed file is in the denylist")
    } else {
        paths::fail_for_touched(subject, &denied, "was changed and is in the task's denylist")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example::{added, agent, deleted, facts, reason, renamed, subject, task};

    #[test]
    fn no_changed_path_may_be_denied() {
        let task = task("[scope]\nfiles-whitelist = [\"**\"]\nfiles-denylist = [\".github/**\"]");
        let judged = |changes: &[_]| judge(&subject(&task, &agent(), changes), &facts());
        assert!(judged(&[added("src/a.rs"), deleted("github/x")]).is_pass());
        assert!(!judged(&[deleted(".github/ci.yml")]).is_pass());
        let verdict = judged(&[renamed(".github/ci.yml", "ci.yml")]);
        assert!(
            reason(&verdict).contains("`.github/ci.yml` was changed and is in the task's deny")
        );
    }

    #[test]
    fn without_a_denylist_nothing_is_denied() {
        let verdict = judge(&subject(&task(""), &agent(), &[added("a")]), &facts());
        assert!(verdict.is_pass());
    }
}
