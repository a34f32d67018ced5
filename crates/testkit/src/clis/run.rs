//! One run of an agent CLI, from its configuration to the end of all that it started.

use std::io::Read;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

use super::{Cli, claude, codex, gemini, opencode};
use crate::scratch::Ran;
use crate::scripted_model::ScriptedModel;

/// A run of an agent CLI that is being put together.
pub struct CliRun {
    pub(super) cli: Cli,
    pub(super) base_url: String,
    pub(super) worktree: PathBuf,
    pub(super) gate: Option<String>,
    pub(super) gate_seconds: u64,
    pub(super) settings: Option<String>,
    home: TempDir,
    arguments: Vec<String>,
    variables: Vec<(String, String)>,
    limit: Duration,
}

/// A run whose configuration is written; it can be had more than once.
pub struct Prepared {
    run: CliRun,
    launch: Launch,
}

/// The launch of a CLI besides what the caller adds.
pub(super) struct Launch {
    pub(super) arguments: Vec<String>,
    pub(super) variables: Vec<(&'static str, String)>,
}

impl CliRun {
    /// A run in `worktree` with the smallest configuration that works, and no gate.
    pub fn new(cli: Cli, model: &ScriptedModel, worktree: &Path) -> Self {
        Self::at(cli, model.base_url(), worktree)
    }

    /// The same, with any server at `base_url` as the model.
    pub fn at(cli: Cli, base_url: impl Into<String>, worktree: &Path) -> Self {
        let home = tempfile::Builder::new().prefix("bailiwick-cli-").tempdir();
        let home = home.expect("a temporary directory");
        std::fs::create_dir(home.path().join("tmp")).expect("a directory");
        Self {
            cli,
            base_url: base_url.into(),
            worktree: worktree.canonicalize().expect("the worktree exists"),
            gate: None,
            gate_seconds: 15,
            settings: None,
            home,
            arguments: Vec::new(),
            variables: Vec::new(),
            limit: Duration::from_secs(180),
        }
    }

    /// Its HOME, which goes when the run has ended.
    pub fn home(&self) -> &Path {
        self.home.path()
    }

    /// A shell command that decides each tool call: it reads the call and denies it by exiting with 2. For OpenCode
    /// a plugin starts it, and any exit code but 0 denies.
    pub fn gate(mut self, command: impl Into<String>) -> Self {
        self.gate = Some(command.into());
        self
    }

    /// How long the CLI waits for the gate; 15 seconds by default. OpenCode waits longer.
    pub fn gate_seconds(mut self, seconds: u64) -> Self {
        self.gate_seconds = seconds;
        self
    }

    /// Settings in the CLI's own format: for Codex lines of TOML at the end, otherwise a JSON object whose fields
    /// replace ours.
    pub fn settings(mut self, text: impl Into<String>) -> Self {
        self.settings = Some(text.into());
        self
    }

    /// A file below its HOME.
    pub fn file(self, path: &str, text: &str) -> Self {
        self.write(path, text);
        self
    }

    /// One more argument, before the prompt.
    pub fn argument(mut self, argument: &str) -> Self {
        self.arguments.push(argument.to_owned());
        self
    }

    /// One more environment variable.
    pub fn variable(mut self, name: &str, value: &str) -> Self {
        self.variables.push((name.to_owned(), value.to_owned()));
        self
    }

