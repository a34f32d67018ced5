//! Runs a shell command of an agent that a person started, in the sandbox of its policy.
//!
//! The agent CLI starts a file in our directory as its shell: Claude Code with the whole command as one argument,
//! OpenCode with the arguments of a shell. Codex and Gemini CLI start it for each command, with the name of the file
//! that contains it. If the sandbox cannot be set up, the command does not run.

use std::ffi::OsString;
use std::io::{self, IsTerminal as _};
use std::os::fd::AsFd as _;
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};
use std::process::{ExitCode, Stdio};
use std::time::Duration;

use bailiwick_engine::running::{
    forbidden_files::{self, NewFiles},
    sandbox_plan::{Scope, commits},
};
use bailiwick_gate::repository_around;
use bailiwick_lifecycle::ports::{ForbiddenFile, ForbiddenFiles as _};
use bailiwick_policy::{PathPolicy, Policy};
use bailiwick_runner::sandbox::{
    self, CommandPlaces, CommandRepository, GitAccess, Launcher, Received, Report, Sandbox,
    Streams, WorktreeAccess,
};
use bailiwick_runner::toolchain::GIT_ACROSS_MOUNTS;
use bailiwick_source_control::Repository;

use super::agent::Agent;
use super::pending_command::Commands;
use super::places::StateFiles;
use super::record::Record;
use super::scratch_space::{self, InUse};
use crate::failure::Failure;
use crate::output;

/// The file name in our directory, which the CLI recognises as a shell.
pub const FILE: &str = "bash";

/// The exit code of shells for a command that could not run.
const NOT_RUN: u8 = 126;

/// A command that ran, and whose new files could not be examined.
const NOT_EXAMINED: u8 = 125;

/// Caches of package managers and compilers in a home. Not whole directories such as `.cache`, which have
/// programs that the person runs.
const CACHES: [&str; 33] = [
    ".bun/install/cache",
    ".cache/ccache",
    ".cache/coursier",
    ".cache/deno",
    ".cache/go-build",
    ".cache/golangci-lint",
    ".cache/mypy",
    ".cache/pip",
    ".cache/pnpm",
    ".cache/pypoetry",
    ".cache/sccache",
    ".cache/uv",
    ".cache/yarn",
    ".cargo/.package-cache",
    ".cargo/.package-cache-mutate",
    ".cargo/git",
    ".cargo/registry",
    ".composer/cache",
    ".gradle/.tmp",
    ".gradle/caches",
    ".gradle/daemon",
    ".gradle/native",
    ".gradle/notifications",
    ".gradle/wrapper",
    ".ivy2/cache",
    ".local/share/pnpm/store",
    ".m2/repository",
    ".npm/_cacache",
    ".npm/_logs",
    ".nuget/packages",
    ".pnpm-store",
    ".yarn/berry/cache",
    "go/pkg",
];

/// Variables that name a directory for temporary files.
const TEMPORARY: [&str; 4] = ["TMPDIR", "TEMP", "TMP", "CLAUDE_CODE_TMPDIR"];

/// Credentials with which git could write elsewhere: hidden from commands that must not write with git.
const GIT_CREDENTIALS: [&str; 6] = [
    ".config/gh",
    ".config/git/credentials",
    ".config/glab-cli",
    ".git-credentials",
    ".netrc",
    ".ssh",
];

/// The directory with the logins to servers, in a directory of settings.
const LOGINS: &str = "bailiwick/client";

/// Directories of agents' settings, in a home and in a repository.
const SETTINGS: [&str; 6] =
    [".agents", ".claude", ".codex", ".config/opencode", ".gemini", ".opencode"];

/// Directories that are visible anyway, private to the sandbox, or contain sockets of services.
const NOT_SHOWN: [&str; 17] = [
    "bin",
    "dev",
    "etc",
    "lib",
    "lib32",
    "lib64",
    "libx32",
    "lost+found",
    "opt",
    "proc",
    "run",
    "sbin",
    "sys",
    "tmp",
    "usr",
    "var",
    "lock",
];

