//! Other spellings of a name: imports, `getattr`, `["name"]`, and what is bound to a variable.

use std::collections::HashMap;

use super::code::{Code, Value, closing};
use super::lex::{Family, Token};

/// Modules whose members start programs, write files or run text.
const MODULES: [&str; 24] = [
    "os",
    "subprocess",
    "shutil",
    "pathlib",
    "pty",
    "asyncio",
    "builtins",
    "io",
    "sys",
    "runpy",
    "importlib",
    "ctypes",
    "posix",
    "platform",
    "child_process",
    "fs",
    "vm",
    "process",
    "Bun",
    "Deno",
    "globalThis",
    "global",
    "commands",
    "popen2",
];

/// The tokens with `__import__("os")`, `require("fs")`, `getattr(os, "system")` and
/// `cp["exec"]` written as plain names.
pub(super) fn spelled_out(code: &Code) -> Vec<Token> {
    let mut tokens = code.tokens.clone();
    // From the inside out: one may stand inside of another.
    for _ in 0..4 {
        let mut changed = false;
        let mut at = 0;
        while at < tokens.len() {
            if let Some((end, with)) = plainer(code, &tokens, at) {
                tokens.splice(at..end, with);
                changed = true;
            }
            at += 1;
        }
        if !changed {
            break;
        }
    }
    tokens
}

fn plainer(code: &Code, tokens: &[Token], at: usize) -> Option<(usize, Vec<Token>)> {
    let rest = tokens.get(at..)?;
    let one = |open: usize| -> Option<(usize, String)> {
        let close = closing(tokens, open)?;
        let inner = code.split(tokens.get(open + 1..close)?);
        let first = inner.first()?;
        match code.value(first.tokens) {
            Value::Text(text) => Some((close, text)),
            Value::List(_) | Value::Unknown | Value::Many => None,
        }
    };
    let module = |text: String| {
        let text = text.strip_prefix("node:").unwrap_or(&text).to_owned();
        let pieces = text.split(['/', '.']).filter(|piece| !piece.is_empty());
        let mut with = Vec::new();
        for piece in pieces {
            if !with.is_empty() {
                with.push(Token::Sign("."));
            }
            with.push(Token::Name(piece.to_owned()));
        }
        with
    };
    match (code.family, rest) {
        (Family::Python, [Token::Name(name), Token::Sign("("), ..]) if name == "__import__" => {
            let (close, text) = one(at + 1)?;
            Some((close + 1, module(text)))
        }
        (
            Family::Python,
            [Token::Name(importlib), Token::Sign("."), Token::Name(name), Token::Sign("("), ..],
        ) if importlib == "importlib" && name == "import_module" => {
            let (close, text) = one(at + 3)?;
            Some((close + 1, module(text)))
        }
        (
            Family::Python,
            [Token::Name(sys), Token::Sign("."), Token::Name(name), Token::Sign("["), ..],
        ) if sys == "sys" && name == "modules" => {
            let (close, text) = one(at + 3)?;
            Some((close + 1, module(text)))
        }
        (Family::Python, [Token::Name(name), Token::Sign("("), ..]) if name == "getattr" => {
            let close = closing(tokens, at + 1)?;
            let arguments = code.split(tokens.get(at + 2..close)?);
            let (object, member) = (arguments.first()?, arguments.get(1)?);
            match code.value(member.tokens) {
                Value::Text(text) => {
                    let mut with = object.tokens.to_vec();
                    with.extend([Token::Sign("."), Token::Name(text)]);
                    Some((close + 1, with))
                }
                Value::List(_) | Value::Unknown | Value::Many => None,
            }
        }
        (Family::JavaScript, [Token::Name(name), Token::Sign("("), ..])
            if name == "require" || name == "import" =>
        {
            let (close, text) = one(at + 1)?;
            if text.starts_with('.') || text.starts_with('/') {
                return None;
            }
            Some((close + 1, module(text)))
        }
        (
            Family::JavaScript | Family::Lua,
            [Token::Name(_) | Token::Sign(")"), Token::Sign("["), ..],
        ) => {
            let (close, text) = one(at + 1)?;
            let before = rest.first()?.clone();
            let keyword = before.name().is_some_and(|name| {
                matches!(name, "return" | "of" | "in" | "await" | "yield" | "case" | "typeof")
            });
            let plain = !keyword && text.chars().all(|c| c.is_alphanumeric() || c == '_');
            plain.then(|| (close + 1, vec![before, Token::Sign("."), Token::Name(text)]))
        }
        _ => None,
    }
}

/// Whether a name stands for a module that matters.
pub(super) fn is_module(name: &str) -> bool {
    MODULES.contains(&name)
}

/// Names that stand for modules and members of them.
pub(super) fn aliases(code: &Code) -> HashMap<String, String> {
    let mut found = HashMap::new();
    for at in 0..code.tokens.len() {
        if code.spend(1) {
            return found;
        }
        match code.name(at) {
            Some("import") if code.family == Family::Python => python_import(code, at, &mut found),
            Some("import") if code.family == Family::JavaScript => {
                javascript_import(code, at, &mut found);
            }
            _ => {}
        }
        if code.is(at, "=") {
            bound(code, at, &mut found);
        }
    }
    found
}

/// The dotted name that begins at a place, and where it ends.
pub(super) fn dotted(code: &Code, at: usize) -> Option<(String, usize)> {
    let mut path = code.name(at)?.to_owned();
    let mut at = at + 1;
    while code.is(at, ".") {
        let Some(more) = code.name(at + 1) else { break };
        path = format!("{path}.{more}");
        at += 2;
    }
    Some((path, at))
}

