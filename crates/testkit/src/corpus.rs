//! The corpus of tool calls and what each of them really did when it was run.
//!
//! Cases are written by hand in `crates/policy/tests/corpus/<gate>/<class>.toml`; the truth beside
//! them is recorded by `cargo run -p bailiwick-testkit --bin record-truth` and never typed. A class
//! whose name begins with `harmless` holds calls that nothing forbids; every call of every other
//! class really does what its gate forbids.

mod fixture;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

pub use fixture::fixture;

/// The path of the repository while a case is recorded; cases use it in absolute paths.
pub const ROOT: &str = "/srv/repo";
/// The home directory while a case is recorded.
pub const HOME: &str = "/home/agent";

/// The whitelist of `scope::files-whitelist`, for all cases.
pub const WHITELIST: [&str; 2] = ["src/**", "docs/*.md"];
/// The denylist of `scope::files-denylist`, for all cases.
pub const DENYLIST: [&str; 3] = ["src/generated/**", "Cargo.lock", ".github/**"];
/// The patterns of `tools::bash-allowlist`, for all cases.
pub const ALLOWED: [&str; 3] = ["^cargo( |$)", "^mkdir( |$)", "^rm -rf /tmp/"];
/// The limit of `safety::no-mass-delete`, for all cases.
pub const MAX_DELETED: usize = 10;

/// The gates that have a corpus, as their directories are named.
pub const GATES: [&str; 8] = [
    "policy_no_git_ops",
    "policy_git_read_only",
    "scope_files_whitelist",
    "scope_files_denylist",
    "scope_no_rule_edits",
    "tools_bash_allowlist",
    "safety_no_dep_bump",
    "safety_no_mass_delete",
];

/// One call, and what it did.
#[derive(Debug, Clone, PartialEq)]
pub struct Case {
    /// The directory: the gate's name with underscores.
    pub gate: String,
    /// The file: what the case is an example of.
    pub class: String,
    /// Unique in the gate.
    pub id: String,
    /// The call.
    pub call: Call,
    /// The working directory of the call, relative to the repository's root.
    pub cwd: Option<String>,
    /// Shell text that prepares the repository.
    pub before: Option<String>,
    /// Why the text of the call cannot decide this one.
    pub undecidable: Option<String>,
    /// Why a program of this case may be missing.
    pub absent: Option<String>,
    /// The recorded effects; none if it was never recorded.
    pub truth: Option<Truth>,
}

/// A tool call.
#[derive(Debug, Clone, PartialEq)]
pub enum Call {
    /// A shell command.
    Bash(String),
    /// Another tool.
    Tool {
        /// The tool's name.
        tool: String,
        /// Its input.
        input: serde_json::Value,
    },
}

/// The real effects of a case.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Truth {
    /// The case.
    pub id: String,
    /// The digest of the case as it was recorded.
    pub digest: String,
    /// Whether it did what its gate forbids, worked out from the trace.
    pub forbidden: bool,
    /// Its effects, or that nothing forbidden was observed.
    pub reason: String,
    /// The exit status of the shell; -1 if a signal ended it.
    pub status: i32,
    /// Programs that were executed, in order, without repeats.
    pub programs: Vec<Program>,
    /// Files that were written, in order, without repeats.
    pub writes: Vec<Write>,
}

/// A program that was executed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Program {
    /// `git` for git under any name, else the base name of the file.
    pub name: String,
    /// The file, after symbolic links.
    pub file: String,
    /// The file as it was named.
    pub named: String,
    /// The first four arguments, the program's own name included.
    pub argv: Vec<String>,
}

/// A file that was written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Write {
    /// Relative to the repository's root if it is inside, absolute otherwise.
    pub path: String,
    /// The kind of access.
    pub how: How,
    /// The program that did it.
    pub by: String,
}

/// The access to a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum How {
    /// Opened for writing, created or truncated.
    Written,
    /// Deleted.
    Deleted,
    /// The old name of a rename.
    RenamedFrom,
    /// The new name of a rename.
    RenamedTo,
    /// A symbolic or hard link, or a device or pipe, was created.
    Linked,
    /// Its mode was changed.
    Mode,
    /// A directory was created or removed.
    Directory,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    case: Vec<Written>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    id: String,
    command: Option<String>,
    tool: Option<String>,
    input: Option<serde_json::Value>,
    cwd: Option<String>,
    before: Option<String>,
    undecidable: Option<String>,
    absent: Option<String>,
}