/// The text of the file that the agent's program starts.
pub fn text(program: &Path, kept: &StateFiles, agent: Agent) -> Result<String, Failure> {
    let form = match agent {
        Agent::OpenCode => AS_SHELL,
        Agent::Claude | Agent::Codex | Agent::Gemini => AS_PREFIX,
    };
    script("hooks install", program, kept, &format!("{form} \"$@\""))
}

/// The text of the file that the agent's program starts for one command.
pub fn by_id(kept: &StateFiles, record: &Record, id: &str) -> Result<String, Failure> {
    let none = || Failure::general("the record does not name the program: install again");
    let program = record.program.as_ref().ok_or_else(none)?;
    script("hooked-call", program, kept, &format!("{BY_ID} {id}"))
}

fn script(by: &str, program: &Path, kept: &StateFiles, words: &str) -> Result<String, Failure> {
    let quoted = |path: &Path| {
        super::gate_command::text(path).map(|path| super::gate_command::quoted(&path))
    };
    Ok(format!(
        "#!/bin/sh\n# Written by `bailiwick {by}`: runs a shell command in a sandbox.\nexec {} sandboxed-shell \
         {} {words}\n",
        quoted(program)?,
        quoted(&kept.directory)?
    ))
}

/// Runs the command that the arguments name, after our directory.
pub fn run(arguments: impl Iterator<Item = OsString>) -> ExitCode {
    let arguments: Vec<OsString> = arguments.collect();
    let held = match arguments.as_slice() {
        [directory, form, id] if form == BY_ID => run_pending(Path::new(directory), id),
        [directory, form, words @ ..] => argv(form, words).and_then(|argv| {
            let kept = StateFiles { directory: PathBuf::from(directory) };
            let started = || {
                // Without the record the gate trusts in the text alone, which denies more.
                let _ = Commands::of(kept.commands()).started_by_agent();
            };
            Command::prepare(&kept.directory)?.run(&argv, &started)
        }),
        _ => Err(Failure::usage("it takes our directory, a form and the command")),
    };
    match held {
        Ok(code) => ExitCode::from(code),
        Err(failure) => {
            output::error(
                &format!(
                    "bailiwick: the command was not run, because it cannot be sandboxed: {failure}"
                ),
                Some("tell the person; `bailiwick hooks status` says what is wrong"),
            );
            ExitCode::from(NOT_RUN)
        }
    }
}

/// How the command is given: as one argument, or as the arguments of a shell.
const AS_PREFIX: &str = "prefix";
const AS_SHELL: &str = "shell";

/// Or by the id of the file that has it.
const BY_ID: &str = "id";

/// Runs a command that the hook has stored, and records that it was started in the sandbox.
fn run_pending(directory: &Path, id: &OsString) -> Result<u8, Failure> {
    let kept = StateFiles { directory: directory.to_owned() };
    let commands = Commands::of(kept.commands());
    let id = id.to_str().ok_or_else(|| Failure::usage("the id is not UTF-8"))?;
    let pending = commands.take(id).map_err(|error| {
        Failure::general(format!("it cannot be taken from {}: {error}", kept.commands().display()))
    })?;
    let argv = vec![shell(), "-c".to_owned(), pending.command];
    let started = || {
        // Without this marker, the hook reports that the command did not start, which is safe.
        let _ = commands.started(id, pending.session.as_deref());
    };
    let code = Command::prepare(directory).and_then(|command| command.run(&argv, &started));
    commands.ended(id);
    code
}

/// The shell with its arguments.
fn argv(form: &OsString, words: &[OsString]) -> Result<Vec<String>, Failure> {
    let words: Option<Vec<String>> =
        words.iter().map(|word| word.to_str().map(str::to_owned)).collect();
    let words = words.ok_or_else(|| Failure::usage("the command is not UTF-8"))?;
    match (form.to_str(), words.as_slice()) {
        (Some(AS_PREFIX), [command]) => Ok(vec![shell(), "-c".to_owned(), command.clone()]),
        (Some(AS_SHELL), words) => Ok([&["/bin/bash".to_owned()], words].concat()),
        _ => Err(Failure::usage("the command is not given as one argument")),
    }
}

/// A command that is about to run.
struct Command {
    sandbox: Sandbox,
    new_files: Option<NewFiles>,
    /// Locked until the command has ended, if there is scratch space.
    _scratch: Option<InUse>,
}

