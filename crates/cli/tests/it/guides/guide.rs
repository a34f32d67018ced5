//! A guide whose blocks are used from the first to the last.

use std::collections::VecDeque;
use std::path::PathBuf;

use bailiwick_testkit::scratch::Ran;

use super::markdown::{Block, Command, blocks};
use super::shell::Shell;

/// How a command behaves, if it does not end with exit code 0.
enum Behaviour {
    /// It ends with this code.
    Exits(i32),
    /// It runs until the shell ends.
    Background,
    /// It is interrupted with Ctrl-C when it has printed this text.
    Interrupted(String),
    /// It is not run here.
    Elsewhere,
}

/// A guide, and the values of its placeholders.
pub(crate) struct Guide {
    name: String,
    blocks: VecDeque<Block>,
    /// The output of commands that the guide shows.
    shown: Vec<String>,
    /// The remaining commands of the current shell block.
    commands: VecDeque<Command>,
    fills: Vec<(String, String)>,
    behaviours: Vec<(String, Behaviour, bool)>,
}

/// The commands of a block, and their results.
pub(crate) struct Results(Vec<(String, Ran)>);

impl Results {
    /// The result of the command with this beginning.
    #[track_caller]
    pub(crate) fn of(&self, beginning: &str) -> &Ran {
        let found = self.0.iter().find(|(command, _)| command.starts_with(beginning));
        let all: Vec<&String> = self.0.iter().map(|(command, _)| command).collect();
        found.map(|(_, ran)| ran).unwrap_or_else(|| panic!("`{beginning}` is not in {all:#?}"))
    }
}

impl Guide {
    /// A guide by its path in the repository.
    pub(crate) fn read(name: &str) -> Self {
        let text = std::fs::read_to_string(crate::workspace().join(name)).unwrap();
        Self::of(name, &text)
    }

    /// A guide with this text.
    pub(crate) fn of(name: &str, text: &str) -> Self {
        let all = blocks(text).into_iter();
        let (blocks, others): (VecDeque<Block>, VecDeque<Block>) =
            all.partition(|block| is_followed(&block.language));
        Self {
            name: name.to_owned(),
            blocks,
            shown: others.into_iter().map(|block| block.text).collect(),
            commands: VecDeque::new(),
            fills: Vec::new(),
            behaviours: Vec::new(),
        }
    }

    /// Sets the value of a placeholder.
    pub(crate) fn fill(&mut self, placeholder: &str, value: impl Into<String>) {
        self.fills.retain(|(other, _)| other != placeholder);
        self.fills.push((placeholder.to_owned(), value.into()));
    }

    /// The command with this beginning ends with this exit code.
    pub(crate) fn exits(&mut self, beginning: &str, code: i32) {
        self.behaviours.push((beginning.to_owned(), Behaviour::Exits(code), false));
    }

    /// The command with this beginning runs until the test ends.
    pub(crate) fn background(&mut self, beginning: &str) {
        self.behaviours.push((beginning.to_owned(), Behaviour::Background, false));
    }

    /// The command with this beginning is interrupted with Ctrl-C when it has printed a text.
    pub(crate) fn interrupted(&mut self, beginning: &str, text: &str) {
        let behaviour = Behaviour::Interrupted(text.to_owned());
        self.behaviours.push((beginning.to_owned(), behaviour, false));
    }

    /// The command with this beginning is run by another step of CI, or cannot run in CI.
    pub(crate) fn elsewhere(&mut self, beginning: &str, why: &str) {
        assert!(!why.is_empty());
        self.behaviours.push((beginning.to_owned(), Behaviour::Elsewhere, false));
    }

    /// The text of the next block, which must have this language.
    #[track_caller]
    pub(crate) fn text(&mut self, language: &str) -> String {
        let block = self.next(language);
        self.filled(&block.text, block.line)
    }

    /// The text of the first block of this language, even if others come before it.
    #[track_caller]
    pub(crate) fn later_text(&mut self, language: &str) -> String {
        let position = self.blocks.iter().position(|block| block.language == language);
        let block = position.and_then(|position| self.blocks.remove(position));
        let block = block.unwrap_or_else(|| panic!("{}: no `{language}`", self.name));
        self.filled(&block.text, block.line)
    }

    /// Asserts that a command has printed every line of the output that the guide shows with this beginning.
    #[track_caller]
    pub(crate) fn has_shown(&self, beginning: &str, ran: &Ran) {
        let shown_text = self.shown.iter().find(|text| text.starts_with(beginning));
        let shown_text =
            shown_text.unwrap_or_else(|| panic!("{} shows no `{beginning}`", self.name));
        let printed = format!("{}{}", ran.out, ran.err);
        for line in shown_text.lines() {
            assert!(printed.contains(line), "{}: {line}\nis not in\n{printed}", self.name);
        }
    }

