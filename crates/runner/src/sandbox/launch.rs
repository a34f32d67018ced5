//! Starting a sandbox, and hearing of it.

use std::ffi::OsString;
use std::fs;
use std::io::{self, Write as _};
use std::net::{Shutdown, TcpListener};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::unistd::{getegid, geteuid};

use super::channel::Channel;
use super::group::Group;
use super::messages::{Input, LaunchRequest, Report};
use super::streams::Streams;
use super::{Bind, Level, Network, Sandbox, SandboxError};

/// How long our own processes get to end what they hold, before they are killed themselves.
const TIMEOUT: Duration = Duration::from_secs(20);

/// The program that calls [`init`](super::init), and its arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Launcher {
    program: PathBuf,
    arguments: Vec<String>,
}

impl Launcher {
    /// A program, and the arguments that make it call [`init`](super::init).
    pub fn new(program: impl Into<PathBuf>, arguments: &[&str]) -> Self {
        let arguments = arguments.iter().map(|one| (*one).to_owned()).collect();
        Self { program: program.into(), arguments }
    }

    /// This program, as `bailiwick sandbox-init`.
    pub fn own() -> Result<Self, SandboxError> {
        let program = std::env::current_exe()
            .map_err(|error| SandboxError::new("the program of the sandbox", error))?;
        Ok(Self::new(program, &["sandbox-init"]))
    }

    /// Starts `argv` in a sandbox. What it prints goes to `output` and `errors`, and it reads nothing.
    ///
    /// The calling thread must live as long as the program: the kernel ends the program with the thread that started
    /// it.
    pub fn start(
        &self,
        sandbox: &Sandbox,
        argv: &[String],
        output: impl Into<Stdio>,
        errors: impl Into<Stdio>,
    ) -> Result<Running, SandboxError> {
        self.start_with(sandbox, argv, Streams::new(output, errors))
    }

    /// Starts `argv` in a sandbox, with an input or at a terminal. As for [`Self::start`], the calling thread must
    /// live as long as the program.
    pub fn start_with(
        &self,
        sandbox: &Sandbox,
        argv: &[String],
        streams: Streams,
    ) -> Result<Running, SandboxError> {
        let failed = |error: io::Error| {
            SandboxError::new(
                "the program of the sandbox",
                format!("{}: {error}", self.program.display()),
            )
        };
        let sandbox = resolved(sandbox)?;
        let (line, below) = UnixStream::pair().map_err(failed)?;
        let Streams { input, kind, output, errors } = streams;
        let mut command = self.command(below);
        command.stdout(output).stderr(errors);
        if !(kind == Input::Terminal && sandbox.level == Level::Off) {
            // Ctrl-C is for this process only; the sandbox ends with it. A process that must become the leader of a
            // session cannot be the leader of a group.
            command.process_group(0);
        }
        let child = command.spawn().map_err(failed)?;
        drop(command);
        // It waits for its request, so that everything that it starts is in the group.
        let group = Group::make(&sandbox, child.id());
        let running = Running { child, line: Channel::new(line), listener: None, group };
        let order = self.order(sandbox, argv, kind, running.group.is_some());
        match running.line.send(&order, input.as_ref().map(AsFd::as_fd)) {
            // It would wait for ever for what cannot be written, such as a path that is not UTF-8.
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                Err(SandboxError::new("the description of the sandbox", error))
            }
            // Else it has ended, and that is seen when its report is missing.
            Ok(()) | Err(_) => Ok(running),
        }
    }

    /// The first of our processes, with nothing of our environment.
    fn command(&self, line: UnixStream) -> Command {
        let mut command = Command::new(&self.program);
        command
            .args(self.arguments.iter().map(OsString::from))
            .env_clear()
            .current_dir("/")
            .stdin(Stdio::from(OwnedFd::from(line)));
        command
    }

    fn order(
        &self,
        sandbox: Sandbox,
        argv: &[String],
        input: Input,
        grouped: bool,
    ) -> LaunchRequest {
        LaunchRequest {
            sandbox,
            argv: argv.to_vec(),
            own: self.arguments.clone(),
            user: geteuid().as_raw(),
            group: getegid().as_raw(),
            input,
            grouped,
        }
    }
}

/// A program in a sandbox. Dropping it ends the program and everything that it started.
#[derive(Debug)]
pub struct Running {
    child: Child,
    line: Channel,
    listener: Option<TcpListener>,
    group: Option<Group>,
}

