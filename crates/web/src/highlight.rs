//! Colours for code: comments, strings, numbers and keywords.
//!
//! A diff shows pieces of files, so no grammar could read them whole. A wrong colour changes no text.

use crate::patch::LineKind;

/// What a piece of a line is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Token {
    Plain,
    Comment,
    String,
    Number,
    Keyword,
}

impl Token {
    /// The class of the stylesheet; empty for plain text.
    pub(crate) fn class(self) -> &'static str {
        match self {
            Self::Plain => "",
            Self::Comment => "tc",
            Self::String => "ts",
            Self::Number => "tn",
            Self::Keyword => "tk",
        }
    }
}

/// A piece of a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) token: Token,
    pub(crate) text: String,
}

/// How a language writes comments and strings, and its keywords.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Language {
    line_comments: &'static [&'static str],
    /// Comments and strings that can go on over lines: start, end and kind.
    blocks: &'static [(&'static str, &'static str, Token)],
    quotes: &'static [char],
    keywords: &'static str,
}

const SLASHES: (&str, &str, Token) = ("/*", "*/", Token::Comment);
const BACKTICKS: (&str, &str, Token) = ("`", "`", Token::String);

const RUST: Language = Language {
    line_comments: &["//"],
    blocks: &[SLASHES, ("r#\"", "\"#", Token::String)],
    // A single quote may also start a lifetime.
    quotes: &['"'],
    keywords: "as async await break const continue crate dyn else enum extern false fn for if impl in let loop match \
               mod move mut pub ref return self Self static struct super trait true type unsafe use where while",
};
const GO: Language = Language {
    line_comments: &["//"],
    blocks: &[SLASHES, BACKTICKS],
    quotes: &['"', '\''],
    keywords: "break case chan const continue default defer else fallthrough false for func go goto if import \
               interface map nil package range return select struct switch true type var",
};
const JAVASCRIPT: Language = Language {
    line_comments: &["//"],
    blocks: &[SLASHES, BACKTICKS],
    quotes: &['"', '\''],
    keywords: "abstract as async await break case catch class const continue debugger declare default delete do else \
               enum export extends false finally for from function if implements import in instanceof interface let \
               new null of private protected public readonly return static super switch this throw true try type \
               typeof undefined var void while with yield",
};
const C_LIKE: Language = Language {
    line_comments: &["//"],
    blocks: &[SLASHES, ("\"\"\"", "\"\"\"", Token::String)],
    quotes: &['"', '\''],
    keywords: "abstract auto bool boolean break byte case catch char class const constexpr continue default delete do \
               double else enum extends extern false final finally float for fun func goto guard if implements import \
               in inline instanceof int interface internal let long namespace new nil null nullptr object open \
               override package private protected public record return sealed short signed sizeof static struct \
               super switch template this throw throws true try typedef typename union unsigned using val var \
               virtual void volatile when where while",
};
const PYTHON: Language = Language {
    line_comments: &["#"],
    blocks: &[("\"\"\"", "\"\"\"", Token::String), ("'''", "'''", Token::String)],
    quotes: &['"', '\''],
    keywords: "and as assert async await break case class continue def del elif else except False finally for from \
               global if import in is lambda match None nonlocal not or pass raise return self True try while with \
               yield",
};
const RUBY: Language = Language {
    line_comments: &["#"],
    blocks: &[],
    quotes: &['"', '\''],
    keywords: "alias and begin break case class def defined do else elsif end ensure false for if in module next nil \
               not or redo require rescue retry return self super then true undef unless until when while yield",
};
const SHELL: Language = Language {
    line_comments: &["#"],
    blocks: &[],
    quotes: &['"', '\''],
    keywords: "case do done elif else esac exit export fi for function if in local readonly return set shift then \
               trap until unset while",
};
const SQL: Language = Language {
    line_comments: &["--"],
    blocks: &[SLASHES],
    quotes: &['\''],
    keywords: "ADD ALTER AND AS ASC BEGIN BY CASE COLUMN COMMIT CONSTRAINT CREATE DEFAULT DELETE DESC DISTINCT DROP \
               ELSE END EXISTS FOREIGN FROM GROUP HAVING IN INDEX INSERT INTO IS JOIN KEY LEFT LIKE LIMIT NOT NULL ON \
               OR ORDER OUTER PRIMARY REFERENCES RETURNING RIGHT SELECT SET TABLE THEN UNION UNIQUE UPDATE VALUES VIEW \
               WHEN WHERE WITH",
};
const SETTINGS: Language = Language {
    line_comments: &["#"],
    blocks: &[],
    quotes: &['"', '\''],
    keywords: "false no null off on true yes",
};
const STYLES: Language =
    Language { line_comments: &[], blocks: &[SLASHES], quotes: &['"', '\''], keywords: "" };
