//! Programs that start the program named behind them.

use super::field::{Field, Piece};
use super::redirect::Input;
use super::walk::{Walker, runs_its_value};
use super::wrapper_table::{WRAPPERS, Wrapper};
use super::{HiddenReason, WriteKind, inline, writers, xargs};

/// Follows what a program starts, if it is known to start something.
pub(super) fn look_through(walker: &mut Walker, name: &str, arguments: &[Field], input: &Input) {
    match name {
        "find" => return find(walker, arguments, input),
        "script" | "su" => return with_command_option(walker, name, arguments),
        "runuser" if !arguments.iter().any(|field| field.to_string().starts_with("-u")) => {
            return with_command_option(walker, name, arguments);
        }
        "npx" | "npm"
            if arguments
                .iter()
                .any(|field| field.known().is_some_and(|t| t == "-c" || t == "--call")) =>
        {
            return with_command_option(walker, name, arguments);
        }
        // The kind of machine may be left out.
        "setarch" => {
            let named = arguments.first().is_some_and(|first| !first.to_string().starts_with('-'));
            let rest = arguments.get(usize::from(named)..).unwrap_or_default();
            return look_through(walker, "linux64", rest, input);
        }
        "start-stop-daemon" => return daemon(walker, arguments),
        "socat" => return addresses(walker, arguments),
        "nix-shell" | "nix" | "sg" => return nix(walker, arguments, input),
        _ => {}
    }
    let loader = name.starts_with("ld-linux") || name.starts_with("ld-musl");
    let name = if loader { "ld.so" } else { name };
    let name = match name {
        "gtimeout" | "genv" | "gxargs" | "gnice" | "gstdbuf" => name.get(1..).unwrap_or(name),
        other => other,
    };
    let Some(wrapper) = WRAPPERS.iter().find(|wrapper| wrapper.name == name) else { return };
    if wrapper.assignments {
        variables(walker, arguments);
    }
    // With `exec -c` nothing is handed on.
    if name == "exec" && arguments.first().is_none_or(|first| first.to_string().starts_with('-')) {
        walker.environment.exported.clear();
        walker.prefix_assignments.clear();
    }
    let arguments = match behind_word(wrapper, arguments) {
        AfterOptions::Program(rest) => rest,
        AfterOptions::Nothing | AfterOptions::Split(_) => return,
        AfterOptions::Unknown(option) => return walker.hide(HiddenReason::UnknownOption, &option),
    };
    let rest = match behind_options(wrapper, arguments) {
        AfterOptions::Program(rest) => rest,
        AfterOptions::Nothing => return,
        AfterOptions::Split(text) => return walker.handed_to_shell(&text),
        AfterOptions::Unknown(option) => return walker.hide(HiddenReason::UnknownOption, &option),
    };
    let inner_input = if wrapper.appends_arguments { &Input::Pipe } else { input };
    match (name, rest) {
        ("flock", [first, text, ..])
            if first.known().is_some_and(|t| t == "-c" || t == "--command") =>
        {
            walker.handed_to_shell(text);
        }
        ("watch", rest) if !arguments.iter().any(is_exec) => match joined(rest) {
            Some(text) => walker.handed_to_shell(&Field::text(text)),
            None => walker.hide(HiddenReason::ComputedText, name),
        },
        ("entr", [text, ..]) if arguments.iter().any(is_short_s) => walker.handed_to_shell(text),
        ("parallel", rest) => parallel(walker, rest),
        ("uv", [first, ..]) if is_python(first) => {
            let argv: Vec<Field> =
                [Field::text("python3")].into_iter().chain(rest.iter().cloned()).collect();
            walker.in_subshell(|walker| walker.started(&argv, inner_input));
        }
        (_, []) => {}
        (_, rest) => {
            if matches!(name, "command" | "builtin" | "exec") {
                return walker.start_no_function(rest, inner_input, &[]);
            }
            let commands = match wrapper.appends_arguments {
                true => xargs::commands(arguments, rest, input),
                false => vec![rest.to_vec()],
            };
            for argv in commands {
                walker.in_subshell(|walker| walker.started(&argv, inner_input));
            }
            for argv in xargs::of_git(arguments, rest, input).filter(|_| wrapper.appends_arguments)
            {
                walker.if_there(|walker| walker.started(&argv, inner_input));
            }
        }
    }
}