impl Running {
    /// The parent of all its processes.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// A handle with which another thread can end it.
    pub fn stopper(&self) -> io::Result<Stopper> {
        Ok(Stopper { line: self.line.socket().try_clone()? })
    }

    /// A waker with which another thread makes [`Self::next_report`] return early.
    pub fn waker(&mut self) -> io::Result<Waker> {
        Ok(Waker(self.line.interrupt()?))
    }

    /// The next report; none at the end, or after `timeout`.
    pub fn next_report(&mut self, timeout: Duration) -> Received {
        match self.line.receive_within(timeout) {
            Ok(Some(Report::Listener(port))) => {
                self.listener = self.line.file().map(TcpListener::from);
                Received::Report(Report::Listener(port))
            }
            Ok(Some(report)) => Received::Report(report),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Received::TimedOut,
            Ok(None) | Err(_) => match self.group.as_mut().and_then(Group::spent) {
                // Our process was killed with the rest of the group and could not report it.
                Some(most) => Received::Report(Report::MemorySpent(most)),
                None => Received::Closed,
            },
        }
    }

    /// The listener inside the sandbox: its connections come from the program. It is open before the program starts.
    pub fn take_listener(&mut self, timeout: Duration) -> Result<TcpListener, SandboxError> {
        if self.listener.is_none() {
            match self.next_report(timeout) {
                Received::Report(Report::Refused(error)) => return Err(error),
                Received::Report(_) | Received::TimedOut | Received::Closed => {}
            }
        }
        self.listener.take().ok_or_else(|| SandboxError::new("door", "there is none"))
    }

    /// Ends it; returns when none of its processes is left.
    pub fn end(&mut self) {
        let _ = self.line.socket().shutdown(Shutdown::Both);
        let deadline = Instant::now() + TIMEOUT;
        while Instant::now() < deadline {
            match self.child.try_wait() {
                Ok(None) => std::thread::sleep(Duration::from_millis(1)),
                Ok(Some(_)) | Err(_) => {
                    self.group = None;
                    return;
                }
            }
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
        self.group = None;
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.end();
    }
}

/// The result of waiting for a report.
#[derive(Debug)]
pub enum Received {
    /// A report of the program.
    Report(Report),
    /// No report within the timeout.
    TimedOut,
    /// The connection is closed.
    Closed,
}

/// Ends the wait for a report from another thread.
#[derive(Debug)]
pub struct Waker(UnixStream);

impl Waker {
    /// Ends the present wait, or else the next one.
    pub fn wake(&self) {
        // One that cannot be written has been woken often enough, or waits no more.
        let _ = (&self.0).write(&[0]);
    }
}

/// Ends a program from another thread.
#[derive(Debug)]
pub struct Stopper {
    line: UnixStream,
}

impl Stopper {
    /// Ends it.
    pub fn stop(&self) {
        let _ = self.line.shutdown(Shutdown::Both);
    }
}

/// With every source as it really is: inside, a link on the way to it would lead elsewhere.
fn resolved(sandbox: &Sandbox) -> Result<Sandbox, SandboxError> {
    if sandbox.level == Level::Off {
        return Ok(sandbox.clone());
    }
    let mut sandbox = sandbox.clone();
    if sandbox.network == Network::Host {
        sandbox.read_only.extend(resolver_file());
    }
    for overlay in &sandbox.overlaid {
        fs::create_dir_all(&overlay.layer)
            .map_err(|error| SandboxError::new(&overlay.layer.display().to_string(), error))?;
    }
    let binds = sandbox.read_only.iter_mut().chain(&mut sandbox.writable);
    let sources = binds.chain(&mut sandbox.layered).map(|bind| &mut bind.source);
    let overlays = sandbox.overlaid.iter_mut();
    let overlaid = overlays.flat_map(|one| one.lower.iter_mut().chain([&mut one.layer]));
    for source in sources.chain(overlaid) {
        *source = fs::canonicalize(&*source)
            .map_err(|error| SandboxError::new(&source.display().to_string(), error))?;
    }
    Ok(sandbox)
}

/// The resolver configuration often is where nothing else is visible.
fn resolver_file() -> Option<Bind> {
    let real = fs::canonicalize("/etc/resolv.conf").ok()?;
    let seen = ["/etc", "/usr"].iter().any(|place| real.starts_with(Path::new(place)));
    (!seen).then(|| Bind::same(real))
}
