//! Refuses source that is nested too deeply, before the recursive parser overflows its stack.

use proc_macro2::{Delimiter, TokenStream, TokenTree};

use super::MeasureError;

/// How deep brackets may be nested.
const MAX_NESTING: usize = 128;
/// How many tokens may follow each other without the end of a statement, an item or an entry.
const MAX_CHAIN_TOKENS: usize = 4_000;

/// Keywords after which `!` is an operator, not a macro call.
const KEYWORDS_BEFORE_NOT: [&str; 17] = [
    "return", "break", "in", "if", "while", "match", "else", "as", "move", "await", "yield", "let",
    "mut", "const", "static", "become", "do",
];

/// Fails if the parser would have to recurse too deeply.
pub(super) fn check(tokens: TokenStream) -> Result<(), MeasureError> {
    match longest_chain(tokens, 0) {
        None => Err(MeasureError::NestedTooDeep(MAX_NESTING)),
        Some(longest) if longest > MAX_CHAIN_TOKENS => {
            Err(MeasureError::ExpressionTooLong(MAX_CHAIN_TOKENS))
        }
        Some(_) => Ok(()),
    }
}

/// The longest chain of tokens that could nest into each other; none if brackets are too deep.
fn longest_chain(tokens: TokenStream, depth: usize) -> Option<usize> {
    if depth > MAX_NESTING {
        return None;
    }
    let (mut longest, mut here, mut inside) = (0, 0, 0);
    let mut previous = Previous::default();
    for token in tokens {
        if previous.ends_before(&token) {
            (here, inside) = (0, 0);
        }
        match &token {
            TokenTree::Group(group) => {
                let within = longest_chain(group.stream(), depth + 1)?;
                if previous.is_attribute(group.delimiter()) {
                    here -= 1;
                } else {
                    here += 1;
                    // The arguments of a macro are not parsed.
                    inside = if previous.is_macro() { inside } else { within.max(inside) };
                }
            }
            TokenTree::Punct(_) | TokenTree::Ident(_) | TokenTree::Literal(_) => here += 1,
        }
        longest = longest.max(here + inside);
        previous.push(token);
    }
    Some(longest)
}

/// The tokens before the current one.
#[derive(Default)]
struct Previous {
    second_last: Option<String>,
    last: Option<String>,
    is_brace: bool,
}

impl Previous {
    fn push(&mut self, token: TokenTree) {
        self.is_brace = false;
        let text = match token {
            TokenTree::Group(group) => {
                self.is_brace = group.delimiter() == Delimiter::Brace;
                String::new()
            }
            TokenTree::Ident(ident) => ident.to_string(),
            TokenTree::Punct(punct) => punct.as_char().to_string(),
            TokenTree::Literal(_) => String::new(),
        };
        self.second_last = self.last.replace(text);
    }

    /// Whether an item, a statement or an entry ends before this token.
    fn ends_before(&self, token: &TokenTree) -> bool {
        if matches!(self.last.as_deref(), Some("," | ";")) {
            return true;
        }
        self.is_brace
            && match token {
                TokenTree::Ident(ident) => ident != "else" && ident != "as",
                TokenTree::Punct(punct) => punct.as_char() == '#',
                TokenTree::Literal(_) => true,
                TokenTree::Group(_) => false,
            }
    }

    fn is_attribute(&self, delimiter: Delimiter) -> bool {
        self.last.as_deref() == Some("#") && delimiter == Delimiter::Bracket
    }

    fn is_macro(&self) -> bool {
        let word = |word: &str| {
            word.starts_with(|first: char| first.is_alphabetic() || first == '_')
                && !KEYWORDS_BEFORE_NOT.contains(&word)
        };
        self.last.as_deref() == Some("!") && self.second_last.as_deref().is_some_and(word)
    }
}
