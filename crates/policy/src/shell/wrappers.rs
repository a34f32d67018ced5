//! Programs that start the program named behind them.

use super::Why;
use super::field::Field;
use super::redirect::Input;
use super::walk::{Walker, runs_its_value};

/// How a program that starts another is called.
struct Wrapper {
    name: &'static str,
    /// Options without a value; a word of several short ones is fine.
    flags: &'static [&'static str],
    /// Options with a value, in the same word or the next.
    values: &'static [&'static str],
    /// How many words stand between the options and the program.
    skip: usize,
    /// Options with which no program is started at all.
    quiet: &'static [&'static str],
    /// `NAME=value` may stand in front of the program.
    assignments: bool,
    /// More arguments, which are not in the text, are put behind those that are.
    more: bool,
}

const PLAIN: Wrapper = Wrapper {
    name: "",
    flags: &[],
    values: &[],
    skip: 0,
    quiet: &["--help", "--version"],
    assignments: false,
    more: false,
};

const WRAPPERS: [Wrapper; 19] = [
    Wrapper { name: "command", flags: &["-p"], quiet: &["-v", "-V"], ..PLAIN },
    Wrapper { name: "builtin", ..PLAIN },
    Wrapper { name: "exec", flags: &["-c", "-l"], values: &["-a"], ..PLAIN },
    Wrapper { name: "nohup", ..PLAIN },
    Wrapper {
        name: "env",
        flags: &["-i", "-", "-0", "-v", "--ignore-environment", "--null", "--debug"],
        values: &["-u", "--unset", "-C", "--chdir"],
        assignments: true,
        ..PLAIN
    },
    Wrapper {
        name: "timeout",
        flags: &["--foreground", "--preserve-status", "-v", "--verbose", "-f", "-p"],
        values: &["-k", "--kill-after", "-s", "--signal"],
        skip: 1,
        ..PLAIN
    },
    Wrapper { name: "nice", values: &["-n", "--adjustment"], ..PLAIN },
    Wrapper {
        name: "ionice",
        flags: &["-t", "--ignore"],
        values: &["-c", "--class", "-n", "--classdata"],
        quiet: &["-p", "-P", "-u", "--help", "--version"],
        ..PLAIN
    },
    Wrapper { name: "setsid", flags: &["-c", "-f", "-w", "--ctty", "--fork", "--wait"], ..PLAIN },
    Wrapper {
        name: "stdbuf",
        values: &["-i", "-o", "-e", "--input", "--output", "--error"],
        ..PLAIN
    },
    Wrapper {
        name: "time",
        flags: &["-p", "-v", "-a", "-q", "--portability", "--verbose", "--append", "--quiet"],
        values: &["-f", "--format", "-o", "--output"],
        ..PLAIN
    },
    Wrapper {
        name: "sudo",
        flags: &["-n", "-E", "-H", "-S", "-b", "-A", "-B", "-k", "-P"],
        values: &["-u", "-g", "-h", "-p", "-C", "-r", "-t", "-T", "-D", "-R", "--user", "--group"],
        quiet: &["-v", "-l", "-K", "-V", "--help", "--version", "--list", "--validate"],
        assignments: true,
        ..PLAIN
    },
    Wrapper { name: "doas", flags: &["-n"], values: &["-u", "-C"], ..PLAIN },
    Wrapper {
        name: "xargs",
        flags: &[
            "-0",
            "-r",
            "-t",
            "-p",
            "-x",
            "--null",
            "--no-run-if-empty",
            "--verbose",
            "--exit",
        ],
        values: &[
            "-I",
            "-n",
            "-P",
            "-L",
            "-d",
            "-E",
            "-s",
            "-a",
            "--max-args",
            "--max-procs",
            "--delimiter",
            "--max-chars",
            "--arg-file",
        ],
        more: true,
        ..PLAIN
    },
    Wrapper {
        name: "flock",
        flags: &[
            "-s",
            "-x",
            "-e",
            "-n",
            "-u",
            "-o",
            "-F",
            "--shared",
            "--exclusive",
            "--nonblock",
            "--nb",
            "--unlock",
            "--close",
            "--no-fork",
            "--verbose",
        ],
        values: &["-w", "--timeout", "-E", "--conflict-exit-code"],
        skip: 1,
        ..PLAIN
    },
    Wrapper {
        name: "strace",
        flags: &["-f", "-ff", "-q", "-qq", "-t", "-tt", "-r", "-T", "-y", "-v", "-c", "-C"],
        values: &["-o", "-e", "-s", "-u", "-E", "-P", "-O", "-S"],
        ..PLAIN
    },
    Wrapper {
        name: "watch",
        flags: &["-d", "-t", "-b", "-e", "-g", "-c", "-x", "-p", "-w", "--exec", "--no-title"],
        values: &["-n", "--interval", "-q", "--equexit"],
        ..PLAIN
    },
    Wrapper { name: "busybox", ..PLAIN },
    Wrapper { name: "toybox", ..PLAIN },
];

