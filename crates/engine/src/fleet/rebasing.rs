//! Replays verified work on another commit and checks it there, each on a thread of its own: the control plane asks
//! again until it is done. What a stopped server had not finished is done again.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use bailiwick_fleet::ports::{FinishedWork, Rebased};
use bailiwick_lifecycle::ports::{Work as _, WorkError};
use bailiwick_model::capability::RunMode;
use bailiwick_model::{AgentId, CommitId, LedgerNote};
use bailiwick_source_control::git::retain_commit;

use crate::context::Context;
use crate::failure::Failure;
use crate::launched_for;
use crate::options::{CheckOptions, RunOptions};
use crate::verifying::{AgentWork, VerificationReport, WorkOptions};
use crate::work_patch::{Change, change};

/// How many pieces of work are checked at the same time.
const MAX_AT_ONCE: usize = 2;

/// The work of an agent on another commit.
type Key = (AgentId, String);

/// What came of it, or why nothing did; nothing while it is under way.
type RebaseState = Option<Result<Rebased, Failure>>;

/// What is being replayed, and its result.
#[derive(Default)]
pub(super) struct Rebases {
    known: Arc<Mutex<BTreeMap<Key, RebaseState>>>,
}

/// A rebase that is under way. Its result is known when this is dropped, also if its thread panics.
struct RunningRebase {
    known: Arc<Mutex<BTreeMap<Key, RebaseState>>>,
    work: Key,
    result: Result<Rebased, Failure>,
}

impl RunningRebase {
    fn new(known: Arc<Mutex<BTreeMap<Key, RebaseState>>>, work: Key) -> Self {
        let result = Err(Failure::general("internal error (see the server log)".to_owned()));
        Self { known, work, result }
    }
}

impl Drop for RunningRebase {
    fn drop(&mut self) {
        let result = std::mem::replace(&mut self.result, Ok(Rebased::Running));
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.insert(self.work.clone(), Some(result));
    }
}

impl Rebases {
    /// What came of replaying the work of an agent on a commit; started by the first call.
    pub(super) fn rebase(
        &self,
        context: &Context,
        id: AgentId,
        onto: &str,
    ) -> Result<Rebased, Failure> {
        let key = (id, onto.to_owned());
        {
            let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(Some(_)) = known.get(&key) {
                let result = known.remove(&key).flatten();
                return result.unwrap_or(Ok(Rebased::Running));
            }
            let running = known.values().filter(|result| result.is_none()).count();
            if known.contains_key(&key) || running >= MAX_AT_ONCE {
                return Ok(Rebased::Running);
            }
            known.insert(key.clone(), None);
        }
        let (context, known) = (context.clone(), Arc::clone(&self.known));
        let name = format!("rebase-{}", key.0);
        let work = key.clone();
        let started = std::thread::Builder::new().name(name).spawn(move || {
            let mut running = RunningRebase::new(known, work);
            let result = replayed(&context, &running.work.0, &running.work.1);
            running.result = result.map_err(|failure| Failure::general(failure.in_one_line()));
        });
        if let Err(error) = started {
            self.known.lock().unwrap_or_else(PoisonError::into_inner).remove(&key);
            return Err(Failure::general(format!("no thread can be started: {error}")));
        }
        Ok(Rebased::Running)
    }
}

