//! Files that killed processes leave behind.

use std::fs;
use std::path::{Path, PathBuf};

use bailiwick_lifecycle::ports::{Method, Work as _};
use bailiwick_source_control::git::{Recovery, recover};
use bailiwick_testkit::Scratch;

use crate::agent::{Agent, repository};

/// Files and directories that exist only during an operation.
pub(crate) fn leftovers(scratch: &Scratch) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let entries = |place: &Path| -> Vec<PathBuf> {
        fs::read_dir(place).into_iter().flatten().map(|entry| entry.unwrap().path()).collect()
    };
    let named = |path: &PathBuf, names: &[&str]| {
        names.iter().any(|name| path.file_name().unwrap() == *name)
    };
    let temporary = entries(&scratch.state().join("temporary"));
    found.extend(temporary.into_iter().filter(|path| !named(path, &["door"])));
    let landings = entries(&scratch.state().join("landings"));
    found.extend(landings.into_iter().filter(|path| !named(path, &["lock"])));
    let mut open = vec![scratch.root().join(".git")];
    while let Some(directory) = open.pop() {
        for path in entries(&directory) {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if path.is_dir() && name != "objects" {
                open.push(path);
            } else if name.ends_with(".lock") || name.contains("bailiwick") {
                found.push(path);
            }
        }
    }
    found
}

/// A landing that was interrupted right after the branch moved: the checkout is not updated.
struct CutOff {
    scratch: Scratch,
    agent: Agent,
    old: String,
    new: String,
}

/// `changed` is rewritten, `gone` deleted, `added` and `deep/added` created.
fn interrupted_landing() -> CutOff {
    let scratch = repository();
    scratch.write("changed", "old\n");
    scratch.write("gone", "old\n");
    let old = scratch.commit("second");
    let agent = Agent::spawn(&scratch, "ag-1");
    agent.write("changed", "new text of several words\n");
    agent.write("added", "new\n");
    agent.write("deep/added", "new\n");
    fs::remove_file(agent.worktree.join("gone")).unwrap();
    agent.commit(&scratch, "work");
    let new = agent.git(&scratch, &["rev-parse", "HEAD"]).trim().to_owned();
    scratch.git(&["update-ref", "refs/heads/main", &new]);
    let interrupted = CutOff { scratch, agent, old, new };
    interrupted.write_journal();
    interrupted
}

impl CutOff {
    fn journal(&self) -> PathBuf {
        self.scratch.state().join("landings/ag-1.json")
    }

    fn write_journal(&self) {
        let root = self.scratch.root().canonicalize().unwrap();
        let text = format!(
            "{{\"agent\": \"ag-1\", \"repository\": {:?}, \"branch\": \"refs/heads/main\", \"old\": \
             {:?}, \"new\": {:?}, \"checkouts\": [{:?}]}}",
            root.join(".git"),
            self.old,
            self.new,
            root
        );
        fs::create_dir_all(self.journal().parent().unwrap()).unwrap();
        fs::write(self.journal(), text).unwrap();
    }

    fn recover(&self) -> Recovery {
        recover(&self.scratch.state(), &self.scratch.root()).unwrap()
    }

    fn status(&self) -> String {
        self.scratch.git(&["status", "--porcelain", "--untracked-files=all"])
    }

    #[track_caller]
    fn is_complete(&self) {
        let recovery = self.recover();
        assert_eq!((recovery.completed, recovery.failed), (vec!["ag-1".to_owned()], Vec::new()));
        assert_eq!(self.status(), "");
        assert_eq!(self.scratch.read("changed"), "new text of several words\n");
        assert_eq!(leftovers(&self.scratch), Vec::<PathBuf>::new());
    }
}

#[test]
fn checkout_that_was_not_updated_is_updated() {
    let interrupted = interrupted_landing();
    assert_ne!(interrupted.status(), "");
    interrupted.is_complete();
    assert_eq!(interrupted.recover(), Recovery::default(), "a second recovery has nothing to do");
}

#[test]
fn partly_updated_checkout_is_completed() {
    let interrupted = interrupted_landing();
    interrupted.scratch.write("changed", "new text of");
    fs::remove_file(interrupted.scratch.root().join("gone")).unwrap();
    interrupted.scratch.write("added", "new\n");
    interrupted.scratch.write("deep/added", "");
    interrupted.is_complete();
}

#[test]
fn updated_checkout_is_not_touched() {
    let interrupted = interrupted_landing();
    interrupted.scratch.git(&["reset", "--quiet", "--hard"]);
    interrupted.scratch.write("README.md", "the person goes on\n");
    let recovery = interrupted.recover();
    assert_eq!(recovery.completed, ["ag-1"]);
    assert_eq!(interrupted.scratch.read("README.md"), "the person goes on\n");
    assert_eq!(interrupted.status(), " M README.md\n");
}

