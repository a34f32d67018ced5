//! The final answer of an agent: text for people, and blocks of JSON that request something.
//!
//! A block is fenced as `json` and has one key: `review`, `rerun`, `release` or `deployment`. It never names
//! its target: the pull request, run, tag or environment comes from the event. Everything else is text.

use bailiwick_resources::{ArtifactKind, ReviewComment, ReviewDecision};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use thiserror::Error;

/// Longer answers are cut.
const MAX_ANSWER_BYTES: usize = 256 * 1024;
const MAX_TEXT_BYTES: usize = 64 * 1024;
/// The maximum length of one text in a block.
const MAX_PART_BYTES: usize = 16 * 1024;
const MAX_COMMENTS: usize = 100;

/// The parsed answer of an agent.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AgentAnswer {
    /// The text, without the blocks.
    pub text: String,
    pub review: Option<RequestedReview>,
    pub rerun: Option<RequestedRerun>,
    pub release: Option<RequestedRelease>,
    pub deployment: Option<RequestedDeployment>,
    /// The keys of blocks that cannot be used, and why.
    pub faults: Vec<(String, BlockError)>,
}

/// Why a block cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum BlockError {
    #[error("it is not JSON")]
    NotJson,
    #[error("it is there twice")]
    Repeated,
    #[error("{0}")]
    WrongShape(String),
    #[error("a review says approved, changes-requested or comment-only")]
    NoDecision,
    #[error("it has more than {MAX_COMMENTS} comments")]
    TooManyComments,
    #[error("`{}` at {line} is not a line of a file in the repository", .path.escape_debug())]
    InvalidPlace { path: String, line: u64 },
}

/// A review.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RequestedReview {
    pub decision: ReviewDecision,
    #[serde(default)]
    pub body: String,
    /// Comments on lines of files.
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
    pub reason: String,
}

/// The title and notes of a release.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RequestedRelease {
    /// Its title; the tag when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    pub notes: String,
}

/// A decision about a deployment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RequestedDeployment {
    /// Whether it may go ahead.
    pub approve: bool,
    pub comment: String,
}

/// The kind of artifact that the text of a run is, by the kind of its task.
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

