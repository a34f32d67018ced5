//! `safety::no-dep-bump`: dependencies are unchanged, in the tree and in every commit that would land.

use std::collections::BTreeMap;

use super::{Subject, listing};
use crate::change::{Change, Entry, Mode};
use crate::dependencies::{self, Dependencies, Manifest, ManifestError};
use crate::facts::{CommitDifferences, Facts, Needs, Pass, Texts};
use crate::verdict::Verdict;

/// How many differences a verdict lists.
const MAX_LISTED: usize = 40;

pub(super) fn needs(subject: &Subject<'_>) -> Needs {
    if allows_changes(subject) {
        return Needs::default();
    }
    let texts: Vec<String> = manifests(subject).map(|change| change.path.clone()).collect();
    let commits = !texts.is_empty() || has_intermediate_manifest(subject);
    Needs { texts, commits, ..Needs::default() }
}

pub(super) fn judge(subject: &Subject<'_>, facts: &Facts) -> Verdict {
    if allows_changes(subject) {
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
    if differences.is_empty() && (count > 0 || has_intermediate_manifest(subject)) {
        let failure = match &facts.commits {
            Some(commits) => commits.iter().find_map(fail_for_commit),
            // Both passes have the same commits: the first one checked them.
            None if facts.pass == Pass::SimulatedMerge => None,
            None => Some(Verdict::fail("the commits of the work could not be read")),
        };
        if let Some(failure) = failure {
            return failure;
        }
    }
    match differences.first() {
        None if count == 0 => Verdict::pass("no manifest and no lock file was changed"),
        None => Verdict::pass(format!(
            "{count} manifests and lock files were changed, with the same dependencies"
        )),
        Some(first) => {
            let more = differences.len() - 1;
            let also = if more == 0 { String::new() } else { format!(", and {more} more") };
            let detail = listing::limited(&differences, MAX_LISTED);
            Verdict::fail_with(format!("a dependency differs: {first}{also}"), detail)
        }
    }
}

/// Whether commits changed a manifest and changed it back.
fn has_intermediate_manifest(subject: &Subject<'_>) -> bool {
    subject.intermediate_paths.iter().any(|path| dependencies::is_manifest(path))
}

/// A failure if the dependencies of a commit differ from those of each of its parents.
fn fail_for_commit(commit: &CommitDifferences) -> Option<Verdict> {
    let mut differing = commit
        .per_parent
        .iter()
        .map(|difference| changed_dependencies(&difference.changes, &difference.texts));
    let first = differing.next()?;
    let all = differing
        .fold(first, |all, other| all.into_iter().filter(|path| other.contains(path)).collect());
    let path = all.first()?.escape_debug().to_string();
    let id = commit.commit.get(..12).unwrap_or(&commit.commit);
    Some(Verdict::fail_with(
        format!("commit {id} changes dependencies in `{path}`, and a later commit reverts it"),
        "help: the commit would stay in the history; remove it, for example with `git rebase -i`"
            .to_owned(),
    ))
}

/// The manifests and lock files whose dependencies changed, or that cannot be read.
pub fn changed_dependencies(changes: &[Change], texts: &BTreeMap<String, Texts>) -> Vec<String> {
    let manifests = changes.iter().filter(|change| change.paths().any(dependencies::is_manifest));
    let differs =
        |change: &&Change| !matches!(compare(change, texts), Ok(lines) if lines.is_empty());
    manifests.filter(differs).map(|change| change.path.clone()).collect()
}

fn allows_changes(subject: &Subject<'_>) -> bool {
    let allowed = subject.task.verification.allow_dependency_changes.as_ref();
    allowed.is_some_and(|allowed| *allowed.get_ref())
}

fn manifests<'a>(subject: &Subject<'a>) -> impl Iterator<Item = &'a Change> + use<'a> {
    let is_one = |change: &&Change| change.paths().any(dependencies::is_manifest);
    subject.changes.iter().filter(is_one)
}

