//! `safety::no-dep-bump`: dependencies are as they were, in the tree and in every commit that would land.

use std::collections::BTreeMap;

use super::Subject;
use crate::change::{Change, Entry, Mode};
use crate::dependencies::{self, Dependencies, Reading};
use crate::facts::{Committed, Facts, Needs, Pass, Texts};
use crate::verdict::Verdict;

/// How many differences a verdict lists.
const LISTED: usize = 40;

pub(super) fn needs(subject: &Subject<'_>) -> Needs {
    if may_change(subject) {
        return Needs::default();
    }
    let texts: Vec<String> = manifests(subject).map(|change| change.path.clone()).collect();
    let commits = !texts.is_empty() || is_passing(subject);
    Needs { texts, commits, ..Needs::default() }
}

pub(super) fn judge(subject: &Subject<'_>, facts: &Facts) -> Verdict {
    if may_change(subject) {
        return Verdict::pass("the task allows changes of dependencies");
    }
    let (mut count, mut differences) = (0, Vec::new());
    for change in manifests(subject) {
        let path = change.path.escape_debug();
        count += 1;
        match compare(change, &facts.texts) {
            Ok(lines) => {
                differences.extend(lines.into_iter().map(|line| format!("{path}: {line}")));
            }
            Err(why) => return Verdict::fail(format!("`{path}` {why}")),
        }
    }
    if differences.is_empty() && (count > 0 || is_passing(subject)) {
        let verdict = match &facts.commits {
            Some(commits) => commits.iter().find_map(blame_commit),
            // The commits are the same in both passes.
            None if facts.pass == Pass::SimulatedMerge => None,
            None => Some(Verdict::fail("the commits of the work could not be read")),
        };
        if let Some(verdict) = verdict {
            return verdict;
        }
    }
    match differences.first() {
        None if count == 0 => Verdict::pass("no manifest and no lock file was changed"),
        None => Verdict::pass(format!(
            "{count} manifests and lock files were changed, and name the same dependencies"
        )),
        Some(first) => {
            let more = differences.len() - 1;
            let also = if more == 0 { String::new() } else { format!(", and {more} more") };
            let mut lines: Vec<String> = differences.iter().take(LISTED).cloned().collect();
            if differences.len() > LISTED {
                lines.push(format!("… and {} more", differences.len() - LISTED));
            }
            Verdict::fail_with(format!("a dependency differs: {first}{also}"), lines.join("\n"))
        }
    }
}

/// Whether a commit touched a manifest of which nothing is left to see.
fn is_passing(subject: &Subject<'_>) -> bool {
    subject.passing.iter().any(|path| dependencies::is_manifest(path))
}

/// A failure if a commit names other dependencies than each of its parents. A merge takes those of one.
fn blame_commit(committed: &Committed) -> Option<Verdict> {
    let mut differing = committed
        .against
        .iter()
        .map(|difference| changed_dependencies(&difference.changes, &difference.texts));
    let first = differing.next()?;
    let all = differing
        .fold(first, |all, other| all.into_iter().filter(|path| other.contains(path)).collect());
    let path = all.first()?.escape_debug().to_string();
    let commit = committed.commit.get(..12).unwrap_or(&committed.commit);
    Some(Verdict::fail_with(
        format!("commit {commit} changes dependencies in `{path}`, and a later one undoes it"),
        "help: the commit would stay in the history; make the work without it, for example with \
         `git rebase -i`"
            .to_owned(),
    ))
}

/// The changed manifests and lock files that name other dependencies than before, or cannot be read.
pub fn changed_dependencies(changes: &[Change], texts: &BTreeMap<String, Texts>) -> Vec<String> {
    let manifests = changes.iter().filter(|change| change.paths().any(dependencies::is_manifest));
    let differs =
        |change: &&Change| !matches!(compare(change, texts), Ok(lines) if lines.is_empty());
    manifests.filter(differs).map(|change| change.path.clone()).collect()
}

fn may_change(subject: &Subject<'_>) -> bool {
    let allowed = subject.task.verification.allow_dependency_changes.as_ref();
    allowed.is_some_and(|allowed| *allowed.get_ref())
}

fn manifests<'a>(subject: &Subject<'a>) -> impl Iterator<Item = &'a Change> + use<'a> {
    let is_one = |change: &&Change| change.paths().any(dependencies::is_manifest);
    subject.changes.iter().filter(is_one)
}

