//! Shells that are given a text: `bash -c`, `sh <<EOF`, and those that wait for one.

use super::field::Field;
use super::redirect::Input;
use super::walk::Walker;
use super::{HiddenReason, inline, wrappers, writers};

const SHELLS: [&str; 9] = ["bash", "sh", "dash", "zsh", "ksh", "mksh", "ash", "rbash", "yash"];

/// Programs that hand every variable to what they start, and take none for something else.
const HANDS_ON: [&str; 12] = [
    "bash", "sh", "dash", "env", "timeout", "nice", "nohup", "setsid", "stdbuf", "time", "xargs",
    "find",
];

/// Whether a program of this name is a shell.
pub(super) fn is_shell(name: &str) -> bool {
    SHELLS.contains(&name)
}

/// Syntax that another shell reads differently, so that this reading would be wrong for it.
fn only_in_bash(text: &str) -> Option<&'static str> {
    const ONLY: [&str; 8] = ["[[", "((", "$'", "function", "declare", "typeset", "+=", "let "];
    // Numbers are worked out alike.
    let text = text.replace("$((", "");
    ONLY.into_iter().find(|word| text.contains(word))
}

impl Walker {
    pub(super) fn shell(&mut self, arguments: &[Field], input: &Input) {
        let mut rest = arguments;
        let (mut command, mut from_input) = (false, false);
        while let Some((first, more)) = rest.split_first() {
            let Some(option) = first.known() else {
                return self.hide(HiddenReason::ComputedText, &first.to_string());
            };
            match option.as_str() {
                "--" | "-" => {
                    rest = more;
                    break;
                }
                "--norc" | "--noprofile" | "--login" | "--posix" | "--restricted" | "--verbose" => {
                    rest = more;
                    if option == "--login" {
                        inline::startup(self);
                    }
                }
                "--version" | "--help" => return,
                _ if option.starts_with("--") => {
                    return self.hide(HiddenReason::UnknownOption, &option);
                }
                _ if option.starts_with(['-', '+']) && option.len() > 1 => {
                    rest = more;
                    let letters = option.get(1..).unwrap_or_default();
                    if !letters.chars().all(|c| "bcefhilmnprstuvxBCDEHPTo O".contains(c)) {
                        return self.hide(HiddenReason::UnknownOption, &option);
                    }
                    command |= option.starts_with('-') && letters.contains('c');
                    from_input |= letters.contains('s');
                    if letters.contains(['i', 'l']) {
                        inline::startup(self);
                    }
                    if letters.contains('i') {
                        self.hide(HiddenReason::Interactive, &option);
                    }
                    if letters.contains(['o', 'O']) {
                        let Some((set, after)) = rest.split_first() else { break };
                        // These change how commands are read, and which functions are exported.
                        let plain = |text: &String| {
                            !["keyword", "allexport", "failglob"].contains(&text.as_str())
                        };
                        if !set.known().is_some_and(|text| plain(&text)) {
                            return self.hide(HiddenReason::UnknownOption, &set.to_string());
                        }
                        rest = after;
                    }
                }
                _ => break,
            }
        }
        if command {
            return self.shell_text(rest);
        }
        match rest.first() {
            Some(script) if !from_input => self.script(script),
            _ => self.shell_input(input),
        }
    }

    fn shell_text(&mut self, rest: &[Field]) {
        let Some((text, rest)) = rest.split_first() else { return };
        let Some(text) = text.known() else {
            return self.hide(HiddenReason::ComputedText, &text.to_string());
        };
        // The first word behind the text is its name, the others are its parameters.
        let parameters = rest.get(1..).unwrap_or_default();
        let positional: Option<Vec<String>> = parameters.iter().map(Field::known).collect();
        self.in_new_shell(&text, positional);
    }

    /// A separate shell only receives exported variables.
    pub(super) fn in_new_shell(&mut self, text: &str, positional: Option<Vec<String>>) {
        if self.environment.exports_functions && !self.environment.functions.is_empty() {
            self.hide(HiddenReason::RunsText, "an exported function");
        }
        let bash = self.through.last().is_some_and(|name| name == "bash" || name == "rbash");
        if let Some(word) = only_in_bash(text).filter(|_| !bash) {
            self.hide(HiddenReason::Unreadable, &format!("{word} for another shell than bash"));
        }
        if self.environment.exports_unknown {
            self.hide(HiddenReason::RunsText, "an exported variable");
        }
        let hands_on = self.through.iter().all(|name| HANDS_ON.contains(&name.as_str()));
        self.in_subshell(|walker| {
            if !hands_on {
                walker.environment.exported.clear();
            }
            walker.environment = walker.environment.in_new_shell(positional);
            walker.text(text);
        });
    }

    fn script(&mut self, script: &Field) {
        inline::script(self, inline::ScriptLanguage::Shell, script);
    }

    pub(super) fn shell_input(&mut self, input: &Input) {
        match input {
            Input::Text(Some(texts)) => {
                for text in texts.clone() {
                    self.in_new_shell(&text, None);
                }
            }
            Input::Text(None) => self.hide(HiddenReason::ComputedText, "a here document"),
            Input::Pipe | Input::Names(_) => self.hide(HiddenReason::PipedIntoShell, "a pipe"),
            Input::File(file) => {
                let file = file.clone();
                self.script(&file);
            }
            Input::Inherited => self.waits("a shell without a script"),
        }
    }

    /// A shell or interpreter without code. In a larger command, something else may provide its input.
    pub(super) fn waits(&mut self, what: &str) {
        let alone = self.through.len() < 2 && self.subshell_depth == 0;
        self.hide(
            if alone { HiddenReason::Interactive } else { HiddenReason::PipedIntoShell },
            what,
        );
    }

    /// A text that a program hands to `sh -c`.
    pub(super) fn handed_to_shell(&mut self, text: &Field) {
        self.shell_text(std::slice::from_ref(text));
    }

    /// A program, and what it starts.
    pub(super) fn program(&mut self, argv: &[Field], input: &Input) {
        let assignments = std::mem::take(&mut self.prefix_assignments);
        if assignments.is_empty() {
            return self.program_here(argv, input);
        }
        let before = self.environment.clone();
        for (name, value) in assignments {
            self.environment.export(&name, value);
        }
        self.program_here(argv, input);
        self.environment = before;
    }

    fn program_here(&mut self, argv: &[Field], input: &Input) {
        self.record_run(argv, false);
        self.deeper("a program", |walker| walker.follow_program_inside(argv, input));
    }

    fn follow_program_inside(&mut self, argv: &[Field], input: &Input) {
        let Some((first, arguments)) = argv.split_first() else { return };
        let Some(name) = first.program_name() else { return };
        let path = first.known().unwrap_or_else(|| first.to_string());
        self.through.push(name.clone());
        inline::configured(self, &name, arguments);
        if is_shell(&name) {
            self.shell(arguments, input);
        } else if !inline::look_into(self, &name, arguments, input) {
            self.surrounded(&name, arguments, |walker| {
                wrappers::look_through(walker, &name, arguments, input);
            });
        }
        inline::by_path(self, &path, arguments);
        self.through.pop();
        writers::note_writes(self, &name, arguments, input);
    }

    /// `exec`, `command` and `builtin`: what stands behind them and their options.
    pub(super) fn program_of(&mut self, name: &str, arguments: &[Field], input: &Input) {
        self.deeper(name, |walker| wrappers::look_through(walker, name, arguments, input));
    }
}