const MARKUP: Language = Language {
    line_comments: &[],
    blocks: &[("<!--", "-->", Token::Comment)],
    quotes: &['"'],
    keywords: "",
};

/// The language of a file, by its name.
pub(crate) fn language(path: &str) -> Option<&'static Language> {
    let name = path.rsplit('/').next().unwrap_or_default();
    let extension = name.rsplit_once('.').map_or(name, |(_, extension)| extension);
    Some(match extension {
        "rs" => &RUST,
        "go" => &GO,
        "js" | "mjs" | "cjs" | "jsx" | "ts" | "mts" | "cts" | "tsx" => &JAVASCRIPT,
        "c" | "h" | "cc" | "cpp" | "cxx" | "hpp" | "cs" | "java" | "kt" | "kts" | "swift"
        | "scala" | "dart" | "php" | "proto" | "groovy" => &C_LIKE,
        "py" | "pyi" => &PYTHON,
        "rb" | "ex" | "exs" | "Gemfile" | "Rakefile" => &RUBY,
        "sh" | "bash" | "zsh" | "Makefile" | "mk" | "Dockerfile" => &SHELL,
        "sql" => &SQL,
        "toml" | "yaml" | "yml" | "json" | "jsonc" | "ini" | "cfg" | "conf" | "properties" => {
            &SETTINGS
        }
        "css" | "scss" | "less" => &STYLES,
        "html" | "htm" | "xml" | "svg" | "vue" | "svelte" => &MARKUP,
        _ => return None,
    })
}

/// Reads one side of a hunk line by line, and knows what goes on from one line to the next.
#[derive(Debug)]
pub(crate) struct Highlighter {
    language: &'static Language,
    /// The end of what is open, and its kind.
    open: Option<(&'static str, Token)>,
}

impl Highlighter {
    pub(crate) fn new(language: &'static Language) -> Self {
        Self { language, open: None }
    }

    /// The pieces of the next line.
    pub(crate) fn spans(&mut self, line: &str) -> Vec<Span> {
        let mut spans: Vec<Span> = Vec::new();
        let mut rest = line;
        let mut previous = None;
        while !rest.is_empty() {
            let (token, length) = self.next(rest, previous);
            let (piece, behind) = rest.split_at_checked(length).unwrap_or((rest, ""));
            previous = piece.chars().next_back();
            rest = behind;
            match spans.last_mut() {
                Some(last) if last.token == token => last.text.push_str(piece),
                _ => spans.push(Span { token, text: piece.to_owned() }),
            }
        }
        spans
    }

    /// The next piece: what it is, and how long.
    fn next(&mut self, rest: &str, previous: Option<char>) -> (Token, usize) {
        if let Some((end, token)) = self.open {
            return match rest.find(end) {
                Some(at) => {
                    self.open = None;
                    (token, at + end.len())
                }
                None => (token, rest.len()),
            };
        }
        let starts_word = previous.is_none_or(char::is_whitespace);
        // `${#x}` is no comment.
        let is_comment = |start: &&str| rest.starts_with(*start) && (*start != "#" || starts_word);
        if self.language.line_comments.iter().any(is_comment) {
            return (Token::Comment, rest.len());
        }
        let block = self.language.blocks.iter().find(|(start, _, _)| rest.starts_with(start));
        if let Some((start, end, token)) = block {
            self.open = Some((end, *token));
            return (*token, start.len());
        }
        let Some(first) = rest.chars().next() else { return (Token::Plain, rest.len()) };
        if self.language.quotes.contains(&first) {
            return (Token::String, quoted(rest, first));
        }
        let is_word = |c: char| c.is_alphanumeric() || c == '_';
        if !is_word(first) {
            return (Token::Plain, first.len_utf8());
        }
        let length = rest.find(|c: char| !is_word(c)).unwrap_or(rest.len());
        let word = rest.get(..length).unwrap_or_default();
        let token = if first.is_ascii_digit() {
            Token::Number
        } else if self.language.keywords.split_ascii_whitespace().any(|keyword| keyword == word) {
            Token::Keyword
        } else {
            Token::Plain
        };
        (token, length)
    }
}

/// The two versions of a changed text. They are read apart: a comment may begin in one of them only.
pub(crate) struct Sides {
    old: Option<Highlighter>,
    new: Option<Highlighter>,
}

impl Sides {
    /// Without a language, nothing is coloured.
    pub(crate) fn new(language: Option<&'static Language>) -> Self {
        Self { old: language.map(Highlighter::new), new: language.map(Highlighter::new) }
    }