/// Follows what a program starts, if it is known to start something.
pub(super) fn look_through(walker: &mut Walker, name: &str, arguments: &[Field], input: &Input) {
    match name {
        "find" => return find(walker, arguments, input),
        "script" | "su" | "runuser" => return with_command_option(walker, name, arguments),
        _ => {}
    }
    let Some(wrapper) = WRAPPERS.iter().find(|wrapper| wrapper.name == name) else { return };
    let rest = match behind_options(wrapper, arguments) {
        Behind::Program(rest) => rest,
        Behind::Nothing => return,
        Behind::Split(text) => return walker.handed_to_shell(&text),
        Behind::Unknown(option) => return walker.hide(Why::UnknownOption, &option),
    };
    let inner_input = if wrapper.more { &Input::Pipe } else { input };
    match (name, rest) {
        ("flock", [first, text, ..])
            if first.known().is_some_and(|t| t == "-c" || t == "--command") =>
        {
            walker.handed_to_shell(text);
        }
        ("watch", rest) if !arguments.iter().any(is_exec) => match joined(rest) {
            Some(text) => walker.handed_to_shell(&Field::text(text)),
            None => walker.hide(Why::ComputedText, name),
        },
        (_, []) => {}
        (_, rest) => {
            let mut argv = rest.to_vec();
            if wrapper.more {
                if let Some(place) = replaced(arguments) {
                    let put = |field: &Field| match field.known() {
                        Some(text) if !place.is_empty() && !text.contains(&place) => field.clone(),
                        _ => Field::unknown(),
                    };
                    argv = argv.iter().map(put).collect();
                }
                argv.push(Field::unknown_many());
            }
            let apart = !matches!(name, "command" | "builtin" | "exec");
            let start = |walker: &mut Walker| match name {
                "command" | "builtin" | "exec" => {
                    walker.start_no_function(&argv, inner_input, &[]);
                }
                _ => walker.started(&argv, inner_input),
            };
            if apart { walker.apart(start) } else { start(walker) }
        }
    }
}

impl Walker {
    /// A program that another program starts: no function or builtin of this shell.
    fn started(&mut self, argv: &[Field], input: &Input) {
        match argv.first().map(Field::known) {
            Some(Some(_)) => self.program(argv, input),
            Some(None) => {
                self.note(argv, false);
                let name = argv.first().map(ToString::to_string).unwrap_or_default();
                self.hide(Why::ComputedName, &name);
            }
            None => {}
        }
    }
}

fn is_exec(field: &Field) -> bool {
    let short = |text: &str| text.starts_with('-') && !text.starts_with("--") && text.contains('x');
    field.known().is_some_and(|text| short(&text) || text == "--exec")
}

/// The text that `xargs -I` puts its input in the place of.
fn replaced(arguments: &[Field]) -> Option<String> {
    let texts: Vec<String> =
        arguments.iter().map(|field| field.known().unwrap_or_default()).collect();
    let at = texts.iter().position(|text| text.starts_with("-I"))?;
    let option = texts.get(at)?;
    match option.strip_prefix("-I").filter(|text| !text.is_empty()) {
        Some(text) => Some(text.to_owned()),
        None => texts.get(at + 1).cloned(),
    }
}

fn joined(fields: &[Field]) -> Option<String> {
    let texts: Option<Vec<String>> = fields.iter().map(Field::known).collect();
    texts.map(|texts| texts.join(" "))
}

enum Behind<'a> {
    Program(&'a [Field]),
    Nothing,
    Split(Field),
    Unknown(String),
}

fn behind_options<'a>(wrapper: &Wrapper, arguments: &'a [Field]) -> Behind<'a> {
    let mut rest = arguments;
    while let Some((first, more)) = rest.split_first() {
        let Some(option) = first.known() else {
            // What may vanish or be an option cannot be passed over.
            return Behind::Unknown(first.to_string());
        };
        if wrapper.name == "env"
            && (option == "-S" || option.starts_with("-S") || option.starts_with("--split-string"))
        {
            return split_string(&option, more);
        }
        if option == "--" {
            rest = more;
            break;
        }
        if !option.starts_with('-') {
            let assigns =
                wrapper.assignments && option.split_once('=').is_some_and(|(n, _)| !n.is_empty());
            if !assigns {
                break;
            }
            if option.split_once('=').is_some_and(|(name, _)| runs_its_value(name)) {
                return Behind::Unknown(option);
            }
            rest = more;
            continue;
        }
        if wrapper.quiet.contains(&option.as_str()) {
            return Behind::Nothing;
        } else if wrapper.flags.contains(&option.as_str()) {
            rest = more;
        } else if wrapper.values.contains(&option.as_str()) {
            rest = more.get(1..).unwrap_or_default();
        } else if is_value_in_word(wrapper, &option) || is_flags_in_word(wrapper, &option) {
            rest = more;
        } else {
            return Behind::Unknown(option);
        }
    }
    if rest.len() < wrapper.skip {
        return Behind::Nothing;
    }
    let behind = rest.get(wrapper.skip..).unwrap_or_default();
    let skipped = rest.get(..wrapper.skip).unwrap_or_default();
    match skipped.iter().find(|field| field.may_be_many()) {
        Some(field) => Behind::Unknown(field.to_string()),
        None => Behind::Program(behind),
    }
}

