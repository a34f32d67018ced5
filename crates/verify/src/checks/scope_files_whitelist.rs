//! `scope::files-whitelist`: every changed path matches the whitelist of the task.
//!
//! A new symbolic link must stay inside the repository: a later write through it would go elsewhere.

use super::{Subject, paths};
use crate::change::{Change, Mode};
use crate::facts::{Facts, Needs};
use crate::verdict::Verdict;

pub(super) fn needs(subject: &Subject<'_>) -> Needs {
    Needs { texts: links(subject).map(|link| link.path.clone()).collect(), ..Needs::default() }
}

pub(super) fn judge(subject: &Subject<'_>, facts: &Facts) -> Verdict {
    let whitelist = subject.task.scope.files_whitelist.get();
    let globs = paths::globs(whitelist);
    let outside: Vec<String> = paths::touched(subject)
        .filter(|touched| {
            let was_file = |path: &str| was_file(subject, path);
            !touched.is_report
                && !globs.matches_beside(touched.path, touched.is_directory, was_file)
        })
        .map(|touched| touched.path.to_owned())
        .collect();
    if !outside.is_empty() {
        return paths::fail_for_touched(
            subject,
            &outside,
            match whitelist {
                [] => "was changed, and the task's whitelist is empty: no file may be written",
                [_, ..] => "was changed and is not in the task's whitelist",
            },
        );
    }
    let escaping: Vec<String> = links(subject)
        .filter_map(|link| {
            Some(format!("`{}` {}", link.path.escape_debug(), escape_of(link, facts)?))
        })
        .collect();
    if let Some(first) = escaping.first() {
        return Verdict::fail_with(format!("the link {first}"), escaping.join("\n"));
    }
    match subject.changes.len() {
        0 => Verdict::pass("nothing was changed"),
        1 => Verdict::pass("1 change, inside the whitelist"),
        count => Verdict::pass(format!("{count} changes, all inside the whitelist")),
    }
}

/// Whether a path was a file or a link before the change.
fn was_file(subject: &Subject<'_>, path: &str) -> bool {
    subject.changes.iter().any(|change| {
        let is_file = change.before.as_ref().is_some_and(|entry| entry.mode != Mode::Submodule);
        is_file && change.from.as_ref().unwrap_or(&change.path) == path
    })
}

fn links<'a>(subject: &Subject<'a>) -> impl Iterator<Item = &'a Change> + use<'a> {
    let is_link =
        |change: &&Change| change.after.as_ref().is_some_and(|entry| entry.mode == Mode::Link);
    subject.changes.iter().filter(is_link)
}

