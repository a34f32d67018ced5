//! Here documents without expansions are data: they are removed before the text is parsed.
//!
//! A scan proposes where they are, and replaces each by a marker line. The parser must then confirm that this line
//! is the text of a here document; otherwise the original text is parsed.

/// The marker of a document, followed by its number.
const MARK: &str = "BAILIWICK-DOCUMENT-";

/// Longer texts than this are written to files, but not followed any further.
const MAX_FOLLOWED: usize = 64 * 1024;

/// A document that was removed.
#[derive(Debug, Clone)]
pub(super) struct Document {
    /// Its text; `None` if it is too long to be followed.
    pub(super) text: Option<String>,
    /// Whether it is in a substitution, whose text is parsed separately.
    pub(super) inside: bool,
    /// Whether the parser agreed.
    pub(super) confirmed: bool,
}

/// A text without its documents.
#[derive(Debug)]
pub(super) struct Extracted {
    pub(super) text: String,
    pub(super) documents: Vec<Document>,
}

/// The number of the document that a marker line replaces.
pub(super) fn number(line: &str) -> Option<usize> {
    line.strip_prefix(MARK)?.strip_suffix('\n')?.parse().ok()
}

/// Whether every document of a text was removed.
pub(super) fn are_extracted(text: &str) -> bool {
    text.matches("<<").count() == text.matches(MARK).count()
}

/// Whether a text contains a marker line.
fn is_marked(text: &str) -> bool {
    text.contains(MARK)
}

/// The context of a character.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Context {
    Double,
    Substitution,
    Parentheses,
    Braces,
    Arithmetic,
    Backquotes,
}

/// A document that a line announces.
struct PendingDocument {
    end: String,
    quoted: bool,
    tabs: bool,
}

/// Removes the documents of a text; `first` is the number of the first. `None` if there are none.
pub(super) fn extract(text: &str, first: usize) -> Option<Extracted> {
    if !text.contains("<<") || is_marked(text) {
        return None;
    }
    let mut scan = Scan { rest: text, text: String::new(), open: Vec::new(), pending: Vec::new() };
    let mut documents = Vec::new();
    while let Some(c) = scan.rest.chars().next() {
        if c == '\n' && !scan.pending.is_empty() {
            scan.take(1);
            scan.bodies(first, &mut documents)?;
        } else {
            scan.step(c)?;
        }
    }
    let complete = scan.pending.is_empty() && !documents.is_empty();
    complete.then_some(Extracted { text: scan.text, documents })
}

struct Scan<'a> {
    rest: &'a str,
    text: String,
    open: Vec<Context>,
    pending: Vec<PendingDocument>,
}