impl Walker {
    /// A program that another program starts: no function or builtin of this shell.
    pub(super) fn started(&mut self, argv: &[Field], input: &Input) {
        let Some(first) = argv.first() else { return };
        if first.program_name().is_some() {
            return self.program(argv, input);
        }
        self.record_run(argv, false);
        self.hide(HiddenReason::ComputedName, &first.to_string());
    }
}

fn is_exec(field: &Field) -> bool {
    let short = |text: &str| text.starts_with('-') && !text.starts_with("--") && text.contains('x');
    field.known().is_some_and(|text| short(&text) || text == "--exec")
}

fn is_short_s(field: &Field) -> bool {
    field
        .known()
        .is_some_and(|text| text.starts_with('-') && !text.starts_with("--") && text.contains('s'))
}

/// `uv run x.py` and `uv run -` start python.
fn is_python(field: &Field) -> bool {
    field.known().is_some_and(|text| text.ends_with(".py") || text == "-")
}

/// Variables in front of a program that other programs run: `env PAGER=… man ls`.
fn variables(walker: &mut Walker, arguments: &[Field]) {
    for field in arguments {
        let text = field.to_string();
        if let Some((name, value)) = text.split_once('=').filter(|(n, _)| !n.starts_with('-')) {
            let known = field.known().map(|_| vec![value.to_owned()]);
            inline::variable(walker, name, known.clone());
            walker.note_setting(name, known);
        }
    }
}

/// The arguments behind `run` in `uv run …`; `None` if it is another command.
fn behind_word<'a>(wrapper: &Wrapper, arguments: &'a [Field]) -> AfterOptions<'a> {
    if wrapper.words.is_empty() {
        return AfterOptions::Program(arguments);
    }
    let mut rest = arguments;
    let mut odd = None;
    while let Some((first, more)) = rest.split_first() {
        rest = more;
        let Some(word) = first.known() else { return AfterOptions::Unknown(first.to_string()) };
        if wrapper.words.contains(&word.as_str()) {
            return match odd {
                Some(option) => AfterOptions::Unknown(option),
                None => AfterOptions::Program(rest),
            };
        }
        if !word.starts_with('-') && odd.is_none() {
            return AfterOptions::Nothing;
        }
        if wrapper.values.contains(&word.as_str()) {
            rest = more.get(1..).unwrap_or_default();
        } else if word.starts_with('-')
            && !wrapper.flags.contains(&word.as_str())
            && !is_value_in_word(wrapper, &word)
        {
            odd = Some(word);
        }
    }
    AfterOptions::Nothing
}

/// `parallel git {} ::: push pull`: a text for a shell, with arguments put in or behind it.
fn parallel(walker: &mut Walker, rest: &[Field]) {
    let ends = |field: &Field| field.known().is_some_and(|text| text.starts_with(":::"));
    let end = rest.iter().position(ends).unwrap_or(rest.len());
    let command = rest.get(..end).unwrap_or_default();
    let arguments = rest.get(end + 1..).unwrap_or_default();
    if command.is_empty() {
        if arguments.is_empty() {
            return walker.hide(HiddenReason::PipedIntoShell, "parallel");
        }
        for text in arguments {
            walker.handed_to_shell(text);
        }
        return;
    }
    let Some(text) = joined(command) else {
        return walker.hide(HiddenReason::ComputedText, "parallel");
    };
    let place = |piece: &str| piece.chars().all(|c| c.is_ascii_digit() || "./#%+-".contains(c));
    let mut shell = String::new();
    let mut unread = text.as_str();
    while let Some((before, behind)) = unread.split_once('{') {
        shell.push_str(before);
        match behind.split_once('}').filter(|(inner, _)| place(inner)) {
            Some((_, after)) => {
                shell.push_str("\"$given_by_parallel\"");
                unread = after;
            }
            None => {
                shell.push('{');
                unread = behind;
            }
        }
    }
    shell.push_str(unread);
    walker.handed_to_shell(&Field::text(format!("{shell} \"$given_by_parallel\"")));
}

