//! Snapshots of an agent's work: what they record, what cannot be hidden, what is refused.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use bailiwick_lifecycle::ports::Work as _;
use bailiwick_testkit::Scratch;
use bailiwick_verify::Change;
use bailiwick_verify::change::Mode;

use crate::agent::{Agent, git_in, repository};
use crate::work_snapshot_random::worktree_state;

fn changes(agent: &Agent) -> Vec<Change> {
    let (_, snapshot) = agent.snapshot();
    agent.work().changes(&snapshot.merge_base_tree, &snapshot.tree).unwrap()
}

fn changed(agent: &Agent) -> Vec<String> {
    changes(agent).into_iter().map(|change| change.path).collect()
}

fn refusal(agent: &Agent) -> String {
    let work = agent.work();
    work.snapshot(&work.base().unwrap()).unwrap_err().to_string()
}

#[test]
fn snapshot_has_everything_that_is_not_ignored() {
    let scratch = repository();
    let agent = Agent::spawn(&scratch, "ag-1");
    assert_eq!(changed(&agent), Vec::<String>::new());
    let (_, nothing) = agent.snapshot();
    assert_eq!((&nothing.commit, &nothing.head), (&nothing.merge_base, &nothing.merge_base));
    agent.write("src/lib.rs", "fn one() {}\n");
    let commit = agent.commit(&scratch, "committed");
    let (_, committed) = agent.snapshot();
    assert_eq!((committed.commit.as_str(), committed.head.as_str()), (&*commit, &*commit));
    agent.write("staged.txt", "staged\n");
    agent.write("staged-and-gone", "gone\n");
    agent.git(&scratch, &["add", "staged.txt", "staged-and-gone"]);
    fs::remove_file(agent.worktree.join("staged-and-gone")).unwrap();
    agent.write("intended", "intended\n");
    agent.git(&scratch, &["add", "--intent-to-add", "intended"]);
    agent.write("README.md", "changed\n");
    agent.write("new/untracked", [0, 159, 255]);
    agent.write("target/out", "ignored");
    let expected = ["README.md", "intended", "new/untracked", "src/lib.rs", "staged.txt"];
    assert_eq!(changed(&agent), expected);
    let (_, snapshot) = agent.snapshot();
    let parent = agent.git(&scratch, &["rev-parse", &format!("{}^", snapshot.commit)]);
    assert_eq!((parent.trim(), snapshot.head.as_str()), (&*commit, &*commit));
}

#[test]
fn file_modes_are_kept_and_renames_are_detected() {
    let scratch = repository();
    let agent = Agent::spawn(&scratch, "ag-1");
    let place = |path: &str| agent.worktree.join(path);
    fs::rename(place("src/lib.rs"), place("src/renamed.rs")).unwrap();
    fs::set_permissions(place("src/renamed.rs"), fs::Permissions::from_mode(0o755)).unwrap();
    fs::remove_file(place("README.md")).unwrap();
    std::os::unix::fs::symlink("src/renamed.rs", place("README.md")).unwrap();
    fs::remove_file(place("src/deep/er.rs")).unwrap();
    let changes = changes(&agent);
    let kinds: Vec<_> = changes
        .iter()
        .map(|change| {
            let mode =
                |entry: &Option<bailiwick_verify::Entry>| entry.as_ref().map(|entry| entry.mode);
            (
                change.path.as_str(),
                change.from.as_deref(),
                mode(&change.before),
                mode(&change.after),
            )
        })
        .collect();
    let file = Some(Mode::File);
    let expected = [
        ("README.md", None, file, Some(Mode::Link)),
        ("src/deep/er.rs", None, file, None),
        ("src/renamed.rs", Some("src/lib.rs"), file, Some(Mode::Executable)),
    ];
    assert_eq!(kinds, expected);
    let paths: Vec<String> = changes.iter().map(|change| change.path.clone()).collect();
    let texts = agent.work().texts(&changes, &paths).unwrap();
    let after = |path: &str| texts.get(path).unwrap().after.as_deref();
    assert_eq!(after("README.md"), Some("src/renamed.rs".as_bytes()), "the target of a link");
    assert_eq!(after("src/deep/er.rs"), None);
    assert_eq!(
        texts.get("src/deep/er.rs").unwrap().before.as_deref(),
        Some("// deep\n".as_bytes())
    );
    assert_eq!(after("src/renamed.rs"), texts.get("src/renamed.rs").unwrap().before.as_deref());
    assert_eq!(agent.work().texts(&changes, &["README.md".to_owned()]).unwrap().len(), 1);
}

