//! A guide that is followed from its first block to its last.

use std::collections::VecDeque;
use std::path::PathBuf;

use bailiwick_testkit::scratch::Ran;

use super::markdown::{Block, Command, blocks};
use super::shell::Shell;

/// How a command goes, where it does not simply end with 0.
enum Manner {
    /// It ends with this code.
    Exits(i32),
    /// It runs for as long as the shell does.
    Background,
    /// A person watches until this text is shown, and presses Ctrl-C.
    Interrupted(String),
    /// It is not run here: why.
    Elsewhere,
}

/// A guide, and what takes the place of its placeholders.
pub(crate) struct Guide {
    name: String,
    blocks: VecDeque<Block>,
    /// What the guide shows as printed by commands.
    shown: Vec<String>,
    /// What is left of the shell block that is being run.
    commands: VecDeque<Command>,
    fills: Vec<(String, String)>,
    manners: Vec<(String, Manner, bool)>,
}

/// What the commands of a block did.
pub(crate) struct Results(Vec<(String, Ran)>);

impl Results {
    /// What the command that begins like this did.
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
            manners: Vec::new(),
        }
    }

    /// From here on this text stands for a placeholder.
    pub(crate) fn fill(&mut self, placeholder: &str, value: impl Into<String>) {
        self.fills.retain(|(other, _)| other != placeholder);
        self.fills.push((placeholder.to_owned(), value.into()));
    }

    /// The command that begins like this ends with this code.
    pub(crate) fn exits(&mut self, beginning: &str, code: i32) {
        self.manners.push((beginning.to_owned(), Manner::Exits(code), false));
    }

    /// The command that begins like this runs until the scene is over.
    pub(crate) fn background(&mut self, beginning: &str) {
        self.manners.push((beginning.to_owned(), Manner::Background, false));
    }

    /// The command that begins like this is ended with Ctrl-C once it has shown a text.
    pub(crate) fn interrupted(&mut self, beginning: &str, text: &str) {
        let manner = Manner::Interrupted(text.to_owned());
        self.manners.push((beginning.to_owned(), manner, false));
    }

    /// The command that begins like this is run by another step of CI, or cannot be run in one.
    pub(crate) fn elsewhere(&mut self, beginning: &str, why: &str) {
        assert!(!why.is_empty());
        self.manners.push((beginning.to_owned(), Manner::Elsewhere, false));
    }

    /// The text of the next block, which must have this language.
    #[track_caller]
    pub(crate) fn text(&mut self, language: &str) -> String {
        let block = self.next(language);
        self.filled(&block.text, block.line)
    }

    /// The text of the first block of this language, though others come before it.
    #[track_caller]
    pub(crate) fn later_text(&mut self, language: &str) -> String {
        let place = self.blocks.iter().position(|block| block.language == language);
        let block = place.and_then(|place| self.blocks.remove(place));
        let block = block.unwrap_or_else(|| panic!("{}: no `{language}`", self.name));
        self.filled(&block.text, block.line)
    }

    /// A command has printed every line of the text that the guide shows and that begins like this.
    #[track_caller]
    pub(crate) fn has_shown(&self, beginning: &str, ran: &Ran) {
        let found = self.shown.iter().find(|text| text.starts_with(beginning));
        let found = found.unwrap_or_else(|| panic!("{} shows no `{beginning}`", self.name));
        let printed = format!("{}{}", ran.out, ran.err);
        for line in found.lines() {
            assert!(printed.contains(line), "{}: {line}\nis not in\n{printed}", self.name);
        }
    }

    /// The commands of the next shell block, for a scene that runs them itself.
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

    /// Runs the commands of a shell block up to the one that begins like this; `run` goes on there.
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
        let known = self.manners.iter_mut().find(|(start, _, _)| command.text.starts_with(start));
        let manner = known.map(|(_, manner, used)| {
            *used = true;
            &*manner
        });
        let (ran, wanted) = match manner {
            None => (shell.run(&text), 0),
            Some(Manner::Exits(code)) => (shell.run(&text), *code),
            Some(Manner::Interrupted(until)) => {
                let ran = shell.run_until(&text, until);
                // A program may end by itself, or by the signal.
                let code = if ran.code == 130 { 130 } else { 0 };
                (ran, code)
            }
            Some(Manner::Background) => {
                shell.start_background(&text);
                (nothing(), 0)
            }
            Some(Manner::Elsewhere) => (nothing(), 0),
        };
        assert_eq!(
            ran.code, wanted,
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
        let open = code.iter().find(|line| line.contains('…'));
        assert!(open.is_none(), "{place}: nothing takes the place of `…` in {open:?}");
        text
    }

    /// Everything must have been used.
    pub(crate) fn finish(self) {
        assert!(self.commands.is_empty(), "{}: not run: {:#?}", self.name, self.commands);
        assert!(self.blocks.is_empty(), "{}: no scene uses {:#?}", self.name, self.blocks);
        for (beginning, _, used) in &self.manners {
            assert!(used, "{}: there is no command `{beginning}` any more", self.name);
        }
    }
}

/// Whether blocks of this language are something to run or to use: not output, not a drawing.
pub(crate) fn is_followed(language: &str) -> bool {
    !matches!(language, "" | "text")
}

fn nothing() -> Ran {
    Ran { code: 0, out: String::new(), err: String::new() }
}

/// Where the programs of a test build are, each under its own name and nothing beside them.
pub(crate) fn programs(place: &std::path::Path) -> PathBuf {
    let programs = place.join("bin");
    std::fs::create_dir(&programs).unwrap();
    let ours =
        [crate::BAILIWICK, crate::KEI_AGENT_RUNTIME, crate::KEI_CAPABILITY, crate::KEI_LEDGER];
    for program in ours.map(std::path::Path::new) {
        let link = programs.join(program.file_name().unwrap());
        if std::fs::hard_link(program, &link).is_err() {
            std::fs::copy(program, &link).unwrap();
        }
    }
    programs
}
