//! `scope::files-whitelist`: every changed path is one that the task allows.
//!
//! A symbolic link that the agent made must stay inside of the repository: what is written through
//! it later would be written elsewhere.

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
        .filter(|touched| !touched.is_report && !globs.matches(touched.path, touched.is_directory))
        .map(|touched| touched.path.to_owned())
        .collect();
    if !outside.is_empty() {
        return paths::blame_touched(
            subject,
            &outside,
            match whitelist {
                [] => "was changed, and the task's whitelist is empty: no file may be written",
                [_, ..] => "was changed and is not in the task's whitelist",
            },
        );
    }
    let leading: Vec<String> = links(subject)
        .filter_map(|link| Some(format!("`{}` {}", link.path.escape_debug(), astray(link, facts)?)))
        .collect();
    if let Some(first) = leading.first() {
        return Verdict::fail_with(format!("the link {first}"), leading.join("\n"));
    }
    match subject.changes.len() {
        0 => Verdict::pass("nothing was changed"),
        1 => Verdict::pass("1 change, inside of the whitelist"),
        count => Verdict::pass(format!("{count} changes, all inside of the whitelist")),
    }
}

fn links<'a>(subject: &Subject<'a>) -> impl Iterator<Item = &'a Change> + use<'a> {
    let is_link =
        |change: &&Change| change.after.as_ref().is_some_and(|entry| entry.mode == Mode::Link);
    subject.changes.iter().filter(is_link)
}

/// Why a link does not stay inside of the repository.
fn astray(link: &Change, facts: &Facts) -> Option<String> {
    let target = facts.texts.get(&link.path).and_then(|texts| texts.after.as_deref());
    let Some(target) = target else {
        return Some("could not be read".to_owned());
    };
    let Ok(target) = std::str::from_utf8(target) else {
        return Some("leads to what is no text".to_owned());
    };
    let shown = target.escape_debug();
    if target.starts_with('/') {
        return Some(format!("leads outside of the repository, to {shown}"));
    }
    let parts: Vec<&str> =
        target.split('/').filter(|part| !part.is_empty() && *part != ".").collect();
    let up = parts.iter().take_while(|part| **part == "..").count();
    // Its own directories are real ones; a name behind which `..` stands may be a link itself.
    let depth = link.path.split('/').count() - 1;
    let rest: Vec<&str> = parts.into_iter().skip(up).collect();
    if up > depth {
        Some(format!("leads outside of the repository, to {shown}"))
    } else if rest.contains(&"..") {
        Some(format!("leads through a name and back (`..`), to {shown}"))
    } else if rest.contains(&".git") {
        Some(format!("leads into git's own directory, to {shown}"))
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

    fn leading(path: &str, target: &str) -> Verdict {
        let mut facts = facts();
        facts.texts.insert(path.to_owned(), texts(None, Some(target)));
        judge(&subject(&task(SRC), &agent(), &[linked(path)]), &facts)
    }

    #[test]
    fn what_the_whitelist_has_passes() {
        let changes = [added("src/a.rs"), deleted("src/b.rs"), renamed("src/c.rs", "src/d/e.rs")];
        assert!(evidence(&judged(SRC, &changes)).contains("3 changes"));
        assert!(judged(SRC, &[]).holds());
    }

    #[test]
    fn fault_2_a_file_that_git_does_not_track_counts_like_any_other() {
        assert!(reason(&judged(SRC, &[added("stray.txt")])).contains("`stray.txt`"));
    }

    #[test]
    fn fault_2_what_the_base_changed_is_not_among_the_changes_and_not_blamed() {
        // The changes are those since the merge base: what others did is not in them.
        assert!(judged(SRC, &[changed("src/a.rs")]).holds());
    }

    #[test]
    fn build_output_that_git_does_not_ignore_is_told_with_the_line_that_ignores_it() {
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
    fn a_rename_counts_on_both_sides() {
        assert!(!judged(SRC, &[renamed("docs/a.md", "src/a.md")]).holds());
        assert!(!judged(SRC, &[renamed("src/a.md", "docs/a.md")]).holds());
        let copied = Change { copied: true, ..renamed("docs/a.md", "src/a.md") };
        assert!(judged(SRC, &[copied]).holds());
    }

    #[test]
    fn no_list_allows_nothing_but_the_agents_own_report() {
        assert!(reason(&judged("", &[added("a")])).contains("no file may be written"));
        assert!(judged("", &[added(".claude/agents/ag-1/review.md")]).holds());
        assert!(!judged("", &[added(".claude/agents/ag-2/review.md")]).holds());
        assert!(!judged("", &[linked(".claude/agents/ag-1/review.md")]).holds());
    }

    #[test]
    fn a_submodule_is_a_path() {
        let submodule = Change { after: entry(Mode::Submodule), ..added("vendor/x") };
        assert!(!judged(SRC, std::slice::from_ref(&submodule)).holds());
        let allowed = "[scope]\nfiles-whitelist = [\"vendor/x/\"]";
        assert!(judged(allowed, &[submodule]).holds());
    }

    #[test]
    fn many_offenders_are_counted_and_some_are_listed() {
        let changes: Vec<Change> = (0..30).map(|number| added(&format!("f{number:02}"))).collect();
        let verdict = judged(SRC, &changes);
        assert!(reason(&verdict).contains("`f00` and 29 more"));
        assert_eq!(detail(&verdict).lines().count(), 21);
        assert!(detail(&verdict).ends_with("… and 10 more"));
    }

    #[test]
    fn a_link_must_stay_inside() {
        for inside in ["a.rs", "./x/y", "../docs/a.md", "deep//a", "..a/b"] {
            assert!(leading("src/link", inside).holds(), "{inside}");
        }
        for outside in
            ["/etc/passwd", "../../x", "../../../etc", "x/../../../y", "../.git/config", "/"]
        {
            assert!(!leading("src/link", outside).holds(), "{outside}");
        }
        assert!(reason(&leading("src/link", "../../x")).contains("leads outside"));
        assert!(!judged(SRC, &[linked("src/link")]).holds(), "its text is not known");
    }
}
