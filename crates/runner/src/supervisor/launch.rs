//! Starting an agent program in its sandbox, and reading what it prints.

use std::fs::{self, File};
use std::io::{self, BufRead as _, BufReader, PipeReader, Read as _, Write as _};
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::os::unix::net::UnixStream;
use std::path::{Component, Path, PathBuf};
use std::thread::JoinHandle;
use std::time::Duration;

use bailiwick_lifecycle::supervision::Redaction;
use bailiwick_verify::job::Termination;

use super::directory::RunDirectory;
use super::stdio_gate::{self, ControlSession, DeciderHandle};
use super::terminal::TerminalForwarder;
use super::{SuperviseError, Supervision, home, start_up};
use crate::agents::adapter::{
    Adapter, Assignment, ConversationCleanup, Gate, Input, ParsedEvent, ProgramLaunch, Reader,
    Verdict,
};
use crate::environment::{self, ProjectEnvironment, SETUP_HOME};
use crate::process::{self, Capture, Limits};
use crate::sandbox::{
    AgentPlaces, Bind, Bounds, Launcher, Level, Running, Sandbox, Streams, WorktreeAccess, agent,
};
use crate::toolchain;

/// The path of our files inside a sandbox.
pub(super) const INSIDE: &str = "/run/bailiwick";
/// The port inside on which the sandbox listens.
pub(super) const PROXY_PORT: u16 = 4117;
/// How long a sandbox may take to open its listener.
const TIMEOUT: Duration = Duration::from_secs(60);
/// The maximum length of one read; longer lines are read in pieces.
const MAX_LINE: u64 = 4 * 1024 * 1024;
/// How much of standard error is remembered.
const TAIL: usize = 64 * 1024;

/// What an agent sees of the machine.
#[derive(Debug, Clone)]
pub struct Enclosure {
    /// Starts sandboxes.
    pub launcher: Launcher,
    /// How much of one there must be.
    pub level: Level,
    /// The agent program.
    pub program: PathBuf,
    /// The host files that it needs to run.
    pub programs: Vec<Bind>,
    /// The `PATH` inside.
    pub path: String,
    /// Our own program, which is the gate and the scripted agent.
    pub bailiwick_program: PathBuf,
    /// The arguments that start it as the gate.
    pub gate_arguments: Vec<String>,
    /// The git directory that all worktrees share.
    pub git_common: PathBuf,
    /// The git directory of the agent's worktree.
    pub git_private: PathBuf,
    /// Where it may write in its worktree.
    pub access: WorktreeAccess,
    /// Whether it may commit.
    pub commits: bool,
    /// Read-only paths in its worktree.
    pub read_only_paths: Vec<PathBuf>,
    /// Its limits.
    pub bounds: Bounds,
    /// What its project needs besides tracked files.
    pub environment: ProjectEnvironment,
    /// Variables besides those of its program.
    pub variables: Vec<(String, String)>,
    /// Files of its home besides those of its program, by their path there.
    pub home_files: Vec<(String, String)>,
}

/// A program that was started.
pub(super) struct Launched {
    pub(super) running: Running,
    pub(super) host_listener: Option<TcpListener>,
    pub(super) output: OutputReader,
}

/// The reader of its output.
pub(super) enum OutputReader {
    /// The supervisor, which parses it line by line.
    Parsed { lines: JoinHandle<Box<dyn Reader>>, errors: JoinHandle<Vec<u8>> },
    /// A person, at a terminal.
    Person(TerminalForwarder),
}

/// Plans the launch, writes its files, and starts it. `on_line` receives each line with its events.
pub(super) fn launch(
    supervision: &Supervision,
    answers: DeciderHandle,
    on_line: impl Fn(Vec<ParsedEvent>, &str) + Send + 'static,
) -> Result<Launched, SuperviseError> {
    let (assignment, host_listener) = resolve_endpoints(supervision)?;
    let Supervision { directory, adapter, enclosure, .. } = supervision;
    start(directory, adapter.as_ref(), enclosure, &assignment, host_listener, answers, on_line)
}

