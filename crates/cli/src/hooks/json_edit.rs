//! Putting a part into a JSON text and taking it out again; the one undoes the other.

use std::ops::Range;

use serde::Serialize;
use serde_json::ser::{PrettyFormatter, Serializer};

use super::json_text::{Kind, Node};

/// How a file is laid out.
struct Layout {
    unit: String,
    line_end: &'static str,
    one_line: bool,
}

impl Layout {
    fn of(text: &str) -> Self {
        let indented = text.lines().skip(1).find(|line| line.starts_with([' ', '\t']));
        let blanks = indented.map(leading_blanks).filter(|unit| !unit.is_empty());
        let body = text.trim();
        Self {
            unit: blanks.unwrap_or("  ").to_owned(),
            line_end: if text.contains("\r\n") { "\r\n" } else { "\n" },
            one_line: !body.contains('\n') && body != "{}",
        }
    }

    /// A value, with `indent` in front of every line but the first.
    fn render(&self, value: &impl Serialize, indent: &str) -> serde_json::Result<String> {
        if self.one_line {
            return serde_json::to_string(value);
        }
        let mut bytes = Vec::new();
        let formatter = PrettyFormatter::with_indent(self.unit.as_bytes());
        value.serialize(&mut Serializer::with_formatter(&mut bytes, formatter))?;
        let text = String::from_utf8_lossy(&bytes);
        Ok(text.replace('\n', &format!("{}{indent}", self.line_end)))
    }

    fn render_part(
        &self,
        key: Option<&str>,
        value: &impl Serialize,
        indent: &str,
    ) -> serde_json::Result<String> {
        let value = self.render(value, indent)?;
        let colon = if self.one_line { ":" } else { ": " };
        match key {
            Some(key) => Ok(format!("{}{colon}{value}", serde_json::to_string(key)?)),
            None => Ok(value),
        }
    }
}

fn leading_blanks(line: &str) -> &str {
    let length = line.len() - line.trim_start_matches([' ', '\t']).len();
    line.get(..length).unwrap_or_default()
}

/// The blanks that begin the line of this place.
fn indent_at(text: &str, place: usize) -> &str {
    let before = text.get(..place).unwrap_or_default();
    let start = before.rfind('\n').map_or(0, |end| end + 1);
    leading_blanks(text.get(start..).unwrap_or_default())
}

fn children(container: &Node) -> Vec<Range<usize>> {
    match &container.kind {
        Kind::Object(members) => members.iter().map(|member| member.span.clone()).collect(),
        Kind::Array(items) => items.iter().map(|item| item.span.clone()).collect(),
        Kind::Scalar(_) => Vec::new(),
    }
}

/// The text with a piece of it replaced.
pub fn spliced(text: &str, span: Range<usize>, with: &str) -> String {
    let before = text.get(..span.start).unwrap_or_default();
    let after = text.get(span.end..).unwrap_or_default();
    format!("{before}{with}{after}")
}

/// The text with a part behind the last one of an array, or of an object under `key`.
pub fn append(
    text: &str,
    container: &Node,
    key: Option<&str>,
    value: &impl Serialize,
) -> serde_json::Result<String> {
    let layout = Layout::of(text);
    let children = children(container);
    let close = container.span.end.saturating_sub(1);
    let (Some(first), Some(last)) = (children.first(), children.last()) else {
        let open = container.span.start + 1;
        if layout.one_line {
            return Ok(spliced(text, close..close, &layout.render_part(key, value, "")?));
        }
        let base = indent_at(text, container.span.start);
        let indent = format!("{base}{}", layout.unit);
        let inner = text.get(open..close).unwrap_or_default().trim_end();
        let (part, end) = (layout.render_part(key, value, &indent)?, layout.line_end);
        return Ok(spliced(text, open..close, &format!("{inner}{end}{indent}{part}{end}{base}")));
    };
    let before_first = text.get(container.span.start..first.start).unwrap_or_default();
    let behind = if before_first.contains('\n') {
        let indent = indent_at(text, first.start);
        format!(",{}{indent}{}", layout.line_end, layout.render_part(key, value, indent)?)
    } else {
        let space = if layout.one_line { "" } else { " " };
        let flat = Layout { one_line: true, ..layout };
        format!(",{space}{}", flat.render_part(key, value, "")?)
    };
    Ok(spliced(text, last.end..last.end, &behind))
}

/// The text with another value in the place of one.
pub fn replace(text: &str, old: &Node, value: &impl Serialize) -> serde_json::Result<String> {
    let mut layout = Layout::of(text);
    let old_text = text.get(old.span.clone()).unwrap_or_default();
    layout.one_line |= !old_text.contains('\n');
    let new = layout.render(value, indent_at(text, old.span.start))?;
    Ok(spliced(text, old.span.clone(), &new))
}

