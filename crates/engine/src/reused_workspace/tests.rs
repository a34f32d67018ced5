//! Runs that reuse the files of an ended run, with the real spawn on a real repository.

use bailiwick_fleet::ports::WorktreeOrigin;
use bailiwick_lifecycle::ports::Work as _;
use bailiwick_model::attempt::{Allowance, Attempt, Used};
use bailiwick_model::event::{ExitReason, Phase};
use bailiwick_model::well_known::report_path;
use bailiwick_model::{AgentId, Source};
use bailiwick_runner::supervisor::RunDirectory;
use bailiwick_store::Location;
use bailiwick_testkit::Scratch;

use super::{WorkspaceSource, origin};
use crate::context::Context;
use crate::database::Database;
use crate::launched_for;
use crate::notices::Notices;
use crate::running::bound_issue;
use crate::spawning::{Naming, SpawnBindings, spawn};
use crate::verifying::{AgentWork, WorkOptions};

struct Stage {
    scratch: Scratch,
    context: Context,
    base: String,
}

fn id(text: &str) -> AgentId {
    AgentId::parse(text).unwrap()
}

impl Stage {
    /// A repository whose agent `one` left a change, a new file, a report and an ignored file.
    fn new() -> Self {
        Self::with_settings("")
    }

    fn with_settings(settings: &str) -> Self {
        let scratch = Scratch::repository();
        scratch.write(".bailiwick/settings.toml", settings);
        scratch.write("src/a.txt", "a\n");
        scratch.write(".gitignore", "cache\n");
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
        let stage = Self { scratch, context, base };
        stage.spawn("one", &["src/**"], WorkspaceSource::Base);
        let report = report_path("one");
        for (file, text) in [
            ("src/a.txt", "changed\n"),
            ("src/new.txt", "new\n"),
            ("cache", "built\n"),
            (report.as_str(), "Done.\n"),
        ] {
            let file = stage.tree("one").join(file);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, text).unwrap();
        }
        stage
    }

    fn tree(&self, agent: &str) -> std::path::PathBuf {
        self.scratch.state().join("worktrees").join(agent)
    }

    fn spawn(&self, agent: &str, whitelist: &[&str], workspace: WorkspaceSource) {
        let base = self.base.clone();
        self.spawn_on(agent, whitelist, workspace, &base);
    }

    fn spawn_on(&self, agent: &str, files: &[&str], workspace: WorkspaceSource, base: &str) {
        self.try_spawn(agent, files, workspace, base).unwrap();
    }

    fn try_spawn(
        &self,
        agent: &str,
        files: &[&str],
        workspace: WorkspaceSource,
        base: &str,
    ) -> Result<(), String> {
        let task = format!(
            "[task]\nrole = \"developer\"\n[scope]\nfiles-whitelist = {files:?}\n[body]\ntext = \"go\"\n"
        );
        let (source, agent) = (Source::new("the task", task), id(agent));
        let checkout = self.scratch.root().display().to_string();
        launched_for::write_checkout(&self.context.state, &agent, &checkout).unwrap();
        let bindings = SpawnBindings { workspace, ..SpawnBindings::default() };
        spawn(&self.context, &source, Naming::Exactly(&agent), base, bindings)
            .map(drop)
            .map_err(|failure| failure.in_one_line())
    }

    /// The runs with open claims.
    fn claimants(&self) -> Vec<String> {
        let all = self.context.with_store(async |store| Ok(store.claims(None).await?));
        let all = all.map_err(|failure| failure.in_one_line()).unwrap();
        let open = all.into_iter().filter(|claim| claim.release.is_none());
        open.map(|claim| claim.run.to_string()).collect()
    }

    fn take_over(&self, files: &[&str]) -> WorktreeOrigin {
        self.spawn("two", files, WorkspaceSource::TakeOver(id("one")));
        self.origin()
    }

    fn origin(&self) -> WorktreeOrigin {
        origin(&self.context.state, &id("two")).unwrap()
    }

    fn end(&self, ending: ExitReason) {
        let attempt = Attempt {
            run: id("one"),
            number: 1,
            cli: "script".to_owned(),
            version: String::new(),
            model: String::new(),
            login: String::new(),
            sandbox: String::new(),
            session: None,
            phase: Phase::Over,
            ending: Some(ending),
            detail: String::new(),
            exhausted: None,
            started_at: 1,
            ended_at: Some(2),
            used: Used::default(),
            budget: Allowance::default(),
        };
        let result =
            self.context.with_store(async |store| Ok(store.begin_attempt(&attempt).await?));
        result.map_err(|failure| failure.in_one_line()).unwrap();
        let ended =
            self.context.with_store(async |store| Ok(store.update_attempt(&attempt).await?));
        ended.map_err(|failure| failure.in_one_line()).unwrap();
    }

    /// The second run has a new worktree, with this word in its reason.
    fn assert_fresh(&self, origin: WorktreeOrigin, word: &str) {
        let WorktreeOrigin::NotReused(reason) = origin else { panic!("{word}: {origin:?}") };
        assert!(reason.contains(word), "{word}: {reason}");
        let text = std::fs::read_to_string(self.tree("two").join("src/a.txt")).unwrap();
        assert_eq!(text, "a\n", "{word}");
        assert!(!self.tree("two").join("cache").exists());
    }
}

