//! Runs a case in a sandbox, under strace, and gathers what was seen.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use bailiwick_testkit::corpus::{Call, Case, HOME, ROOT, fixture};

use crate::facts::{self, PATH, Seen, Tools};
use crate::view::{STUBS, View};
use crate::{stubs, tool_call, trace};

/// Bash calls this function for a program that it cannot find; a redirection cannot silence it.
const NOT_FOUND: (&str, &str) = (
    "BASH_FUNC_command_not_found_handle%%",
    "() { echo \"$1: not found\" >> /trace/missing; return 127; }",
);

/// No case may take longer.
const LIMIT: Duration = Duration::from_secs(30);

/// The tools that recording needs and that are not here.
pub(crate) fn missing_tools() -> Vec<&'static str> {
    let works = |tool: &&str| Command::new(tool).arg("--version").output().is_ok();
    [("strace", "strace"), ("bwrap", "bubblewrap"), ("git", "git"), ("bash", "bash")]
        .iter()
        .filter(|(tool, _)| !works(tool))
        .map(|(_, package)| *package)
        .collect()
}

/// Runs a case.
pub(crate) fn run(case: &Case, tools: &Tools) -> Result<Seen, String> {
    let place = tempfile::Builder::new().prefix("record-truth-").tempdir();
    let place = place.map_err(|error| format!("no temporary directory: {error}"))?;
    let view = View { place: place.path().to_owned() };
    for name in ["repo", "home", "tmp", "trace", "stubs"] {
        let made = std::fs::create_dir(view.place.join(name));
        made.map_err(|error| format!("{name}: {error}"))?;
    }
    stubs::write(&view.place.join("stubs"));
    fixture(&view.place.join("repo"));
    if let Some(before) = &case.before {
        let status = inside(&view, Path::new(ROOT), &["bash", "-ec", before], "before")?;
        if status != 0 {
            return Err(format!("what comes before failed: {}", said(&view, "before")));
        }
    }
    let before = facts::snapshot(&view.place.join("repo"));
    let script = match &case.call {
        Call::Bash(command) => command.clone(),
        Call::Tool { tool, input } => tool_call::script(tool, input)?,
    };
    let start = Path::new(ROOT).join(case.cwd.as_deref().unwrap_or_default());
    let filter = format!("trace={}", trace::CALLS);
    let traced = ["strace", "-f", "-y", "-s", "4096", "-o", "/trace/log", "-e", &filter, "bash"];
    let command: Vec<&str> = traced.into_iter().chain(["-c", &script]).collect();
    let status = inside(&view, &start, &command, "run")?;
    let text = std::fs::read(view.place.join("trace/log"));
    let text = text.map_err(|error| format!("no trace: {error}: {}", said(&view, "run")))?;
    let trace = trace::read(&String::from_utf8_lossy(&text), &start, &view);
    let reported = std::fs::read_to_string(view.place.join("trace/missing")).unwrap_or_default();
    let said_missing = reported + &said(&view, "run");
    if let Some(missing) = missing(&trace, &said_missing).filter(|_| case.absent.is_none()) {
        return Err(format!("a program is missing: {missing}: install it, or give `absent`"));
    }
    let is_tool = matches!(case.call, Call::Tool { .. });
    if is_tool && status != 0 {
        return Err(format!("the tool call could not be carried out: {}", said(&view, "run")));
    }
    let programs = facts::identify(&trace, &view, tools)?;
    let after = facts::snapshot(&view.place.join("repo"));
    Ok(Seen { status, trace, programs, before, after })
}

/// A program that could not be found.
fn missing(trace: &trace::Trace, said: &str) -> Option<String> {
    let not_found = |line: &&str| {
        line.contains("command not found")
            || line.ends_with(": not found")
            || line.contains("can't find command")
    };
    let named = trace.not_found.first().cloned();
    named.or_else(|| said.lines().find(not_found).map(str::to_owned))
}

/// The standard error of a run.
fn said(view: &View, name: &str) -> String {
    let bytes = std::fs::read(view.place.join(format!("trace/{name}.err"))).unwrap_or_default();
    String::from_utf8_lossy(&bytes).trim().to_owned()
}

/// Runs a program inside and waits until everything that it started has ended.
fn inside(view: &View, start: &Path, argv: &[&str], name: &str) -> Result<i32, String> {
    let errors = std::fs::File::create(view.place.join(format!("trace/{name}.err")));
    let errors = errors.map_err(|error| format!("{name}.err: {error}"))?;
    let mut command = Command::new("bwrap");
    command.args(["--unshare-all", "--die-with-parent", "--new-session", "--clearenv"]);
    for (variable, value) in [
        ("PATH", format!("{STUBS}:{PATH}").as_str()),
        ("HOME", HOME),
        ("USER", "agent"),
        ("LOGNAME", "agent"),
        ("SHELL", "/bin/bash"),
        ("LANG", "C.UTF-8"),
        ("TERM", "xterm"),
        NOT_FOUND,
    ] {
        command.args(["--setenv", variable, value]);
    }
    command.args(["--ro-bind", "/usr", "/usr", "--ro-bind", "/etc", "/etc"]);
    command.args(["--symlink", "usr/bin", "/bin", "--symlink", "usr/sbin", "/sbin"]);
    command.args(["--symlink", "usr/lib", "/lib", "--symlink", "usr/lib64", "/lib64"]);
    command.args(["--proc", "/proc", "--dev", "/dev", "--tmpfs", "/var", "--dir", "/run"]);
    for (folder, place) in [("repo", ROOT), ("home", HOME), ("tmp", "/tmp"), ("trace", "/trace")] {
        command.arg("--bind").arg(view.place.join(folder)).arg(place);
    }
    command.arg("--ro-bind").arg(view.place.join("stubs")).arg(STUBS);
    command.arg("--chdir").arg(start).args(argv);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(errors);
    let mut child = command.spawn().map_err(|error| format!("bwrap: {error}"))?;
    let begun = Instant::now();
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Ok(status.code().unwrap_or(-1)),
            Ok(None) if begun.elapsed() < LIMIT => std::thread::sleep(Duration::from_millis(5)),
            Ok(None) => {
                // The process namespace ends with its first process, and that with bwrap.
                let ended = child.kill().and_then(|()| child.wait());
                return Err(format!("took longer than {LIMIT:?} ({ended:?})"));
            }
            Err(error) => return Err(format!("bwrap: {error}")),
        }
    }
}
