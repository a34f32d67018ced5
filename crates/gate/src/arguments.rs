//! The gate's arguments. All input comes from them, none from the environment.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use bailiwick_policy::dialects::{AllowedReply, Dialect};
use bailiwick_policy::facts::Enforcement;

use crate::error::ArgumentError;

/// The default deadline: earlier than the hook timeout of any CLI.
pub(crate) const DEADLINE: Duration = Duration::from_secs(5);

/// How the gate is called.
pub const USAGE: &str = "\
Judge one tool call of a coding agent: the hook's payload on standard input.

Usage:
  bailiwick-gate --dialect NAME --policy FILE --digest SHA256 --root DIR [--log FILE]
  bailiwick-gate --dialect NAME --socket PATH

Exit 0 allows the call, exit 2 denies it with the reason on standard error.
Every failure is a denial.

Options:
  --dialect NAME       claude, codex, gemini or opencode
  --policy FILE        the compiled policy to decide by
  --digest SHA256      the policy's digest; another policy is refused
  --root DIR           the workspace; `auto`: the repository around the gate's directory
  --log FILE           append every decision to this file
  --sandboxed          shell commands run in a sandbox that enforces the limits on paths
  --sandbox-record DIR the same if a file in DIR says so for the agent that started the gate
  --socket PATH        let the supervisor that listens on this socket decide
  --announce           only tell the supervisor that the gate is installed
  --explicit-allow     answer an allowed call explicitly (for Claude Code in dontAsk mode)
  --mcp-server NAME    an MCP server of OpenCode, whose tools are called NAME_tool (repeatable)
  --deadline-ms N      deny if the decision takes longer [default: 5000]
  -h, --help           print this

Example:
  echo '{\"tool_name\":\"Bash\",\"tool_input\":{\"command\":\"git push\"},\"cwd\":\"/repo\"}' |
    bailiwick-gate --dialect claude --policy p.json --digest 6ab1… --root /repo
";

#[derive(Debug)]
pub(crate) enum Invocation {
    Help,
    Decide(Options),
}

#[derive(Debug)]
pub(crate) struct Options {
    pub(crate) dialect: Dialect,
    pub(crate) allowing: AllowedReply,
    pub(crate) announces: bool,
    pub(crate) servers: Vec<String>,
    pub(crate) deadline: Duration,
    pub(crate) mode: Mode,
}

/// Who decides.
#[derive(Debug)]
pub(crate) enum Mode {
    Standalone(Standalone),
    Forward(PathBuf),
}

/// The arguments for a decision without a supervisor.
#[derive(Debug)]
pub(crate) struct Standalone {
    pub(crate) policy: PathBuf,
    pub(crate) digest: String,
    /// `None` is the repository around the gate's directory.
    pub(crate) root: Option<PathBuf>,
    pub(crate) log: Option<PathBuf>,
    /// Who enforces the limits on paths for shell commands.
    pub(crate) commands: Enforcement,
    /// A directory with a file that confirms enforcement by the sandbox.
    pub(crate) record: Option<PathBuf>,
}

/// Parses the arguments; an unknown one is an error.
pub(crate) fn parse(
    arguments: impl Iterator<Item = OsString>,
) -> Result<Invocation, ArgumentError> {
    let mut arguments = arguments;
    let (mut dialect, mut policy, mut digest, mut root, mut log, mut socket) =
        (None, None, None, None, None, None);
    let mut allowing = AllowedReply::Silent;
    let mut announces = false;
    let (mut commands, mut record) = (Enforcement::TextOnly, None);
    let mut servers = Vec::new();
    let mut deadline = DEADLINE;
    while let Some(argument) = arguments.next() {
        let name = argument.to_str().ok_or(ArgumentError::NotUtf8)?;
        let mut value = || arguments.next().ok_or_else(|| ArgumentError::NoValue(name.to_owned()));
        match name {
            "-h" | "--help" => return Ok(Invocation::Help),
            "--dialect" => {
                let name = text(value()?)?;
                let known = Dialect::parse(&name);
                dialect = Some(known.ok_or(ArgumentError::Dialect(name))?);
            }
            "--policy" => policy = Some(PathBuf::from(value()?)),
            "--digest" => digest = Some(text(value()?)?),
            "--root" => root = Some(PathBuf::from(value()?)),
            "--log" => log = Some(PathBuf::from(value()?)),
            "--socket" => socket = Some(PathBuf::from(value()?)),
            "--mcp-server" => servers.push(text(value()?)?),
            "--announce" => announces = true,
            "--sandboxed" => commands = Enforcement::Kernel,
            "--sandbox-record" => record = Some(PathBuf::from(value()?)),
            "--explicit-allow" => allowing = AllowedReply::Explicit,
            "--deadline-ms" => {
                let number = text(value()?)?.parse().ok().filter(|number| *number > 0);
                deadline = Duration::from_millis(number.ok_or(ArgumentError::Deadline)?);
            }
            other => return Err(ArgumentError::Unknown(other.to_owned())),
        }
    }
    let dialect = dialect.ok_or(ArgumentError::Missing("--dialect"))?;
    let mode = match (socket, policy) {
        (Some(socket), None) => Mode::Forward(socket),
        (Some(_), Some(_)) => return Err(ArgumentError::SocketAndPolicy),
        (None, None) => return Err(ArgumentError::Missing("--policy")),
        (None, Some(policy)) => {
            let root = root.ok_or(ArgumentError::Missing("--root"))?;
            Mode::Standalone(Standalone {
                policy,
                digest: digest.ok_or(ArgumentError::Missing("--digest"))?,
                root: (root.as_os_str() != "auto").then_some(root),
                log,
                commands,
                record,
            })
        }
    };
    if announces && !matches!(mode, Mode::Forward(_)) {
        return Err(ArgumentError::AnnounceWithoutSocket);
    }
    Ok(Invocation::Decide(Options { dialect, allowing, announces, servers, deadline, mode }))
}

fn text(value: OsString) -> Result<String, ArgumentError> {
    value.into_string().map_err(|_| ArgumentError::NotUtf8)
}