/// The text without one part of an array or an object. Comments stay.
pub fn remove(text: &str, container: &Node, index: usize) -> String {
    let children = children(container);
    let Some(part) = children.get(index) else { return text.to_owned() };
    let between = |span: &Range<usize>| text.get(span.clone()).unwrap_or_default();
    let previous = index.checked_sub(1).and_then(|index| children.get(index));
    let gap = match (previous, children.get(index + 1)) {
        (Some(previous), _) => previous.end..part.start,
        (None, Some(next)) => part.end..next.start,
        (None, None) => {
            let inner = container.span.start + 1..container.span.end.saturating_sub(1);
            let commented = between(&(inner.start..part.start)).contains('/')
                || between(&(part.end..inner.end)).contains('/');
            return spliced(text, if commented { part.clone() } else { inner }, "");
        }
    };
    let whole = gap.start.min(part.start)..gap.end.max(part.end);
    let kept = match between(&gap) {
        gap if gap.contains('/') => without_comma(gap),
        _ => String::new(),
    };
    spliced(text, whole, &kept)
}

/// Blanks and comments between two parts, without the comma that parted them.
fn without_comma(gap: &str) -> String {
    let mut rest = gap;
    loop {
        let skipped = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            rest.find("*/").map_or(rest.len(), |end| end + 2)
        } else {
            0
        };
        rest = rest.get(skipped..).unwrap_or_default();
        let at = gap.len() - rest.len();
        match rest.chars().next() {
            Some(',') => return spliced(gap, at..at + 1, ""),
            Some(other) if skipped == 0 => rest = rest.get(other.len_utf8()..).unwrap_or_default(),
            Some(_) => {}
            None => return gap.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use bailiwick_model::Source;
    use serde_json::{Value, json};

    use super::super::json_text::{Comments, parse};
    use super::*;

    fn read(text: &str) -> Node {
        parse(&Source::new("t", text), Comments::Allowed).unwrap_or_else(|p| panic!("{p}\n{text}"))
    }

    const TEXTS: [&str; 10] = [
        "{}\n",
        "{\"a\":{\"b\":[1]}}",
        "{\n  \"a\": {\n    \"b\": [\n      1,\n      2\n    ]\n  }\n}\n",
        "{\n\t\"a\": {\n\t\t\"b\": []\n\t}\n}\n",
        "{\r\n    \"a\": {\r\n        \"b\": [\r\n            {}\r\n        ]\r\n    }\r\n}\r\n",
        "{\n  \"a\": {\"b\": [1, 2]}\n}",
        "{\n  // why\n  \"a\": {\n    \"b\": [\n      1 // one\n    ] /* end */\n  }\n}\n",
        "{\n  \"a\": {}\n}\n",
        "{ \"a\": { \"b\": [ 1 ] } }\n",
        "{\"x\": 1.0, \"y\": 1e5, \"z\": \"\\u00e9\", \"a\": {\"b\": [[]]}}\n",
    ];

    #[test]
    fn removing_an_appended_part_restores_the_same_bytes() {
        let part = json!({"k": ["v", {"w": 1}]});
        for text in TEXTS {
            let root = read(text);
            let mut cases = vec![(vec![], Some("new"))];
            cases.extend(root.get("a").map(|_| (vec!["a"], Some("new"))));
            cases.extend(root.at(&["a", "b"]).map(|_| (vec!["a", "b"], None)));
            for (path, key) in cases {
                let put = append(text, root.at(&path).unwrap(), key, &part).unwrap();
                let (after, mut wanted) = (read(&put), root.value());
                let pointer: String = path.iter().map(|key| format!("/{key}")).collect();
                match (wanted.pointer_mut(&pointer).unwrap(), key) {
                    (Value::Array(items), _) => items.push(part.clone()),
                    (value, Some(key)) => value[key] = part.clone(),
                    (value, None) => panic!("{value}"),
                }
                assert_eq!(after.value(), wanted, "{text:?} at {path:?}");
                let container = after.at(&path).unwrap();
                let last = children(container).len() - 1;
                assert_eq!(remove(&put, container, last), text, "put {put}");
            }
        }
    }

    #[test]
    fn any_item_can_be_removed_and_comments_stay() {
        let text = "{\"a\": [/*0*/ 1, /*,1*/ 2 // ,2\n , 3 /*3*/]}";
        for index in 0..3 {
            let after = remove(text, read(text).get("a").unwrap(), index);
            let mut remaining = vec![1, 2, 3];
            remaining.remove(index);
            assert_eq!(read(&after).value(), json!({"a": remaining}), "{after}");
            for comment in ["/*0*/", "/*,1*/", "// ,2", "/*3*/"] {
                assert!(after.contains(comment), "{comment} is missing in {after}");
            }
        }
        let sole = "{\"a\": [ /* why */ 1 ]}";
        assert_eq!(remove(sole, read(sole).get("a").unwrap(), 0), "{\"a\": [ /* why */  ]}");
    }

    #[test]
    fn new_text_follows_the_layout_of_the_file() {
        let text = "{\n    \"a\": {\n        \"b\": 1\n    }\n}\n";
        let put = append(text, read(text).get("a").unwrap(), Some("c"), &json!([1])).unwrap();
        let wanted = "{\n    \"a\": {\n        \"b\": 1,\n        \"c\": [\n            1\n        ]\n    }\n}\n";
        assert_eq!(put, wanted);
        let replaced = replace(&put, read(&put).at(&["a", "c"]).unwrap(), &json!([2])).unwrap();
        assert_eq!(replaced, wanted.replace("            1", "            2"));
    }
}
