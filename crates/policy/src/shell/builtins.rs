//! Starting a command: functions, builtins, and programs that start others.

use brush_parser::ast::Assignment;

use super::environment::{Environment, Value};
use super::field::{Field, Shape};
use super::redirect::Input;
use super::walk::{Walker, assignment_name};
use super::{HiddenReason, exit_states, inline, parse};
use crate::word_list::words;

/// The builtins of bash.
const BUILTINS: &[&str] = words!(
    ". : [ alias bg bind break builtin caller cd command compgen complete compopt continue \
    declare dirs disown echo enable eval exec exit export false fc fg getopts hash help history \
    jobs kill let local logout mapfile popd printf pushd pwd read readarray readonly return set \
    shift shopt source suspend test times trap true type typeset ulimit umask unalias unset wait"
);

fn is_builtin(name: &str) -> bool {
    // The longest has nine letters.
    name.len() <= 9 && BUILTINS.contains(&name)
}

/// The arguments behind `--`.
fn behind_dashes(arguments: &[Field]) -> &[Field] {
    match arguments.split_first() {
        Some((first, rest)) if first.known().as_deref() == Some("--") => rest,
        _ => arguments,
    }
}

impl Walker {
    /// Starts a command as the shell does: function, builtin, then program.
    pub(super) fn start(&mut self, argv: &[Field], input: &Input, declared: &[&Assignment]) {
        let Some((first, arguments)) = argv.split_first() else { return };
        let Some(name) = first.known_text() else {
            // A function may have such a name as well.
            if self.environment.functions.keys().any(|name| name.contains('/')) {
                self.hide(HiddenReason::ComputedName, &first.to_string());
            }
            return self.started(argv, input);
        };
        // Which of them it is, if it may be several, is not followed.
        let mut others = None;
        if let Some(text) = self.environment.aliases.get(name.as_ref()).cloned() {
            self.alias(&name, text, arguments);
            exit_states::add(&mut others, self.environment.clone());
        }
        let function = self.environment.functions.get(name.as_ref()).cloned();
        if let Some(mut function) = function {
            // Some builtins go before functions in `posix` mode.
            function.sure &= !is_builtin(&name);
            self.call(&function, arguments, input);
            if function.sure {
                return self.join_environment_if_some(others);
            }
            exit_states::add(&mut others, self.environment.clone());
        }
        self.start_no_function(argv, input, declared);
        self.join_environment_if_some(others);
    }

    fn join_environment_if_some(&mut self, others: Option<Environment>) {
        if let Some(others) = others {
            self.join_environment(others);
        }
    }

    /// Starts a command as `command` does: builtin, then program.
    pub(super) fn start_no_function(
        &mut self,
        argv: &[Field],
        input: &Input,
        declared: &[&Assignment],
    ) {
        let Some((first, arguments)) = argv.split_first() else { return };
        let Some(name) = first.known_text() else { return self.started(argv, input) };
        if is_builtin(&name) {
            self.record_run(argv, true);
            self.builtin(&name, arguments, input, declared);
        } else {
            self.program(argv, input);
        }
    }

    /// Aliases are not expanded in a plain `bash -c`, but may be elsewhere.
    fn alias(&mut self, name: &str, text: Option<String>, arguments: &[Field]) {
        let known: Option<Vec<String>> = arguments.iter().map(Field::known).collect();
        match text.zip(known) {
            Some((text, _)) if !is_plain_alias(&text) => {
                self.hide(HiddenReason::ComputedText, &text)
            }
            Some((text, arguments)) => {
                let quoted = arguments.iter().map(|a| format!("'{}'", a.replace('\'', "'\\''")));
                let line = format!("{text} {}", quoted.collect::<Vec<_>>().join(" "));
                // Its own name in its text is not an alias again, other names may be.
                let without = self.environment.clone();
                self.environment.aliases.remove(name);
                self.text(&line);
                self.join_environment(without);
            }
            None => self.hide(HiddenReason::ComputedText, "an alias"),
        }
    }

