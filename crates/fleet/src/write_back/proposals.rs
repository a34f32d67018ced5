//! The possible writes of finished work, in the required order. Policy decides about each of them afterwards.

use bailiwick_resources::{AgentDispatchRun, Object, ReviewDecision, TrustTier};
use serde_json::Value;

use super::agent_answer::{AgentAnswer, bounded};
use crate::ports::{FinishedWork, PullRequestState, Review, WriteBack};

/// The longest comment; forges take a little more.
const MAX_COMMENT_BYTES: usize = 40_000;
/// How many files a comment names.
const MAX_FILES: usize = 50;
/// The longest name of a file that is shown.
const MAX_NAME_LENGTH: usize = 200;
/// The longest title of an issue. Gitea answers 500 to more than 255 characters.
const MAX_TITLE_LENGTH: usize = 200;
/// How our marks begin: a text of an agent must not have one.
const MARK: &str = "<!-- bailiwick:";

/// Everything that is known of a finished piece of work.
#[derive(Debug, Clone, Copy)]
pub struct Finished<'a> {
    pub run: &'a Object<AgentDispatchRun>,
    /// The work of its agent.
    pub work: &'a FinishedWork,
    /// The answer of its agent.
    pub answer: &'a AgentAnswer,
    /// The state of its pull request on the forge.
    pub pull_request: Option<&'a PullRequestState>,
    /// The event that led to it, as it was sent.
    pub payload: Option<&'a Value>,
    /// Whether an approval of a change by the agent would be written without asking a person.
    pub reviews_freely: bool,
    /// Whether its rule has it open an issue.
    pub opens_issue: bool,
}

/// Something that could be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProposedWrite {
    pub write: WriteBack,
    /// Which of those before it must be written first.
    pub depends_on: Option<Dependency>,
    /// The required state of its target, if the write does not contain it.
    pub target_state: Option<String>,
}

impl From<WriteBack> for ProposedWrite {
    fn from(write: WriteBack) -> Self {
        Self { write, depends_on: None, target_state: None }
    }
}

/// How a write depends on an earlier one, by its position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dependency {
    /// It depends on another write, such as a pull request on its branch.
    Requires(usize),
    /// It reports success: it is left out if the other one was requested and is not written. If policy does not
    /// allow the other one, it does not depend on it.
    After(usize),
}

/// Everything that could be written of a verified piece of work.
pub fn wanted(finished: &Finished<'_>) -> Vec<ProposedWrite> {
    let mut all = change(finished);
    all.extend(review(finished).map(ProposedWrite::from));
    // The change itself, if there is one, is the first.
    let change = matches!(all.first(), Some(one) if matches!(one.write, WriteBack::Push { .. }));
    let comment = comment(finished, all.first().map(|one| &one.write));
    all.extend(comment.map(|comment| ProposedWrite {
        depends_on: change.then_some(Dependency::After(0)),
        ..comment
    }));
    all.extend(issue(finished).map(|issue| ProposedWrite {
        depends_on: change.then_some(Dependency::After(0)),
        ..ProposedWrite::from(issue)
    }));
    all.extend(rerun(finished).map(ProposedWrite::from));
    all.extend(release(finished).map(ProposedWrite::from));
    all.extend(deployment(finished).map(ProposedWrite::from));
    all
}

fn is_trusted(finished: &Finished<'_>) -> bool {
    finished.run.spec.trust_tier == TrustTier::Trusted
}

/// The change itself: to the branch of the pull request if the forge confirms it, otherwise to a new one. Untrusted
/// work is never pushed.
fn change(finished: &Finished<'_>) -> Vec<ProposedWrite> {
    let Finished { run, work, .. } = *finished;
    if work.files.is_empty() || !is_trusted(finished) {
        return Vec::new();
    }
    if let Some(branch) = run.spec.branch.as_ref().filter(|branch| is_head(finished, branch)) {
        // The commit that the attempt started from: later pushes are not overwritten.
        let from = Some(run.status.pushed.clone().unwrap_or_else(|| run.spec.sha.clone()));
        let push = WriteBack::Push { branch: branch.clone(), commit: work.commit.clone(), from };
        return vec![push.into()];
    }
    // Each attempt has a new branch: the branch of an earlier one stays as it was approved.
    let head = format!("agent/{}", run.status.attempts.last().map_or(run.name(), String::as_str));
    let push = WriteBack::Push { branch: head.clone(), commit: work.commit.clone(), from: None };
    let mut all = vec![ProposedWrite::from(push)];
    if let Some(base) = &run.spec.branch {
        let title = format!("{}: {}", run.spec.task_kind, run.spec.agent_stack);
        let mut body = summary(finished);
        // The forge closes the issue when the pull request is merged, and links the two until then.
        if let Some(issue) = run.spec.source_refs.issue {
            body.push_str(&format!("\n\nCloses #{issue}"));
        }
        let write = WriteBack::OpenPullRequest { head, base: base.clone(), title, body };
        all.push(ProposedWrite { depends_on: Some(Dependency::Requires(0)), ..write.into() });
    }
    all
}