/// Why a manifest cannot be compared.
#[derive(Debug, thiserror::Error)]
enum CompareError {
    #[error("could not be read: its text is not known")]
    UnknownText,
    #[error("does not parse: {0}")]
    DoesNotParse(ManifestError),
    #[error("cannot be compared, it did not parse before: {0}")]
    DidNotParse(ManifestError),
}

fn compare(change: &Change, texts: &BTreeMap<String, Texts>) -> Result<Vec<String>, CompareError> {
    let from = change.from.as_deref().unwrap_or(&change.path);
    let is_special =
        |entry: &Option<Entry>| entry.as_ref().is_some_and(|entry| !is_file(entry.mode));
    if is_special(&change.before) || is_special(&change.after) {
        return Ok(vec!["it is or was a link or a submodule".to_owned()]);
    }
    let texts = texts.get(&change.path).ok_or(CompareError::UnknownText)?;
    let known = (change.before.is_none() || texts.before.is_some())
        && (change.after.is_none() || texts.after.is_some());
    if !known {
        return Err(CompareError::UnknownText);
    }
    // A copy is new, and a file that is not a manifest names no dependencies.
    let before = texts.before.as_deref().filter(|_| !change.copied);
    let before = before.filter(|_| dependencies::is_manifest(from));
    let after = texts.after.as_deref().filter(|_| dependencies::is_manifest(&change.path));
    if before == after && from.rsplit('/').next() == change.path.rsplit('/').next() {
        return Ok(Vec::new());
    }
    let read = |path, text: Option<&[u8]>| match text {
        Some(text) => dependencies::read(path, text),
        None => Ok(Manifest::Parsed(Dependencies::default())),
    };
    let now = read(&change.path, after).map_err(CompareError::DoesNotParse)?;
    let was = read(from, before).map_err(CompareError::DidNotParse)?;
    match (was, now) {
        (Manifest::Parsed(was), Manifest::Parsed(now)) => Ok(was.differences(&now)),
        (Manifest::Opaque, _) | (_, Manifest::Opaque) => {
            Ok(vec!["it differs, and there is no parser for its format".to_owned()])
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
    fn fault_6_dependency_version_counts_and_package_version_does_not() {
        assert!(cargo(OLD, &OLD.replace("0.1.0", "9.9.9")).is_pass());
        assert!(cargo(OLD, &OLD.replace("\"1\"", "{ version = \"1\" }")).is_pass());
        let bumped = cargo(OLD, &OLD.replace("\"1\"", "{ version = \"2\" }"));
        assert_eq!(detail(&bumped), "Cargo.toml: dependencies.serde: 1 → 2");
        let featured = OLD.replace("\"1\"", "{ version = \"1\", features = [\"derive\"] }");
        assert!(reason(&cargo(OLD, &featured)).contains("serde: 1 → 1 {"));
    }

    #[test]
    fn new_renamed_and_deleted_manifests_count_by_their_dependencies() {
        let empty = "[package]\nname = \"a\"\nversion = \"1.0.0\"\n";
        assert!(judged(added("a/Cargo.toml"), None, Some(empty)).is_pass());
        assert!(!judged(added("a/Cargo.toml"), None, Some(OLD)).is_pass());
        assert!(judged(deleted("a/Cargo.toml"), Some(empty), None).is_pass());
        assert!(!judged(deleted("a/Cargo.toml"), Some(OLD), None).is_pass());
        let moved = || renamed("a/Cargo.toml", "b/Cargo.toml");
        assert!(judged(moved(), Some(OLD), Some(OLD)).is_pass());
        assert!(!judged(moved(), Some(OLD), Some(empty)).is_pass());
        let copied = Change { copied: true, ..moved() };
        assert!(!judged(copied, Some(OLD), Some(OLD)).is_pass());
        assert!(!judged(renamed("Cargo.toml", "old.txt"), Some(OLD), Some(OLD)).is_pass());
        assert!(!judged(renamed("old.txt", "Cargo.toml"), Some(OLD), Some(OLD)).is_pass());
    }

    fn difference(before: &str, after: &str) -> crate::facts::Difference {
        let texts = BTreeMap::from([("Cargo.toml".to_owned(), texts(Some(before), Some(after)))]);
        crate::facts::Difference { changes: vec![changed("Cargo.toml")], texts }
    }

    #[test]
    fn reverted_dependency_change_in_a_commit_fails() {
        let (task, agent) = (task(""), agent());
        let paths = ["Cargo.toml".to_owned()];
        let subject = Subject { intermediate_paths: &paths, ..subject(&task, &agent, &[]) };
        assert!(needs(&subject).commits);
        let bumped = OLD.replace("\"1\"", "\"2\"");
        let renamed = OLD.replace("0.1.0", "0.2.0");
        let with = |per_parent: Vec<crate::facts::Difference>| {
            let commits = Some(vec![CommitDifferences { commit: "c".repeat(40), per_parent }]);
            judge(&subject, &Facts { commits, ..facts() })
        };
        let verdict = with(vec![difference(OLD, &bumped)]);
        assert!(
            reason(&verdict)
                .starts_with("commit cccccccccccc changes dependencies in `Cargo.toml`")
        );
        assert!(
            with(vec![difference(OLD, &renamed)]).is_pass(),
            "the package's own version is not a dependency"
        );
        // A merge that takes over the base differs from one parent only; a merge with its own change differs from both.
        assert!(with(vec![difference(OLD, &bumped), Default::default()]).is_pass());
        assert!(!with(vec![difference(OLD, &bumped), difference(&renamed, &bumped)]).is_pass());
        assert!(!judge(&subject, &facts()).is_pass(), "the commits are unknown");
        let merged = Facts { pass: Pass::SimulatedMerge, ..facts() };
        assert!(judge(&subject, &merged).is_pass());
    }

    #[test]
    fn manifest_that_cannot_be_compared_fails() {
        assert!(reason(&cargo(OLD, "[dependencies\n")).contains("`Cargo.toml` does not parse"));
        assert!(!cargo("[dependencies\n", OLD).is_pass());
        let (task, agent) = (task(""), agent());
        let changes = [changed("Cargo.toml")];
        let unknown = judge(&subject(&task, &agent, &changes), &facts());
        assert!(reason(&unknown).contains("its text is not known"));
        let half_known = judged(changed("Cargo.toml"), None, Some(OLD));
        assert!(reason(&half_known).contains("its text is not known"));
        assert!(!judged(linked("Cargo.lock"), None, Some("../x")).is_pass());
        let submodule = Change { after: entry(Mode::Submodule), ..added("Cargo.toml") };
        assert!(!judged(submodule, None, None).is_pass());
    }

    #[test]
    fn formats_without_a_parser_must_not_differ_by_a_byte() {
        let yarn = |after| judged(changed("web/yarn.lock"), Some("a\n"), Some(after));
        assert!(reason(&yarn("a \n")).contains("no parser for its format"));
        assert!(yarn("a\n").is_pass(), "only its mode differs");
    }

    #[test]
    fn task_can_allow_changes_and_other_files_do_not_count() {
        let task = task("[verification]\nallow-dependency-changes = true");
        let agent = agent();
        let changes = [changed("Cargo.toml")];
        let subject = subject(&task, &agent, &changes);
        assert!(evidence(&judge(&subject, &facts())).contains("the task allows"));
        assert_eq!(needs(&subject), Needs::default());
        assert!(judged(changed("src/a.rs"), Some("a"), Some("b")).is_pass());
    }

    #[test]
    fn override_in_cargos_configuration_is_a_change() {
        let path = "x/.cargo/config.toml";
        let build = "[build]\njobs = 2\n";
        assert!(judged(added(path), None, Some(build)).is_pass());
        let patched = "[patch.crates-io]\nserde = { path = \"evil\" }\n";
        assert!(!judged(added(path), None, Some(patched)).is_pass());
    }
}