/// Replays and checks the work of an agent on a commit.
fn replayed(context: &Context, id: &AgentId, onto: &str) -> Result<Rebased, Failure> {
    let onto = &CommitId::new(onto);
    let context = launched_for::context_of(context, id)?;
    let Some(verified) = verified(&context, id)? else {
        return Ok(Rebased::Rejected("its work was not verified".to_owned()));
    };
    let as_failure = |error: WorkError| Failure::general(error.to_string());
    let mut subject = AgentWork::of_agent(&context, id, &WorkOptions::default())?;
    if let Err(failure) = subject.require_worktree() {
        return Ok(Rebased::Rejected(failure.in_one_line()));
    }
    let old_base = subject.base.clone();
    subject.work = subject.work.map(|work| work.replayed(old_base, onto.clone()));
    let work = subject.git_work()?;
    let snapshot = work.snapshot(&work.base().map_err(as_failure)?).map_err(as_failure)?;
    if verified.work.as_deref() != Some(snapshot.commit.as_str()) {
        let why = "the files of its worktree have changed since they were verified";
        return Ok(Rebased::Rejected(why.to_owned()));
    }
    subject.recover()?;
    let manner =
        CheckOptions { open_setup: RunOptions::default().open_setup(), ..CheckOptions::default() };
    let checked = subject.verify(RunMode::Both, manner, &[], &mut |_| {})?;
    let report = VerificationReport::new(Some(id.to_string()), &checked);
    let detail = serde_json::to_string(&report)
        .map_err(|error| Failure::general(format!("the verdict cannot be written: {error}")))?;
    context.with_store(async |store| {
        Ok(store.append_run_note(id, LedgerNote::Rebased, &detail).await?)
    })?;
    let (Some(tree), true) = (checked.merged.as_ref(), checked.all_passed()) else {
        let first = report.failed.first().map(|failed| failed.reason.as_str());
        let why = format!("{}: {}", report.summary(), first.unwrap_or("no tree"));
        return Ok(Rebased::Rejected(why));
    };
    let unlike = |error: bailiwick_lifecycle::ports::LandError| Failure::general(error.to_string());
    let commit = work.replay(onto, &snapshot, tree).map_err(unlike)?;
    let git = subject.repository.git();
    retain_commit(&git, &commit)?;
    Ok(match change(&git, onto, &commit)? {
        None => Rebased::Rejected("its change is too long to be kept".to_owned()),
        Some(Change { patch, history, commits, files }) => Rebased::Verified(FinishedWork {
            base: onto.to_string(),
            commit: commit.into(),
            tree: tree.to_string(),
            files,
            patch,
            history,
            commits,
            merges: true,
            verified: true,
            verdict: report.summary(),
            report: None,
        }),
    })
}