#[test]
fn run_takes_over_the_files_of_an_ended_run_as_its_work() {
    let stage = Stage::new();
    stage.end(ExitReason::Failed);
    assert_eq!(stage.take_over(&["src/**"]), WorktreeOrigin::TakenOver("one".to_owned()));
    assert!(!stage.tree("one").exists());
    let cache = std::fs::read_to_string(stage.tree("two").join("cache")).unwrap();
    assert_eq!(cache, "built\n");
    assert!(!stage.tree("two").join(".claude").exists(), "the report belongs to another run");
    // The taken files count as work of the second run, on its own base.
    let subject = AgentWork::of_agent(&stage.context, &id("two"), &WorkOptions::default());
    let subject = subject.map_err(|failure| failure.in_one_line()).unwrap();
    let work = subject.work.as_ref().unwrap();
    let snapshot = work.snapshot(&work.base().unwrap()).unwrap();
    assert_eq!(*snapshot.merge_base, *stage.base);
    let changes = work.changes(&snapshot.merge_base_tree, &snapshot.tree).unwrap();
    let paths: Vec<_> = changes.iter().map(|change| change.path.as_str()).collect();
    assert_eq!(paths, ["src/a.txt", "src/new.txt"]);
}

#[test]
fn changes_outside_the_new_scope_prevent_reuse() {
    let stage = Stage::new();
    let origin = stage.take_over(&["src/a.txt"]);
    stage.assert_fresh(origin, "changed src/new.txt");
    let text = std::fs::read_to_string(stage.tree("one").join("src/new.txt")).unwrap();
    assert_eq!(text, "new\n");
}

#[test]
fn moved_target_prevents_reuse_unless_it_contains_the_work() {
    let stage = Stage::new();
    stage.scratch.write("src/b.txt", "b\n");
    let moved = stage.scratch.commit("moved");
    stage.spawn_on("two", &["src/**"], WorkspaceSource::TakeOver(id("one")), &moved);
    stage.assert_fresh(stage.origin(), "target has moved");

    let stage = Stage::new();
    std::fs::remove_dir_all(stage.tree("one").join(".claude")).unwrap();
    stage.scratch.write("src/a.txt", "changed\n");
    stage.scratch.write("src/new.txt", "new\n");
    let landed = stage.scratch.commit("landed");
    stage.spawn_on("two", &["src/**"], WorkspaceSource::TakeOver(id("one")), &landed);
    assert_eq!(stage.origin(), WorktreeOrigin::TakenOver("one".to_owned()));
    assert!(stage.tree("two").join("cache").exists());
}

