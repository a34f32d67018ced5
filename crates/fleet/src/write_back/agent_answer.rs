//! The final answer of an agent: text for people, and blocks of JSON that request something.
//!
//! A block is fenced as `json` and has one key: `review`, `rerun`, `release` or `deployment`. It says what
//! the agent wishes, never to what: which pull request, run, tag or environment is meant is known from the
//! event. Whatever is not such a block is words.

use bailiwick_resources::{ArtifactKind, ReviewComment, ReviewDecision};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The most that is read of an answer, in bytes.
const MAX_ANSWER_BYTES: usize = 256 * 1024;
/// The maximum length of its text.
const MAX_TEXT_BYTES: usize = 64 * 1024;
/// The most of one text in a block.
const MAX_PART_BYTES: usize = 16 * 1024;
/// How many comments a review may have.
const MAX_COMMENTS: usize = 100;

/// The parsed answer of an agent.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AgentAnswer {
    /// The words, without the blocks.
    pub text: String,
    /// What it thinks of a change.
    pub review: Option<RequestedReview>,
    /// A request to rerun a check.
    pub rerun: Option<RequestedRerun>,
    /// What a release brings.
    pub release: Option<RequestedRelease>,
    /// What it thinks of a deployment.
    pub deployment: Option<RequestedDeployment>,
    /// Blocks that ask for something and cannot be read, by what they ask for and why.
    pub faults: Vec<(String, String)>,
}

/// A review.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RequestedReview {
    /// What it says.
    pub decision: ReviewDecision,
    /// In words.
    #[serde(default)]
    pub body: String,
    /// With places.
    #[serde(default)]
    pub comments: Vec<ReviewComment>,
}

/// A request to rerun a check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RequestedRerun {
    /// Whether the whole workflow is meant.
    #[serde(default)]
    pub whole_workflow: bool,
    /// Why.
    pub reason: String,
}

/// What a release brings.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RequestedRelease {
    /// Its title; the tag when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    pub notes: String,
}

/// What it thinks of a deployment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RequestedDeployment {
    /// Whether it may go ahead.
    pub approve: bool,
    /// In words.
    pub comment: String,
}

/// What the words of a run are, by what the run is for.
pub fn report_kind(task_kind: &str) -> ArtifactKind {
    for word in task_kind.split('-') {
        match word {
            "review" => return ArtifactKind::Review,
            "release" => return ArtifactKind::ReleaseReport,
            "test" | "tests" => return ArtifactKind::TestReport,
            _ => {}
        }
    }
    ArtifactKind::Diagnosis
}

/// A text that is no longer than so many bytes, and says so if it was.
pub(crate) fn bounded(text: &str, most: usize) -> String {
    const CUT: &str = "\n[cut]";
    if text.len() <= most {
        return text.to_owned();
    }
    let mut end = most.saturating_sub(CUT.len());
    while !text.is_char_boundary(end) {
        end = end.saturating_sub(1);
    }
    format!("{}{CUT}", text.get(..end).unwrap_or_default())
}

impl AgentAnswer {
    /// Reads an answer. `clean` takes secrets out of a text.
    pub fn read(answer: &str, clean: impl Fn(&str) -> String) -> Self {
        let answer = bounded(answer, MAX_ANSWER_BYTES);
        let mut said = Self::default();
        let mut words = Vec::new();
        for piece in pieces(&answer) {
            match piece {
                Piece::Words(line) => words.push(line),
                Piece::Json { whole, content } => {
                    if !said.take(&content) {
                        words.extend(whole);
                    }
                }
            }
        }
        said.drop_faulty();
        said.text = bounded(clean(words.join("\n").trim()).trim(), MAX_TEXT_BYTES);
        said.clean(&clean);
        said
    }

