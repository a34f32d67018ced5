//! The body of a template: the text before the first marker, and one text a marker.

use std::ops::Range;

use bailiwick_model::{Problem, Source};

const MARKER: &str = "<!-- agent_name:";
const EXACT: &str = "write a line of its own: <!-- agent_name: <name> -->";

/// The texts of a body.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Blocks {
    /// The text before the first marker.
    pub(super) default: String,
    /// The text behind each marker, in order.
    pub(super) named: Vec<Block>,
    /// The markers inside of code: text, but worth naming when a block is missed.
    pub(super) fenced: Vec<String>,
}

/// The text behind one marker.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Block {
    pub(super) name: String,
    pub(super) marker: Range<usize>,
    pub(super) text: String,
}

/// Splits the body, which begins at byte `from` of the file.
pub(super) fn split(source: &Source, from: usize) -> (Blocks, Vec<Problem>) {
    let mut blocks = Blocks { default: String::new(), named: Vec::new(), fenced: Vec::new() };
    let mut problems = Vec::new();
    let mut fence: Option<Fence> = None;
    let mut at = from;
    for line in source.text.get(from..).unwrap_or_default().split_inclusive('\n') {
        let start = at;
        at += line.len();
        let line = line.trim_end_matches(['\n', '\r']);
        let outside = fence.is_none();
        fence = match fence {
            Some(open) => (!open.is_closed_by(line)).then_some(open),
            None => Fence::opened_by(line),
        };
        match (marker(line), outside) {
            (Some(Ok(name)), false) => blocks.fenced.push(name),
            (Some(Ok(name)), true) => {
                let marker = start..start + line.len();
                blocks.named.push(Block { name, marker, text: String::new() });
                continue;
            }
            (Some(Err(why)), true) => {
                let place = source.at(start..start + line.len());
                problems.push(Problem::error("bad-marker", place, why).help(EXACT));
            }
            (Some(Err(_)), false) | (None, _) => {}
        }
        let text = blocks.named.last_mut().map_or(&mut blocks.default, |block| &mut block.text);
        text.push_str(line);
        text.push('\n');
    }
    blocks.default = without_blank_edges(&blocks.default);
    for block in &mut blocks.named {
        block.text = without_blank_edges(&block.text);
    }
    (blocks, problems)
}

/// The name in a marker, if the line is one or looks like one.
fn marker(line: &str) -> Option<Result<String, &'static str>> {
    let line = line.trim();
    let inner = line.strip_prefix(MARKER).and_then(|rest| rest.strip_suffix("-->"));
    let Some(inner) = inner else {
        let comment = line.strip_prefix("<!--")?.trim_start();
        let word: String =
            comment.chars().take_while(|c| !c.is_whitespace() && *c != ':').collect();
        let meant = word.to_ascii_lowercase().replace('-', "_") == "agent_name";
        return meant.then_some(Err("this marker would be read as text"));
    };
    Some(persona_name(inner))
}

/// A persona's name: without blanks around it, in lower case.
pub(super) fn persona_name(text: &str) -> Result<String, &'static str> {
    let name = text.trim().to_ascii_lowercase();
    if name.is_empty() {
        return Err("a persona needs a name");
    }
    if name.chars().count() > 64 {
        return Err("the name of a persona has at most 64 characters");
    }
    if name.chars().any(|c| c.is_control() || c == '<' || c == '>') {
        return Err("the name of a persona is one line without `<` and `>`");
    }
    Ok(name)
}

/// A fence of code that is open.
struct Fence {
    sign: char,
    length: usize,
}

impl Fence {
    /// At any indentation, as in a list.
    fn opened_by(line: &str) -> Option<Self> {
        let line = line.trim_start();
        let sign = line.chars().next().filter(|c| matches!(c, '`' | '~'))?;
        let length = line.chars().take_while(|c| *c == sign).count();
        let info = line.trim_start_matches(sign);
        (length >= 3 && !(sign == '`' && info.contains('`'))).then_some(Self { sign, length })
    }

    fn is_closed_by(&self, line: &str) -> bool {
        let line = line.trim();
        line.chars().all(|c| c == self.sign) && line.chars().count() >= self.length
    }
}

/// A text without the blank lines before and after it; its first line keeps its indentation.
fn without_blank_edges(text: &str) -> String {
    let text = text.trim_end();
    let blank: usize =
        text.split_inclusive('\n').take_while(|line| line.trim().is_empty()).map(str::len).sum();
    text.get(blank..).unwrap_or_default().to_owned()
}