#[test]
fn changes_of_a_person_are_not_overwritten() {
    let changes: [fn(&Scratch); 5] = [
        |scratch| scratch.write("README.md", "by hand\n"),
        |scratch| scratch.write("changed", "by hand\n"),
        |scratch| scratch.write("added", "by hand\n"),
        |scratch| fs::remove_file(scratch.root().join("README.md")).unwrap(),
        |scratch| {
            scratch.write("staged", "by hand\n");
            scratch.git(&["add", "staged"]);
        },
    ];
    for change in changes {
        let interrupted = interrupted_landing();
        change(&interrupted.scratch);
        let before = crate::workspaces::snapshot(&interrupted.scratch.root());
        let recovery = interrupted.recover();
        assert_eq!((recovery.completed.len(), recovery.failed.len()), (0, 1), "{recovery:?}");
        assert_eq!(crate::workspaces::snapshot(&interrupted.scratch.root()), before);
        assert!(interrupted.journal().exists(), "the journal was deleted");
        interrupted.scratch.git(&["reset", "--quiet", "--hard", &interrupted.old]);
        interrupted.scratch.git(&["update-ref", "refs/heads/main", &interrupted.new]);
        let _removed = fs::remove_file(interrupted.scratch.root().join("added"));
        interrupted.is_complete();
    }
}

#[test]
fn landing_is_discarded_if_the_branch_did_not_move_or_moved_on() {
    let interrupted = interrupted_landing();
    interrupted.scratch.git(&["update-ref", "refs/heads/main", &interrupted.old]);
    assert_eq!(interrupted.recover().discarded, ["ag-1"]);
    assert_eq!(
        (interrupted.status(), leftovers(&interrupted.scratch)),
        (String::new(), Vec::new())
    );
    let interrupted = interrupted_landing();
    interrupted.scratch.git(&["reset", "--quiet", "--hard"]);
    interrupted.scratch.commit("the person goes on");
    assert_eq!(interrupted.recover().discarded, ["ag-1"]);
    assert_eq!(
        (interrupted.status(), leftovers(&interrupted.scratch)),
        (String::new(), Vec::new())
    );
}

#[test]
fn next_landing_completes_an_interrupted_one() {
    let interrupted = interrupted_landing();
    let next = Agent::spawn(&interrupted.scratch, "ag-2");
    next.write("next", "next\n");
    next.work().land(&crate::work_land::landing(&next, Method::Merge)).unwrap();
    assert_eq!(
        (interrupted.status(), leftovers(&interrupted.scratch)),
        (String::new(), Vec::new())
    );
    assert_eq!(interrupted.scratch.read("next"), "next\n");
    assert_eq!(interrupted.scratch.read("deep/added"), "new\n");
}

#[test]
fn journal_of_another_repository_is_not_touched() {
    let interrupted = interrupted_landing();
    let other = repository();
    let recovery = recover(&interrupted.scratch.state(), &other.root()).unwrap();
    assert_eq!(recovery, Recovery::default());
    assert!(interrupted.journal().exists());
    fs::write(interrupted.journal(), "{").unwrap();
    let error = recover(&interrupted.scratch.state(), &other.root()).unwrap_err().to_string();
    assert!(error.contains("ag-1.json cannot be parsed"), "{error}");
}

#[test]
fn locks_are_removed_only_if_they_are_ours() {
    let interrupted = interrupted_landing();
    let git = interrupted.scratch.root().join(".git");
    let branch = git.join("refs/heads/main.lock");
    // Another git is running or was killed: this cannot be known.
    fs::write(git.join("index.lock"), "DIRC").unwrap();
    fs::write(&branch, format!("{}\n", "1".repeat(40))).unwrap();
    let recovery = interrupted.recover();
    assert!(recovery.removed.is_empty() && recovery.failed.len() == 1, "{recovery:?}");
    assert!(branch.exists() && git.join("index.lock").exists());
    fs::remove_file(git.join("index.lock")).unwrap();
    // Empty, but open: a git that has just started.
    let open = fs::File::create(&branch).unwrap();
    assert!(interrupted.recover().removed.is_empty());
    assert!(branch.exists());
    drop(open);
    interrupted.write_journal();
    assert_eq!(interrupted.recover().removed.len(), 1, "empty, and no process has it open");
    interrupted.write_journal();
    fs::write(&branch, format!("{}\n", interrupted.new)).unwrap();
    assert_eq!(interrupted.recover().removed.len(), 1, "the lock contains our commit");
    assert!(!branch.exists());
    // A lock on the index whose content shows that it is ours.
    let state = interrupted.scratch.state();
    let mark =
        |state: &Path| format!("a landing of bailiwick with its state in {}\n", state.display());
    fs::write(git.join("index.lock"), mark(Path::new("/another/state"))).unwrap();
    assert!(interrupted.recover().removed.is_empty());
    fs::write(git.join("index.lock"), mark(&state)).unwrap();
    fs::write(git.join("bailiwick.index"), "half").unwrap();
    assert_eq!(interrupted.recover().removed.len(), 1);
    assert_eq!(leftovers(&interrupted.scratch), Vec::<PathBuf>::new());
    assert_eq!(interrupted.agent.git(&interrupted.scratch, &["status", "--porcelain"]), "");
}