#[test]
fn deleting_every_file_is_recorded() {
    let scratch = repository();
    let agent = Agent::spawn(&scratch, "ag-1");
    agent.git(&scratch, &["rm", "-r", "--quiet", "."]);
    fs::create_dir_all(&agent.worktree).unwrap();
    assert_eq!(agent.snapshot().1.tree, "4b825dc642cb6eb9a060e54bf8d69288fbee4904");
}

#[test]
fn index_flags_hide_no_change() {
    for bit in ["--assume-unchanged", "--skip-worktree"] {
        for version in ["2", "4"] {
            let scratch = repository();
            let agent = Agent::spawn(&scratch, "ag-1");
            agent.git(&scratch, &["update-index", "--index-version", version]);
            agent.git(&scratch, &["update-index", bit, "README.md", "src/lib.rs"]);
            agent.write("README.md", "hidden\n");
            fs::remove_file(agent.worktree.join("src/lib.rs")).unwrap();
            let before = worktree_state(&scratch, &agent);
            assert_eq!(before.status(), "", "the control: plain git does not see it: {bit}");
            assert_eq!(changed(&agent), ["README.md", "src/lib.rs"], "{bit}, version {version}");
            assert_eq!(worktree_state(&scratch, &agent), before, "{bit}");
        }
    }
}

#[test]
fn repository_settings_hide_no_change() {
    let scratch = repository();
    let agent = Agent::spawn(&scratch, "ag-1");
    for (name, value) in [
        ("core.trustctime", "false"),
        ("core.checkStat", "minimal"),
        ("core.safecrlf", "true"),
        ("core.splitIndex", "true"),
        ("core.untrackedCache", "true"),
        ("add.ignoreErrors", "true"),
        ("diff.ignoreSubmodules", "all"),
        ("diff.renames", "false"),
        ("status.showUntrackedFiles", "no"),
    ] {
        scratch.git(&["config", name, value]);
    }
    agent.git(&scratch, &["update-index", "--split-index"]);
    agent.write("README.md", "mixed\r\nline ends\n");
    agent.write("new", "new\n");
    let before = worktree_state(&scratch, &agent);
    assert_eq!(changed(&agent), ["README.md", "new"]);
    assert_eq!(worktree_state(&scratch, &agent), before);
}

#[test]
fn missing_file_of_a_sparse_checkout_is_not_deleted() {
    for kind in ["--sparse-index", "--no-sparse-index"] {
        let scratch = repository();
        let agent = Agent::spawn(&scratch, "ag-1");
        agent.git(&scratch, &["sparse-checkout", "set", "--cone", kind, "src/deep"]);
        scratch.write("far/away.txt", "far\n");
        agent.write("src/deep/er.rs", "// changed\n");
        assert_eq!(changed(&agent), ["src/deep/er.rs"], "{kind}");
        // A file that exists anyway is recorded.
        agent.write("outside/new.txt", "new\n");
        assert_eq!(changed(&agent), ["outside/new.txt", "src/deep/er.rs"], "{kind}");
    }
}

/// A program that leaves a file behind when it runs.
fn trap(scratch: &Scratch, name: &str) -> (String, std::path::PathBuf) {
    let marker = scratch.place().join(name);
    (format!("touch '{}'; cat", marker.display()), marker)
}

