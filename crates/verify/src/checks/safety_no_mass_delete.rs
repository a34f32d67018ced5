//! `safety::no-mass-delete`: few files were deleted.

use super::{Subject, paths};
use crate::facts::{Facts, Needs};
use crate::verdict::Verdict;

/// How many a task may delete that names no number.
const DEFAULT: u32 = 10;

pub(super) fn needs(_subject: &Subject<'_>) -> Needs {
    Needs::default()
}

pub(super) fn judge(subject: &Subject<'_>, _facts: &Facts) -> Verdict {
    let limit = subject.task.verification.max_deleted_files.as_ref();
    let limit = limit.map_or(DEFAULT, |limit| *limit.get_ref());
    let gone = subject.changes.iter().filter(|change| change.is_deletion());
    let gone: Vec<String> = gone.map(|change| change.path.clone()).collect();
    let count = gone.len();
    if u32::try_from(count).is_ok_and(|count| count <= limit) {
        Verdict::pass(format!("{count} files were deleted; {limit} may be"))
    } else {
        let reason = format!("{count} files were deleted, more than the {limit} that may be");
        Verdict::fail_with(reason, paths::listed(&gone))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::change::Change;
    use crate::example::{agent, deleted, detail, facts, reason, renamed, subject, task};

    fn judged(rest: &str, changes: &[Change]) -> Verdict {
        judge(&subject(&task(rest), &agent(), changes), &facts())
    }

    fn deletions(count: usize) -> Vec<Change> {
        (0..count).map(|number| deleted(&format!("f{number}"))).collect()
    }

    #[test]
    fn ten_may_go_unless_the_task_says_otherwise() {
        assert!(judged("", &deletions(10)).holds());
        let verdict = judged("", &deletions(11));
        assert!(reason(&verdict).contains("11 files were deleted"));
        assert_eq!(detail(&verdict).lines().count(), 11);
        assert!(judged("[verification]\nmax-deleted-files = 11", &deletions(11)).holds());
        assert!(!judged("[verification]\nmax-deleted-files = 0", &deletions(1)).holds());
    }

    #[test]
    fn a_moved_file_is_not_deleted() {
        let moved: Vec<Change> =
            (0..20).map(|number| renamed(&format!("a{number}"), &format!("b{number}"))).collect();
        assert!(judged("", &moved).holds());
    }
}