/// What differs, or why that cannot be told.
fn compare(change: &Change, texts: &BTreeMap<String, Texts>) -> Result<Vec<String>, String> {
    let from = change.from.as_deref().unwrap_or(&change.path);
    let odd = |entry: &Option<Entry>| entry.as_ref().is_some_and(|entry| !is_file(entry.mode));
    if odd(&change.before) || odd(&change.after) {
        return Ok(vec!["it is or was a link or a repository of its own".to_owned()]);
    }
    let texts = texts.get(&change.path).ok_or("could not be read: its text is not known")?;
    let known = (change.before.is_none() || texts.before.is_some())
        && (change.after.is_none() || texts.after.is_some());
    if !known {
        return Err("could not be read: its text is not known".to_owned());
    }
    // What is copied is new, and what is no manifest names nothing.
    let before = texts.before.as_deref().filter(|_| !change.copied);
    let before = before.filter(|_| dependencies::is_manifest(from));
    let after = texts.after.as_deref().filter(|_| dependencies::is_manifest(&change.path));
    if before == after && from.rsplit('/').next() == change.path.rsplit('/').next() {
        return Ok(Vec::new());
    }
    let read = |path, text: Option<&[u8]>| match text {
        Some(text) => dependencies::read(path, text),
        None => Ok(Reading::Data(Dependencies::default())),
    };
    let now = read(&change.path, after).map_err(|why| format!("does not parse: {why}"))?;
    let was = read(from, before)
        .map_err(|why| format!("cannot be compared, it did not parse before: {why}"))?;
    match (was, now) {
        (Reading::Data(was), Reading::Data(now)) => Ok(was.differences(&now)),
        (Reading::Bytes, _) | (_, Reading::Bytes) => {
            Ok(vec!["it differs, and cannot be compared as data".to_owned()])
        }
    }
}