/// Whether the forge confirms that a branch is the head of a pull request of this repository.
fn is_head(finished: &Finished<'_>, branch: &str) -> bool {
    finished.pull_request.is_some_and(|pull| {
        let here = pull.head_repository.as_deref();
        Some(pull.number) == finished.run.spec.source_refs.pull_request
            && pull.head_branch == branch
            && here.is_some_and(|here| here.eq_ignore_ascii_case(&finished.run.spec.repository))
    })
}

fn review(finished: &Finished<'_>) -> Option<WriteBack> {
    let number = finished.run.spec.source_refs.pull_request?;
    let review = finished.answer.review.as_ref()?;
    // Text from untrusted sources may have caused the approval, so it is published as a comment only.
    let decision = match review.decision {
        ReviewDecision::Approved if finished.reviews_freely && !is_trusted(finished) => {
            ReviewDecision::CommentOnly
        }
        other @ (ReviewDecision::Approved
        | ReviewDecision::Pending
        | ReviewDecision::ChangesRequested
        | ReviewDecision::CommentOnly) => other,
    };
    let body = if review.body.trim().is_empty() { &finished.answer.text } else { &review.body };
    let mut comments = review.comments.clone();
    comments.iter_mut().for_each(|comment| comment.body = shown(finished, &comment.body));
    let (sha, body) = (finished.run.spec.sha.clone(), shown(finished, body));
    Some(WriteBack::Review(Review { number, sha, decision, body, comments }))
}

fn comment(finished: &Finished<'_>, first: Option<&WriteBack>) -> Option<ProposedWrite> {
    let refs = &finished.run.spec.source_refs;
    let body = summary(finished);
    if let Some(number) = refs.pull_request {
        let moves = matches!(first, Some(WriteBack::Push { from: Some(_), .. }));
        // If the work itself is pushed there first, its state will be another one.
        let state = finished.pull_request.filter(|_| !moves).map(|pull| pull.head_sha.clone());
        let write = WriteBack::Comment { number, pull_request: true, body };
        return Some(ProposedWrite { target_state: state, ..write.into() });
    }
    let number = refs.issue.or(finished.run.status.opened_issue)?;
    Some(WriteBack::Comment { number, pull_request: false, body }.into())
}

/// A new issue with the agent's answer; its first line is the title.
fn issue(finished: &Finished<'_>) -> Option<WriteBack> {
    let Finished { run, answer, .. } = *finished;
    if !finished.opens_issue {
        return None;
    }
    let mut lines = answer.text.lines().map(|line| line.trim_start_matches('#').trim());
    let first = lines.find(|line| !line.is_empty());
    let usual = format!("{}: {}", run.spec.task_kind, run.spec.agent_stack);
    // Cut last: names that are not to be called get longer.
    let title = shown(finished, first.unwrap_or(&usual));
    let title: String = title.chars().take(MAX_TITLE_LENGTH).collect();
    let (name, run_uid) = (run.name().to_owned(), run.metadata.uid.clone());
    Some(WriteBack::OpenIssue { run: name, run_uid, title, body: summary(finished) })
}

/// The run that the event is about, again. An agent cannot choose another one.
fn rerun(finished: &Finished<'_>) -> Option<WriteBack> {
    let request = finished.answer.rerun.as_ref()?;
    let (run, whole_workflow, attempt) = rerun_of(finished.payload?, request.whole_workflow)?;
    Some(WriteBack::Rerun { run, whole_workflow, attempt })
}

/// The job or run that an event is about: its id, whether it is a whole workflow, and its attempt.
pub(crate) fn rerun_of(payload: &Value, whole: bool) -> Option<(String, bool, u64)> {
    let number = |pointer: &str| payload.pointer(pointer).and_then(Value::as_u64);
    if let Some(job) = number("/workflow_job/id") {
        let attempt = number("/workflow_job/run_attempt")?;
        let id = if whole { number("/workflow_job/run_id")? } else { job };
        return Some((id.to_string(), whole, attempt));
    }
    let run = number("/workflow_run/id")?;
    Some((run.to_string(), true, number("/workflow_run/run_attempt")?))
}