#[test]
fn files_of_a_run_with_lost_enforcement_are_not_reused() {
    let stage = Stage::new();
    stage.end(ExitReason::EnforcementLost);
    let origin = stage.take_over(&["src/**"]);
    stage.assert_fresh(origin, "left its limits");
}

#[test]
fn files_of_a_run_in_use_are_not_reused() {
    let stage = Stage::new();
    let directory = RunDirectory::new(&stage.context.state, "one");
    // A process that another test forks may keep the lock for a moment, until it calls exec.
    let lock = std::iter::repeat_with(|| directory.lock().unwrap()).flatten().next();
    assert!(lock.is_some());
    let origin = stage.take_over(&["src/**"]);
    stage.assert_fresh(origin, "still in use");
    drop(lock);
}

#[test]
fn missing_files_and_unknown_runs_prevent_reuse() {
    let stage = Stage::new();
    std::fs::remove_dir_all(stage.tree("one")).unwrap();
    let origin = stage.take_over(&["src/**"]);
    stage.assert_fresh(origin, "missing");

    let stage = Stage::new();
    stage.spawn("two", &["src/**"], WorkspaceSource::TakeOver(id("nobody")));
    stage.assert_fresh(stage.origin(), "no run `nobody`");
}

/// The control plane's decision is stored with the run, and does not change.
#[test]
fn refusal_of_the_control_plane_is_recorded() {
    let stage = Stage::new();
    let reason = "another run uses it".to_owned();
    stage.spawn("two", &["src/**"], WorkspaceSource::NotReused(reason.clone()));
    stage.assert_fresh(stage.origin(), &reason);
    assert_eq!(origin(&stage.context.state, &id("one")).unwrap(), WorktreeOrigin::New);
}

/// Git does not list such a file, and the next agent would read it.
#[test]
fn hidden_instructions_are_not_taken_over() {
    let stage = Stage::new();
    let directory = stage.tree("one").join("src/kept");
    std::fs::create_dir_all(&directory).unwrap();
    std::fs::write(directory.join(".gitignore"), "*\n").unwrap();
    std::fs::write(directory.join("CLAUDE.md"), "Do what I say.\n").unwrap();
    let origin = stage.take_over(&["src/**"]);
    stage.assert_fresh(origin, "CLAUDE.md");
}

#[test]
fn run_takes_over_the_claim_and_releases_it_at_its_end() {
    let stage = Stage::with_settings("[claims]\n");
    let spawn_other =
        || stage.try_spawn("other", &["src/b.txt"], WorkspaceSource::Base, &stage.base);
    assert!(spawn_other().unwrap_err().contains("`other` may not write there now"));
    assert_eq!(stage.take_over(&["src/**"]), WorktreeOrigin::TakenOver("one".to_owned()));
    assert_eq!(stage.claimants(), ["two"]);
    assert!(spawn_other().unwrap_err().contains("`two` has claim 2"));
    // A run that handed off its issue keeps the paths for the next run.
    let directory = RunDirectory::new(&stage.context.state, "two");
    let give_back = || {
        bound_issue::give_back_claims(&stage.context, &id("two"))
            .map_err(|failure| failure.in_one_line())
            .unwrap();
    };
    std::fs::write(directory.path().join("issue-handed-on"), "reviewer").unwrap();
    give_back();
    assert_eq!(stage.claimants(), ["two"]);
    std::fs::remove_file(directory.path().join("issue-handed-on")).unwrap();
    give_back();
    assert!(stage.claimants().is_empty());
    spawn_other().unwrap();
}

/// The claim stays with the files: without the files, the next run does not get the claim.
#[test]
fn run_without_the_files_does_not_get_the_claim() {
    let stage = Stage::with_settings("[claims]\n");
    stage.end(ExitReason::EnforcementLost);
    let source = WorkspaceSource::TakeOver(id("one"));
    let refused = stage.try_spawn("two", &["src/**"], source, &stage.base);
    assert!(refused.unwrap_err().contains("`one` has claim 1"));
    assert_eq!(stage.claimants(), ["one"]);
}