fn is_file(mode: Mode) -> bool {
    match mode {
        Mode::File | Mode::Executable => true,
        Mode::Link | Mode::Submodule => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example::{
        added, agent, changed, deleted, detail, entry, evidence, facts, linked, reason, renamed,
        subject, task, texts,
    };

    fn judged(change: Change, before: Option<&str>, after: Option<&str>) -> Verdict {
        let mut facts = facts();
        facts.texts.insert(change.path.clone(), texts(before, after));
        facts.commits = Some(Vec::new());
        judge(&subject(&task(""), &agent(), &[change]), &facts)
    }

    fn cargo(before: &str, after: &str) -> Verdict {
        judged(changed("Cargo.toml"), Some(before), Some(after))
    }

    const OLD: &str =
        "[package]\nname = \"a\"\nversion = \"0.1.0\"\n[dependencies]\nserde = \"1\"\n";

    #[test]
    fn fault_6_a_version_in_a_table_is_seen_and_the_packages_own_is_not() {
        assert!(cargo(OLD, &OLD.replace("0.1.0", "9.9.9")).holds());
        assert!(cargo(OLD, &OLD.replace("\"1\"", "{ version = \"1\" }")).holds());
        let bumped = cargo(OLD, &OLD.replace("\"1\"", "{ version = \"2\" }"));
        assert_eq!(detail(&bumped), "Cargo.toml: dependencies.serde: 1 → 2");
        let featured = OLD.replace("\"1\"", "{ version = \"1\", features = [\"derive\"] }");
        assert!(reason(&cargo(OLD, &featured)).contains("serde: 1 → 1 {"));
    }

    #[test]
    fn new_moved_and_deleted_manifests_count_with_what_they_name() {
        let empty = "[package]\nname = \"a\"\nversion = \"1.0.0\"\n";
        assert!(judged(added("a/Cargo.toml"), None, Some(empty)).holds());
        assert!(!judged(added("a/Cargo.toml"), None, Some(OLD)).holds());
        assert!(judged(deleted("a/Cargo.toml"), Some(empty), None).holds());
        assert!(!judged(deleted("a/Cargo.toml"), Some(OLD), None).holds());
        let moved = || renamed("a/Cargo.toml", "b/Cargo.toml");
        assert!(judged(moved(), Some(OLD), Some(OLD)).holds());
        assert!(!judged(moved(), Some(OLD), Some(empty)).holds());
        let copied = Change { copied: true, ..moved() };
        assert!(!judged(copied, Some(OLD), Some(OLD)).holds());
        assert!(!judged(renamed("Cargo.toml", "old.txt"), Some(OLD), Some(OLD)).holds());
        assert!(!judged(renamed("old.txt", "Cargo.toml"), Some(OLD), Some(OLD)).holds());
    }

    fn committed(before: &str, after: &str) -> crate::facts::Difference {
        let texts = BTreeMap::from([("Cargo.toml".to_owned(), texts(Some(before), Some(after)))]);
        crate::facts::Difference { changes: vec![changed("Cargo.toml")], texts }
    }

    #[test]
    fn a_commit_that_changes_a_dependency_counts_though_the_tree_shows_nothing_of_it() {
        let (task, agent) = (task(""), agent());
        let passing = ["Cargo.toml".to_owned()];
        let subject = Subject { passing: &passing, ..subject(&task, &agent, &[]) };
        assert!(needs(&subject).commits);
        let bumped = OLD.replace("\"1\"", "\"2\"");
        let renamed = OLD.replace("0.1.0", "0.2.0");
        let with = |against: Vec<crate::facts::Difference>| {
            let commits = Some(vec![Committed { commit: "c".repeat(40), against }]);
            judge(&subject, &Facts { commits, ..facts() })
        };
        let verdict = with(vec![committed(OLD, &bumped)]);
        assert!(
            reason(&verdict)
                .starts_with("commit cccccccccccc changes dependencies in `Cargo.toml`")
        );
        assert!(with(vec![committed(OLD, &renamed)]).holds(), "its own version is no dependency");
        // A merge that takes what the base has differs from one parent alone; one that adds differs from both.
        assert!(with(vec![committed(OLD, &bumped), Default::default()]).holds());
        assert!(!with(vec![committed(OLD, &bumped), committed(&renamed, &bumped)]).holds());
        assert!(!judge(&subject, &facts()).holds(), "nobody looked");
        let merged = Facts { pass: Pass::SimulatedMerge, ..facts() };
        assert!(judge(&subject, &merged).holds());
    }

    #[test]
    fn what_cannot_be_told_fails() {
        assert!(reason(&cargo(OLD, "[dependencies\n")).contains("`Cargo.toml` does not parse"));
        assert!(!cargo("[dependencies\n", OLD).holds());
        let (task, agent) = (task(""), agent());
        let changes = [changed("Cargo.toml")];
        let unknown = judge(&subject(&task, &agent, &changes), &facts());
        assert!(reason(&unknown).contains("its text is not known"));
        let half = judged(changed("Cargo.toml"), None, Some(OLD));
        assert!(reason(&half).contains("its text is not known"));
        assert!(!judged(linked("Cargo.lock"), None, Some("../x")).holds());
        let submodule = Change { after: entry(Mode::Submodule), ..added("Cargo.toml") };
        assert!(!judged(submodule, None, None).holds());
    }

    #[test]
    fn formats_without_a_parser_may_not_differ_by_a_byte() {
        let yarn = |after| judged(changed("web/yarn.lock"), Some("a\n"), Some(after));
        assert!(reason(&yarn("a \n")).contains("cannot be compared as data"));
        assert!(yarn("a\n").holds(), "only its mode differs");
    }

    #[test]
    fn a_task_may_allow_it_and_other_files_are_not_looked_at() {
        let task = task("[verification]\nallow-dependency-changes = true");
        let agent = agent();
        let changes = [changed("Cargo.toml")];
        let subject = subject(&task, &agent, &changes);
        assert!(evidence(&judge(&subject, &facts())).contains("the task allows"));
        assert_eq!(needs(&subject), Needs::default());
        assert!(judged(changed("src/a.rs"), Some("a"), Some("b")).holds());
    }

    #[test]
    fn an_override_of_cargos_configuration_is_a_change() {
        let path = "x/.cargo/config.toml";
        let build = "[build]\njobs = 2\n";
        assert!(judged(added(path), None, Some(build)).holds());
        let patched = "[patch.crates-io]\nserde = { path = \"evil\" }\n";
        assert!(!judged(added(path), None, Some(patched)).holds());
    }
}