    /// The pieces of the next line.
    pub(crate) fn spans(&mut self, kind: LineKind, text: &str) -> Vec<Span> {
        match kind {
            LineKind::Removed => coloured(self.old.as_mut(), text),
            LineKind::Added => coloured(self.new.as_mut(), text),
            LineKind::Context => {
                coloured(self.old.as_mut(), text);
                coloured(self.new.as_mut(), text)
            }
            LineKind::NoNewline => coloured(None, text),
        }
    }
}

fn coloured(highlighter: Option<&mut Highlighter>, text: &str) -> Vec<Span> {
    match highlighter {
        Some(highlighter) => highlighter.spans(text),
        None => vec![Span { token: Token::Plain, text: text.to_owned() }],
    }
}

/// The length of a string with its quotes; to the end of the line if it has no end.
fn quoted(text: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            c if c == quote => return at + c.len_utf8(),
            _ => {}
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use bailiwick_testkit::random::Random;

    use super::*;

    fn highlighted(path: &str, lines: &[&str]) -> String {
        let mut highlighter = Highlighter::new(language(path).unwrap());
        let line = |line: &&str| {
            let spans = highlighter.spans(line);
            let span = |span: &Span| match span.token.class() {
                "" => span.text.clone(),
                class => format!("<{class} {}>", span.text),
            };
            spans.iter().map(span).collect::<String>()
        };
        lines.iter().map(line).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn comments_strings_numbers_and_keywords_are_distinguished() {
        for (path, lines, expected) in [
            ("a.rs", vec!["let x = \"//\\\"\"; // y"], "<tk let> x = <ts \"//\\\"\">; <tc // y>"),
            ("a.rs", vec!["fn f<'a>(x: &'a u8)"], "<tk fn> f<'a>(x: &'a u8)"),
            ("a.go", vec!["/* a", "b */ return 1"], "<tc /* a>\n<tc b */> <tk return> <tn 1>"),
            ("a.py", vec!["x = '''a", "b''' # c"], "x = <ts '''a>\n<ts b'''> <tc # c>"),
            ("a.sh", vec!["echo ${#x} # y"], "echo ${#x} <tc # y>"),
            ("a/Makefile", vec!["# x"], "<tc # x>"),
            ("a.ts", vec!["const a = `x", "y`"], "<tk const> a = <ts `x>\n<ts y`>"),
            ("a.html", vec!["<a href=\"x\"><!-- y -->"], "<a href=<ts \"x\">><tc <!-- y -->>"),
        ] {
            assert_eq!(highlighted(path, &lines), expected, "{path}");
        }
        assert_eq!(language("a.unknown"), None);
        assert_eq!(language("LICENSE"), None);
    }

    /// Every character of any input appears once, in order.
    #[test]
    fn highlighting_loses_no_text() {
        let mut random = Random::rotating("highlighting");
        let pieces = [
            "\"",
            "'",
            "`",
            "/*",
            "*/",
            "//",
            "#",
            "\\",
            "é",
            "let",
            "1",
            " ",
            "<!--",
            "-->",
            "⟨U+202E⟩",
        ];
        for path in ["a.rs", "a.go", "a.py", "a.html", "a.sql", "a.toml", "a.css", "a.sh"] {
            for _ in 0..200 {
                let mut highlighter = Highlighter::new(language(path).unwrap());
                for _ in 0..5 {
                    let line: String =
                        (0..random.below(12)).map(|_| pieces[random.below(pieces.len())]).collect();
                    let spans = highlighter.spans(&line);
                    let text: String = spans.iter().map(|span| span.text.as_str()).collect();
                    assert_eq!(text, line, "{path}");
                }
            }
        }
    }
}