    /// Takes a block that asks for something; whether it is one.
    fn take(&mut self, content: &str) -> bool {
        const KEYS: [&str; 4] = ["review", "rerun", "release", "deployment"];
        let Ok(Value::Object(object)) = serde_json::from_str::<Value>(content) else {
            // One that was meant and is not JSON must not pass for words alone.
            let start = content.trim_start().trim_start_matches('{').trim_start();
            let meant = KEYS.iter().find(|wish| start.starts_with(&format!("\"{wish}\"")));
            if let Some(meant) = meant {
                self.faults.push(((*meant).to_owned(), "it is no JSON".to_owned()));
            }
            return false;
        };
        let mut entries = object.into_iter();
        let (Some((wish, value)), None) = (entries.next(), entries.next()) else { return false };
        let taken = match wish.as_str() {
            "review" => once(&mut self.review, value).and_then(|()| self.require_sound_review()),
            "rerun" => once(&mut self.rerun, value),
            "release" => once(&mut self.release, value),
            "deployment" => once(&mut self.deployment, value),
            _ => return false,
        };
        if let Err(why) = taken {
            self.faults.push((wish, why));
        }
        true
    }

    /// What was asked for wrongly, or twice, is not asked for.
    fn drop_faulty(&mut self) {
        for (wish, _) in &self.faults {
            match wish.as_str() {
                "review" => self.review = None,
                "rerun" => self.rerun = None,
                "release" => self.release = None,
                "deployment" => self.deployment = None,
                _ => {}
            }
        }
    }

    fn require_sound_review(&self) -> Result<(), String> {
        let Some(review) = &self.review else { return Ok(()) };
        if review.decision == ReviewDecision::Pending {
            return Err("a review says approved, changes-requested or comment-only".to_owned());
        }
        if review.comments.len() > MAX_COMMENTS {
            return Err(format!("it has more than {MAX_COMMENTS} comments"));
        }
        for comment in &review.comments {
            let path = &comment.path;
            let outside = path.is_empty()
                || path.starts_with('/')
                || path.split('/').any(|part| part == "..")
                || path.chars().any(char::is_control);
            if outside || comment.line == 0 {
                let shown = path.escape_debug();
                return Err(format!("`{shown}` at {} is no place in it", comment.line));
            }
        }
        Ok(())
    }

    fn clean(&mut self, clean: impl Fn(&str) -> String) {
        let clean = |text: &mut String| *text = bounded(&clean(text), MAX_PART_BYTES);
        if let Some(review) = &mut self.review {
            clean(&mut review.body);
            review.comments.iter_mut().for_each(|comment| clean(&mut comment.body));
        }
        if let Some(rerun) = &mut self.rerun {
            clean(&mut rerun.reason);
        }
        if let Some(release) = &mut self.release {
            release.title.iter_mut().for_each(clean);
            clean(&mut release.notes);
        }
        if let Some(deployment) = &mut self.deployment {
            clean(&mut deployment.comment);
        }
    }

    /// Why what is asked for under this name cannot be read.
    pub fn fault(&self, wish: &str) -> Option<&str> {
        let found = self.faults.iter().find(|(of, _)| of == wish);
        found.map(|(_, why)| why.as_str())
    }
}

/// Reads what is asked for, which must be asked for once.
fn once<T: serde::de::DeserializeOwned>(place: &mut Option<T>, value: Value) -> Result<(), String> {
    if place.is_some() {
        return Err("it is there twice".to_owned());
    }
    *place = Some(serde_json::from_value(value).map_err(|error| error.to_string())?);
    Ok(())
}

enum Piece<'a> {
    Words(&'a str),
    Json { whole: Vec<&'a str>, content: String },
}

/// The lines of a text, with blocks that are fenced as JSON in one piece.
fn pieces(text: &str) -> Vec<Piece<'_>> {
    let mut found = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let Some((ticks, word)) = opening(line) else {
            found.push(Piece::Words(line));
            continue;
        };
        let mut whole = vec![line];
        let mut content = Vec::new();
        let mut closed = false;
        for line in lines.by_ref() {
            whole.push(line);
            let rest = line.trim();
            if rest.len() >= ticks && rest.bytes().all(|byte| byte == b'`') {
                closed = true;
                break;
            }
            content.push(line);
        }
        if closed && word == "json" {
            found.push(Piece::Json { whole, content: content.join("\n") });
        } else {
            found.extend(whole.into_iter().map(Piece::Words));
        }
    }
    found
}