fn release(finished: &Finished<'_>) -> Option<WriteBack> {
    let tag = finished.run.spec.reference.strip_prefix("refs/tags/")?;
    let release = finished.answer.release.as_ref().filter(|_| is_trusted(finished))?;
    let title = release.title.clone().unwrap_or_else(|| tag.to_owned());
    let body = shown(finished, &release.notes);
    Some(WriteBack::ReleaseNote { tag: tag.to_owned(), title, body })
}

/// The approval of the deployment in the event. A denial is only a comment.
fn deployment(finished: &Finished<'_>) -> Option<WriteBack> {
    let deployment = finished.answer.deployment.as_ref();
    let deployment = deployment.filter(|deployment| deployment.approve && is_trusted(finished))?;
    let payload = finished.payload?;
    let run = payload.pointer("/workflow_run/id").and_then(Value::as_u64)?.to_string();
    let environment = payload.pointer("/environment").and_then(Value::as_str)?.to_owned();
    Some(WriteBack::DeploymentApproval {
        run,
        environment,
        comment: shown(finished, &deployment.comment),
    })
}

/// A text of an agent, made safe for a forge.
fn shown(finished: &Finished<'_>, text: &str) -> String {
    let text = text.replace(MARK, "<!- bailiwick:");
    let text = if is_trusted(finished) { text } else { calling_nobody(&text) };
    bounded(&bailiwick_model::secret::redacted(&text), MAX_COMMENT_BYTES)
}

/// The text with a mark behind each `@` in front of a name, so that it mentions nobody.
pub fn calling_nobody(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut before = ' ';
    for c in text.chars() {
        out.push(c);
        if c == '@' && !before.is_alphanumeric() {
            out.push('\u{200b}');
        }
        before = c;
    }
    out
}

/// The first text that people see: the outcome, the agent's answer, and the changed files.
fn summary(finished: &Finished<'_>) -> String {
    let Finished { run, work, answer, .. } = *finished;
    let verdict = work.verdict.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut parts =
        vec![format!("**{}** ({}) ended: {verdict}", run.spec.agent_stack, run.spec.task_kind)];
    if !answer.text.is_empty() {
        parts.push(bounded(&answer.text, MAX_COMMENT_BYTES / 2));
    }
    let names = work.files.iter().take(MAX_FILES).map(|file| format!("- {}", code(file)));
    let mut names: Vec<String> = names.collect();
    if work.files.len() > MAX_FILES {
        names.push(format!("- and {} more", work.files.len() - MAX_FILES));
    }
    parts.push(match names.is_empty() {
        true => "No file was changed.".to_owned(),
        false => names.join("\n"),
    });
    shown(finished, &parts.join("\n\n"))
}

/// A name as inline code, with any content.
fn code(name: &str) -> String {
    let plain = |c: char| !c.is_control() && !matches!(c, '\u{2028}' | '\u{2029}');
    let name: String =
        name.chars().map(|c| if plain(c) { c } else { '\u{fffd}' }).take(MAX_NAME_LENGTH).collect();
    let longest = name.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest + 1);
    let pad = if name.starts_with('`') || name.ends_with('`') { " " } else { "" };
    format!("{fence}{pad}{name}{pad}{fence}")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn name_cannot_end_its_code_span() {
        assert_eq!(code("src/a.rs"), "`src/a.rs`");
        assert_eq!(code("a`b"), "``a`b``");
        assert_eq!(code("``a"), "``` ``a ```");
        let hostile = code("a\n\n@everyone **x**");
        assert!(!hostile.contains('\n') && hostile.starts_with('`'), "{hostile:?}");
        assert!(code(&"x".repeat(5_000)).len() < 300);
    }

    #[test]
    fn mentions_are_disabled_and_email_addresses_stay() {
        assert_eq!(calling_nobody("@ada and a@b.c"), "@\u{200b}ada and a@b.c");
    }

    #[test]
    fn rerun_targets_the_job_or_workflow_run_of_the_event() {
        let job = json!({ "workflow_job": { "id": 7, "run_id": 3, "run_attempt": 2 } });
        assert_eq!(rerun_of(&job, false), Some(("7".to_owned(), false, 2)));
        assert_eq!(rerun_of(&job, true), Some(("3".to_owned(), true, 2)));
        let run = json!({ "workflow_run": { "id": 3, "run_attempt": 1 } });
        assert_eq!(rerun_of(&run, false), Some(("3".to_owned(), true, 1)));
        for payload in [json!({}), json!({ "workflow_run": { "id": 3 } })] {
            assert_eq!(rerun_of(&payload, true), None, "{payload}");
        }
    }
}