/// The assignment with its gate and its model, and our side of the way to the model if it is of the
/// host.
pub(super) fn resolve_endpoints(
    supervision: &Supervision,
) -> Result<(Assignment, Option<TcpListener>), SuperviseError> {
    let Supervision { directory, adapter, enclosure, .. } = supervision;
    let host_listener = match enclosure.level {
        Level::Off => Some(
            TcpListener::bind(("127.0.0.1", 0))
                .map_err(|error| SuperviseError::new("the model proxy", error))?,
        ),
        Level::Partial | Level::Full => None,
    };
    let port = match &host_listener {
        Some(listener) => listener
            .local_addr()
            .map_err(|error| SuperviseError::new("the model proxy", error))?
            .port(),
        None => PROXY_PORT,
    };
    let mut assignment = supervision.assignment.clone();
    assignment.model_url = format!("http://127.0.0.1:{port}");
    assignment.gate =
        adapter.dialect().map(|_| gate(directory, enclosure, gate_timeout(supervision)));
    Ok((assignment, host_listener))
}

/// How long an answer of the gate may take: checks of the tree before a call is judged, and a person after
/// that. A call may have to wait for the checks of another one; what is not done by then is denied.
pub(super) fn gate_timeout(supervision: &Supervision) -> Duration {
    let checking = supervision.checks.as_ref().map(|checks| checks.time()).unwrap_or_default();
    supervision.approval.saturating_add(checking)
}

/// A launch whose files are written.
pub(super) struct WrittenLaunch {
    pub(super) sandbox: Sandbox,
    pub(super) argv: Vec<String>,
    input: Input,
}

/// Plans a launch, and writes its files.
pub(super) fn write_launch(
    directory: &RunDirectory,
    adapter: &dyn Adapter,
    enclosure: &Enclosure,
    assignment: &Assignment,
) -> Result<WrittenLaunch, SuperviseError> {
    let mut plan = adapter.plan(assignment).map_err(|error| {
        SuperviseError::new("the agent program cannot do what the task asks", error)
    })?;
    let Enclosure { level, path, home_files, .. } = enclosure;
    start_up::freeze_startup_files(&mut plan, *level, path, home_files);
    home::renew(directory, &adapter.conversations())
        .map_err(|error| SuperviseError::new("the agent's home", error))?;
    write_files(&assignment.home, &plan, &enclosure.home_files)
        .map_err(|error| SuperviseError::new("the files of the agent program", error))?;
    let sandbox = sandbox(directory, enclosure, assignment, &plan);
    let program = match enclosure.program == enclosure.bailiwick_program {
        true => bailiwick_program_inside(enclosure),
        false => enclosure.program.clone(),
    };
    if let Some(cleanup) = adapter.conversation_cleanup() {
        clean_conversation(&enclosure.launcher, &sandbox, &program, assignment, cleanup)?;
    }
    let mut argv = vec![program.display().to_string()];
    argv.extend(plan.arguments);
    Ok(WrittenLaunch { sandbox, argv, input: plan.input })
}

/// Has the program clear what an earlier attempt has left, before anything of this one begins.
fn clean_conversation(
    launcher: &Launcher,
    sandbox: &Sandbox,
    program: &Path,
    assignment: &Assignment,
    cleanup: ConversationCleanup,
) -> Result<(), SuperviseError> {
    if fs::symlink_metadata(assignment.home.join(&cleanup.file)).is_err() {
        return Ok(());
    }
    let failed = |why: String| {
        SuperviseError::new("the conversation of an earlier attempt cannot be resumed", why)
    };
    // In the worktree it could find settings of the agent's.
    let mut sandbox =
        Sandbox { directory: assignment.home.clone(), listener_port: None, ..sandbox.clone() };
    sandbox.environment.extend(cleanup.environment);
    let mut argv = vec![program.display().to_string()];
    argv.extend(cleanup.arguments);
    let limits = Limits { time: TIMEOUT, output: 1 << 20 };
    let ran = process::run(launcher, &sandbox, &argv, Capture::Merged, limits);
    let ran = ran.map_err(|error| failed(error.to_string()))?;
    match ran.ended {
        Termination::Exit(0) => Ok(()),
        Termination::Exit(_)
        | Termination::Signal(_)
        | Termination::TimedOut(_)
        | Termination::TooMuchOutput(_) => {
            let output = assignment.hidden.clean(&String::from_utf8_lossy(&ran.tail));
            Err(failed(format!("{} is not cleared of logins: {}", cleanup.file, output.trim())))
        }
    }
}

