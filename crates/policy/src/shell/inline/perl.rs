//! Perl: what of it starts programs, writes files and runs text.

use super::calls::{Does, Language, Scan};
use super::code::{Argument, Value};
use super::lex::{Family, Part, Token};
use crate::shell::{How, Why};

/// Perl as far as it is known here.
pub(super) const PERL: Language = Language {
    family: Family::Perl,
    words: &[
        "system", "exec", "qx", "`", "open", "eval", "unlink", "rename", "syscall", "fork",
        "mkdir", "rmdir",
    ],
    calls: &[
        ("*system", Does::All),
        ("exec", Does::All),
        ("*open2", Does::Listed(2)),
        ("*open3", Does::Listed(3)),
        ("readpipe", Does::Shell),
        ("IPC.Run.run", Does::First),
        ("syscall", Does::Hidden(Why::ComputedName)),
        ("eval", Does::Eval),
        ("open", Does::PerlOpen),
        ("unlink", Does::WritesAll(How::Delete)),
        ("rmdir", Does::WritesAll(How::Delete)),
        ("mkdir", Does::Writes(How::Change, &[0])),
        ("truncate", Does::Writes(How::Change, &[0])),
        ("chmod", Does::Nothing),
        ("rename", Does::Moves),
        ("symlink", Does::Writes(How::Change, &[1])),
        ("link", Does::Writes(How::Change, &[1])),
        ("*copy", Does::Writes(How::Change, &[1])),
        ("*move", Does::Moves),
        ("*remove_tree", Does::WritesAll(How::DeleteTree)),
        ("*rmtree", Does::WritesAll(How::DeleteTree)),
        ("*make_path", Does::WritesAll(How::Change)),
        ("*mkpath", Does::WritesAll(How::Change)),
        ("*write_file", Does::Writes(How::Change, &[0])),
    ],
};

/// `open(my $file, '>', $path)`, `open(F, "git push |")`.
pub(super) fn open(scan: &mut Scan<'_>, arguments: &[Argument<'_>]) {
    let Some(mode) = arguments.get(1) else { return };
    let value = scan.code.value(mode.tokens);
    let rest: Vec<Value> =
        arguments.iter().skip(2).map(|one| scan.code.value(one.tokens)).collect();
    if let Some(path) = rest.first() {
        let Some(mode) = value.text() else {
            return scan.walker.hide(Why::ComputedName, "open");
        };
        if mode.contains('|') {
            match rest.as_slice() {
                [one] => scan.shell(one),
                several => scan.program(&Value::List(several.to_vec()).fields()),
            }
        } else if mode.contains('>') || mode.contains('+') {
            // A reference is a variable in memory.
            let memory = arguments
                .get(2)
                .is_some_and(|one| matches!(one.tokens.first(), Some(Token::Sign("other"))));
            if !memory {
                scan.writes(path, How::Change);
            }
        }
        return;
    }
    let (first, last) = match mode.tokens {
        [Token::Text(parts)] => (edge(parts.first()), edge(parts.last())),
        _ => (String::new(), String::new()),
    };
    match value {
        Value::Text(text) => {
            let text = text.trim();
            if let Some(command) = text.strip_prefix('|').or_else(|| text.strip_suffix('|')) {
                scan.shell(&Value::Text(command.to_owned()));
            } else if text.contains('>') || text.starts_with('+') {
                let path = text.trim_start_matches(['>', '+', '<', ' ']);
                if !path.starts_with('&') {
                    scan.writes(&Value::Text(path.to_owned()), How::Change);
                }
            }
        }
        Value::List(_) | Value::Unknown | Value::Many => {
            if last.trim_end().ends_with('|') || first.trim_start().starts_with('|') {
                scan.walker.hide(Why::ComputedText, "open");
            } else if first.trim_start().starts_with(['>', '+']) {
                scan.writes(&Value::Unknown, How::Change);
            } else if !first.trim_start().starts_with('<') {
                scan.walker.hide(Why::ComputedName, "open");
            }
        }
    }
}

fn edge(part: Option<&Part>) -> String {
    match part {
        Some(Part::Text(text)) => text.clone(),
        Some(Part::Hole(_)) | None => String::new(),
    }
}