/// `-n5`, and for `nice` also `-5`.
fn is_value_in_word(wrapper: &Wrapper, option: &str) -> bool {
    let short = option.get(..2);
    let digits = option.get(1..).is_some_and(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
    let long = option.starts_with("--");
    if let Some((name, _)) = option.split_once('=').filter(|_| long) {
        return wrapper.values.contains(&name);
    }
    (!long && short.is_some_and(|short| wrapper.values.contains(&short)))
        || (wrapper.name == "nice" && digits)
}

/// `-0r`: short options in one word.
fn is_flags_in_word(wrapper: &Wrapper, option: &str) -> bool {
    !option.starts_with("--")
        && option.len() > 2
        && option.chars().skip(1).all(|c| wrapper.flags.contains(&format!("-{c}").as_str()))
}

/// `env -S 'git push'` splits its text much like a shell; what is behind it is appended.
fn split_string(option: &str, more: &[Field]) -> Behind<'static> {
    let (text, rest) =
        match option.strip_prefix("--split-string=").or_else(|| option.strip_prefix("-S")) {
            Some(text) if !text.is_empty() => (Some(text.to_owned()), more),
            _ => match more.split_first() {
                Some((text, rest)) => (text.known(), rest),
                None => return Behind::Nothing,
            },
        };
    let plain = |text: &String| {
        text.chars().all(|c| c.is_ascii_alphanumeric() || " _-./=:,@%+".contains(c))
    };
    match text.filter(plain).zip(joined(rest)) {
        Some((text, rest)) => Behind::Split(Field::text(format!("env {text} {rest}"))),
        None => Behind::Unknown(option.to_owned()),
    }
}

/// `find … -exec program … ;`
fn find(walker: &mut Walker, arguments: &[Field], input: &Input) {
    let mut rest = arguments;
    let ends = |field: &Field| field.known().is_some_and(|text| text == ";" || text == "+");
    while let Some((first, more)) = rest.split_first() {
        rest = more;
        if ends(first) {
            // An end without a beginning: a word that is not known may have been `-exec`.
            walker.hide(Why::UnknownOption, "find");
        }
        let Some(word) = first.known() else {
            if first.may_be_many()
                && !matches!(first.to_string().as_str(), text if text.contains(['*', '?']))
            {
                walker.hide(Why::UnknownOption, &format!("find {first}"));
            }
            continue;
        };
        if !matches!(word.as_str(), "-exec" | "-execdir" | "-ok" | "-okdir") {
            continue;
        }
        let end = rest.iter().position(ends).unwrap_or(rest.len());
        let placed = |field: &Field| match field.known() {
            Some(text) if text.contains("{}") => Field::unknown(),
            _ => field.clone(),
        };
        let argv: Vec<Field> = rest.iter().take(end).map(placed).collect();
        walker.apart(|walker| walker.started(&argv, input));
        rest = rest.get(end + 1..).unwrap_or_default();
    }
}

/// `script -c text`, `su -c text`: a text for a shell.
fn with_command_option(walker: &mut Walker, name: &str, arguments: &[Field]) {
    let mut rest = arguments;
    let mut found = false;
    while let Some((first, more)) = rest.split_first() {
        rest = more;
        let Some(word) = first.known() else {
            walker.hide(Why::UnknownOption, &format!("{name} {first}"));
            return;
        };
        let short = !word.starts_with("--") && word.starts_with('-');
        if word == "--command" || (short && word.ends_with('c')) {
            found = true;
            match rest.split_first() {
                Some((text, after)) => {
                    walker.handed_to_shell(text);
                    rest = after;
                }
                None => return,
            }
        } else if let Some(text) = word.strip_prefix("--command=") {
            found = true;
            walker.handed_to_shell(&Field::text(text));
        } else if short && word.contains('c') {
            walker.hide(Why::UnknownOption, &word);
        }
    }
    if !found {
        walker.hide(Why::Interactive, name);
    }
}
