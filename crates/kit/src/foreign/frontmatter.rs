//! Markdown with a head of YAML between two lines of dashes.

use bailiwick_model::template::Template;
use bailiwick_model::{Problem, Source};
use serde_saphyr::{Options, from_str_with_options};

use super::fields::{Fields, LeftoverFields, UnknownKeys};
use super::node::Node;
use super::{Effect, Note, Options as Wishes};

/// The parts of a file.
#[derive(Debug)]
struct Parts {
    /// The keys of its head, in order.
    head: Vec<(String, Node)>,
    /// The text below, without surrounding blank lines.
    body: String,
    /// Whether the description had to be quoted to be read.
    repaired: bool,
}

/// Reads a file of this form: `template` reads the keys that its program supports, and the text below.
pub(super) fn import(
    source: &Source,
    options: &Wishes,
    template: impl FnOnce(&mut Fields<'_>, String) -> Result<Template, Problem>,
) -> Result<(Template, Vec<Note>), Vec<Problem>> {
    let parts = read(source).map_err(|problem| vec![problem])?;
    let mut fields = Fields::new(source, parts.head, options);
    if parts.repaired {
        fields.note(Effect::LeftOut, "description", "quoted, to be YAML");
    }
    let template = template(&mut fields, parts.body).map_err(|problem| vec![problem])?;
    let LeftoverFields { notes, metadata } = fields.finish(UnknownKeys::Kept)?;
    Ok((Template { metadata, ..template }, notes))
}

/// Splits a file. One without frontmatter is not an agent.
fn read(source: &Source) -> Result<Parts, Problem> {
    let (head, body, start) = split(source)?;
    let (entries, repaired) = match parse(head) {
        Ok(entries) => (entries, false),
        Err(error) => match quoted_description(head).map(|head| parse(&head)) {
            Some(Ok(entries)) => (entries, true),
            Some(Err(_)) | None => return Err(unreadable(source, start, &error)),
        },
    };
    let Some(head) = entries else {
        return Err(Problem::error(
            "bad-yaml",
            source.whole(),
            "the front matter is not a map of keys",
        ));
    };
    Ok(Parts { head, body: body.trim().to_owned(), repaired })
}

/// The head, the body, and where the head begins.
fn split(source: &Source) -> Result<(&str, &str, usize), Problem> {
    let refuse = |message: &str| Err(Problem::error("no-frontmatter", source.whole(), message));
    let text: &str = &source.text;
    if text.starts_with('\u{feff}') {
        return refuse("it begins with a byte order mark, which some programs take for text");
    }
    let mut lines = text.split_inclusive('\n');
    let Some(first) = lines.next().filter(|line| line.trim_end() == "---") else {
        return refuse("it does not begin with a line of three dashes, so it is not an agent file");
    };
    let start = first.len();
    let mut end = start;
    for line in lines {
        if line.trim_end() == "---" {
            let head = text.get(start..end).unwrap_or_default();
            let body = text.get(end + line.len()..).unwrap_or_default();
            return Ok((head, body, start));
        }
        end += line.len();
    }
    refuse("its head is not closed by a line of three dashes")
}

fn parse(head: &str) -> Result<Option<Vec<(String, Node)>>, serde_saphyr::Error> {
    let mut options = Options::default();
    options.strict_booleans = true;
    options.with_snippet = false;
    Ok(match from_str_with_options::<Node>(head, options)? {
        Node::Map(entries) => Some(entries),
        Node::Null => Some(Vec::new()),
        Node::Bool(_) | Node::Number(_) | Node::Text(_) | Node::List(_) => None,
    })
}

fn unreadable(source: &Source, start: usize, error: &serde_saphyr::Error) -> Problem {
    let said = error.to_string();
    let said = said.lines().next().unwrap_or_default();
    // The place below is in the file; this one would be in its head.
    let said = said.rsplit_once(" at line ").map_or(said, |(what, _)| what);
    let line = error.location().and_then(|at| usize::try_from(at.line()).ok());
    let key = line.and_then(|line| key_above(source.text.get(start..)?, line));
    let message = match key {
        Some(key) => format!("the value of `{key}` is no YAML: {said}"),
        None => said.to_owned(),
    };
    let place = line.and_then(|line| {
        let mut at = start;
        let mut lines = source.text.get(start..)?.split_inclusive('\n');
        for _ in 1..line {
            at += lines.next()?.len();
        }
        Some(source.at(at..at + lines.next()?.trim_end().len()))
    });
    Problem::error("bad-yaml", place.unwrap_or_else(|| source.whole()), message)
        .help("quote texts that hold a colon, and use true and false for switches")
}

/// The key whose value a line belongs to: the last one at the margin at or above it.
fn key_above(head: &str, line: usize) -> Option<&str> {
    let lines: Vec<&str> = head.lines().take(line).collect();
    lines.iter().rev().find_map(|line| {
        let (key, _) = line.split_once(':')?;
        let at_margin = !key.starts_with([' ', '\t', '-', '#', '"', '\'']);
        (at_margin && !key.is_empty()).then_some(key)
    })
}

/// The same frontmatter with its one-line description in quotes. People write `description: a: b`, which is not
/// YAML, but which the programs accept. No other key is changed.
fn quoted_description(head: &str) -> Option<String> {
    let mut found = false;
    let lines = head.split_inclusive('\n').map(|line| {
        let text = line.strip_prefix("description:").map(str::trim);
        let plain = text.filter(|text| {
            let first = text.chars().next();
            first.is_some_and(|first| !matches!(first, '"' | '\'' | '|' | '>' | '&' | '*' | '!'))
        });
        match plain {
            Some(text) if !found => {
                found = true;
                format!("description: '{}'\n", text.replace('\'', "''"))
            }
            Some(_) | None => line.to_owned(),
        }
    });
    let head: String = lines.collect();
    found.then_some(head)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(text: &str) -> Result<Parts, Problem> {
        read(&Source::new("a.md", text))
    }

    #[test]
    fn description_with_a_colon_is_read_as_intended() {
        let read =
            parts("---\nname: a\ndescription: Use for: it's 'so'\ntools: Read\n---\n\nDo.\n")
                .unwrap();
        assert!(read.repaired);
        let text = Node::Text("Use for: it's 'so'".to_owned());
        assert_eq!(read.head[1], ("description".to_owned(), text));
        assert_eq!(read.head[2], ("tools".to_owned(), Node::Text("Read".to_owned())));
        assert_eq!(read.body, "Do.");
    }

    #[test]
    fn no_other_key_is_repaired() {
        let problem =
            parts("---\nname: a\ntools: a: b\ndescription: c: d\n---\nDo.\n").unwrap_err();
        assert_eq!(problem.code, "bad-yaml");
        assert_eq!(problem.place.line_and_column().unwrap().0, 3);
        assert!(problem.message.starts_with("the value of `tools` is no YAML: "), "{problem}");
        assert!(!problem.message.contains("line"), "the place has the line: {problem}");
    }

    #[test]
    fn invalid_head_is_refused() {
        for (text, code) in [
            ("Do.\n", "no-frontmatter"),
            ("---\nname: a\n", "no-frontmatter"),
            ("\u{feff}---\nname: a\n---\n", "no-frontmatter"),
            (" ---\nname: a\n---\n", "no-frontmatter"),
            ("---\n- a\n---\n", "bad-yaml"),
            ("---\nname: a\nname: b\n---\n", "bad-yaml"),
            ("---\nname: &a x\n<<: *b\n---\n", "bad-yaml"),
        ] {
            assert_eq!(parts(text).unwrap_err().code, code, "{text:?}");
        }
    }

    #[test]
    fn line_endings_of_other_systems_are_accepted() {
        let read = parts("---\r\nname: a\r\n---\r\nDo.\r\nMore.\r\n").unwrap();
        assert_eq!(read.head, [("name".to_owned(), Node::Text("a".to_owned()))]);
        assert_eq!(read.body, "Do.\r\nMore.");
    }
}