pub(super) fn start(
    directory: &RunDirectory,
    adapter: &dyn Adapter,
    enclosure: &Enclosure,
    assignment: &Assignment,
    host_listener: Option<TcpListener>,
    answers: DeciderHandle,
    on_line: impl Fn(Vec<ParsedEvent>, &str) + Send + 'static,
) -> Result<Launched, SuperviseError> {
    let failed = |what: &str| {
        let what = what.to_owned();
        move |error: io::Error| SuperviseError::new(what, error)
    };
    let WrittenLaunch { sandbox, argv, input: prompt_input } =
        write_launch(directory, adapter, enclosure, assignment)?;
    let (stderr_reader, stderr_writer) = io::pipe().map_err(failed("its output"))?;
    let (output, printed) = match &prompt_input {
        Input::Nothing | Input::Text(_) => piped(),
        // Its questions must come from the CLI itself.
        Input::ControlProtocol(_) => {
            UnixStream::pair().map(|(ours, theirs)| (ours.into(), theirs.into()))
        }
    }
    .map_err(failed("its output"))?;
    let mut streams = Streams::new(printed, stderr_writer);
    let (mut session, mut longest) = (None, MAX_LINE);
    match prompt_input {
        Input::Nothing => {}
        Input::Text(text) => {
            streams = streams.reading(input(directory, &text).map_err(failed("its input"))?);
        }
        Input::ControlProtocol(lines) => {
            let (own, theirs) =
                start_control_protocol(adapter, answers, lines).map_err(failed("its input"))?;
            streams = streams.reading(theirs);
            (session, longest) = (Some(own), stdio_gate::MAX_LINE);
        }
    }
    let running = enclosure.launcher.start_with(&sandbox, &argv, streams);
    let running = running.map_err(|error| SuperviseError::new("the sandbox", error))?;
    let mut reader = adapter.reader(&assignment.worktree);
    let lines = std::thread::spawn(move || {
        each_line(File::from(output), longest, |line| {
            // An answer is waited for.
            if let Some(session) = &mut session {
                session.on_line(line);
            }
            on_line(reader.line(line), line);
        });
        reader
    });
    let log = directory.errors();
    let redaction = assignment.hidden.clone();
    let errors = std::thread::spawn(move || keep_errors(stderr_reader, &log, &redaction));
    Ok(Launched { running, host_listener, output: OutputReader::Parsed { lines, errors } })
}

impl Launched {
    /// The listener for the model's address of the CLI, on our side.
    pub(super) fn take_listener(&mut self) -> Result<TcpListener, SuperviseError> {
        match self.host_listener.take() {
            Some(listener) => Ok(listener),
            None => self
                .running
                .take_listener(TIMEOUT)
                .map_err(|error| SuperviseError::new("the sandbox", error)),
        }
    }

    /// Ends it with everything that it started; returns its verdict.
    pub(super) fn finish(mut self, code: Option<i32>) -> Verdict {
        self.running.end();
        let lost = |what: &str| Verdict { completed: false, words: format!("{what} was lost") };
        match self.output {
            OutputReader::Parsed { lines, errors } => {
                let errors = errors.join().unwrap_or_default();
                let errors = String::from_utf8_lossy(&errors).into_owned();
                match lines.join() {
                    Ok(mut reader) => reader.end(code, &errors),
                    Err(_) => lost("what it printed"),
                }
            }
            OutputReader::Person(relay) => relay.finish(code),
        }
    }
}