    fn builtin(
        &mut self,
        name: &str,
        arguments: &[Field],
        input: &Input,
        declared: &[&Assignment],
    ) {
        match name {
            "eval" => self.eval(arguments),
            "exec" | "command" | "builtin" => self.program_of(name, arguments, input),
            "." | "source" => self.source_file(arguments),
            "trap" => self.trap(arguments),
            "alias" => self.define_aliases(arguments),
            "declare" | "typeset" | "local" | "export" | "readonly" => {
                self.subscripts(arguments);
                let option = |letter: char| {
                    let known = arguments.iter().filter_map(Field::known);
                    let mut options = known.filter(|text| text.starts_with(['-', '+']));
                    options.any(|text| text.contains(letter))
                };
                self.environment.exports_functions |= option('f');
                self.environment.all_odd |= option('n');
                let odd = ['i', 'u', 'l', 'c'].into_iter().any(option);
                if option('i') {
                    self.evaluates("-i");
                }
                let frozen = name == "readonly" || option('r');
                if frozen && option('f') {
                    self.hide(HiddenReason::RunsText, "a function that cannot be redefined");
                }
                for assignment in declared {
                    self.assign(assignment);
                }
                self.declare(arguments, declared);
                self.attributes(arguments, declared, odd, frozen);
                let exports = name == "export" && !['n', 'f', 'p'].into_iter().any(option);
                self.export(arguments, declared, exports);
            }
            "read" | "mapfile" | "readarray" | "getopts" | "unset" | "let" | "printf" | "wait" => {
                self.change(name, arguments);
            }
            "test" | "[" => self.subscripts(arguments),
            "set" => self.positional(arguments),
            "cd" | "pushd" | "popd" => self.change_directory(name, arguments),
            "exit" => self.environment.ended |= ends(arguments),
            "shopt" => self.shell_options(arguments),
            "break" | "continue" => self.leave_loop(),
            "return" => self.leave_function(),
            "shift" => self.environment.positional = None,
            "enable" | "fc" | "bind" => self.hide(HiddenReason::RunsText, name),
            "hash" if arguments.iter().any(may_give_path) => {
                self.hide(HiddenReason::RunsText, name)
            }
            "complete" | "compgen" if !arguments.is_empty() => {
                self.hide(HiddenReason::RunsText, name)
            }
            _ => {}
        }
    }

    fn eval(&mut self, arguments: &[Field]) {
        let arguments = behind_dashes(arguments);
        let texts: Option<Vec<String>> = arguments.iter().map(Field::known).collect();
        match texts {
            Some(texts) => self.text(&texts.join(" ")),
            None => {
                self.hide(HiddenReason::ComputedText, "eval");
                self.forget_everything();
            }
        }
    }

    /// A script that is not here may change everything.
    pub(super) fn forget_everything(&mut self) {
        self.environment.forget_all();
        self.environment.positional = None;
        self.environment.functions.values_mut().for_each(|function| function.sure = false);
    }

    fn source_file(&mut self, arguments: &[Field]) {
        let Some(file) = behind_dashes(arguments).first() else { return };
        match file.known() {
            Some(path) if path.starts_with("/dev/") || path.starts_with("/proc/") => {
                self.hide(HiddenReason::ComputedText, &path);
            }
            Some(_) => inline::sourced(self, file),
            // As well known as any other path.
            None if matches!(file.shape(), Shape::UnderHome { .. }) => inline::sourced(self, file),
            None => self.hide(HiddenReason::ComputedText, "source"),
        }
        self.forget_everything();
    }

    fn trap(&mut self, arguments: &[Field]) {
        let Some(first) = arguments.iter().find(|field| field.known().as_deref() != Some("--"))
        else {
            return;
        };
        match first.known() {
            Some(text) if text == "-" || text == "-l" || text == "-p" => {}
            // It runs later, when variables and functions may be others; at the end of this shell,
            // or between any two commands.
            Some(text) => {
                let at_end = |field: &Field| {
                    field.known().is_some_and(|text| matches!(text.as_str(), "EXIT" | "0" | "--"))
                };
                let others = arguments.iter().filter(|field| *field != first);
                let first_of_all = self.traps.is_empty() && self.subshell_depth == 0;
                if first_of_all && others.clone().count() > 0 && others.clone().all(at_end) {
                    self.environment.watch();
                    self.traps.push((text, self.environment.clone()));
                } else {
                    let unknown = Environment { foreign: true, ..Environment::default() };
                    self.traps.push((text, unknown));
                    self.forget_later = true;
                }
            }
            None => self.hide(HiddenReason::ComputedText, "trap"),
        }
    }

