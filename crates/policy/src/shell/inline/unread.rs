//! Programs with languages that are not analysed: editors, rarer interpreters, debuggers, timers. Their code is
//! hidden; a file that they run is not.

use super::written::Content;
use crate::shell::HiddenReason;
use crate::shell::field::Field;
use crate::shell::redirect::Input;
use crate::shell::walk::Walker;

/// They change the files in their arguments or in an interactive session.
const EDITORS: [&str; 24] = [
    "vim",
    "vi",
    "nvim",
    "ex",
    "view",
    "gvim",
    "vimdiff",
    "rvim",
    "ed",
    "red",
    "emacs",
    "emacsclient",
    "nano",
    "pico",
    "micro",
    "joe",
    "helix",
    "hx",
    "kak",
    "mg",
    "tmux",
    "screen",
    "at",
    "batch",
];

/// They run a file, or code that is among their arguments or in their input.
const INTERPRETERS: [&str; 46] = [
    "php",
    "php-cli",
    "lua",
    "luajit",
    "texlua",
    "Rscript",
    "R",
    "littler",
    "tclsh",
    "wish",
    "jimsh",
    "expect",
    "julia",
    "groovy",
    "scala",
    "elixir",
    "raku",
    "rakudo",
    "clojure",
    "clj",
    "crystal",
    "kotlin",
    "ghc",
    "runghc",
    "runhaskell",
    "ocaml",
    "erl",
    "nim",
    "ghci",
    "jshell",
    "utop",
    "iex",
    "osascript",
    "pwsh",
    "powershell",
    "guile",
    "sbcl",
    "clisp",
    "racket",
    "csi",
    "scheme",
    "fish",
    "nu",
    "xonsh",
    "elvish",
    "m4",
];

/// Options with code as their value.
const CODE: [&str; 25] = [
    "-e",
    "-E",
    "-c",
    "-r",
    "-B",
    "-R",
    "-x",
    "-a",
    "-i",
    "-ex",
    "--ex",
    "-eval",
    "--eval",
    "--print",
    "--run",
    "--command",
    "--commands",
    "-Command",
    "-command",
    "--expr",
    "--eval-command",
    "-eval-command",
    "-iex",
    "-o",
    "--one-line",
];

/// Options with which nothing is run.
const LOOKS: [&str; 8] =
    ["--version", "-version", "--help", "-h", "-V", "-v", "--lint", "list-sessions"];

/// Whether a program of this name is one of them.
pub(super) fn analyse(walker: &mut Walker, name: &str, arguments: &[Field], input: &Input) -> bool {
    let plain = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.' || c == '-');
    let is = |names: &[&str]| {
        names.contains(&name) || (plain.len() < name.len() && names.contains(&plain))
    };
    let debugs = matches!(name, "gdb" | "lldb");
    let (edits, interprets) = (is(&EDITORS), is(&INTERPRETERS) || debugs);
    if !edits && !interprets && !matches!(name, "crontab" | "dc") {
        return false;
    }
    let words: Vec<String> = arguments.iter().map(ToString::to_string).collect();
    let has = |options: &[&str]| words.iter().any(|word| options.contains(&word.as_str()));
    let checks = plain == "php" && has(&["-l"]);
    if (has(&LOOKS) || checks) && !has(&CODE) {
        return true;
    }
    let fed = match input {
        Input::Text(_) => Some(HiddenReason::ComputedText),
        Input::Pipe | Input::Names(_) | Input::File(_) => Some(HiddenReason::PipedIntoShell),
        Input::Inherited => None,
    };
    if edits || name == "crontab" {
        let instructed = arguments.iter().any(|field| field.known().is_none())
            || words.iter().any(|word| word.starts_with(['-', '+']));
        let why = fed.unwrap_or(if instructed {
            HiddenReason::ComputedText
        } else {
            HiddenReason::Interactive
        });
        walker.hide(why, name);
        return true;
    }
    let attached =
        words.iter().any(|word| CODE.iter().any(|option| word.starts_with(&format!("{option}="))));
    // `-ex run -ex bt` only steers the debugger.
    let steers = debugs
        && words
            .iter()
            .all(|word| !["shell", "!", "python", "pipe", "make"].iter().any(|w| word.contains(w)));
    let file = words.iter().position(|word| !word.starts_with('-'));
    match file.and_then(|at| arguments.get(at)) {
        _ if (has(&CODE) || attached) && !(steers && has(&["-batch", "--batch"])) => {
            walker.hide(HiddenReason::ComputedText, name);
        }
        Some(_) if debugs => {
            if !has(&["-batch", "--batch"]) {
                walker.hide(fed.unwrap_or(HiddenReason::Interactive), name);
            }
        }
        Some(file) => match walker.content_of(&file.to_string()) {
            Content::Untouched => {
                if file.to_string().contains(['.', '/']) {
                    walker.reading.scripts_not_in_text.push(file.clone());
                }
            }
            Content::Unknown | Content::Texts(_) => {
                walker.hide(HiddenReason::ComputedText, &file.to_string())
            }
        },
        None if name == "dc" && fed.is_none() => {}
        None => walker.hide(fed.unwrap_or(HiddenReason::Interactive), name),
    }
    true
}

/// A file that this command wrote, which a tool that is not followed reads and runs.
pub(super) fn written(walker: &mut Walker, file: &str) {
    match walker.content_of(file) {
        Content::Untouched => {}
        Content::Unknown | Content::Texts(_) => walker.hide(HiddenReason::ComputedText, file),
    }
}
