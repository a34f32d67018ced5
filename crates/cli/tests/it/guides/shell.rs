//! A bash that runs one command after the other, as in a terminal: directory and variables are kept.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use bailiwick_testkit::scratch::Ran;
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

/// The timeout of every command, also on a busy machine.
pub(crate) const COMMAND_TIMEOUT: Duration = Duration::from_secs(240);

/// A running bash. It and its background processes are stopped on drop.
pub(crate) struct Shell {
    child: Child,
    input: ChildStdin,
    statuses: Receiver<i32>,
    outputs: PathBuf,
    count: usize,
    background: Vec<(i32, PathBuf)>,
}

impl Shell {
    /// Starts `bash` with the directory and the environment of this command.
    pub(crate) fn start(mut bash: Command, outputs: &Path) -> Self {
        bash.args(["--noprofile", "--norc"]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = bash.spawn().unwrap();
        let input = child.stdin.take().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let (sender, statuses) = channel();
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                let _ = sender.send(line.trim().parse().unwrap_or(-1));
            }
        });
        std::fs::create_dir_all(outputs).unwrap();
        let (outputs, background) = (outputs.to_owned(), Vec::new());
        Self { child, input, statuses, outputs, count: 0, background }
    }

    /// Runs a command to its end.
    pub(crate) fn run(&mut self, command: &str) -> Ran {
        let (out, err, redirections) = self.outputs();
        self.send(&format!("{{ {command}\n}} {redirections}\necho $?"));
        let code = self.status();
        let code =
            code.unwrap_or_else(|| panic!("no end of {command}\n{}", outputs_text(&out, &err)));
        Ran { code, out: read(&out), err: read(&err) }
    }

    /// Starts a command that runs until the shell ends.
    pub(crate) fn start_background(&mut self, command: &str) {
        self.begin_background(command);
    }

    /// Waits until the last background command has printed this text. Returns the rest of the line.
    pub(crate) fn wait_for_background(&self, text: &str) -> String {
        let (_, out) = self.background.last().unwrap();
        let deadline = Instant::now() + COMMAND_TIMEOUT;
        loop {
            let output = read(out);
            if let Some((rest, _)) =
                output.split_once(text).and_then(|(_, rest)| rest.split_once('\n'))
            {
                return rest.to_owned();
            }
            assert!(Instant::now() < deadline, "no `{text}` in\n{output}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Runs a command until it has printed a text, and interrupts it.
    pub(crate) fn run_until(&mut self, command: &str, text: &str) -> Ran {
        let (group, out, err) = self.begin_background(command);
        let deadline = Instant::now() + COMMAND_TIMEOUT;
        while !outputs_text(&out, &err).contains(text) {
            assert!(
                Instant::now() < deadline,
                "no `{text}` of {command}\n{}",
                outputs_text(&out, &err)
            );
            std::thread::sleep(Duration::from_millis(50));
        }
        let _ = killpg(Pid::from_raw(group), Signal::SIGINT);
        self.send(&format!("wait {group}; echo $?"));
        let code = self.status();
        let code = code.unwrap_or_else(|| panic!("{command} does not stop at Ctrl-C"));
        self.background.retain(|(other, _)| *other != group);
        Ran { code, out: read(&out), err: read(&err) }
    }

    /// Starts a command in its own process group, so that all of its processes can be stopped.
    fn begin_background(&mut self, command: &str) -> (i32, PathBuf, PathBuf) {
        let (out, err, redirections) = self.outputs();
        self.send(&format!("set -m\n{{ {command}\n}} {redirections} & echo $!\nset +m"));
        let group = self.status().unwrap();
        self.background.push((group, out.clone()));
        (group, out, err)
    }

    /// The files for the output of the next command, and the redirections to them.
    fn outputs(&mut self) -> (PathBuf, PathBuf, String) {
        self.count += 1;
        let file = |kind: &str| self.outputs.join(format!("{}.{kind}", self.count));
        let (out, err) = (file("out"), file("err"));
        let redirections = format!(">'{}' 2>'{}' </dev/null", out.display(), err.display());
        (out, err, redirections)
    }

    fn send(&mut self, text: &str) {
        writeln!(self.input, "{text}").unwrap();
    }

    fn status(&mut self) -> Option<i32> {
        match self.statuses.recv_timeout(COMMAND_TIMEOUT) {
            Ok(status) => Some(status),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => {
                panic!("bash has ended: {:?}", self.child.wait())
            }
        }
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        for (group, _) in &self.background {
            let _ = killpg(Pid::from_raw(*group), Signal::SIGKILL);
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn read(path: &Path) -> String {
    String::from_utf8_lossy(&std::fs::read(path).unwrap_or_default()).into_owned()
}

fn outputs_text(out: &Path, err: &Path) -> String {
    format!("stdout:\n{}\nstderr:\n{}", read(out), read(err))
}