    /// The timeout; three minutes by default.
    pub fn limit(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// Writes its configuration, which others may then change before it runs.
    pub fn prepare(self) -> Prepared {
        let launch = match self.cli {
            Cli::Claude => claude::prepare(&self),
            Cli::Codex => codex::prepare(&self),
            Cli::Gemini => gemini::prepare(&self),
            Cli::OpenCode => opencode::prepare(&self),
        };
        Prepared { run: self, launch }
    }

    /// Runs it and ends everything that it started. After a timeout the code is -1, and the last line of standard
    /// error reports it.
    pub fn run(self, prompt: &str) -> Ran {
        self.prepare().run(prompt)
    }

    fn prompt_arguments(&self, prompt: &str) -> Vec<String> {
        match self.cli {
            Cli::Claude | Cli::Gemini => vec!["-p".to_owned(), prompt.to_owned()],
            Cli::Codex | Cli::OpenCode => vec![prompt.to_owned()],
        }
    }

    pub(super) fn write(&self, path: &str, text: &str) -> PathBuf {
        let file = self.home().join(path);
        std::fs::create_dir_all(file.parent().expect("a parent")).expect("a directory");
        std::fs::write(&file, text).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        file
    }

    /// Our settings with the fields of the caller's in their place.
    pub(super) fn merged(&self, mut ours: Value) -> String {
        if let Some(text) = &self.settings {
            let theirs: Value = serde_json::from_str(text).expect("settings are a JSON object");
            for (name, value) in theirs.as_object().expect("settings are a JSON object") {
                ours[name] = value.clone();
            }
        }
        ours.to_string()
    }

    /// Ends its process group, and what has left it: tools get sessions of their own. They are
    /// known by their HOME, which no other process has. A killed process is there for a moment
    /// yet, and may have started another just before: it is over when none is found.
    fn end_all(&self, child: &mut Child) {
        kill(&format!("-{}", child.id()));
        let _ = child.kill();
        let _ = child.wait();
        let end = Instant::now() + Duration::from_secs(30);
        loop {
            let left = self.left();
            if left.is_empty() {
                return;
            }
            assert!(
                Instant::now() < end,
                "{:?} left processes that do not end: {left:?}",
                self.cli
            );
            left.iter().for_each(|process| kill(process));
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// The processes that run with its HOME.
    fn left(&self) -> Vec<String> {
        let mark = format!("HOME={}", self.home().display());
        let entries = std::fs::read_dir("/proc").expect("the processes").flatten();
        let marked = entries.filter(|entry| {
            let variables = std::fs::read(entry.path().join("environ")).unwrap_or_default();
            variables.split(|byte| *byte == 0).any(|variable| variable == mark.as_bytes())
        });
        marked.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
    }
}

impl Prepared {
    /// Its HOME, which goes with this.
    pub fn home(&self) -> &Path {
        self.run.home()
    }

    /// The arguments it is run with, after the program's name.
    pub fn arguments(&self, prompt: &str) -> Vec<String> {
        let Self { run, launch } = self;
        let ours = launch.arguments.iter().chain(&run.arguments).cloned();
        ours.chain(run.prompt_arguments(prompt)).collect()
    }

    /// The environment it is run with, beside `PATH`.
    pub fn variables(&self) -> Vec<(String, String)> {
        let Self { run, launch } = self;
        let shown = |path: &Path| path.display().to_string();
        let fixed = [
            ("HOME", shown(run.home())),
            ("TMPDIR", shown(&run.home().join("tmp"))),
            ("GIT_CONFIG_NOSYSTEM", "1".to_owned()),
        ];
        let ours = fixed.into_iter().chain(launch.variables.iter().cloned());
        let ours = ours.map(|(name, value)| (name.to_owned(), value));
        ours.chain(run.variables.iter().cloned()).collect()
    }

    /// Runs it, as [`CliRun::run`] does.
    pub fn run(&self, prompt: &str) -> Ran {
        let Self { run, .. } = self;
        let mut command = Command::new(run.cli.program());
        command
            .args(self.arguments(prompt))
            .current_dir(&run.worktree)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .envs(self.variables())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0);
        let mut child = command.spawn().unwrap_or_else(|error| panic!("{:?}: {error}", run.cli));
        let out = collect(child.stdout.take());
        let err = collect(child.stderr.take());
        let code = wait(&mut child, run.limit);
        run.end_all(&mut child);
        let (out, mut err) = (out.join().expect("its output"), err.join().expect("its errors"));
        if code.is_none() {
            err.push_str(&format!("\nended: the time limit of {:?} was over\n", run.limit));
        }
        Ran { code: code.unwrap_or(-1), out, err }
    }
}

fn kill(process: &str) {
    // It may have exited already.
    let mut command = Command::new("sh");
    let _ = command.args(["-c", "kill -s KILL -- \"$1\" 2>/dev/null", "sh", process]).status();
}

fn wait(child: &mut Child, limit: Duration) -> Option<i32> {
    let end = Instant::now() + limit;
    while Instant::now() < end {
        if let Some(status) = child.try_wait().expect("the CLI's end") {
            return Some(status.code().unwrap_or(-1));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    None
}

fn collect(pipe: Option<impl Read + Send + 'static>) -> JoinHandle<String> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut pipe) = pipe {
            let _ = pipe.read_to_end(&mut bytes);
        }
        String::from_utf8_lossy(&bytes).into_owned()
    })
}