/// How the gate is called inside.
pub(super) fn gate(directory: &RunDirectory, enclosure: &Enclosure, waits: Duration) -> Gate {
    let socket = match enclosure.level {
        Level::Off => directory.gate_socket(),
        Level::Partial | Level::Full => Path::new(INSIDE).join("gate/gate.sock"),
    };
    // A person may take their time; the gate waits a little longer, and the program longer still.
    let seconds = waits.as_secs().saturating_add(15);
    let mut command = vec![bailiwick_program_inside(enclosure).display().to_string()];
    command.extend(enclosure.gate_arguments.iter().cloned());
    command.extend(["--socket".to_owned(), socket.display().to_string()]);
    command.extend(["--deadline-ms".to_owned(), seconds.saturating_mul(1000).to_string()]);
    Gate { command, seconds: seconds.saturating_add(5) }
}

/// Our own program, as the agent sees it.
pub fn bailiwick_program_inside(enclosure: &Enclosure) -> PathBuf {
    match enclosure.level {
        Level::Off => enclosure.bailiwick_program.clone(),
        Level::Partial | Level::Full => Path::new(INSIDE).join("bailiwick"),
    }
}

fn sandbox(
    directory: &RunDirectory,
    enclosure: &Enclosure,
    assignment: &Assignment,
    plan: &ProgramLaunch,
) -> Sandbox {
    let text = |path: &Path| path.display().to_string();
    let mut environment = vec![
        ("LANG".to_owned(), "C.UTF-8".to_owned()),
        ("GIT_CONFIG_NOSYSTEM".to_owned(), "1".to_owned()),
    ];
    let temp = match enclosure.level {
        Level::Off => text(&directory.temp()),
        Level::Partial | Level::Full => "/tmp".to_owned(),
    };
    environment.push(("TMPDIR".to_owned(), temp));
    let set_up = enclosure.environment.setup_home.is_some();
    let home = if set_up { Path::new(SETUP_HOME) } else { assignment.home.as_path() };
    environment.extend(toolchain::homes(home));
    environment.extend(enclosure.variables.iter().cloned());
    environment.extend(plan.environment.iter().cloned());
    environment.extend(assignment.granted.iter().cloned());
    let (layered, aliases) = shared(enclosure, assignment);
    agent(&AgentPlaces {
        layered,
        worktree: assignment.worktree.clone(),
        git_common: enclosure.git_common.clone(),
        git_private: enclosure.git_private.clone(),
        home: assignment.home.clone(),
        fixed: plan.fixed.iter().map(|path| assignment.home.join(path)).collect(),
        open: plan.open.iter().map(|path| assignment.home.join(path)).collect(),
        temp: directory.temp(),
        programs: enclosure.programs.iter().cloned().chain(aliases).collect(),
        gate: bailiwick_binds(directory, enclosure, assignment),
        access: enclosure.access.clone(),
        scratch: directory.scratch(),
        commits: enclosure.commits.then(|| directory.git_layer()),
        read_only_paths: enclosure.read_only_paths.clone(),
        path: enclosure.path.clone(),
        environment,
        listener_port: (enclosure.level != Level::Off).then_some(PROXY_PORT),
        level: enclosure.level,
        bounds: enclosure.bounds,
    })
}

/// What the project needs: directories that look writable, and others that are read-only.
fn shared(enclosure: &Enclosure, assignment: &Assignment) -> (Vec<Bind>, Vec<Bind>) {
    let Enclosure { environment, .. } = enclosure;
    let (worktree, home) = (&assignment.worktree, &assignment.home);
    let mut shares = environment.fitting(worktree);
    // The agent of an earlier attempt may have put something else there, which then stays.
    shares.retain(|share| environment::make_place(worktree, &share.place).is_ok());
    let in_tree = shares.iter().map(|one| Bind::new(&one.source, worktree.join(&one.place)));
    let in_home = environment.in_home.iter();
    let in_home = in_home.map(|one| Bind::new(&one.source, home.join(&one.place)));
    let setup = environment.setup_home.iter().map(|home| Bind::new(home, SETUP_HOME));
    let layered = in_tree.chain(in_home).chain(setup).collect();
    (layered, environment.alias_binds(worktree, &shares))
}

