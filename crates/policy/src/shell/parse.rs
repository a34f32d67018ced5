//! Text to syntax tree, and the pieces of words; brush-parser with the options of a plain `bash -c`.

use std::cell::Cell;

use brush_parser::word::{self, WordPiece};
use brush_parser::{ParserOptions, Token, ast, parse_tokens, uncached_tokenize_str};

use super::{documents, guard, plain};

pub(super) fn options() -> ParserOptions {
    ParserOptions { enable_extended_globbing: false, ..ParserOptions::default() }
}

/// A text that was parsed.
pub(super) struct Program {
    pub(super) tree: ast::Program,
    /// The numbers of the documents whose markers were found.
    pub(super) documents: Vec<usize>,
}

/// The syntax tree of a text; `None` if it does not parse.
pub(super) fn program(text: &str) -> Option<Program> {
    if let Some(tree) = plain::program(text) {
        return Some(Program { tree, documents: Vec::new() });
    }
    let options = options();
    // At the end of a line that opens a document with an empty end, the parser would never stop if
    // the text stopped there. Two ends of lines, because the first may be escaped.
    let text = format!("{text}\n\n");
    let tokens = contained(|| uncached_tokenize_str(&text, &options.tokenizer_options()).ok())?;
    if is_deep(&tokens) {
        return None;
    }
    let documents = tokens.windows(3).filter_map(document).collect();
    let tree = contained(|| parse_tokens(&tokens, &options).ok())?;
    Some(Program { tree, documents })
}

/// The number of a document: its marker follows `<<` and its delimiter.
fn document(tokens: &[Token]) -> Option<usize> {
    let [sign, _, body] = tokens else { return None };
    matches!(sign.to_str(), "<<" | "<<-").then(|| documents::number(body.to_str())).flatten()
}

thread_local! {
    /// Whether a panic of this thread would be the parser's, and be caught.
    static CONTAINED: Cell<bool> = const { Cell::new(false) };
}

/// The parser panics at some texts that do not end; those do not parse.
fn contained<T>(parse: impl FnOnce() -> Option<T>) -> Option<T> {
    let before = CONTAINED.replace(true);
    // Nothing that a panic could leave half done outlives it.
    let parsed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(parse)).ok().flatten();
    CONTAINED.set(before);
    parsed
}

/// Hides panics of the parser, which are caught and mean "does not parse", from the current panic hook. All others
/// reach it as before.
pub fn hide_contained_panics() {
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if !CONTAINED.get() {
            hook(panic);
        }
    }));
}

/// Whether parentheses are nested so deeply that the parser, which tries every way at each of them,
/// would take too long.
fn is_deep(tokens: &[Token]) -> bool {
    const MAX_DEPTH: usize = 14;
    // A `case` closes brackets that were not opened, so nothing counts as closed there.
    let case = tokens.iter().any(|token| token.to_str() == "case");
    let (mut now, mut most) = (0_usize, 0);
    for pair in tokens.windows(2) {
        let texts = [pair.first(), pair.last()].map(|token| token.map_or("", Token::to_str));
        match texts {
            // A function.
            ["(", ")"] => now += usize::from(!case),
            ["(", _] => now += 1,
            [")", _] if !case => now = now.saturating_sub(1),
            _ => {}
        }
        most = most.max(now);
    }
    most > MAX_DEPTH
}

/// The pieces of a word; `None` if it does not parse or not in a way that is sure.
pub(super) fn word(text: &str) -> Option<Vec<WordPiece>> {
    if guard::is_tangled(text) || guard::has_long_number(text) {
        return None;
    }
    let pieces = contained(|| word::parse(text, &options()).ok())?;
    let pieces: Vec<WordPiece> = pieces.into_iter().map(|piece| piece.piece).collect();
    pieces.iter().all(is_sure).then_some(pieces)
}

/// The pieces of a here document, in which quotes mean nothing.
pub(super) fn here_document(text: &str) -> Option<Vec<WordPiece>> {
    if guard::is_tangled(text) || guard::has_long_number(text) {
        return None;
    }
    let pieces = contained(|| word::parse_heredoc(text, &options()).ok())?;
    let pieces: Vec<WordPiece> = pieces.into_iter().map(|piece| piece.piece).collect();
    pieces.iter().all(is_sure).then_some(pieces)
}

/// Text in which an expansion was overlooked would hide what it runs.
fn is_sure(piece: &WordPiece) -> bool {
    match piece {
        WordPiece::Text(text) => {
            !text.contains("$(") && !text.contains("${") && !text.contains('`')
        }
        WordPiece::DoubleQuotedSequence(pieces)
        | WordPiece::GettextDoubleQuotedSequence(pieces) => {
            pieces.iter().all(|piece| is_sure(&piece.piece))
        }
        WordPiece::SingleQuotedText(_)
        | WordPiece::AnsiCQuotedText(_)
        | WordPiece::TildeExpansion(_)
        | WordPiece::ParameterExpansion(_)
        | WordPiece::CommandSubstitution(_)
        | WordPiece::BackquotedCommandSubstitution(_)
        | WordPiece::EscapeSequence(_)
        | WordPiece::ArithmeticExpression(_) => true,
    }
}