#[test]
fn no_filter_runs_and_a_change_of_a_filtered_file_is_refused() {
    let scratch = repository();
    scratch
        .write(".gitattributes", "*.txt filter=evil\n*.bin filter=od=d.name\n*.lfs filter=lfs\n");
    scratch.commit("attributes");
    let (command, marker) = trap(&scratch, "ran");
    for key in ["filter.evil.clean", "filter.evil.smudge", "filter.od=d.name.clean"] {
        scratch.git(&["config", key, &command]);
    }
    scratch.git(&["config", "filter.evil.required", "true"]);
    scratch.git(&["config", "filter.lfs.process", &command]);
    let agent = Agent::spawn(&scratch, "ag-1");
    agent.write("a.txt", "as it is\n");
    agent.write("b.bin", "as it is\n");
    agent.write("c.lfs", "as it is\n");
    let _removed = fs::remove_file(&marker);
    let error = refusal(&agent);
    assert!(error.contains("stores a.txt, b.bin, c.lfs through the git filter `evil`"), "{error}");
    assert!(!marker.exists());
    agent.git(&scratch, &["add", "a.txt"]);
    assert!(marker.exists(), "the control: plain git runs it");
}

#[test]
fn filter_from_an_included_configuration_does_not_run() {
    let scratch = repository();
    scratch.write(".gitattributes", "*.txt filter=evil\n");
    scratch.commit("attributes");
    let agent = Agent::spawn(&scratch, "ag-1");
    let (command, marker) = trap(&scratch, "ran");
    let elsewhere = scratch.place().join("elsewhere");
    fs::write(&elsewhere, format!("[filter \"evil\"]\n\tclean = \"{command}\"\n")).unwrap();
    scratch.git(&["config", "include.path", elsewhere.to_str().unwrap()]);
    agent.write("a.txt", "as it is\n");
    assert!(refusal(&agent).contains("a.txt"));
    assert!(!marker.exists());
    agent.git(&scratch, &["add", "a.txt"]);
    assert!(marker.exists(), "the control: plain git runs it");
}

fn submodule(scratch: &Scratch) -> Agent {
    let library = scratch.place().join("library");
    git_in(scratch, scratch.place(), &["init", "--quiet", "library"]);
    fs::write(library.join("code.txt"), "one\n").unwrap();
    git_in(scratch, &library, &["add", "."]);
    git_in(scratch, &library, &["commit", "--quiet", "-m", "one"]);
    let from = library.to_str().unwrap();
    scratch.git(&["-c", "protocol.file.allow=always", "submodule", "--quiet", "add", from, "lib"]);
    scratch.commit("submodule");
    let agent = Agent::spawn(scratch, "ag-1");
    let update = ["-c", "protocol.file.allow=always", "submodule", "--quiet", "update", "--init"];
    agent.git(scratch, &update);
    agent
}

#[test]
fn submodule_is_recorded_by_its_commit_without_running_it() {
    let scratch = repository();
    let agent = submodule(&scratch);
    assert_eq!(changed(&agent), Vec::<String>::new());
    let inside = agent.worktree.join("lib");
    let (command, marker) = trap(&scratch, "ran");
    git_in(&scratch, &inside, &["config", "filter.evil.clean", &command]);
    fs::write(inside.join(".gitattributes"), "* filter=evil\n").unwrap();
    fs::write(inside.join("code.txt"), "two\n").unwrap();
    assert_eq!(
        changed(&agent),
        Vec::<String>::new(),
        "uncommitted changes of a submodule are not recorded"
    );
    assert!(!marker.exists());
    git_in(
        &scratch,
        &inside,
        &["-c", "filter.evil.clean=cat", "commit", "--quiet", "--all", "-m", "two"],
    );
    fs::write(inside.join("code.txt"), "six\n").unwrap();
    let _removed = fs::remove_file(&marker);
    let changes = changes(&agent);
    let [change] = changes.as_slice() else { panic!("{changes:?}") };
    let current = git_in(&scratch, &inside, &["rev-parse", "HEAD"]);
    let after = change.after.as_ref().unwrap();
    assert_eq!((after.mode, after.object.as_str()), (Mode::Submodule, current.trim()));
    let texts = agent.work().texts(&changes, &["lib".to_owned()]).unwrap();
    assert_eq!(texts.get("lib").unwrap(), &bailiwick_verify::facts::Texts::default());
    assert!(!marker.exists());
    agent.git(&scratch, &["status"]);
    assert!(marker.exists(), "the control: plain git runs it");
}

