//! Languages of which only a few words are known: what may start a program is taken to do so.

use super::calls::{Does, Language, Scan};
use super::code::Value;
use super::lex::{Family, Token};
use crate::shell::{How, Why};

/// Any language as far as it is known here.
pub(super) const OTHER: Language = Language {
    family: Family::Other,
    words: &["system", "exec", "spawn", "rocess", "shell", "popen", "eval", "write"],
    calls: &[
        ("*system", Does::Shell),
        ("*exec", Does::First),
        ("*execute", Does::First),
        ("*spawn", Does::First),
        ("*popen", Does::Shell),
        ("*shell", Does::Shell),
        ("*callCommand", Does::Shell),
        ("*spawnCommand", Does::Shell),
        ("*readProcess", Does::Spawn),
        ("*callProcess", Does::Spawn),
        ("*rawSystem", Does::Spawn),
        ("System.cmd", Does::Spawn),
        ("exec.Command", Does::All),
        ("Command.new", Does::First),
        ("process.Command.new", Does::First),
        ("std.process.Command.new", Does::First),
        ("*execl", Does::Listed(0)),
        ("*execlp", Does::Listed(0)),
        ("*execv", Does::Vector(0)),
        ("*execvp", Does::Vector(0)),
        ("*ProcessBuilder", Does::All),
        ("os.cmd", Does::Shell),
        ("Process", Does::First),
        ("*eval", Does::Eval),
        ("*writeFile", Does::Writes(How::Change, &[0])),
        ("*write_file", Does::Writes(How::Change, &[0])),
        ("open", Does::Open),
        ("rm", Does::Writes(How::DeleteTree, &[0])),
        ("mv", Does::Moves),
        ("cp", Does::Writes(How::Change, &[1])),
    ],
};

/// Words that start programs in some language, without brackets: whatever is behind them.
const STARTERS: [&str; 9] = [
    "system",
    "callCommand",
    "spawnCommand",
    "rawSystem",
    "readProcess",
    "callProcess",
    "execute",
    "exec",
    "shell",
];

/// A text beside a word that starts programs: `"git push".execute()`, `system "git push"`,
/// `do shell script "git push"`.
pub(super) fn beside(scan: &mut Scan<'_>, at: usize) {
    let code = scan.code;
    let before = at.checked_sub(1).and_then(|before| code.name(before));
    let after = code.name(at + 2).filter(|_| code.is(at + 1, "."));
    let value = code.value(code.tokens.get(at..=at).unwrap_or_default());
    let starts = before.is_some_and(|name| STARTERS.contains(&name) || name == "script")
        || after.is_some_and(|name| name == "execute" || name == "lazyLines")
        || (code.is(at + 1, ".") && code.is(at + 2, "!"))
        || (code.is(at + 1, "!") && code.tokens.iter().any(|t| t.name() == Some("process")));
    if starts {
        match value {
            Value::Text(_) => scan.shell(&value),
            Value::List(_) | Value::Unknown | Value::Many => {
                scan.walker.hide(Why::ComputedText, "code");
            }
        }
    } else if matches!(code.token(at.wrapping_sub(1)), Some(Token::Sign("[" | "(" | ",")))
        && after.is_none()
    {
        list_that_is_run(scan, at);
    }
}

/// `["git", "push"].execute()`
fn list_that_is_run(scan: &mut Scan<'_>, at: usize) {
    let code = scan.code;
    let open = at.wrapping_sub(1);
    if !code.is(open, "[") {
        return;
    }
    let Some(close) = code.closing(open) else { return };
    if code.is(close + 1, ".") && matches!(code.name(close + 2), Some("execute")) {
        let list = code.value(code.tokens.get(open..=close).unwrap_or_default());
        scan.program(&list.fields());
    }
}