    fn define_aliases(&mut self, arguments: &[Field]) {
        for argument in arguments {
            match argument.known().as_deref().map(|text| text.split_once('=')) {
                Some(Some((name, text))) => {
                    for aliases in [&mut self.environment.aliases, &mut self.all_aliases] {
                        // Which of two is in force where is not followed.
                        let text = Some(text.to_owned());
                        let known = aliases.entry(name.to_owned()).or_insert_with(|| text.clone());
                        if *known != text {
                            *known = None;
                        }
                    }
                }
                Some(None) => {}
                None => self.hide(HiddenReason::ComputedText, "alias"),
            }
        }
    }

    /// Names that are given as plain words: `export "x=git"`, `declare $y`.
    fn declare(&mut self, arguments: &[Field], declared: &[&Assignment]) {
        for argument in arguments {
            match argument.known() {
                Some(text) => match text.split_once('=') {
                    Some((name, value)) if is_name(name) => {
                        self.is_set_to(name, value);
                        // The value may be the name of what is really set.
                        if self.environment.all_odd {
                            self.is_set(value);
                        }
                        let known = self.environment.get(name) == Value::text(value);
                        if !known {
                            self.environment.set(name, Value::text(value));
                        }
                    }
                    Some((name, _)) => {
                        let name: String =
                            name.chars().take_while(|c| *c != '[' && *c != '+').collect();
                        self.is_set(&name);
                        self.environment.forget(&name);
                    }
                    None => {}
                },
                None => match argument.leading_text().split_once('=') {
                    Some((name, _)) if is_name(name) => {
                        self.is_set(name);
                        // The value may be the name of what is really set.
                        self.environment.exports_unknown |= self.environment.all_odd;
                        // An assignment among the arguments was processed already.
                        if !declared.iter().any(|known| assignment_name(known) == name) {
                            self.environment.forget(name);
                        }
                    }
                    _ => {
                        self.environment.exports_unknown = true;
                        self.forget_everything();
                    }
                },
            }
        }
    }

    /// `export` hands a variable to programs; whether another declaration does is not followed.
    fn export(&mut self, arguments: &[Field], declared: &[&Assignment], exports: bool) {
        let exported = &mut self.environment.exported;
        let named = declared.iter().map(|assignment| assignment_name(assignment).to_owned());
        let words = arguments.iter().map(|field| field.leading_text().to_owned());
        let words = words.map(|text| text.split(['=', '[', '+']).next().unwrap_or("").to_owned());
        for name in named.chain(words) {
            if exports && is_name(&name) {
                exported.insert(name);
            } else {
                exported.remove(&name);
            }
        }
    }

    /// `-i`, `-u` and their like change what a variable is given, `-r` lets it be given nothing.
    fn attributes(
        &mut self,
        arguments: &[Field],
        declared: &[&Assignment],
        odd: bool,
        frozen: bool,
    ) {
        let plain = arguments.iter().filter_map(Field::known).filter(|text| !text.starts_with('-'));
        let named = declared.iter().map(|assignment| assignment_name(assignment).to_owned());
        let names =
            plain.map(|text| text.split(['=', '[', '+']).next().unwrap_or_default().to_owned());
        for name in names.chain(named).collect::<Vec<String>>() {
            if odd {
                self.environment.odd.insert(name.clone());
                self.environment.forget(&name);
            }
            if frozen {
                self.environment.frozen.insert(name);
            }
        }
    }