    /// The commands of the next shell block, for a test that runs them itself.
    #[track_caller]
    pub(crate) fn lines(&mut self) -> Vec<String> {
        let commands = self.next("sh").commands();
        commands.iter().map(|command| self.filled(&command.text, command.line)).collect()
    }

    /// Runs all commands of the next shell block.
    #[track_caller]
    pub(crate) fn run(&mut self, shell: &mut Shell) -> Results {
        self.run_before("", shell)
    }

    /// Runs the commands of a shell block up to the one with this beginning, where `run` continues.
    #[track_caller]
    pub(crate) fn run_before(&mut self, beginning: &str, shell: &mut Shell) -> Results {
        if self.commands.is_empty() {
            self.commands = self.next("sh").commands().into();
        }
        let mut results = Vec::new();
        while let Some(command) = self.commands.pop_front() {
            if !beginning.is_empty() && command.text.starts_with(beginning) {
                self.commands.push_front(command);
                return Results(results);
            }
            let ran = self.command(&command, shell);
            results.push((command.text, ran));
        }
        assert!(beginning.is_empty(), "{}: no command begins with `{beginning}`", self.name);
        Results(results)
    }

    #[track_caller]
    fn command(&mut self, command: &Command, shell: &mut Shell) -> Ran {
        let place = format!("{}:{}", self.name, command.line);
        let text = self.filled(&command.text, command.line);
        let matching =
            self.behaviours.iter_mut().find(|(start, _, _)| command.text.starts_with(start));
        let behaviour = matching.map(|(_, behaviour, used)| {
            *used = true;
            &*behaviour
        });
        let (ran, expected_code) = match behaviour {
            None => (shell.run(&text), 0),
            Some(Behaviour::Exits(code)) => (shell.run(&text), *code),
            Some(Behaviour::Interrupted(until)) => {
                let ran = shell.run_until(&text, until);
                // A program may exit normally, or by the signal.
                let code = if ran.code == 130 { 130 } else { 0 };
                (ran, code)
            }
            Some(Behaviour::Background) => {
                shell.start_background(&text);
                (empty_result(), 0)
            }
            Some(Behaviour::Elsewhere) => (empty_result(), 0),
        };
        assert_eq!(
            ran.code, expected_code,
            "{place}: `{text}` does not do what the guide says. Mend the guide, or its scene in \
             crates/cli/tests/it/guides/.\nstdout:\n{}\nstderr:\n{}",
            ran.out, ran.err
        );
        ran
    }

    #[track_caller]
    fn next(&mut self, language: &str) -> Block {
        assert!(self.commands.is_empty(), "{}: {:#?} are left", self.name, self.commands);
        let block = self.blocks.pop_front();
        let block = block.unwrap_or_else(|| panic!("{}: no further `{language}`", self.name));
        assert_eq!(
            block.language, language,
            "{}:{}: another block was expected here; say in crates/cli/tests/it/guides/ what is to be \
             done with it:\n{}",
            self.name, block.line, block.text
        );
        block
    }

    #[track_caller]
    fn filled(&self, text: &str, line: usize) -> String {
        let mut text = text.to_owned();
        for (placeholder, value) in &self.fills {
            text = text.replace(placeholder, value);
        }
        let place = format!("{}:{line}", self.name);
        let code: Vec<&str> = text.lines().filter_map(|line| line.split(" # ").next()).collect();
        let unfilled = code.iter().find(|line| line.contains('…'));
        assert!(unfilled.is_none(), "{place}: nothing takes the place of `…` in {unfilled:?}");
        text
    }

    /// Asserts that all blocks, commands and behaviours were used.
    pub(crate) fn finish(self) {
        assert!(self.commands.is_empty(), "{}: not run: {:#?}", self.name, self.commands);
        assert!(self.blocks.is_empty(), "{}: no scene uses {:#?}", self.name, self.blocks);
        for (beginning, _, used) in &self.behaviours {
            assert!(used, "{}: there is no command `{beginning}` any more", self.name);
        }
    }
}

/// Whether blocks of this language are used by tests, because they are neither output nor a diagram.
pub(crate) fn is_followed(language: &str) -> bool {
    !matches!(language, "" | "text")
}

fn empty_result() -> Ran {
    Ran { code: 0, out: String::new(), err: String::new() }
}

/// Creates a directory with only the programs of this build.
pub(crate) fn programs(place: &std::path::Path) -> PathBuf {
    let programs = place.join("bin");
    std::fs::create_dir(&programs).unwrap();
    let built_programs =
        [crate::BAILIWICK, crate::KEI_AGENT_RUNTIME, crate::KEI_CAPABILITY, crate::KEI_LEDGER];
    for program in built_programs.map(std::path::Path::new) {
        let link = programs.join(program.file_name().unwrap());
        if std::fs::hard_link(program, &link).is_err() {
            std::fs::copy(program, &link).unwrap();
        }
    }
    programs
}
