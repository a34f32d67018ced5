//! One agent: how it is started and taken up again, and what can be seen of it from outside.

use std::path::PathBuf;
use std::process::Stdio;

use bailiwick_testkit::clis::Cli;
use bailiwick_testkit::scratch::Ran;
use bailiwick_testkit::scripted_model::{Script, ScriptedModel};
use serde_json::Value;

use super::attempt::{Ended, Working};
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

    /// With more in its task.
    pub(crate) fn task(self, more: &str) -> Self {
        Self { task: more.to_owned(), ..self }
    }

    /// From another commit.
    pub(crate) fn base(self, base: &'a str) -> Self {
        Self { base, ..self }
    }

    /// With more options.
    pub(crate) fn options(self, options: &'a [&'a str]) -> Self {
        Self { options, ..self }
    }

    /// With another model.
    pub(crate) fn model(self, model: &'a str) -> Self {
        Self { model: Some(model), ..self }
    }

    /// By another program of the CLI's name, in this directory.
    pub(crate) fn wrapped(self, directory: PathBuf) -> Self {
        Self { wrapped: Some(directory), ..self }
    }

    /// Its task, in a file that no agent sees.
    fn file(&self) -> String {
        let (cli, model) = match self.stage.cli {
            Cli::Claude => ("claude-code", "claude-opus-4-8"),
            // The newer ones have but one tool, in which they write code.
            Cli::Codex => ("codex", "gpt-5.5"),
            Cli::Gemini => ("gemini", "gemini-2.5-flash"),
            Cli::OpenCode => ("opencode", "scripted"),
        };
        let model = self.model.unwrap_or(model);
        let text = format!(
            "[task]\nrole = \"worker\"\n[scope]\nfiles-whitelist = [\"src/**\"]\n[agent]\n\
             cli = \"{cli}\"\nmodel = \"{model}\"\n{}\n[body]\ntext = \"Do the work of {}.\"\n",
            self.task, self.id
        );
        let file = self.stage.scratch.place().join(format!("{}.toml", self.id));
        std::fs::write(&file, text).unwrap();
        file.display().to_string()
    }

    fn begin(&self, arguments: &[&str], script: Script) -> Working {
        let model = ScriptedModel::start(script);
        let mut command = self.stage.command(Some(&model), self.wrapped.as_deref());
        command.args(arguments).args(["-o", "json"]);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Working::new(command.spawn().unwrap(), model)
    }

    /// Starts it with its task.
    pub(crate) fn start(&self, script: Script) -> Working {
        let file = self.file();
        let arguments = ["run", &file, "--agent-id", self.id, "--base", self.base];
        self.begin(&[&arguments, self.options].concat(), script)
    }

    /// Starts it where it was spawned already.
    pub(crate) fn go(&self, script: Script) -> Working {
        self.begin(&["run", self.id], script)
    }

    /// Runs it with its task, to its end.
    pub(crate) fn run(&self, script: Script) -> Ended {
        self.start(script).end()
    }

    /// Takes it up again.
    pub(crate) fn take_up(&self, message: &str, more: &[&str], script: Script) -> Working {
        self.begin(&[&["resume", self.id, "-m", message], more].concat(), script)
    }

    /// Where it works.
    pub(crate) fn worktree(&self) -> PathBuf {
        let state = self.stage.scratch.state().canonicalize().unwrap();
        state.join("worktrees").join(self.id)
    }

    /// Where its run has its things.
    pub(crate) fn directory(&self) -> PathBuf {
        self.stage.scratch.state().canonicalize().unwrap().join("runs").join(self.id)
    }

    /// A path in its worktree, as its tools take it.
    pub(crate) fn path(&self, name: &str) -> String {
        self.worktree().join(name).display().to_string()
    }

    /// A file of its worktree.
    pub(crate) fn text(&self, name: &str) -> Option<String> {
        std::fs::read_to_string(self.worktree().join(name)).ok()
    }

    /// The branches that were pushed.
    pub(crate) fn pushed(&self) -> Vec<String> {
        let heads = std::fs::read_dir(self.worktree().join("origin.git/refs/heads")).unwrap();
        let names = heads.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned());
        names.filter(|name| name != ".keep").collect()
    }

    /// That the push which did not happen would have happened, had anybody let it.
    pub(crate) fn could_push(&self) {
        let mut git = self.stage.scratch.command("sh");
        git.current_dir(self.worktree()).args(["-c", PUSH]);
        let ran = Ran::from(git.output().unwrap());
        assert_eq!(self.pushed(), ["pushed"], "{ran:?}");
    }

    /// Every event of its run.
    pub(crate) fn events(&self) -> Vec<Value> {
        let ran = self.stage.bailiwick(&["logs", self.id, "-o", "json"]).expect_code(0);
        ran.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    fn of_kind(&self, kind: &str) -> Vec<Value> {
        self.events().into_iter().filter(|event| event["kind"] == kind).collect()
    }

    /// The one decision about a call that has this in it: the answer and the rule.
    fn decision(&self, about: &str) -> (String, Option<String>) {
        let all = self.of_kind("decision");
        let has = |event: &&Value| event["about"].as_str().unwrap().contains(about);
        let found: Vec<_> = all.iter().filter(has).collect();
        let [one] = found.as_slice() else { panic!("{about}: {found:#?} of {all:#?}") };
        let text = |key: &str| one[key].as_str().map(str::to_owned);
        (text("answer").unwrap(), text("rule"))
    }

    pub(crate) fn denied(&self, about: &str, rule: &str) {
        let (answer, by) = self.decision(about);
        assert_eq!((answer.as_str(), by.as_deref()), ("deny", Some(rule)), "{about}");
    }

    pub(crate) fn allowed(&self, about: &str) {
        assert_eq!(self.decision(about).0, "allow", "{about}");
    }

    /// The sub-agent that asked for a call which has this in it, as the proxy saw it.
    pub(crate) fn asked_by(&self, about: &str) -> Option<String> {
        let calls = self.of_kind("tool-call").into_iter();
        let has = |event: &Value| {
            event["seen_by"] == "proxy" && event["input"].to_string().contains(about)
        };
        let found: Vec<_> = calls.filter(has).collect();
        assert_eq!(found.len(), 1, "{about}: {found:#?}");
        found[0]["agent"].as_str().map(str::to_owned)
    }

    /// That the proxy has seen what the model asked for and what it was told, call by call.
    pub(crate) fn seen_by_the_proxy(&self, calls: usize) {
        let by_proxy = |kind: &str| {
            let events = self.of_kind(kind).into_iter();
            events.filter(|event| event["seen_by"] == "proxy").count()
        };
        assert_eq!((by_proxy("tool-call"), by_proxy("tool-result")), (calls, calls));
    }

    /// How `ps --all` says that it stands.
    pub(crate) fn state(&self) -> String {
        let ran = self.stage.bailiwick(&["ps", "--all", "-o", "json"]).expect_code(0);
        let all: Value = serde_json::from_str(&ran.out).unwrap();
        let one = all.as_array().unwrap().iter().find(|one| one["agent_id"] == self.id);
        one.unwrap_or_else(|| panic!("{all:#}"))["state"].as_str().unwrap().to_owned()
    }

    pub(crate) fn land(&self) -> Ran {
        self.stage.bailiwick(&["land", self.id])
    }

    pub(crate) fn stop(&self) {
        self.stage.bailiwick(&["stop", self.id]).expect_code(0);
    }

    /// That nothing runs any more which the run has started.
    pub(crate) fn nothing_runs(&self) {
        outside::wait("its processes are gone", || self.processes().is_empty());
    }

    /// The processes of the agent, as the machine sees them.
    pub(crate) fn processes(&self) -> Vec<outside::Process> {
        outside::with_home(&self.directory().join("home"))
    }

    /// That the run was ended for a lost gate, and nothing of it can land.
    pub(crate) fn quarantined(&self, ended: &Ended) {
        ended.expect("enforcement-lost", 2);
        assert_eq!(self.state(), "enforcement-lost");
        let main = self.stage.scratch.git(&["rev-parse", "main"]);
        let land = self.land();
        assert_eq!(land.code, 2, "{}{}", land.out, land.err);
        assert!(land.err.contains("cannot land"), "{}", land.err);
        assert_eq!(self.stage.scratch.git(&["rev-parse", "main"]), main);
        self.nothing_runs();
    }
}