#[test]
fn removed_or_replaced_submodule_is_recorded() {
    let scratch = repository();
    let agent = submodule(&scratch);
    fs::remove_dir_all(agent.worktree.join("lib")).unwrap();
    assert_eq!(changed(&agent), ["lib"]);
    agent.write("lib", "now a file\n");
    let found = changes(&agent);
    let after = found.first().and_then(|change| change.after.as_ref());
    assert_eq!(after.map(|entry| entry.mode), Some(Mode::File), "{found:?}");
}

#[test]
fn embedded_repository_is_refused() {
    let scratch = repository();
    let agent = Agent::spawn(&scratch, "ag-1");
    agent.write("nested/file.txt", "text\n");
    git_in(&scratch, &agent.worktree.join("nested"), &["init", "--quiet"]);
    let why = refusal(&agent);
    assert!(why.contains("nested/"), "a repository without a commit: {why}");
    git_in(&scratch, &agent.worktree.join("nested"), &["add", "."]);
    git_in(&scratch, &agent.worktree.join("nested"), &["commit", "--quiet", "-m", "x"]);
    let why = refusal(&agent);
    assert!(why.contains("nested has a git repository of its own"), "{why}");
    fs::remove_dir_all(agent.worktree.join("nested/.git")).unwrap();
    assert_eq!(changed(&agent), ["nested/file.txt"]);
}

#[test]
fn merge_with_conflicts_is_refused() {
    let scratch = repository();
    let agent = Agent::spawn(&scratch, "ag-1");
    agent.write("README.md", "mine\n");
    agent.commit(&scratch, "mine");
    scratch.write("README.md", "theirs\n");
    let theirs = scratch.commit("theirs");
    let merge =
        scratch.command("git").current_dir(&agent.worktree).args(["merge", &theirs]).output();
    assert!(!merge.unwrap().status.success());
    let before = worktree_state(&scratch, &agent);
    let why = refusal(&agent);
    assert!(why.contains("a merge has conflicts") && why.contains("README.md"), "{why}");
    assert_eq!(worktree_state(&scratch, &agent), before);
    agent.write("README.md", "both\n");
    agent.git(&scratch, &["add", "README.md"]);
    assert_eq!(changed(&agent), ["README.md"], "resolved, though not committed");
}

#[test]
fn branch_without_a_commit_is_refused() {
    let scratch = repository();
    let agent = Agent::spawn(&scratch, "ag-1");
    agent.git(&scratch, &["checkout", "--quiet", "--orphan", "unborn"]);
    assert!(refusal(&agent).contains("has no commit"), "{}", refusal(&agent));
}

/// For a missing object, git asks a remote that has promised it, with any program that the
/// configuration names as a transport.
#[test]
fn no_transport_runs_for_a_missing_object() {
    let scratch = repository();
    let agent = Agent::spawn(&scratch, "ag-1");
    let marker = scratch.place().join("ran");
    let remote = format!("ext::sh -c touch% {}", marker.display());
    for (name, value) in [
        ("core.repositoryFormatVersion", "1"),
        ("extensions.partialClone", "origin"),
        ("remote.origin.promisor", "true"),
        ("remote.origin.url", &remote),
        ("protocol.ext.allow", "always"),
    ] {
        scratch.git(&["config", name, value]);
    }
    let head = scratch.root().join(".git/refs/heads/agent/ag-1");
    fs::write(head, format!("{}\n", "1".repeat(40))).unwrap();
    refusal(&agent);
    assert!(!marker.exists());
    let plain = scratch.command("git").current_dir(&agent.worktree).args(["log", "-1"]).output();
    assert!(!plain.unwrap().status.success());
    assert!(marker.exists(), "the control: plain git runs it");
}