fn python_import(code: &Code, at: usize, found: &mut HashMap<String, String>) {
    let from = at.checked_sub(1).and_then(|_| {
        // `from a.b import`: go back to the beginning of the name.
        let mut start = at;
        while start > 0 && !code.token(start - 1).is_some_and(|t| *t == Token::Line || t.is(";")) {
            start -= 1;
            code.spend(1);
        }
        (code.name(start) == Some("from")).then(|| dotted(code, start + 1)).flatten()
    });
    let mut here = at + 1;
    loop {
        if code.is(here, "(") || code.is(here, ",") {
            here += 1;
            continue;
        }
        if code.is(here, "*") {
            if let Some((module, _)) = &from {
                found.insert("*".to_owned(), module.clone());
            }
            return;
        }
        let in_list = code.token(here) == Some(&Token::Line)
            && here.checked_sub(1).is_some_and(|b| code.is(b, ",") || code.is(b, "("));
        if in_list {
            here += 1;
            continue;
        }
        let Some((path, end)) = dotted(code, here) else { return };
        let full = match &from {
            Some((module, _)) => format!("{module}.{path}"),
            None => path.clone(),
        };
        if code.name(end) == Some("as") {
            if let Some(name) = code.name(end + 1) {
                found.insert(name.to_owned(), full);
            }
            here = end + 2;
        } else {
            if from.is_some() {
                found.insert(path, full);
            }
            here = end;
        }
        if !code.is(here, ",") {
            return;
        }
    }
}

fn javascript_import(code: &Code, at: usize, found: &mut HashMap<String, String>) {
    let end = code.statement_end_of_import(at);
    let Some(Value::Text(module)) =
        end.and_then(|end| code.tokens.get(end..=end)).map(|tokens| code.value(tokens))
    else {
        return;
    };
    let module = module.strip_prefix("node:").unwrap_or(&module).replace("/promises", "");
    let mut here = at + 1;
    let mut inside = false;
    while let Some(token) = code.token(here) {
        match (token.sign(), token.name()) {
            ("{", _) => inside = true,
            ("}", _) => inside = false,
            (_, Some("from")) => return,
            (_, Some(name)) => {
                let full = if inside { format!("{module}.{name}") } else { module.clone() };
                let renamed = code.name(here + 1) == Some("as");
                let local = if renamed { code.name(here + 2).unwrap_or(name) } else { name };
                found.insert(local.to_owned(), full);
                if renamed {
                    here += 2;
                }
            }
            ("*", _) if code.name(here + 1) == Some("as") => here += 1,
            _ => {}
        }
        here += 1;
    }
}

impl Code {
    /// Where the name of the module stands in `import … from "module"`.
    fn statement_end_of_import(&self, at: usize) -> Option<usize> {
        let mut here = at + 1;
        while let Some(token) = self.token(here) {
            if matches!(token, Token::Text(_)) {
                return Some(here);
            }
            if token.is(";") || token.is("(") || token.is("=") {
                return None;
            }
            here += 1;
        }
        None
    }
}

/// `x = os.system`, `const {exec: run} = child_process`.
fn bound(code: &Code, at: usize, found: &mut HashMap<String, String>) {
    let mut from = at + 1;
    while matches!(code.name(from), Some("await" | "new")) || code.is(from, "(") {
        from += 1;
    }
    let Some((path, end)) = dotted(code, from) else { return };
    let ends = code.token(end).is_none_or(|token| {
        *token == Token::Line || token.is(";") || token.is(",") || token.is(")") || token.is("}")
    });
    let path = canonical(&path, found);
    let root = path.split('.').next().unwrap_or_default();
    if !ends || !(is_module(root) || is_function(code.family, &path)) {
        return;
    }
    let Some(before) = at.checked_sub(1) else { return };
    if let Some(name) = code.name(before) {
        found.insert(name.to_owned(), path);
        return;
    }
    if !code.is(before, "}") {
        return;
    }
    let mut here = before;
    while here > 0 && !code.is(here, "{") {
        here -= 1;
        let Some(name) = code.name(here) else { continue };
        if code.is(here + 1, ":") {
            if let Some(local) = code.name(here + 2) {
                found.insert(local.to_owned(), format!("{path}.{name}"));
            }
        } else if !code.is(here.saturating_sub(1), ":") {
            found.insert(name.to_owned(), format!("{path}.{name}"));
        }
    }
}

fn is_function(family: Family, path: &str) -> bool {
    match family {
        Family::Python => matches!(path, "eval" | "exec" | "open" | "compile"),
        Family::JavaScript => matches!(path, "eval" | "Function"),
        Family::Lua => {
            path.starts_with("os.") || path.starts_with("io.") || path == "io" || path == "load"
        }
        Family::R => matches!(path, "system" | "system2" | "eval"),
        Family::Perl | Family::Ruby | Family::Php | Family::Awk | Family::Other => false,
    }
}

/// A dotted name with what its beginning stands for.
pub(super) fn canonical(path: &str, aliases: &HashMap<String, String>) -> String {
    let (first, rest) = path.split_once('.').unwrap_or((path, ""));
    let first = aliases.get(first).map_or(first, String::as_str);
    let whole = if rest.is_empty() { first.to_owned() } else { format!("{first}.{rest}") };
    let prefixes =
        ["globalThis.", "global.", "builtins.", "__builtins__.", "Kernel.", "CORE.", "window."];
    let mut whole = whole.as_str();
    for prefix in prefixes {
        whole = whole.strip_prefix(prefix).unwrap_or(whole);
    }
    whole.replace("fs.promises", "fs").replace("::", ".").replace(".default", "")
}