impl Command {
    fn prepare(directory: &Path) -> Result<Self, Failure> {
        let kept = StateFiles { directory: directory.to_owned() };
        let (record, policy) = installed(&kept)?;
        let here = std::env::current_dir().map_err(|error| {
            Failure::general(format!("the working directory cannot be determined: {error}"))
        })?;
        let around = record.root.clone().or_else(|| repository_around(&here));
        let repository = around.as_deref().and_then(Repository::discover);
        if repository.is_none()
            && let Some(root) = &record.root
        {
            return Err(Failure::general(format!(
                "{} is not a repository any more",
                root.display()
            )));
        }
        let mut places = machine(&kept, &here)?;
        let (mut new_files, mut scratch) = (None, None);
        if let Some(repository) = repository {
            let place = kept.scratch_of(&repository);
            scratch = Some(scratch_space::open(&place, repository.root()).map_err(|error| {
                Failure::general(format!("{} cannot be used: {error}", place.display()))
            })?);
            let (held, files) = in_repository(&repository, &policy, &kept, record.agent)?;
            places.protected.extend(SETTINGS.map(|name| held.worktree.join(name)));
            if held.git_access == GitAccess::Read
                && let Some(home) = home()
            {
                places.hidden.extend(GIT_CREDENTIALS.map(|name| home.join(name)));
            }
            places.repository = Some(held);
            new_files = files;
        }
        Ok(Self { sandbox: sandbox::shell_command(places), new_files, _scratch: scratch })
    }

    /// Runs it; `started` is called once the sandbox is created.
    fn run(self, argv: &[String], started: &dyn Fn()) -> Result<u8, Failure> {
        let failed = |error: sandbox::SandboxError| Failure::general(error.to_string());
        let unread = |error: io::Error| Failure::general(format!("its input: {error}"));
        let input = io::stdin();
        let mut streams = Streams::new(Stdio::inherit(), Stdio::inherit());
        if !input.is_terminal() {
            streams = streams.reading(input.as_fd().try_clone_to_owned().map_err(unread)?);
        }
        let launcher = Launcher::own().map_err(failed)?;
        let mut running = launcher.start_with(&self.sandbox, argv, streams).map_err(failed)?;
        let code = loop {
            match running.next_report(Duration::from_secs(3600)) {
                Received::Report(Report::Exit(code)) => break code,
                Received::Report(Report::Signal(signal)) => break 128 + signal,
                Received::Report(Report::Refused(error)) => return Err(failed(error)),
                Received::Report(Report::MemorySpent(_)) => break 137,
                Received::Report(Report::Confinement(_)) => started(),
                Received::Report(Report::Listener(_)) | Received::TimedOut => {}
                Received::Closed => {
                    return Err(Failure::general("the sandbox ended without a word"));
                }
            }
        };
        drop(running);
        let code = u8::try_from(code).unwrap_or(u8::MAX);
        let examined = self.new_files.as_ref().is_none_or(tell);
        Ok(if code == 0 && !examined { NOT_EXAMINED } else { code })
    }
}

/// The installation, if its policy is unchanged.
fn installed(kept: &StateFiles) -> Result<(Record, Policy), Failure> {
    let unusable = |file: PathBuf, why: String| {
        Failure::general(format!("{} cannot be used: {why}", file.display()))
    };
    let record = super::record::parse(
        &std::fs::read_to_string(kept.record())
            .map_err(|error| unusable(kept.record(), error.to_string()))?,
    )
    .map_err(|why| unusable(kept.record(), why.to_string()))?;
    let json =
        std::fs::read(kept.policy()).map_err(|error| unusable(kept.policy(), error.to_string()))?;
    let policy = Policy::read(&json, &record.digest)
        .map_err(|error| unusable(kept.policy(), error.to_string()))?;
    Ok((record, policy))
}

