//! Starting a sandbox, and hearing of it.

use std::ffi::OsString;
use std::fs;
use std::io::{self, BufReader};
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::unistd::{getegid, geteuid};

use super::wire::{self, Order, Report};
use super::{Bind, Level, Network, Sandbox, SandboxError};

/// How long our own processes get to end what they hold, before they are killed themselves.
const PATIENCE: Duration = Duration::from_secs(20);

/// The program that calls [`init`](super::init), and how it is told to.
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
    /// The thread that calls this must live as long as the program: the kernel ends the program with
    /// the thread that started it.
    pub fn start(
        &self,
        sandbox: &Sandbox,
        argv: &[String],
        output: impl Into<Stdio>,
        errors: impl Into<Stdio>,
    ) -> Result<Running, SandboxError> {
        let failed = |error: io::Error| {
            SandboxError::new(
                "the program of the sandbox",
                format!("{}: {error}", self.program.display()),
            )
        };
        let order = Order {
            sandbox: resolved(sandbox)?,
            argv: argv.to_vec(),
            own: self.arguments.clone(),
            user: geteuid().as_raw(),
            group: getegid().as_raw(),
        };
        let (line, below) = UnixStream::pair().map_err(failed)?;
        let mut command = Command::new(&self.program);
        command
            .args(self.arguments.iter().map(OsString::from))
            .env_clear()
            .current_dir("/")
            .stdin(Stdio::from(OwnedFd::from(below)))
            .stdout(output)
            .stderr(errors)
            // Ctrl-C is ours to answer; what is below ends with us in any case.
            .process_group(0);
        let child = command.spawn().map_err(failed)?;
        drop(command);
        let running = Running { child, line: BufReader::new(line) };
        // If it cannot be told, it has ended, and that is seen when its report is missing.
        let _ = wire::send(running.line.get_ref(), &order);
        Ok(running)
    }
}

/// A program in a sandbox. Dropping it ends the program and everything that it started.
#[derive(Debug)]
pub struct Running {
    child: Child,
    line: BufReader<UnixStream>,
}

impl Running {
    /// Something with which another thread can end it.
    pub fn stopper(&self) -> io::Result<Stopper> {
        Ok(Stopper { line: self.line.get_ref().try_clone()? })
    }

    /// The next report; nothing when there is no further one, or none within `patience`.
    pub fn next_report(&mut self, patience: Duration) -> Next {
        let patience = patience.max(Duration::from_millis(1));
        if self.line.get_ref().set_read_timeout(Some(patience)).is_err() {
            return Next::Over;
        }
        match wire::receive(&mut self.line) {
            Ok(Some(report)) => Next::Report(report),
            Ok(None) => Next::Over,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Next::TimedOut,
            Err(_) => Next::Over,
        }
    }

    /// Ends it, and comes back when nothing of it is left.
    pub fn end(&mut self) {
        let _ = self.line.get_ref().shutdown(Shutdown::Both);
        let late = Instant::now() + PATIENCE;
        while Instant::now() < late {
            match self.child.try_wait() {
                Ok(None) => std::thread::sleep(Duration::from_millis(1)),
                Ok(Some(_)) | Err(_) => return,
            }
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.end();
    }
}

/// What was heard of a program.
#[derive(Debug)]
pub enum Next {
    /// This.
    Report(Report),
    /// Nothing yet.
    TimedOut,
    /// Nothing more will come.
    Over,
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

/// The file that says how names are resolved often lives where nothing else is seen.
fn resolver_file() -> Option<Bind> {
    let real = fs::canonicalize("/etc/resolv.conf").ok()?;
    let seen = ["/etc", "/usr"].iter().any(|place| real.starts_with(Path::new(place)));
    (!seen).then(|| Bind::same(real))
}
