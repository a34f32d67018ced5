//! How deep a parser would have to go: refused here, where it is counted, not in its stack.

use proc_macro2::{Delimiter, TokenStream, TokenTree};

/// How deep brackets may lie in one another.
const NESTING: usize = 128;
/// How many tokens may lead one into the other without an end of a statement, an item or an entry.
const CHAIN: usize = 4_000;

/// Words behind which `!` is no macro.
const BEFORE_NOT: [&str; 17] = [
    "return", "break", "in", "if", "while", "match", "else", "as", "move", "await", "yield", "let",
    "mut", "const", "static", "become", "do",
];

/// Why this source is too deep for a parser, if it is.
pub(super) fn too_deep(tokens: TokenStream) -> Option<String> {
    match chain(tokens, 0) {
        None => Some(format!("brackets lie more than {NESTING} deep in one another")),
        Some(longest) if longest > CHAIN => {
            Some(format!("an expression goes on for more than {CHAIN} tokens"))
        }
        Some(_) => None,
    }
}

/// The longest chain of tokens that could be nested into one another; nothing if too deep.
fn chain(tokens: TokenStream, depth: usize) -> Option<usize> {
    if depth > NESTING {
        return None;
    }
    let (mut longest, mut here, mut inside) = (0, 0, 0);
    let mut last = Last::default();
    for token in tokens {
        if last.ends_before(&token) {
            (here, inside) = (0, 0);
        }
        match &token {
            TokenTree::Group(group) => {
                let within = chain(group.stream(), depth + 1)?;
                if last.is_attribute(group.delimiter()) {
                    here -= 1;
                } else {
                    here += 1;
                    // What stands in a macro stays a list of tokens.
                    inside = if last.is_macro() { inside } else { within.max(inside) };
                }
            }
            TokenTree::Punct(_) | TokenTree::Ident(_) | TokenTree::Literal(_) => here += 1,
        }
        longest = longest.max(here + inside);
        last.push(token);
    }
    Some(longest)
}

/// The tokens in front of the present one.
#[derive(Default)]
struct Last {
    before: Option<String>,
    one: Option<String>,
    brace: bool,
}

impl Last {
    fn push(&mut self, token: TokenTree) {
        self.brace = false;
        let text = match token {
            TokenTree::Group(group) => {
                self.brace = group.delimiter() == Delimiter::Brace;
                String::new()
            }
            TokenTree::Ident(ident) => ident.to_string(),
            TokenTree::Punct(punct) => punct.as_char().to_string(),
            TokenTree::Literal(_) => String::new(),
        };
        self.before = self.one.replace(text);
    }

    /// Whether an item, a statement or an entry ends before this token.
    fn ends_before(&self, token: &TokenTree) -> bool {
        if matches!(self.one.as_deref(), Some("," | ";")) {
            return true;
        }
        self.brace
            && match token {
                TokenTree::Ident(ident) => ident != "else" && ident != "as",
                TokenTree::Punct(punct) => punct.as_char() == '#',
                TokenTree::Literal(_) => true,
                TokenTree::Group(_) => false,
            }
    }

    fn is_attribute(&self, delimiter: Delimiter) -> bool {
        self.one.as_deref() == Some("#") && delimiter == Delimiter::Bracket
    }

    fn is_macro(&self) -> bool {
        let word = |word: &str| {
            word.starts_with(|first: char| first.is_alphabetic() || first == '_')
                && !BEFORE_NOT.contains(&word)
        };
        self.one.as_deref() == Some("!") && self.before.as_deref().is_some_and(word)
    }
}
