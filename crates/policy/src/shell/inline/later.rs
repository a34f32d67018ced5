//! Tools that run a command later, often, or in a session of its own.

use super::tools::values;
use super::{Reading, script};
use crate::shell::Why;
use crate::shell::field::Field;
use crate::shell::redirect::Input;
use crate::shell::walk::Walker;

/// `at now <<E`: what it reads is run by a shell later.
pub(super) fn queue(walker: &mut Walker, arguments: &[Field], input: &Input) {
    let lists = arguments.iter().filter_map(Field::known);
    if lists.into_iter().any(|word| matches!(word.as_str(), "-l" | "-r" | "-d" | "-c" | "-V")) {
        return;
    }
    match values(&["-f"], arguments).first() {
        Some(file) => script(walker, Reading::Shell, file),
        None => walker.shell_input(input),
    }
}

pub(super) fn crontab(walker: &mut Walker, arguments: &[Field], input: &Input) {
    let words: Vec<String> = arguments.iter().filter_map(Field::known).collect();
    if words.iter().any(|word| word == "-l" || word == "-r") {
        return;
    }
    if words.iter().any(|word| word == "-e") {
        return walker.hide(Why::Interactive, "crontab");
    }
    match (words.last().map(String::as_str), input) {
        (Some("-") | None, Input::Text(Some(texts))) => {
            for line in texts.iter().flat_map(|text| text.lines()) {
                let skip = if line.trim_start().starts_with('@') { 1 } else { 5 };
                let command = line.split_whitespace().skip(skip).collect::<Vec<_>>().join(" ");
                if !line.trim_start().starts_with('#') {
                    walker.in_new_shell(&command, None);
                }
            }
        }
        (Some("-") | None, Input::Text(None)) => walker.hide(Why::ComputedText, "crontab"),
        (Some("-") | None, Input::Pipe | Input::Names(_) | Input::Inherited | Input::File(_)) => {
            walker.hide(Why::PipedIntoShell, "crontab");
        }
        (Some(_), _) => {
            if let Some(file) = arguments.last() {
                walker.reading.unseen.push(file.clone());
            }
        }
    }
}

/// `hyperfine 'git status' 'ls'`: every argument that is no option is a command.
pub(super) fn benchmarks(walker: &mut Walker, arguments: &[Field]) {
    const VALUES: [&str; 22] = [
        "-w",
        "--warmup",
        "-m",
        "--min-runs",
        "-M",
        "--max-runs",
        "-r",
        "--runs",
        "-n",
        "--command-name",
        "-S",
        "--shell",
        "--export-json",
        "--export-markdown",
        "--export-csv",
        "-u",
        "--time-unit",
        "-i",
        "--style",
        "-N",
        "--sort",
        "--output",
    ];
    const NO_VALUES: [&str; 2] = ["-i", "-N"];
    let mut rest = arguments;
    while let Some((first, more)) = rest.split_first() {
        rest = more;
        let shown = first.to_string();
        if matches!(
            shown.as_str(),
            "-p" | "--prepare" | "-s" | "--setup" | "-c" | "--cleanup" | "--conclude"
        ) {
            continue;
        }
        if VALUES.contains(&shown.as_str()) && !NO_VALUES.contains(&shown.as_str()) {
            rest = more.get(1..).unwrap_or_default();
        } else if !shown.starts_with('-') {
            walker.handed_to_shell(first);
        }
    }
}

/// `tmux new-session -d 'git push'`: a session is a shell that others may type into.
pub(super) fn multiplexer(walker: &mut Walker, name: &str, arguments: &[Field]) {
    let words: Vec<String> = arguments.iter().filter_map(Field::known).collect();
    let quiet = [
        "ls",
        "list-sessions",
        "kill-session",
        "kill-server",
        "has-session",
        "-ls",
        "-V",
        "capture-pane",
        "capturep",
        "list-windows",
        "list-panes",
        "-v",
        "kill-pane",
        "kill-window",
    ];
    if words.iter().any(|word| quiet.contains(&word.as_str())) {
        return;
    }
    walker.hide(Why::Interactive, name);
    let sends = words.iter().any(|word| matches!(word.as_str(), "send-keys" | "send" | "stuff"));
    let makes = words.iter().any(|word| {
        matches!(
            word.as_str(),
            "new-session"
                | "new"
                | "new-window"
                | "neww"
                | "split-window"
                | "splitw"
                | "run-shell"
                | "run"
                | "respawn-pane"
                | "pipe-pane"
                | "if-shell"
        )
    });
    if name == "screen" {
        return screen(walker, arguments);
    }
    if sends || makes {
        for word in arguments.iter().filter(|field| field.to_string().contains(' ')) {
            walker.handed_to_shell(word);
        }
        // A command may also stand there word by word; then it is the end of the arguments.
        if makes && !arguments.iter().any(|field| field.to_string().contains(' ')) {
            let tail = arguments.iter().rposition(|field| field.to_string().starts_with('-'));
            let skip = tail.map_or(1, |at| at + 2);
            let argv = arguments.get(skip..).unwrap_or_default();
            if !argv.is_empty() {
                walker.apart(|walker| walker.started(argv, &Input::Pipe));
            }
        }
    }
}

/// `screen -dmS name program …`
fn screen(walker: &mut Walker, arguments: &[Field]) {
    let mut rest = arguments;
    while let Some((first, more)) = rest.split_first() {
        let shown = first.to_string();
        if !shown.starts_with('-') {
            return walker.apart(|walker| walker.started(rest, &Input::Pipe));
        }
        let last = shown.chars().last().unwrap_or(' ');
        rest = if "cehpsStTX".contains(last) { more.get(1..).unwrap_or_default() } else { more };
        if last == 'X' {
            // What is typed into a session.
            for text in more {
                walker.handed_to_shell(text);
            }
            return;
        }
    }
}