/// The logins of the person: with one of them, an agent could approve its own requests.
fn logins(home: Option<&Path>) -> Vec<PathBuf> {
    let moved = std::env::var_os("XDG_CONFIG_HOME").map(PathBuf::from);
    let places = home.map(|home| home.join(".config")).into_iter().chain(moved);
    let files = places.map(|place| place.join(LOGINS));
    let files = files.chain(std::env::var_os("BAILIWICK_CONFIG").map(PathBuf::from));
    files.filter_map(|file| std::fs::canonicalize(file).ok()).collect()
}

/// The machine as the person sees it, in which nothing can be written but caches and temporary files.
fn machine(kept: &StateFiles, here: &Path) -> Result<CommandPlaces, Failure> {
    let mut shown = directories(Path::new("/"))?;
    // The sandbox has a private `/var/tmp`.
    shown.extend(directories(Path::new("/var"))?);
    let home = home();
    let mut writable = vec![PathBuf::from("/tmp"), PathBuf::from("/var/tmp")];
    let mut protected = vec![kept.directory.clone()];
    if let Some(home) = &home {
        let caches = CACHES.iter().map(|name| home.join(name));
        writable.extend(caches.filter(|cache| {
            // One that leads elsewhere is read only, as that is.
            std::fs::canonicalize(cache).is_ok_and(|real| real == *cache)
        }));
        protected.extend(SETTINGS.map(|name| home.join(name)));
        shown.push(home.clone());
    }
    let around = [home.as_deref(), Some(here), Some(kept.directory.as_path())];
    writable.extend(TEMPORARY.iter().filter_map(std::env::var_os).filter_map(|path| {
        let path = std::fs::canonicalize(path).ok()?;
        // A variable must not open what is protected.
        (!around.iter().flatten().any(|place| place.starts_with(&path))).then_some(path)
    }));
    let moved = ["CLAUDE_CONFIG_DIR", "CODEX_HOME", "GEMINI_CLI_HOME", "XDG_CONFIG_HOME"];
    protected.extend(moved.iter().filter_map(std::env::var_os).map(PathBuf::from));
    let state = kept.directory.parent().and_then(Path::parent).map(Path::to_path_buf);
    shown.extend(state.filter(|state| state.is_dir()));
    Ok(CommandPlaces {
        shown,
        hidden: sockets(Path::new("/tmp")).into_iter().chain(logins(home.as_deref())).collect(),
        writable,
        protected,
        repository: None,
        environment: environment(),
        directory: here.to_owned(),
    })
}

fn environment() -> Vec<(String, String)> {
    let own = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    let (name, value) = GIT_ACROSS_MOUNTS;
    own.chain([(name.to_owned(), value.to_owned())]).collect()
}

fn home() -> Option<PathBuf> {
    std::env::var_os("HOME").and_then(|home| std::fs::canonicalize(home).ok())
}

/// The directories of a directory that are shown.
fn directories(place: &Path) -> Result<Vec<PathBuf>, Failure> {
    let unread =
        |error: io::Error| Failure::general(format!("{} cannot be read: {error}", place.display()));
    let mut found = Vec::new();
    for entry in std::fs::read_dir(place).map_err(unread)? {
        let entry = entry.map_err(unread)?;
        let name = entry.file_name();
        let is_directory = entry.file_type().is_ok_and(|kind| kind.is_dir());
        if is_directory && !NOT_SHOWN.iter().any(|one| name == *one) {
            found.push(entry.path());
        }
    }
    Ok(found)
}

/// Sockets in a directory and in those directly below it: who listens there is not in the sandbox.
fn sockets(directory: &Path) -> Vec<PathBuf> {
    let entries = |place: &Path| std::fs::read_dir(place).into_iter().flatten().flatten();
    let below =
        entries(directory).filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    let all =
        entries(directory).chain(below.flat_map(|one| entries(&one.path()).collect::<Vec<_>>()));
    all.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_socket()))
        .map(|entry| entry.path())
        .collect()
}