impl Case {
    /// The call's digest: what a truth is bound to.
    pub fn digest(&self) -> String {
        let call = match &self.call {
            Call::Bash(command) => serde_json::json!({ "command": command }),
            Call::Tool { tool, input } => serde_json::json!({ "tool": tool, "input": input }),
        };
        let text = serde_json::json!([call, self.cwd, self.before]).to_string();
        hex(&Sha256::digest(text.as_bytes())).chars().take(16).collect()
    }

    /// Whether the class declares this call harmless.
    pub fn is_meant_harmless(&self) -> bool {
        self.class.starts_with("harmless")
    }

    /// Whether it did what its gate forbids.
    ///
    /// # Panics
    /// If the case was never recorded.
    pub fn forbidden(&self) -> bool {
        self.truth.as_ref().map(|truth| truth.forbidden).unwrap_or_else(|| {
            panic!("{}/{} has no truth: run record-truth {}", self.gate, self.id, self.gate)
        })
    }

    /// The same case with another repository and home directory.
    pub fn moved(&self, root: &Path, home: &Path) -> Self {
        let (root, home) = (root.display().to_string(), home.display().to_string());
        let text = |text: &str| text.replace(ROOT, &root).replace(HOME, &home);
        let call = match &self.call {
            Call::Bash(command) => Call::Bash(text(command)),
            Call::Tool { tool, input } => {
                Call::Tool { tool: tool.clone(), input: texts(input, &text) }
            }
        };
        Self { call, before: self.before.as_deref().map(text), ..self.clone() }
    }
}

fn texts(value: &serde_json::Value, change: &dyn Fn(&str) -> String) -> serde_json::Value {
    use serde_json::Value;
    match value {
        Value::String(text) => Value::String(change(text)),
        Value::Array(items) => items.iter().map(|item| texts(item, change)).collect(),
        Value::Object(fields) => {
            fields.iter().map(|(name, value)| (name.clone(), texts(value, change))).collect()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
    }
}

/// Bytes in hexadecimal.
pub fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").expect("a string takes everything");
        text
    })
}

/// The path of the corpus.
pub fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../policy/tests/corpus")
}

/// The file with the truth of a gate.
pub fn truth_file(gate: &str) -> PathBuf {
    directory().join("truth").join(format!("{gate}.jsonl"))
}

/// All cases of all gates.
///
/// # Panics
/// If a file cannot be read, with its name and what is wrong.
pub fn all() -> Vec<Case> {
    GATES.iter().flat_map(|gate| of(gate)).collect()
}

/// All cases of a gate, by file and in the order of the file, with their truth.
///
/// # Panics
/// If a file cannot be read, with its name and what is wrong.
pub fn of(gate: &str) -> Vec<Case> {
    let folder = directory().join(gate);
    let entries = std::fs::read_dir(&folder);
    let entries = entries.unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    files.sort();
    let truths = truths(gate);
    files.iter().flat_map(|file| read(gate, file, &truths)).collect()
}

fn read(gate: &str, file: &Path, truths: &BTreeMap<String, Truth>) -> Vec<Case> {
    let text = std::fs::read_to_string(file);
    let text = text.unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    let parsed: File =
        toml::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    let class = file.file_stem().map(|stem| stem.to_string_lossy().into_owned());
    let class = class.expect("a file has a name");
    let case = |written: Written| {
        let call = match (written.command, written.tool, written.input) {
            (Some(command), None, None) => Call::Bash(command),
            (None, Some(tool), Some(input)) => Call::Tool { tool, input },
            _ => panic!("{}: {}: either command or tool and input", file.display(), written.id),
        };
        Case {
            gate: gate.to_owned(),
            class: class.clone(),
            truth: truths.get(&written.id).cloned(),
            id: written.id,
            call,
            cwd: written.cwd,
            before: written.before,
            undecidable: written.undecidable,
            absent: written.absent,
        }
    };
    parsed.case.into_iter().map(case).collect()
}

fn truths(gate: &str) -> BTreeMap<String, Truth> {
    let file = truth_file(gate);
    let Ok(text) = std::fs::read_to_string(&file) else { return BTreeMap::new() };
    let truth = |line: &str| -> (String, Truth) {
        let truth: Truth = serde_json::from_str(line)
            .unwrap_or_else(|error| panic!("{}: {error}: {line}", file.display()));
        (truth.id.clone(), truth)
    };
    text.lines().map(truth).collect()
}