/// Our files inside: our program, the gate's socket, granted files, and the files of skills.
fn bailiwick_binds(
    directory: &RunDirectory,
    enclosure: &Enclosure,
    assignment: &Assignment,
) -> Vec<Bind> {
    let program = Bind::new(&enclosure.bailiwick_program, Path::new(INSIDE).join("bailiwick"));
    let gate = Bind::new(directory.gate(), Path::new(INSIDE).join("gate"));
    let files = assignment.granted_files.iter().chain(&assignment.skill_files).map(Bind::same);
    [program, gate].into_iter().chain(files).collect()
}

/// Writes the files of the launch, only below the agent's home; and the directories that are fixed.
fn write_files(home: &Path, plan: &ProgramLaunch, more: &[(String, String)]) -> io::Result<()> {
    let mut directories = fs::DirBuilder::new();
    directories.recursive(true).mode(0o700);
    for (name, text) in &plan.files {
        let file = below(home, name)?;
        if let Some(parent) = file.parent() {
            directories.create(parent)?;
        }
        // The agent of an earlier attempt may have left a link there.
        match fs::remove_file(&file) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Ok(()) | Err(_) => {}
        }
        let mut options = File::options();
        let mut open = options.write(true).create_new(true).mode(0o600).open(&file)?;
        open.write_all(text.as_bytes())?;
    }
    for (name, text) in more {
        let file = below(home, name)?;
        if let Some(parent) = file.parent() {
            directories.create(parent)?;
        }
        if fs::symlink_metadata(&file).is_err() {
            fs::write(&file, text)?;
        }
    }
    let missing =
        plan.fixed.iter().chain(&plan.open).filter(|name| !plan.files.contains_key(*name));
    for name in missing {
        directories.create(below(home, name)?)?;
    }
    Ok(())
}

fn below(home: &Path, name: &str) -> io::Result<PathBuf> {
    let inside = Path::new(name);
    match inside.components().all(|part| matches!(part, Component::Normal(_))) {
        true => Ok(home.join(inside)),
        false => Err(io::Error::other(format!("{name} is not below the home"))),
    }
}

/// A text to read, as an open file.
fn input(directory: &RunDirectory, text: &str) -> io::Result<File> {
    let path = directory.path().join("input");
    let mut options = File::options();
    options
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&path)?
        .write_all(text.as_bytes())?;
    File::open(&path)
}

fn piped() -> io::Result<(OwnedFd, OwnedFd)> {
    io::pipe().map(|(output, printed)| (output.into(), printed.into()))
}

fn start_control_protocol(
    adapter: &dyn Adapter,
    answers: DeciderHandle,
    lines: Vec<String>,
) -> io::Result<(ControlSession, UnixStream)> {
    let (Some(protocol), Some(dialect)) = (adapter.stdio_gate(), adapter.dialect()) else {
        return Err(io::Error::other("the agent program has no control protocol"));
    };
    ControlSession::begin(protocol, dialect, answers, lines)
}

fn each_line(output: File, longest: u64, mut line: impl FnMut(&str)) {
    let mut output = BufReader::with_capacity(64 * 1024, output);
    loop {
        let mut bytes = Vec::new();
        match output.by_ref().take(longest).read_until(b'\n', &mut bytes) {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
        let text = String::from_utf8_lossy(&bytes);
        let text = text.trim_end_matches(['\n', '\r']);
        if !text.is_empty() {
            line(text);
        }
    }
}

/// Keeps the end of standard error, and stores all of it for debugging, without granted secrets.
fn keep_errors(mut stderr: PipeReader, log: &Path, redaction: &Redaction) -> Vec<u8> {
    let mut tail = Vec::new();
    let mut piece = [0; 8192];
    while let Ok(length @ 1..) = stderr.read(&mut piece) {
        tail.extend_from_slice(piece.get(..length).unwrap_or_default());
        let surplus = tail.len().saturating_sub(TAIL);
        tail.drain(..surplus);
    }
    let text = redaction.clean(&String::from_utf8_lossy(&tail));
    let mut options = File::options();
    let log = options.create(true).write(true).truncate(true).mode(0o600).open(log);
    // The run does not depend on it.
    let _ = log.and_then(|mut log| log.write_all(text.as_bytes()));
    tail
}