/// `start-stop-daemon --start --exec program -- arguments`
fn daemon(walker: &mut Walker, arguments: &[Field]) {
    let named = |option: &[&str]| {
        let at = arguments
            .iter()
            .position(|field| field.known().is_some_and(|text| option.contains(&text.as_str())))?;
        arguments.get(at + 1).cloned()
    };
    let program = named(&["--startas", "-a"]).or_else(|| named(&["--exec", "-x"]));
    let behind = arguments.iter().position(|field| field.known().as_deref() == Some("--"));
    let rest = behind.and_then(|at| arguments.get(at + 1..)).unwrap_or_default();
    match program {
        Some(program) => {
            let argv: Vec<Field> = [program].into_iter().chain(rest.iter().cloned()).collect();
            walker.in_subshell(|walker| walker.started(&argv, &Input::Pipe));
        }
        None if arguments.iter().any(|field| field.known().is_none()) => {
            walker.hide(HiddenReason::UnknownOption, "start-stop-daemon");
        }
        None => {}
    }
}

/// `socat EXEC:'program' -`
fn addresses(walker: &mut Walker, arguments: &[Field]) {
    for field in arguments {
        let text = field.to_string();
        let kind = text.split(':').next().unwrap_or_default().to_ascii_uppercase();
        if !matches!(kind.as_str(), "EXEC" | "SYSTEM" | "SHELL") {
            continue;
        }
        let command = text.split_once(':').map(|(_, rest)| rest).unwrap_or_default();
        match field.known() {
            // Options of the address follow a comma.
            Some(_) => {
                let command = command.split(',').next().unwrap_or_default();
                walker.handed_to_shell(&Field::text(command));
            }
            None => walker.hide(HiddenReason::ComputedText, "socat"),
        }
    }
}

/// `nix-shell --run text`, `nix develop -c program`, `sg group -c text`.
fn nix(walker: &mut Walker, arguments: &[Field], input: &Input) {
    let mut rest = arguments;
    while let Some((first, more)) = rest.split_first() {
        rest = more;
        match first.known().as_deref() {
            Some("--run" | "--command" | "-c") => {
                return match more {
                    [] => {}
                    [text] => walker.handed_to_shell(text),
                    argv => walker.in_subshell(|walker| walker.started(argv, input)),
                };
            }
            Some(_) => {}
            None => walker.hide(HiddenReason::UnknownOption, &first.to_string()),
        }
    }
}

fn joined(fields: &[Field]) -> Option<String> {
    let texts: Option<Vec<String>> = fields.iter().map(Field::known).collect();
    texts.map(|texts| texts.join(" "))
}

enum AfterOptions<'a> {
    Program(&'a [Field]),
    Nothing,
    Split(Field),
    Unknown(String),
}