    /// Builtins that set the variables they are given the names of.
    fn change(&mut self, name: &str, arguments: &[Field]) {
        let names: Option<Vec<String>> = arguments.iter().map(Field::known).collect();
        let Some(names) = names else {
            let first = arguments.first().and_then(Field::known);
            if name == "printf" && !first.is_some_and(|first| first.starts_with("-v")) {
                let option = arguments.first().is_none_or(|first| first.known().is_none());
                if option {
                    self.forget_everything();
                }
                return;
            }
            return self.forget_everything();
        };
        if name == "printf" && !names.first().is_some_and(|first| first.starts_with("-v")) {
            return;
        }
        self.subscripts(arguments);
        if name == "let" {
            for text in &names {
                self.arithmetic(text);
            }
            return;
        }
        let calls = |text: &String| text.starts_with('-') && text.contains('C');
        if matches!(name, "mapfile" | "readarray") && names.iter().any(calls) {
            self.hide(HiddenReason::RunsText, name);
        }
        // The name may be in the same word as its option: `read -ax`.
        let behind = |text: &String| {
            (0..text.len()).filter_map(|at| text.get(at..).map(str::to_owned)).collect::<Vec<_>>()
        };
        let attached = names.iter().filter(|text| text.starts_with('-')).flat_map(behind);
        let plain = names.iter().filter(|text| !text.starts_with('-')).cloned();
        let unsets = name == "unset";
        for text in attached.chain(plain) {
            let name: String = text.chars().take_while(|c| *c != '[').collect();
            if unsets {
                self.environment.exported.remove(&name);
                self.runs_value(&name);
            } else {
                self.is_set(&name);
            }
            self.environment.forget(&name);
            // `unset` may mean a function; whether it does is not followed.
            if let Some(function) = self.environment.functions.get_mut(&name) {
                function.sure = false;
            }
        }
        for name in ["REPLY", "MAPFILE", "OPTARG", "OPTIND"] {
            self.environment.forget(name);
        }
    }

    /// Names with subscripts are evaluated, and with them what is substituted in the subscript.
    fn subscripts(&mut self, arguments: &[Field]) {
        let risky = |text: &String| text.contains("$(") || text.contains('`');
        if let Some(text) = arguments.iter().filter_map(Field::known).find(risky) {
            self.hide(HiddenReason::RunsText, &text);
        }
        if arguments.iter().filter_map(Field::known).any(|text| text.contains('[')) {
            self.evaluates("a subscript");
        }
    }

    /// `shopt -o` does what `set -o` does.
    fn shell_options(&mut self, arguments: &[Field]) {
        let is = |option: &str| {
            arguments.iter().any(|field| field.known().is_none_or(|text| text == option))
        };
        self.environment.exports_functions |= is("allexport");
        // With `cdable_vars` a name may lead elsewhere.
        self.environment.forget("CDPATH");
        // One changes what is an argument, the other ends commands in the middle.
        if is("keyword") || is("failglob") {
            self.hide(HiddenReason::RunsText, "shopt");
        }
    }

    fn positional(&mut self, arguments: &[Field]) {
        let known: Option<Vec<String>> = arguments.iter().map(Field::known).collect();
        let exports =
            |text: &String| text == "allexport" || (text.starts_with('-') && text.contains('a'));
        if known.as_ref().is_none_or(|texts| texts.iter().any(exports)) {
            self.environment.exports_functions = true;
        }
        let keyword =
            |text: &String| text == "keyword" || (text.starts_with('-') && text.contains('k'));
        if known.iter().flatten().any(keyword) {
            self.hide(HiddenReason::RunsText, "set -k");
        }
        self.environment.positional = match known {
            Some(texts) => match texts.split_first() {
                Some((dashes, rest)) if dashes == "--" => Some(rest.to_vec()),
                Some((first, _)) if first.starts_with(['-', '+']) => {
                    self.environment.positional.clone().filter(|_| texts.len() == 1)
                }
                Some(_) => Some(texts),
                None => self.environment.positional.clone(),
            },
            None => None,
        };
    }
}

/// Whether `exit` ends the shell: with several arguments it only complains.
fn ends(arguments: &[Field]) -> bool {
    match arguments {
        [] => true,
        [only] => only.known().is_some_and(|text| text.bytes().all(|byte| byte.is_ascii_digit())),
        _ => false,
    }
}

/// Whether the text after an alias can only be its arguments: after a blank the next word may be an alias as well,
/// after other signs a separate command.
fn is_plain_alias(text: &str) -> bool {
    let first = text.split(' ').next().unwrap_or_default();
    let plain = |c: char| c.is_ascii_alphanumeric() || " _-./=:,@%+".contains(c);
    text.chars().all(plain)
        && !text.ends_with(' ')
        && !first.contains('=')
        && !parse::is_reserved(first)
}

/// `hash -p file name` makes a name another program.
fn may_give_path(field: &Field) -> bool {
    field.known().is_none_or(|text| text.starts_with('-') && text.contains('p'))
}

fn is_name(text: &str) -> bool {
    !text.is_empty()
        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        && !text.starts_with(|c: char| c.is_ascii_digit())
        && !parse::is_reserved(text)
}
