//! One agent: how it is started and resumed, and what can be observed from outside.

use std::path::PathBuf;
use std::process::Stdio;

use bailiwick_testkit::clis::Cli;
use bailiwick_testkit::scratch::Ran;
use bailiwick_testkit::scripted_model::{Script, ScriptedModel};
use serde_json::Value;

use super::attempt::{Ended, RunningAttempt};
use super::outside;
use super::stage::{PUSH, Stage};

/// One agent, by its id.
pub(crate) struct Agent<'a> {
    stage: &'a Stage,
    id: &'a str,
    task: String,
    base: &'a str,
    wrapped: Option<PathBuf>,
    options: &'a [&'a str],
    model: Option<&'a str>,
}

impl<'a> Agent<'a> {
    pub(crate) fn new(stage: &'a Stage, id: &'a str) -> Self {
        let (task, options) = (String::new(), &[]);
        Self { stage, id, task, base: "main", wrapped: None, options, model: None }
    }

    /// Adds text to its task.
    pub(crate) fn task(self, more: &str) -> Self {
        Self { task: more.to_owned(), ..self }
    }

    /// Starts from another commit.
    pub(crate) fn base(self, base: &'a str) -> Self {
        Self { base, ..self }
    }

    /// Adds options.
    pub(crate) fn options(self, options: &'a [&'a str]) -> Self {
        Self { options, ..self }
    }

    /// Uses another model.
    pub(crate) fn model(self, model: &'a str) -> Self {
        Self { model: Some(model), ..self }
    }

    /// Starts the CLI through a wrapper in this directory.
    pub(crate) fn wrapped(self, directory: PathBuf) -> Self {
        Self { wrapped: Some(directory), ..self }
    }

    /// Writes its task to a file that no agent can read. Returns the path.
    fn file(&self) -> String {
        let (cli, model) = match self.stage.cli {
            Cli::Claude => ("claude-code", "claude-opus-4-8"),
            // Newer models have only one tool, which runs code.
            Cli::Codex => ("codex", "gpt-5.5"),
            Cli::Gemini => ("gemini", "gemini-2.5-flash"),
            Cli::OpenCode => ("opencode", "scripted"),
        };
        let model = self.model.unwrap_or(model);
        let task = format!(
            "[task]\nrole = \"worker\"\n[scope]\nfiles-whitelist = [\"src/**\"]\n[agent]\n\
             cli = \"{cli}\"\nmodel = \"{model}\"\n{}\n[body]\ntext = \"Do the work of {}.\"\n",
            self.task, self.id
        );
        let file = self.stage.scratch.place().join(format!("{}.toml", self.id));
        std::fs::write(&file, task).unwrap();
        file.display().to_string()
    }

    fn begin(&self, arguments: &[&str], script: Script) -> RunningAttempt {
        let model = ScriptedModel::start(script);
        let mut command = self.stage.command(Some(&model), self.wrapped.as_deref());
        command.args(arguments).args(["-o", "json"]);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        RunningAttempt::new(command.spawn().unwrap(), model)
    }

    /// Starts an attempt with its task.
    pub(crate) fn start(&self, script: Script) -> RunningAttempt {
        let file = self.file();
        let arguments = ["run", &file, "--agent-id", self.id, "--base", self.base];
        self.begin(&[&arguments, self.options].concat(), script)
    }

    /// Starts a run that was already spawned.
    pub(crate) fn start_spawned(&self, script: Script) -> RunningAttempt {
        self.begin(&["run", self.id], script)
    }

    /// Runs an attempt with its task until it ends.
    pub(crate) fn run(&self, script: Script) -> Ended {
        self.start(script).end()
    }

    /// Resumes the run with a message.
    pub(crate) fn resume(&self, message: &str, more: &[&str], script: Script) -> RunningAttempt {
        self.begin(&[&["resume", self.id, "-m", message], more].concat(), script)
    }

    /// Its worktree.
    pub(crate) fn worktree(&self) -> PathBuf {
        let state = self.stage.scratch.state().canonicalize().unwrap();
        state.join("worktrees").join(self.id)
    }

    /// The directory of its run.
    pub(crate) fn directory(&self) -> PathBuf {
        self.stage.scratch.state().canonicalize().unwrap().join("runs").join(self.id)
    }

    /// The absolute path of a file in its worktree.
    pub(crate) fn path(&self, name: &str) -> String {
        self.worktree().join(name).display().to_string()
    }

    /// The text of a file in its worktree.
    pub(crate) fn text(&self, name: &str) -> Option<String> {
        std::fs::read_to_string(self.worktree().join(name)).ok()
    }

    /// The branches that were pushed.
    pub(crate) fn pushed(&self) -> Vec<String> {
        let heads = std::fs::read_dir(self.worktree().join("origin.git/refs/heads")).unwrap();
        let names = heads.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned());
        names.filter(|name| name != ".keep").collect()
    }

    /// Positive control: asserts that the denied push succeeds outside of the sandbox.
    pub(crate) fn expect_push_possible(&self) {
        let mut git = self.stage.scratch.command("sh");
        git.current_dir(self.worktree()).args(["-c", PUSH]);
        let ran = Ran::from(git.output().unwrap());
        assert_eq!(self.pushed(), ["pushed"], "{ran:?}");
    }

    /// All events of its run.
    pub(crate) fn events(&self) -> Vec<Value> {
        let ran = self.stage.bailiwick(&["logs", self.id, "-o", "json"]).expect_code(0);
        ran.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    fn of_kind(&self, kind: &str) -> Vec<Value> {
        self.events().into_iter().filter(|event| event["kind"] == kind).collect()
    }

    /// The decision about the only call that contains this text: the answer and the rule.
    fn decision(&self, about: &str) -> (String, Option<String>) {
        let decisions = self.of_kind("decision");
        let matches = |event: &&Value| event["about"].as_str().unwrap().contains(about);
        let found: Vec<_> = decisions.iter().filter(matches).collect();
        let [decision] = found.as_slice() else { panic!("{about}: {found:#?} of {decisions:#?}") };
        let text = |key: &str| decision[key].as_str().map(str::to_owned);
        (text("answer").unwrap(), text("rule"))
    }

    pub(crate) fn expect_denied(&self, about: &str, rule: &str) {
        let (answer, by) = self.decision(about);
        assert_eq!((answer.as_str(), by.as_deref()), ("deny", Some(rule)), "{about}");
    }

    pub(crate) fn expect_allowed(&self, about: &str) {
        assert_eq!(self.decision(about).0, "allow", "{about}");
    }

    /// The sub-agent that requested the call with this text, as the proxy recorded it.
    pub(crate) fn requested_by(&self, about: &str) -> Option<String> {
        let calls = self.of_kind("tool-call").into_iter();
        let matches = |event: &Value| {
            event["seen_by"] == "proxy" && event["input"].to_string().contains(about)
        };
        let found: Vec<_> = calls.filter(matches).collect();
        assert_eq!(found.len(), 1, "{about}: {found:#?}");
        found[0]["agent"].as_str().map(str::to_owned)
    }

    /// Asserts that the proxy recorded the request and the result of each tool call.
    pub(crate) fn expect_proxy_events(&self, calls: usize) {
        let by_proxy = |kind: &str| {
            let events = self.of_kind(kind).into_iter();
            events.filter(|event| event["seen_by"] == "proxy").count()
        };
        assert_eq!((by_proxy("tool-call"), by_proxy("tool-result")), (calls, calls));
    }

    /// Its state in `ps --all`.
    pub(crate) fn state(&self) -> String {
        let ran = self.stage.bailiwick(&["ps", "--all", "-o", "json"]).expect_code(0);
        let runs: Value = serde_json::from_str(&ran.out).unwrap();
        let run = runs.as_array().unwrap().iter().find(|run| run["agent_id"] == self.id);
        run.unwrap_or_else(|| panic!("{runs:#}"))["state"].as_str().unwrap().to_owned()
    }

    pub(crate) fn land(&self) -> Ran {
        self.stage.bailiwick(&["land", self.id])
    }

    pub(crate) fn stop(&self) {
        self.stage.bailiwick(&["stop", self.id]).expect_code(0);
    }

    /// Asserts that no process of the run is left.
    pub(crate) fn expect_no_processes(&self) {
        outside::wait_until("its processes have ended", || self.processes().is_empty());
    }

    /// The processes of the agent, found in `/proc`.
    pub(crate) fn processes(&self) -> Vec<outside::Process> {
        outside::with_home(&self.directory().join("home"))
    }

    /// Asserts that the run was stopped because its gate was lost, and that its work cannot land.
    pub(crate) fn expect_quarantined(&self, ended: &Ended) {
        ended.expect("enforcement-lost", 2);
        assert_eq!(self.state(), "enforcement-lost");
        let main = self.stage.scratch.git(&["rev-parse", "main"]);
        let landed = self.land();
        assert_eq!(landed.code, 2, "{}{}", landed.out, landed.err);
        assert!(landed.err.contains("cannot land"), "{}", landed.err);
        assert_eq!(self.stage.scratch.git(&["rev-parse", "main"]), main);
        self.expect_no_processes();
    }
}
