//! What a shell command runs and writes.
//!
//! A real parser and an abstract interpreter: variables, arrays, functions and positional
//! parameters are followed as far as the text decides them, branches are joined, and programs that
//! start other programs are looked through. What the text does not decide is said to be hidden; a
//! reading that hides nothing names every program that the shell itself would start.
//!
//! ```text
//!  text ─▶ guard ─▶ parse ─▶ walk ◀──▶ expand          words to fields
//!                             │  ◀───── wrappers        env, timeout, xargs, bash -c …
//!                             ▼
//!                          Reading { runs, writes, unseen, hidden }
//! ```

mod ansi_c;
mod builtins;
mod environment;
mod expand;
mod field;
mod guard;
mod parse;
mod redirect;
mod shells;
mod walk;
mod ways_out;
mod wrappers;

pub use field::Field;

/// What a command runs and writes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reading {
    /// Programs and builtins that it starts, or may start.
    pub runs: Vec<Run>,
    /// Files that it writes by redirection.
    pub writes: Vec<Field>,
    /// Scripts that it runs and whose text is not here.
    pub unseen: Vec<Field>,
    /// What cannot be read off the text.
    pub hidden: Vec<Hidden>,
}

/// A program or builtin with its arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Run {
    /// Name and arguments.
    pub argv: Vec<Field>,
    /// Programs that start it, outermost first.
    pub through: Vec<String>,
    /// Whether the shell itself does it.
    pub builtin: bool,
}

impl Run {
    /// The program as it is named, if the text decides that.
    pub fn program(&self) -> Option<String> {
        self.argv.first()?.known()
    }
}

/// Something that cannot be read off the text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hidden {
    /// Why.
    pub why: Why,
    /// The piece of text.
    pub text: String,
}

/// Why something cannot be read off the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
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
    /// A shell reads what another program prints.
    PipedIntoShell,
    /// A shell or interpreter that waits for somebody to type.
    Interactive,
    /// An option of a program that starts others, which is not known here.
    UnknownOption,
    /// A construct that can run text from elsewhere.
    RunsText,
}

/// Reads a command as bash would.
pub fn read(text: &str) -> Reading {
    let mut walker = walk::Walker::default();
    walker.text(text);
    walker.finish()
}