/// Why a link does not stay inside the repository, if it does not.
fn escape_of(link: &Change, facts: &Facts) -> Option<String> {
    let target = facts.texts.get(&link.path).and_then(|texts| texts.after.as_deref());
    let Some(target) = target else {
        return Some("could not be read".to_owned());
    };
    let Ok(target) = std::str::from_utf8(target) else {
        return Some("has a target that is not UTF-8".to_owned());
    };
    let shown = target.escape_debug();
    if target.starts_with('/') {
        return Some(format!("points outside the repository, to {shown}"));
    }
    let parts: Vec<&str> =
        target.split('/').filter(|part| !part.is_empty() && *part != ".").collect();
    let up = parts.iter().take_while(|part| **part == "..").count();
    // The directories of the link are real; a name followed by `..` may be a link itself.
    let depth = link.path.split('/').count() - 1;
    let rest: Vec<&str> = parts.into_iter().skip(up).collect();
    if up > depth {
        Some(format!("points outside the repository, to {shown}"))
    } else if rest.contains(&"..") {
        Some(format!("has `..` after a name in its target {shown}"))
    } else if rest.contains(&".git") {
        Some(format!("points into git's own directory, to {shown}"))
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example::{
        added, agent, changed, deleted, detail, entry, evidence, facts, linked, reason, renamed,
        subject, task, texts,
    };

    const SRC: &str = "[scope]\nfiles-whitelist = [\"src/**\"]";

    fn judged(rest: &str, changes: &[Change]) -> Verdict {
        judge(&subject(&task(rest), &agent(), changes), &facts())
    }

    fn link_to(path: &str, target: &str) -> Verdict {
        let mut facts = facts();
        facts.texts.insert(path.to_owned(), texts(None, Some(target)));
        judge(&subject(&task(SRC), &agent(), &[linked(path)]), &facts)
    }

    #[test]
    fn changes_inside_the_whitelist_pass() {
        let changes = [added("src/a.rs"), deleted("src/b.rs"), renamed("src/c.rs", "src/d/e.rs")];
        assert!(evidence(&judged(SRC, &changes)).contains("3 changes"));
        assert!(judged(SRC, &[]).is_pass());
    }

    #[test]
    fn fault_2_untracked_file_counts_like_any_other() {
        assert!(reason(&judged(SRC, &[added("stray.txt")])).contains("`stray.txt`"));
    }

    #[test]
    fn fault_2_changes_of_the_base_do_not_count() {
        // The changes are those since the merge base, without the changes of others.
        assert!(judged(SRC, &[changed("src/a.rs")]).is_pass());
    }

    #[test]
    fn build_output_that_is_not_ignored_fails_with_the_gitignore_line() {
        let bytecode = [added("lib/__pycache__/a.pyc"), added("lib/b.pyc")];
        let help = detail(&judged(SRC, &bytecode));
        assert!(
            help.ends_with("add `__pycache__/`, `*.pyc` to .gitignore on the base branch"),
            "{help}"
        );
        let single = detail(&judged(SRC, &bytecode[..1]));
        assert!(single.starts_with("help: ") && single.contains("`__pycache__/`"), "{single}");
        let tracked = [changed("dist/a.js")];
        let mixed = [added("dist/a.js"), added("stray.txt")];
        for changes in [&tracked[..], &mixed[..]] {
            assert!(!format!("{:?}", judged(SRC, changes)).contains("help"), "{changes:?}");
        }
    }

    #[test]
    fn rename_counts_on_both_sides() {
        assert!(!judged(SRC, &[renamed("docs/a.md", "src/a.md")]).is_pass());
        assert!(!judged(SRC, &[renamed("src/a.md", "docs/a.md")]).is_pass());
        let copied = Change { copied: true, ..renamed("docs/a.md", "src/a.md") };
        assert!(judged(SRC, &[copied]).is_pass());
    }

    #[test]
    fn without_a_whitelist_only_the_agents_own_report_is_allowed() {
        assert!(reason(&judged("", &[added("a")])).contains("no file may be written"));
        assert!(judged("", &[added(".claude/agents/ag-1/review.md")]).is_pass());
        assert!(!judged("", &[added(".claude/agents/ag-2/review.md")]).is_pass());
        assert!(!judged("", &[linked(".claude/agents/ag-1/review.md")]).is_pass());
    }

    #[test]
    fn submodule_counts_as_a_path() {
        let submodule = Change { after: entry(Mode::Submodule), ..added("vendor/x") };
        assert!(!judged(SRC, std::slice::from_ref(&submodule)).is_pass());
        let allowed = "[scope]\nfiles-whitelist = [\"vendor/x/\"]";
        assert!(judged(allowed, &[submodule]).is_pass());
    }

    #[test]
    fn many_paths_are_counted_and_the_first_are_listed() {
        let changes: Vec<Change> = (0..30).map(|number| added(&format!("f{number:02}"))).collect();
        let verdict = judged(SRC, &changes);
        assert!(reason(&verdict).contains("`f00` and 29 more"));
        assert_eq!(detail(&verdict).lines().count(), 21);
        assert!(detail(&verdict).ends_with("… and 10 more"));
    }

    #[test]
    fn link_must_stay_inside_the_repository() {
        for inside in ["a.rs", "./x/y", "../docs/a.md", "deep//a", "..a/b"] {
            assert!(link_to("src/link", inside).is_pass(), "{inside}");
        }
        for outside in
            ["/etc/passwd", "../../x", "../../../etc", "x/../../../y", "../.git/config", "/"]
        {
            assert!(!link_to("src/link", outside).is_pass(), "{outside}");
        }
        assert!(reason(&link_to("src/link", "../../x")).contains("points outside"));
        assert!(!judged(SRC, &[linked("src/link")]).is_pass(), "its text is not known");
    }

    #[test]
    fn whitelisted_file_that_becomes_a_directory_allows_no_file_in_it() {
        let file = "[scope]\nfiles-whitelist = [\"src/a.txt\"]";
        let below = [deleted("src/a.txt"), added("src/a.txt/evil")];
        assert!(reason(&judged(file, &below)).contains("src/a.txt/evil"));
        assert!(!judged(file, &[renamed("src/a.txt", "src/a.txt/evil")]).is_pass());
        assert!(judged(SRC, &below).is_pass(), "the complete directory is in the whitelist");
        assert!(judged(file, &[deleted("src/a.txt")]).is_pass());
    }
}