impl<'a> Scan<'a> {
    /// Copies this many bytes.
    fn take(&mut self, length: usize) -> &'a str {
        let length = self.rest.len().min(length);
        let (taken, rest) = self.rest.split_at_checked(length).unwrap_or((self.rest, ""));
        self.text.push_str(taken);
        self.rest = rest;
        taken
    }

    /// Copies what is quoted, up to its end.
    fn quoted(&mut self, start: usize, end: char, escapes: bool) {
        self.take(start);
        let mut length = 0;
        let mut chars = self.rest.chars();
        while let Some(c) = chars.next() {
            length += c.len_utf8();
            if c == end {
                break;
            }
            if c == '\\' && escapes {
                length += chars.next().map_or(0, char::len_utf8);
            }
        }
        self.take(length);
    }

    fn close(&mut self, context: Context) -> bool {
        let closes = self.open.last() == Some(&context);
        if closes {
            self.open.pop();
        }
        closes
    }

    /// One sign, or what it begins; `None` if the scan is lost.
    fn step(&mut self, c: char) -> Option<()> {
        let inside = self.open.last().copied();
        let quoted = inside == Some(Context::Double);
        let starts = |text: &str| self.rest.starts_with(text);
        let (length, opens) = match c {
            '\\' => {
                let next = self.rest.chars().nth(1).map_or(0, char::len_utf8);
                (1 + next, None)
            }
            '\'' if !quoted => {
                self.quoted(1, '\'', false);
                return Some(());
            }
            '$' if starts("$'") && !quoted => {
                self.quoted(2, '\'', true);
                return Some(());
            }
            '"' if self.close(Context::Double) => (1, None),
            '"' => (1, Some(Context::Double)),
            '`' if self.close(Context::Backquotes) => (1, None),
            '`' => (1, Some(Context::Backquotes)),
            '$' if starts("$((") => (3, Some(Context::Arithmetic)),
            '$' if starts("$(") => (2, Some(Context::Substitution)),
            '$' if starts("${") => (2, Some(Context::Braces)),
            _ if quoted => (c.len_utf8(), None),
            '}' if self.close(Context::Braces) => (1, None),
            ')' if starts("))") && self.close(Context::Arithmetic) => (2, None),
            ')' if self.close(Context::Parentheses) || self.close(Context::Substitution) => {
                (1, None)
            }
            '(' if starts("((") => (2, Some(Context::Arithmetic)),
            '(' => (1, Some(Context::Parentheses)),
            '#' if self.text.is_empty()
                || self.text.ends_with(|c: char| " \t\n;|&()".contains(c)) =>
            {
                let line = self.rest.find('\n').unwrap_or(self.rest.len());
                (line, None)
            }
            '<' if starts("<<<") => (3, None),
            '<' if starts("<<") && self.at_command() => return self.announce(),
            c => (c.len_utf8(), None),
        };
        // A document that is announced on a line with an unclosed quote is not supported.
        let taken = self.take(length);
        if !self.pending.is_empty() && taken.contains('\n') {
            return None;
        }
        self.open.extend(opens);
        Some(())
    }

    /// Whether a command may start here.
    fn at_command(&self) -> bool {
        matches!(self.open.last(), None | Some(Context::Parentheses | Context::Substitution))
    }

    /// `<<'END'`
    fn announce(&mut self) -> Option<()> {
        self.take(2);
        let tabs = self.rest.starts_with('-');
        self.take(usize::from(tabs));
        let blanks = self.rest.len() - self.rest.trim_start_matches([' ', '\t']).len();
        self.take(blanks);
        let ends = |c: char| c.is_whitespace() || ";|&()<>".contains(c);
        let word = self.take(self.rest.find(ends).unwrap_or(self.rest.len()));
        let quoted = word.contains(['\'', '"', '\\']);
        let end = word.replace(['\'', '"', '\\'], "");
        if end.is_empty() || end.contains(['$', '`']) {
            return None;
        }
        self.pending.push(PendingDocument { end, quoted, tabs });
        Some(())
    }

    /// The documents that the line above announces.
    fn bodies(&mut self, first: usize, documents: &mut Vec<Document>) -> Option<()> {
        let sure = |context: &Context| {
            matches!(context, Context::Double | Context::Parentheses | Context::Substitution)
        };
        let lifts = self.open.iter().all(sure);
        let inside = !self.open.iter().all(|context| *context == Context::Parentheses);
        for pending in std::mem::take(&mut self.pending) {
            let strip = |line: &'a str| {
                if pending.tabs { line.trim_start_matches('\t') } else { line }
            };
            let mut length = 0;
            let mut ended = None;
            for line in self.rest.split_inclusive('\n') {
                if strip(line).trim_end_matches('\n') == pending.end {
                    ended = Some(line.len());
                    break;
                }
                length += line.len();
            }
            let end = ended?;
            let body = self.rest.get(..length)?;
            if lifts && !body.is_empty() && (pending.quoted || !body.contains(['$', '`', '\\'])) {
                let text: String = body.split_inclusive('\n').map(strip).collect();
                let text = (text.len() <= MAX_FOLLOWED).then_some(text);
                self.text.push_str(&format!("{MARK}{}\n", first + documents.len()));
                self.rest = self.rest.get(length..)?;
                documents.push(Document { text, inside, confirmed: false });
            } else {
                self.take(length);
            }
            self.take(end);
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lifted(text: &str) -> Option<(String, Vec<String>)> {
        let lifted = extract(text, 0)?;
        let texts = lifted.documents.into_iter().map(|document| document.text.unwrap()).collect();
        Some((lifted.text.replace(MARK, "#"), texts))
    }

    #[test]
    fn documents_without_expansion_are_extracted() {
        for (text, rest, body) in [
            ("cat <<'E'\na `b` $(c)\nE\nls", "cat <<'E'\n#0\nE\nls", "a `b` $(c)\n"),
            ("cat <<E\n1 << 2\nE\n", "cat <<E\n#0\nE\n", "1 << 2\n"),
            ("a <<-\\E\n\tx\n\tE\n", "a <<-\\E\n#0\n\tE\n", "x\n"),
            ("x \"$(a <<'E'\n'\nE\n)\"", "x \"$(a <<'E'\n#0\nE\n)\"", "'\n"),
            ("# it's\na 'b' <<\"E\" | c\n'\nE\n", "# it's\na 'b' <<\"E\" | c\n#0\nE\n", "'\n"),
            ("a $((1<<2)) <<'E'\nx\nE", "a $((1<<2)) <<'E'\n#0\nE", "x\n"),
        ] {
            assert_eq!(lifted(text), Some((rest.to_owned(), vec![body.to_owned()])), "{text}");
        }
    }

    #[test]
    fn documents_with_expansion_and_other_text_are_unchanged() {
        for text in [
            "echo \"<<'E'\nx\nE\n\"",
            "echo '<<E'\nx\nE\n",
            "cat <<E\n$(git push)\nE\n",
            "echo $((1 <<2\n))",
            "# <<'E'\ngit push\nE\n",
            "cat <<'E'\nnever ends",
            "echo ${x:-$(a <<'E'\nx\nE\n)}",
            "cat <<< 'E'\nx\nE\n",
        ] {
            assert_eq!(lifted(text), None, "{text}");
        }
    }
}