fn behind_options<'a>(wrapper: &Wrapper, arguments: &'a [Field]) -> AfterOptions<'a> {
    let mut rest = arguments;
    while let Some((first, more)) = rest.split_first() {
        let Some(option) = first.known() else {
            let text = first.to_string();
            let set = text.split_once('=').filter(|(name, _)| {
                !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
            });
            if wrapper.assignments && set.is_some() && !first.may_be_many() {
                rest = more;
                continue;
            }
            // A field that may be empty or an option cannot be skipped.
            return AfterOptions::Unknown(first.to_string());
        };
        if wrapper.name == "env"
            && (option == "-S" || option.starts_with("-S") || option.starts_with("--split-string"))
        {
            return split_string(&option, more);
        }
        if option == "--" {
            let assigns = |field: &&Field| {
                let shown = field.to_string();
                shown.split_once('=').is_some_and(|(name, _)| !runs_its_value(name))
            };
            let assigned = more.iter().take_while(assigns).filter(|_| wrapper.assignments).count();
            rest = more.get(assigned..).unwrap_or_default();
            break;
        }
        if !option.starts_with('-') || (option == "-" && wrapper.name == "uv") {
            let assigns =
                wrapper.assignments && option.split_once('=').is_some_and(|(n, _)| !n.is_empty());
            if !assigns {
                break;
            }
            if option.split_once('=').is_some_and(|(name, _)| runs_its_value(name)) {
                return AfterOptions::Unknown(option);
            }
            rest = more;
            continue;
        }
        if wrapper.starts_nothing.contains(&option.as_str()) {
            return AfterOptions::Nothing;
        } else if wrapper.flags.contains(&option.as_str()) {
            rest = more;
        } else if wrapper.values.contains(&option.as_str()) {
            rest = more.get(1..).unwrap_or_default();
        } else if is_value_in_word(wrapper, &option)
            || is_flags_in_word(wrapper, &option)
            || wrapper.unknown_options_have_no_value
        {
            rest = more;
        } else {
            return AfterOptions::Unknown(option);
        }
    }
    if rest.len() < wrapper.skip {
        return AfterOptions::Nothing;
    }
    let behind = rest.get(wrapper.skip..).unwrap_or_default();
    let skipped = rest.get(..wrapper.skip).unwrap_or_default();
    match skipped.iter().find(|field| field.may_be_many()) {
        Some(field) => AfterOptions::Unknown(field.to_string()),
        None => AfterOptions::Program(behind),
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
fn split_string(option: &str, more: &[Field]) -> AfterOptions<'static> {
    let (text, rest) =
        match option.strip_prefix("--split-string=").or_else(|| option.strip_prefix("-S")) {
            Some(text) if !text.is_empty() => (Some(text.to_owned()), more),
            _ => match more.split_first() {
                Some((text, rest)) => (text.known(), rest),
                None => return AfterOptions::Nothing,
            },
        };
    let plain = |text: &String| {
        text.chars().all(|c| c.is_ascii_alphanumeric() || " _-./=:,@%+".contains(c))
    };
    match text.filter(plain).zip(joined(rest)) {
        Some((text, rest)) => AfterOptions::Split(Field::text(format!("env {text} {rest}"))),
        None => AfterOptions::Unknown(option.to_owned()),
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
            walker.hide(HiddenReason::UnknownOption, "find");
        }
        let Some(word) = first.known() else {
            if first.may_be_many()
                && !matches!(first.to_string().as_str(), text if text.contains(['*', '?']))
            {
                walker.hide(HiddenReason::UnknownOption, &format!("find {first}"));
            }
            continue;
        };
        if !matches!(word.as_str(), "-exec" | "-execdir" | "-ok" | "-okdir") {
            continue;
        }
        let end = rest.iter().position(ends).unwrap_or(rest.len());
        let mut of_git = Vec::new();
        let mut placed = |field: &Field| match field.known() {
            Some(text) if text.contains("{}") => {
                let (field, files) = writers::found(arguments, &text);
                of_git.extend(files);
                field
            }
            _ => field.clone(),
        };
        let argv: Vec<Field> = rest.iter().take(end).map(&mut placed).collect();
        let before = walker.reading.writes.len();
        walker.in_subshell(|walker| walker.started(&argv, input));
        let named = writers::only_named(arguments);
        for write in walker.reading.writes.iter_mut().skip(before) {
            // The files themselves, not what is called after them.
            let itself = matches!(write.path.pieces().last(), Some(Piece::Below));
            write.named = named.clone().filter(|_| itself && write.kind == WriteKind::Change);
        }
        for file in of_git {
            let placed = |field: &Field| match field.known() {
                Some(text) if text.contains("{}") => Field::text(file.as_str()),
                _ => field.clone(),
            };
            let argv: Vec<Field> = rest.iter().take(end).map(placed).collect();
            walker.if_there(|walker| walker.started(&argv, input));
        }
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
            walker.hide(HiddenReason::UnknownOption, &format!("{name} {first}"));
            return;
        };
        let short = !word.starts_with("--") && word.starts_with('-');
        if word == "--command" || word == "--call" || (short && word.ends_with('c')) {
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
            walker.hide(HiddenReason::UnknownOption, &word);
        }
    }
    if !found && !matches!(name, "npx" | "npm") {
        walker.hide(HiddenReason::Interactive, name);
    }
}