/// How many backticks open a block, and what it is said to be.
fn opening(line: &str) -> Option<(usize, &str)> {
    let line = line.trim_start();
    let ticks = line.bytes().take_while(|byte| *byte == b'`').count();
    let info = line.get(ticks..)?;
    (ticks >= 3 && !info.contains('`'))
        .then(|| (ticks, info.split_whitespace().next().unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(answer: &str) -> AgentAnswer {
        AgentAnswer::read(answer, str::to_owned)
    }

    #[test]
    fn a_block_is_taken_out_of_the_words() {
        let said = read(
            "It is sound.\n```json\n{\"review\": {\"decision\": \"approved\", \"body\": \"Fine.\"}}\n```\nBye.",
        );
        assert_eq!(said.text, "It is sound.\nBye.");
        assert_eq!(said.review.unwrap().decision, ReviewDecision::Approved);
        assert_eq!(said.faults, []);
    }

    #[test]
    fn other_code_stays_words() {
        let text = "Look:\n```json\n{\"a\": 1}\n```\n```rust\nfn a() {}\n```";
        assert_eq!(read(text).text, text);
        let open = "```json\n{\"rerun\": {\"reason\": \"flaky\"}}";
        assert_eq!(read(open).text, open, "what is not closed asks for nothing");
        assert_eq!(read(open).rerun, None);
    }

    #[test]
    fn what_cannot_be_read_is_told() {
        for (wish, block) in [
            ("review", "{\"review\": {\"decision\": \"pending\"}}"),
            ("review", "{\"review\": {\"decision\": \"approved\", \"more\": 1}}"),
            ("review", "{\"review\": {\"decision\": }}"),
            (
                "review",
                "{\"review\": {\"decision\": \"approved\", \"comments\": [{\"path\": \"../a\", \"line\": 1, \"body\": \"x\"}]}}",
            ),
            (
                "review",
                "{\"review\": {\"decision\": \"approved\", \"comments\": [{\"path\": \"a\", \"line\": 0, \"body\": \"x\"}]}}",
            ),
            ("rerun", "{\"rerun\": {}}"),
        ] {
            let said = read(&format!("```json\n{block}\n```"));
            assert!(said.fault(wish).is_some(), "{block}: {said:?}");
        }
        let twice = "```json\n{\"rerun\": {\"reason\": \"x\"}}\n```\n";
        assert!(read(&twice.repeat(2)).fault("rerun").is_some());
    }

    #[test]
    fn nothing_is_longer_than_it_may_be_and_every_text_is_cleaned() {
        let long = "é".repeat(MAX_ANSWER_BYTES);
        assert!(read(&long).text.len() <= MAX_TEXT_BYTES);
        let answer = "hush\n```json\n{\"review\": {\"decision\": \"comment-only\", \"body\": \"hush\", \"comments\": [{\"path\": \"a\", \"line\": 1, \"body\": \"hush\"}]}}\n```";
        let said = AgentAnswer::read(answer, |text| text.replace("hush", "-"));
        assert!(!format!("{said:?}").contains("hush"), "{said:?}");
    }

    #[test]
    fn what_a_run_is_for_says_what_its_words_are() {
        for (kind, expected) in [
            ("review", ArtifactKind::Review),
            ("code-review", ArtifactKind::Review),
            ("release-notes", ArtifactKind::ReleaseReport),
            ("test", ArtifactKind::TestReport),
            ("repair", ArtifactKind::Diagnosis),
            ("preview", ArtifactKind::Diagnosis),
        ] {
            assert_eq!(report_kind(kind), expected, "{kind}");
        }
    }
}
