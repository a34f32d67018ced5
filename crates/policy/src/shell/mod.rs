//! The effects of a shell command: what it runs and writes.
//!
//! A real parser and an abstract interpreter: variables, arrays, functions and positional parameters are tracked as
//! far as the text determines them, branches are joined, and programs that start other programs are analysed. What
//! the text does not determine is recorded as hidden; a reading without hidden parts names every program that the
//! shell itself would start.
//!
//! ```text
//!  text ─▶ guard ─▶ parse ─▶ walk ◀──▶ expand          words to fields
//!                             │  ◀───── wrappers        env, timeout, xargs, bash -c …
//!                             │  ◀───── inline          python -c, awk '…', files written before
//!                             ▼
//!                          ShellEffects { runs, writes, scripts_not_in_text, hidden }
//! ```

mod ansi_c;
mod assignments;
mod budget;
mod builtins;
mod compound;
mod documents;
mod environment;
mod exit_states;
mod expand;
mod field;
mod guard;
mod inline;
mod parse;
mod piped;
mod plain;
mod printed;
mod redirect;
mod shape;
mod shells;
pub(crate) mod variables;
mod walk;
mod working_directories;
mod wrapper_table;
mod wrappers;
mod writers;
mod xargs;

pub use field::{Field, Shape};
pub use parse::hide_contained_panics;
pub use writers::is_spelt_through;

/// What a command runs and writes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ShellEffects {
    /// Programs and builtins that it starts, or may start.
    pub runs: Vec<ProgramRun>,
    /// Files that it writes, or may write: by redirection, or by a program that is known to.
    pub writes: Vec<Write>,
    /// Scripts that it runs and whose text is not here.
    pub scripts_not_in_text: Vec<Field>,
    /// Programs that are named by a path, and that path as seen from where the command starts.
    pub programs_by_path: Vec<(String, String)>,
    /// Variables that it sets, for itself or for a program.
    pub sets: Vec<VariableSet>,
    /// Names that it gives to something else.
    pub links: Vec<LinkPlace>,
    /// The copies that contain links.
    pub copies: Vec<CopyWithLinks>,
    /// What the text does not determine.
    pub hidden: Vec<Hidden>,
}

/// The place of a link that a command creates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LinkPlace {
    /// At this path: absolute, or relative to where the whole command starts.
    Path(String),
    /// At this path below the home.
    UnderHome(String),
    /// In a directory that is fresh.
    Temporary,
}

/// A copy in which links stay links. Only a lookup of the source shows whether there are any.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CopyWithLinks {
    /// The source; `None` if unknown.
    pub from: Option<LinkPlace>,
    /// The place of the copy; `None` if unknown.
    pub at: Option<LinkPlace>,
    /// Whether it is there only if no directory was there before, into which it would go instead.
    pub unless_directory: bool,
    /// The writes of the copy itself, before any link exists.
    pub own: Vec<Field>,
}

/// A variable that is set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VariableSet {
    pub name: String,
    /// To what, if the text decides that.
    pub value: Option<String>,
}

/// A program or builtin with its arguments.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ProgramRun {
    /// Name and arguments.
    pub argv: Vec<Field>,
    /// Programs that start it, outermost first.
    pub through: Vec<String>,
    /// Whether the shell itself does it.
    pub builtin: bool,
}

impl ProgramRun {
    /// The program as written, if the text determines it.
    pub fn program(&self) -> Option<String> {
        self.argv.first()?.known()
    }

    /// The name of the program without its directory, which the text need not decide.
    pub fn name(&self) -> Option<String> {
        self.argv.first()?.program_name()
    }
}

/// A file that is written.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Write {
    /// The path as written, relative to one of the directories.
    pub path: Field,
    /// The possible directories at that time, the most likely first.
    pub from: Vec<Directory>,
    /// The kind of change.
    pub kind: WriteKind,
    /// The program, or `>` for a redirection.
    pub by: String,
    /// Of what lies below, only files whose names this glob matches.
    pub named: Option<String>,
    /// Only if a file is there before the command: what a search would find.
    pub only_existing: bool,
}

/// The kind of change of a written file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum WriteKind {
    /// It is created or changed.
    Change,
    /// Anything below the path may be created or changed.
    WriteBelow,
    /// It is deleted or moved away.
    Delete,
    /// It is deleted or moved away with everything below it.
    DeleteTree,
}

/// A directory in which a command may be.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Directory {
    /// Absolute, or relative to where the whole command starts; `None` if that is unknown.
    pub path: Option<String>,
    /// Only reached if this directory cannot be entered.
    pub unless: Option<String>,
}

impl Directory {
    /// The initial directory of the whole command.
    pub fn start() -> Self {
        Self { path: Some(String::new()), unless: None }
    }
}

/// An effect that the text does not determine.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Hidden {
    pub why: HiddenReason,
    /// The piece of text.
    pub text: String,
}

/// Why the text does not determine an effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum HiddenReason {
    /// A character that shells and parsers take differently.
    OddCharacter,
    /// It does not parse, or not in a way that is sure.
    Unreadable,
    /// It is too long, too deep or too much.
    TooComplex,
    /// The name of the program is worked out when it runs.
    ComputedName,
    /// The text of a script is worked out when it runs.
    ComputedText,
    /// The path of a file that is written is worked out when it runs.
    ComputedPath,
    /// The path of a file that is deleted is worked out when it runs.
    ComputedDeletion,
    /// A shell reads what another program prints.
    PipedIntoShell,
    /// A shell or interpreter that waits for interactive input.
    Interactive,
    /// An option of a program that starts others, which is not known here.
    UnknownOption,
    /// A construct that can run text from elsewhere.
    RunsText,
}

impl HiddenReason {
    /// A stable name for programs.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::OddCharacter => "odd-character",
            Self::Unreadable => "unreadable",
            Self::TooComplex => "too-complex",
            Self::ComputedName => "computed-name",
            Self::ComputedText => "computed-text",
            Self::ComputedPath => "computed-path",
            Self::ComputedDeletion => "computed-deletion",
            Self::PipedIntoShell => "piped-into-shell",
            Self::Interactive => "interactive",
            Self::UnknownOption => "unknown-option",
            Self::RunsText => "runs-text",
        }
    }

    /// The reason in words.
    pub fn words(self) -> &'static str {
        match self {
            Self::OddCharacter => "a character that shells read differently",
            Self::Unreadable => "cannot be read for certain",
            Self::TooComplex => "too long or too deep",
            Self::ComputedName => "the program is only known when it runs",
            Self::ComputedText => "what would run is only known when it runs",
            Self::ComputedPath => "the file that is written is only known when it runs",
            Self::ComputedDeletion => "the file that is deleted is only known when it runs",
            Self::PipedIntoShell => "a shell would run what another program prints",
            Self::Interactive => "waits for input that the gate cannot see",
            Self::UnknownOption => "an unknown option, which may hide a program",
            Self::RunsText => "can run text from elsewhere",
        }
    }
}

/// Reads a command as bash would.
pub fn read(text: &str) -> ShellEffects {
    let mut walker = walk::Walker::default();
    walker.text(text);
    walker.finish()
}