/// Cuts a text to a number of bytes, with a mark at its end.
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
    /// Reads an answer. `clean` removes secrets from a text.
    pub fn read(answer: &str, clean: impl Fn(&str) -> String) -> Self {
        let answer = bounded(answer, MAX_ANSWER_BYTES);
        let mut parsed = Self::default();
        let mut text = Vec::new();
        for piece in pieces(&answer) {
            match piece {
                Piece::Line(line) => text.push(line),
                Piece::Json { lines, content } => {
                    if !parsed.read_block(&content) {
                        text.extend(lines);
                    }
                }
            }
        }
        parsed.drop_faulty();
        parsed.text = bounded(clean(text.join("\n").trim()).trim(), MAX_TEXT_BYTES);
        parsed.clean(&clean);
        parsed
    }

    /// Reads a block; returns whether it is a request.
    fn read_block(&mut self, content: &str) -> bool {
        const KEYS: [&str; 4] = ["review", "rerun", "release", "deployment"];
        let Ok(Value::Object(object)) = serde_json::from_str::<Value>(content) else {
            // A broken request must not pass for text.
            let start = content.trim_start().trim_start_matches('{').trim_start();
            let key = KEYS.iter().find(|key| start.starts_with(&format!("\"{key}\"")));
            if let Some(key) = key {
                self.faults.push(((*key).to_owned(), BlockError::NotJson));
            }
            return false;
        };
        let mut entries = object.into_iter();
        let (Some((key, value)), None) = (entries.next(), entries.next()) else { return false };
        let result = match key.as_str() {
            "review" => once(&mut self.review, value).and_then(|()| self.require_sound_review()),
            "rerun" => once(&mut self.rerun, value),
            "release" => once(&mut self.release, value),
            "deployment" => once(&mut self.deployment, value),
            _ => return false,
        };
        if let Err(error) = result {
            self.faults.push((key, error));
        }
        true
    }

    /// A request with a fault, or made twice, does not count.
    fn drop_faulty(&mut self) {
        for (key, _) in &self.faults {
            match key.as_str() {
                "review" => self.review = None,
                "rerun" => self.rerun = None,
                "release" => self.release = None,
                "deployment" => self.deployment = None,
                _ => {}
            }
        }
    }

    fn require_sound_review(&self) -> Result<(), BlockError> {
        let Some(review) = &self.review else { return Ok(()) };
        if review.decision == ReviewDecision::Pending {
            return Err(BlockError::NoDecision);
        }
        if review.comments.len() > MAX_COMMENTS {
            return Err(BlockError::TooManyComments);
        }
        for comment in &review.comments {
            let path = &comment.path;
            let outside = path.is_empty()
                || path.starts_with('/')
                || path.split('/').any(|part| part == "..")
                || path.chars().any(char::is_control);
            if outside || comment.line == 0 {
                let (path, line) = (path.clone(), comment.line);
                return Err(BlockError::InvalidPlace { path, line });
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

    /// Why the block with this key cannot be used.
    pub fn fault(&self, key: &str) -> Option<&BlockError> {
        self.faults.iter().find(|(of, _)| of == key).map(|(_, error)| error)
    }
}

/// Reads a request, which must be made once.
fn once<T>(place: &mut Option<T>, value: Value) -> Result<(), BlockError>
where
    T: serde::de::DeserializeOwned,
{
    if place.is_some() {
        return Err(BlockError::Repeated);
    }
    let wrong = |error: serde_json::Error| BlockError::WrongShape(error.to_string());
    *place = Some(serde_json::from_value(value).map_err(wrong)?);
    Ok(())
}

enum Piece<'a> {
    Line(&'a str),
    Json { lines: Vec<&'a str>, content: String },
}

/// The lines of a text, with blocks that are fenced as JSON in one piece.
fn pieces(text: &str) -> Vec<Piece<'_>> {
    let mut found = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let Some((ticks, word)) = opening(line) else {
            found.push(Piece::Line(line));
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
            found.push(Piece::Json { lines: whole, content: content.join("\n") });
        } else {
            found.extend(whole.into_iter().map(Piece::Line));
        }
    }
    found
}

/// The number of backticks that open a block, and its language.
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
    fn review_block_is_removed_from_the_text() {
        let parsed = read(
            "It is sound.\n```json\n{\"review\": {\"decision\": \"approved\", \"body\": \"Fine.\"}}\n```\nBye.",
        );
        assert_eq!(parsed.text, "It is sound.\nBye.");
        assert_eq!(parsed.review.unwrap().decision, ReviewDecision::Approved);
        assert_eq!(parsed.faults, []);
    }

    #[test]
    fn other_code_blocks_stay_in_the_text() {
        let text = "Look:\n```json\n{\"a\": 1}\n```\n```rust\nfn a() {}\n```";
        assert_eq!(read(text).text, text);
        let open = "```json\n{\"rerun\": {\"reason\": \"flaky\"}}";
        assert_eq!(read(open).text, open, "an unclosed block is no request");
        assert_eq!(read(open).rerun, None);
    }

    #[test]
    fn malformed_block_is_reported_as_a_fault() {
        for (name, block) in [
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
            let parsed = read(&format!("```json\n{block}\n```"));
            assert!(parsed.fault(name).is_some(), "{block}: {parsed:?}");
        }
        let twice = "```json\n{\"rerun\": {\"reason\": \"x\"}}\n```\n";
        assert!(read(&twice.repeat(2)).fault("rerun").is_some());
    }

    #[test]
    fn text_is_limited_and_every_text_is_redacted() {
        let long = "é".repeat(MAX_ANSWER_BYTES);
        assert!(read(&long).text.len() <= MAX_TEXT_BYTES);
        let answer = "hush\n```json\n{\"review\": {\"decision\": \"comment-only\", \"body\": \"hush\", \"comments\": [{\"path\": \"a\", \"line\": 1, \"body\": \"hush\"}]}}\n```";
        let parsed = AgentAnswer::read(answer, |text| text.replace("hush", "-"));
        assert!(!format!("{parsed:?}").contains("hush"), "{parsed:?}");
    }

    #[test]
    fn task_kind_decides_the_kind_of_the_report() {
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