/// The last verdict on the work of an agent, if it passed.
fn verified(context: &Context, id: &AgentId) -> Result<Option<VerificationReport>, Failure> {
    let kinds = (LedgerNote::Verified, LedgerNote::VerificationFailed);
    let note = context.with_store(async |store| Ok(store.last_run_note(id, kinds).await?))?;
    let Some((_, kind, text)) = note else { return Ok(None) };
    if kind != LedgerNote::Verified.as_str() {
        return Ok(None);
    }
    let report = serde_json::from_str(&text)
        .map_err(|error| Failure::general(format!("the verdict cannot be read: {error}")))?;
    Ok(Some(report))
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use bailiwick_model::Source;
    use bailiwick_store::Location;
    use bailiwick_testkit::Scratch;

    use super::*;
    use crate::database::Database;
    use crate::notices::Notices;
    use crate::spawning::{Naming, SpawnBindings, spawn};

    const ROLE: &str = "[role]\nname = \"mender\"\ndisplay-name = \"Mender\"\ndescription = \"Mends.\"\n\
        spawnable = true\nclaude-subagent-type = \"general-purpose\"\nisolation = \"worktree\"\n\
        [capabilities]\nrequired = [\"scope::files-whitelist\"]\n\
        [tools]\nallowed = [\"Write\"]\nbash-patterns-allowed = []\n\
        [escalation]\npolicy = \"ask-via-return\"\n";
    const TASK: &str = "[task]\nrole = \"mender\"\n[scope]\nfiles-whitelist = [\"src/**\"]\n\
        [body]\ntext = \"Mend it.\"\n";

    struct Fixture {
        scratch: Scratch,
        context: Context,
        id: AgentId,
        base: String,
        worktree: PathBuf,
    }

    /// An agent whose work is verified on its base commit.
    fn fixture(changed: &str) -> Fixture {
        let scratch = Scratch::repository();
        scratch.write(".bailiwick/roles/mender.toml", ROLE);
        scratch.write("src/a.txt", "one\ntwo\nthree\nfour\nfive\n");
        let base = scratch.commit("start");
        let context = Context {
            directory: scratch.root(),
            state: scratch.state(),
            user_kit: scratch.place().join("config"),
            kit_root: None,
            database: Database::at(Location::file(scratch.state().join("bailiwick.db"))),
            global_options: String::new(),
            notices: Notices::default(),
        };
        let id = AgentId::parse("mend-1").unwrap();
        let source = Source::new("the task", TASK);
        let naming = Naming::Exactly(&id);
        spawn(&context, &source, naming, &base, SpawnBindings::default()).unwrap();
        launched_for::write_checkout(&context.state, &id, &scratch.root().display().to_string())
            .unwrap();
        let subject = AgentWork::of_agent(&context, &id, &WorkOptions::default()).unwrap();
        let worktree = subject.worktree.clone();
        std::fs::write(worktree.join("src/a.txt"), changed).unwrap();
        let options = CheckOptions::default();
        let shown = subject.verify_and_record(RunMode::Both, options, &[], &mut |_| {}).unwrap();
        assert!(shown.failed.is_empty(), "{shown:?}");
        Fixture { scratch, context, id, base, worktree }
    }

    impl Fixture {
        /// Moves the branch: creates a commit with this text on the base.
        fn move_branch(&self, path: &str, text: &str) -> String {
            self.scratch.git(&["checkout", "--quiet", "--detach", &self.base]);
            self.scratch.write(path, text);
            self.scratch.commit("meanwhile")
        }

        fn rebased(&self, onto: &str) -> Rebased {
            let rebases = Rebases::default();
            for _ in 0..600 {
                match rebases.rebase(&self.context, self.id.clone(), onto).unwrap() {
                    Rebased::Running => {
                        std::thread::sleep(std::time::Duration::from_millis(50));
                    }
                    done @ (Rebased::Verified(_) | Rebased::Rejected(_)) => return done,
                }
            }
            panic!("the rebase does not end");
        }

        fn show(&self, commit: &str, path: &str) -> String {
            self.scratch.git(&["show", &format!("{commit}:{path}")])
        }
    }

    const FIXED: &str = "one\ntwo\nthree\nfour\nFIVE\n";

    #[test]
    fn work_is_rebased_on_a_moved_branch_with_only_its_change() {
        let scene = fixture(FIXED);
        let onto = scene.move_branch("src/a.txt", "ONE\ntwo\nthree\nfour\nfive\n");
        let Rebased::Verified(work) = scene.rebased(&onto) else {
            panic!("expected a clean merge")
        };
        assert_eq!(work.base, onto);
        let text = scene.show(&work.commit, "src/a.txt");
        assert_eq!(text, "ONE\ntwo\nthree\nfour\nFIVE\n");
        let parent = scene.scratch.git(&["rev-parse", &format!("{}^", work.commit)]);
        assert_eq!(parent.trim(), onto, "the work is one commit on the new tip");
        let patch = String::from_utf8_lossy(&work.patch).into_owned();
        assert!(patch.contains("+FIVE") && !patch.contains("+ONE"), "{patch}");
        assert_eq!(work.files, ["src/a.txt"]);
        assert!(work.verified && work.merges);
    }

    /// A commit that the branch's author removed is not restored by the agent's change.
    #[test]
    fn commit_removed_from_the_branch_is_not_restored() {
        let scene = fixture(FIXED);
        scene.scratch.git(&["checkout", "--quiet", "--orphan", "rewritten"]);
        scene.scratch.write("src/a.txt", "ONE\ntwo\nthree\nfour\nfive\n");
        std::fs::remove_file(scene.scratch.root().join(".bailiwick/roles/mender.toml")).unwrap();
        let onto = scene.scratch.commit("from nothing");
        let Rebased::Verified(work) = scene.rebased(&onto) else {
            panic!("expected a clean merge")
        };
        let names = scene.scratch.git(&["ls-tree", "-r", "--name-only", &work.commit]);
        assert!(!names.contains(".bailiwick"), "{names}");
        assert_eq!(scene.show(&work.commit, "src/a.txt"), "ONE\ntwo\nthree\nfour\nFIVE\n");
    }

    #[test]
    fn rebase_that_panics_fails_and_can_be_repeated() {
        let scene = fixture(FIXED);
        let onto = scene.move_branch("src/b.txt", "more\n");
        let rebases = Rebases::default();
        let key = (scene.id.clone(), onto.clone());
        rebases.known.lock().unwrap().insert(key.clone(), None);
        let rebase = || rebases.rebase(&scene.context, scene.id.clone(), &onto);
        assert!(matches!(rebase().unwrap(), Rebased::Running), "the control");
        let running = RunningRebase::new(Arc::clone(&rebases.known), key);
        let panicked = std::thread::spawn(move || {
            let _running = running;
            panic!("a fault of ours");
        });
        assert!(panicked.join().is_err());
        assert!(rebase().is_err());
        assert!(matches!(rebase().unwrap(), Rebased::Running), "it begins again");
    }

    #[test]
    fn conflicting_work_is_rejected() {
        let scene = fixture(FIXED);
        let onto = scene.move_branch("src/a.txt", "one\ntwo\nthree\nfour\nfifth\n");
        let Rebased::Rejected(reason) = scene.rebased(&onto) else { panic!("expected a conflict") };
        assert!(reason.contains("does not merge"), "{reason}");
    }

    #[test]
    fn worktree_that_changed_after_verification_is_not_rebased() {
        let scene = fixture(FIXED);
        let onto = scene.move_branch("src/b.txt", "more\n");
        std::fs::write(scene.worktree.join("src/a.txt"), "something else\n").unwrap();
        let Rebased::Rejected(reason) = scene.rebased(&onto) else {
            panic!("expected a rejection")
        };
        assert!(reason.contains("changed since"), "{reason}");
    }
}