/// The words that braces expand to; `None` if they are too many or uncertain.
pub(super) fn braces(text: &str) -> Option<Vec<String>> {
    if !text.contains('{') {
        return Some(vec![text.to_owned()]);
    }
    // Leading zeros of a range are preserved.
    if ["{0", "{-0", "..0", "..-0"].iter().any(|padded| text.contains(padded)) {
        return None;
    }
    if guard::is_tangled(text) || guard::has_long_number(text) {
        return None;
    }
    // The parser tries every way at each of them.
    let expansions = text.matches("${").count() - text.matches("\\${").count();
    if text.matches('{').count() - expansions > MAX_BRACES {
        return has_no_braces(text).then(|| vec![text.to_owned()]);
    }
    let pieces = contained(|| word::parse_brace_expansions(text, &options()).ok())??;
    combine(&pieces)
}

const MAX_WORDS: usize = 64;
const MAX_BRACES: usize = 8;

/// Whether all braces are surely quoted.
fn has_no_braces(text: &str) -> bool {
    let nested = text.contains("$'") || text.contains('`') || text.contains("$(");
    let (mut single, mut double, mut free) = (false, false, false);
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        match c {
            '\\' if !single => {
                rest.next();
            }
            '\'' if !double => single = !single,
            '"' if !single => double = !double,
            '{' => free |= !single && !double,
            _ => {}
        }
    }
    // A single pair of quotes around everything needs no more looking.
    let quoted = text.strip_prefix('\'').and_then(|rest| rest.strip_suffix('\''));
    quoted.is_some_and(|inner| !inner.contains('\'')) || !(free || nested)
}

fn combine(pieces: &[word::BraceExpressionOrText]) -> Option<Vec<String>> {
    let mut words = vec![String::new()];
    for piece in pieces {
        let ends = match piece {
            word::BraceExpressionOrText::Text(text) => vec![text.clone()],
            word::BraceExpressionOrText::Expr(members) => {
                let mut ends = Vec::new();
                for member in members {
                    ends.extend(member_words(member)?);
                }
                ends
            }
        };
        if words.len() * ends.len() > MAX_WORDS {
            return None;
        }
        let with =
            |word: &String| ends.iter().map(|end| format!("{word}{end}")).collect::<Vec<_>>();
        words = words.iter().flat_map(with).collect();
    }
    Some(words)
}

/// The values of a range; `None` if it is long.
fn range(start: i64, end: i64, increment: i64) -> Option<Vec<i64>> {
    let step = increment.checked_abs()?.max(1);
    let count = usize::try_from(end.checked_sub(start)?.checked_abs()? / step).ok()? + 1;
    let step = if end < start { -step } else { step };
    let at = |index: usize| Some(start + step * i64::try_from(index).ok()?);
    if count > MAX_WORDS { None } else { (0..count).map(at).collect() }
}

fn member_words(member: &word::BraceExpressionMember) -> Option<Vec<String>> {
    match member {
        word::BraceExpressionMember::Child(pieces) => combine(pieces),
        word::BraceExpressionMember::NumberSequence { start, end, increment } => {
            range(*start, *end, *increment).map(|all| all.iter().map(i64::to_string).collect())
        }
        // Characters between letters of both cases are special.
        word::BraceExpressionMember::CharSequence { start, end, increment } => {
            let same = (start.is_ascii_lowercase() && end.is_ascii_lowercase())
                || (start.is_ascii_uppercase() && end.is_ascii_uppercase());
            let codes = range(i64::from(u32::from(*start)), i64::from(u32::from(*end)), *increment);
            let letter = |code: &i64| Some(char::from(u8::try_from(*code).ok()?).to_string());
            codes.filter(|_| same)?.iter().map(letter).collect()
        }
    }
}

/// Words that mean something to the grammar: one of them as the name of a program is a misreading.
pub(super) fn is_reserved(word: &str) -> bool {
    const RESERVED: [&str; 22] = [
        "if", "then", "elif", "else", "fi", "time", "for", "in", "until", "while", "do", "done",
        "case", "esac", "coproc", "select", "function", "{", "}", "[[", "]]", "!",
    ];
    RESERVED.contains(&word)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PANICS: &str = "<<xt$( && n=$((n + 1)); done";

    #[test]
    fn panic_of_the_parser_means_that_the_text_does_not_parse() {
        let text = format!("{PANICS}\n\n");
        let bare = || uncached_tokenize_str(&text, &options().tokenizer_options()).is_ok();
        assert!(
            std::panic::catch_unwind(bare).is_err(),
            "the parser is fixed: remove the containment"
        );
        assert!(program(PANICS).is_none());
        assert!(!CONTAINED.get());
    }
}