/// The repository as the policy protects it, and what finds new files that it forbids.
fn in_repository(
    repository: &Repository,
    policy: &Policy,
    kept: &StateFiles,
    agent: Agent,
) -> Result<(CommandRepository, Option<NewFiles>), Failure> {
    let worktree = std::fs::canonicalize(repository.root())
        .map_err(|error| Failure::general(format!("the repository cannot be found: {error}")))?;
    let commit = repository.commit("HEAD")?;
    let Scope { access, protected } = Scope::of(repository, commit.as_deref(), &worktree, policy)?;
    let (scratch, removed) = (kept.scratch_of(repository), kept.removed());
    let git_access = if commits(policy) { GitAccess::Write } else { GitAccess::Read };
    let git = git_directories(repository)?;
    // A file that does not exist cannot be protected, and would take effect as soon as it is created.
    let mut wanted = Vec::new();
    if access != WorktreeAccess::ReadOnly {
        let own = own_settings(agent).into_iter();
        wanted.extend(own.chain([".claude"]).map(|name| worktree.join(name)));
    }
    if git_access == GitAccess::Write {
        wanted.extend(git.first().map(|common| common.join("hooks")));
    }
    for directory in wanted.iter().filter(|directory| directory.symlink_metadata().is_err()) {
        std::fs::create_dir(directory)
            .map_err(|error| Failure::general(format!("{}: {error}", directory.display())))?;
    }
    let held = CommandRepository {
        git,
        scratch: scratch.clone(),
        worktree: worktree.clone(),
        access,
        protected,
        git_access,
    };
    let places = forbidden_files::Places {
        removed,
        ignored: scratch.join("ignored"),
        scratch: scratch.join("upper"),
    };
    let paths = PathPolicy::of(policy);
    if paths.is_unlimited() {
        return Ok((held, None));
    }
    let files = NewFiles::from_now_on(repository, commit.as_deref(), worktree, places, paths)
        .map_err(|error| Failure::general(error.to_string()))?;
    Ok((held, Some(files)))
}

/// The directory of a repository's settings that an agent would obey when it is started next, besides that of
/// Claude Code. One of OpenCode has it fetch packages.
fn own_settings(agent: Agent) -> Option<&'static str> {
    match agent {
        Agent::Codex => Some(".codex"),
        Agent::Gemini => Some(".gemini"),
        Agent::Claude | Agent::OpenCode => None,
    }
}

/// The directory that worktrees share, and the one of this worktree if it has its own.
fn git_directories(repository: &Repository) -> Result<Vec<PathBuf>, Failure> {
    let arguments = ["rev-parse", "--path-format=absolute", "--git-common-dir", "--git-dir"];
    let said = repository.git().run(arguments)?;
    let mut found: Vec<PathBuf> = Vec::new();
    for line in String::from_utf8_lossy(&said).lines() {
        let place = std::fs::canonicalize(line)
            .map_err(|error| Failure::general(format!("{line} cannot be found: {error}")))?;
        if !found.contains(&place) {
            found.push(place);
        }
    }
    Ok(found)
}

/// Reports new files that are not part of the work in the output of the command. Returns whether all could be
/// examined.
fn tell(files: &NewFiles) -> bool {
    let mut examined = true;
    let mut failed = |error: &dyn std::fmt::Display| {
        examined = false;
        output::aside(format_args!(
            "bailiwick: the new files of this command could not be examined, so it counts as failed: {error}"
        ));
    };
    let named = |files: &[ForbiddenFile]| {
        files.iter().map(|file| format!("{} ({})", file.path, file.capability)).collect::<Vec<_>>()
    };
    match files.remove() {
        Ok(removed) if removed.is_empty() => {}
        Ok(removed) => output::aside(format_args!(
            "bailiwick: removed, because you may not make them: {}",
            named(&removed).join(", ")
        )),
        Err(error) => failed(&error),
    }
    match files.left_out() {
        Ok(left_out) if left_out.is_empty() => {}
        Ok(left_out) => output::aside(format_args!(
            "bailiwick: outside of your scope, so only your own commands see them: {}",
            named(&left_out).join(", ")
        )),
        Err(error) => failed(&error),
    }
    examined
}

/// The shell that the agent's program would have used.
fn shell() -> String {
    let own = std::env::var("SHELL").unwrap_or_default();
    let is = |name: &str| own.ends_with(&format!("/{name}")) && !own.contains("/hooks/");
    if (is("bash") || is("zsh")) && Path::new(&own).is_file() {
        own
    } else {
        "/bin/bash".to_owned()
    }
}
