//! A fragment begins with its rule, so that it is not missed.

use std::ops::Range;

use bailiwick_model::Problem;

use crate::kit::FoundCapability;

const OPENINGS: [&str; 4] = ["Never ", "Do not ", "Don't ", "Only "];

pub(super) fn check(capability: &FoundCapability) -> Option<Problem> {
    let text = &capability.text;
    let Some(span) = first_sentence(&text.text) else {
        return Some(Problem::error("text-empty", text.whole(), "the text says nothing"));
    };
    let sentence = text.text.get(span.clone())?;
    let must = sentence.split(|c: char| !c.is_alphanumeric()).any(|word| word == "MUST");
    if must || OPENINGS.iter().any(|opening| sentence.starts_with(opening)) {
        return None;
    }
    let message = "the text does not lead with the rule";
    Some(
        Problem::error("text-leads", text.at(span), message)
            .help("begin with \"You MUST …\" or \"You MUST NOT …\", then say why"),
    )
}

/// The first sentence that is not a heading.
fn first_sentence(text: &str) -> Option<Range<usize>> {
    let mut start = 0;
    for line in text.split_inclusive('\n') {
        let bare = line.trim();
        if !bare.is_empty() && !bare.starts_with('#') {
            break;
        }
        start += line.len();
    }
    let rest = text.get(start..)?;
    let lead = rest.len() - rest.trim_start().len();
    let rest = rest.trim_start();
    let ends = [". ", ".\n", ": ", ":\n", "\n\n"].iter().filter_map(|end| rest.find(end));
    let length = ends.min().unwrap_or(rest.trim_end().len());
    (length > 0).then(|| start + lead..start + lead + length)
}

#[cfg(test)]
mod tests {
    use super::first_sentence;

    fn sentence(text: &str) -> Option<&str> {
        first_sentence(text).and_then(|span| text.get(span))
    }

    #[test]
    fn headings_are_skipped() {
        assert_eq!(sentence("## T\n\nYou MUST\nstop. Why.\n"), Some("You MUST\nstop"));
        assert_eq!(sentence("  one"), Some("one"));
        assert_eq!(sentence("# Only a heading\n\n"), None);
        assert_eq!(sentence(""), None);
    }
}
