//! A fragment has at most 200 words, because the agent reads all of them together.

use bailiwick_model::Problem;

use super::words::words;
use crate::kit::FoundCapability;

const MAX_WORDS: usize = 200;

pub(super) fn check(capability: &FoundCapability) -> Option<Problem> {
    let text = &capability.text;
    let (first_too_many, _) = words(&text.text).nth(MAX_WORDS)?;
    let count = words(&text.text).count();
    let message = format!("the text has {count} words; at most {MAX_WORDS} are allowed");
    Some(
        Problem::error("text-too-long", text.at(first_too_many), message)
            .help("this is the first word too many; split the capability or shorten it"),
    )
}
