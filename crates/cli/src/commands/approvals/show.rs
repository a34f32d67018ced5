//! `bailiwick approvals show`: exactly what an approval would write, and where.

use std::fmt::Write as _;

use bailiwick_fleet::ports::{ApprovalPreview, Target, WriteBack};
use bailiwick_resources::{ActionType, DEFAULT_NAMESPACE, PatchCommit};

use crate::commands::fleet::access::FleetAccess;
use crate::failure::Failure;
use crate::output::{self, Format, FormatOption, is_hidden};
use crate::view::plain;

/// Prints what an approval of the control plane allows.
pub(super) fn show(fleet: &FleetAccess, name: &str, format: FormatOption) -> Result<(), Failure> {
    let target = Target { namespace: DEFAULT_NAMESPACE.to_owned(), name: name.to_owned() };
    let preview = fleet.ask(async |client| {
        client
            .preview_approval(&target)
            .await
            .map_err(|error| Failure::from(error).help("see what waits: bailiwick approvals list"))
    })?;
    if format.format == Format::Json {
        return output::json(&preview);
    }
    for line in render(&preview)?.lines() {
        output::line(format_args!("{line}"));
    }
    Ok(())
}

/// The kind of an action in one word, as policies write it.
pub(super) fn action_word(action: ActionType) -> String {
    let value = serde_json::to_value(action).unwrap_or_default();
    let word = value.get("what").or_else(|| value.get("class"));
    word.and_then(|word| word.as_str()).unwrap_or_default().to_owned()
}

fn render(preview: &ApprovalPreview) -> Result<String, Failure> {
    let phase = serde_json::to_value(preview.phase).unwrap_or_default();
    let mut rows = vec![
        ("approval", format!("{} ({})", preview.approval, phase.as_str().unwrap_or_default())),
        ("action", action_word(preview.action)),
        ("target", plain(&preview.target)),
        ("state", state(preview)),
        ("run", plain(&preview.run)),
        ("attempt", preview.attempt.clone().unwrap_or_default()),
        ("requested by", plain(&preview.requested_by)),
        ("expires", preview.expires_at.to_string()),
        ("digest", preview.digest.clone()),
        ("summary", plain(&preview.summary)),
    ];
    rows.retain(|(_, value)| !value.is_empty());
    let mut text = String::new();
    for (name, value) in rows {
        let _ = writeln!(text, "{name:<13} {value}");
    }
    if let Some(content) = &preview.content {
        let write: WriteBack = serde_json::from_value(content.clone()).map_err(|error| {
            Failure::general(format!("the content of {} cannot be read: {error}", preview.approval))
        })?;
        for (name, part) in parts(&write, preview) {
            let _ = write!(text, "\n{name}:\n{}\n", indented(&part));
        }
    }
    Ok(text)
}

/// The state that the approval is bound to, and the state now.
fn state(preview: &ApprovalPreview) -> String {
    let now = match (&preview.target_state, &preview.target_now) {
        (None, None) => String::new(),
        (None, Some(now)) => format!("now at {now}"),
        (Some(then), None) => format!("at {then} when it was requested"),
        (Some(then), Some(now)) if then == now => format!("at {now}, as when it was requested"),
        (Some(then), Some(now)) => format!("moved: it was at {then} and is at {now}"),
    };
    let notes = [&preview.obstacle, &preview.note, &preview.unknown];
    let notes = notes.into_iter().flatten().map(|note| plain(note));
    let all = [now].into_iter().filter(|now| !now.is_empty()).chain(notes);
    all.collect::<Vec<_>>().join("; ")
}

/// Every text that the forge gets, whole, with its name.
fn parts(write: &WriteBack, preview: &ApprovalPreview) -> Vec<(String, String)> {
    let part = |name: &str, text: &str| (name.to_owned(), text.to_owned());
    match write {
        WriteBack::Comment { body, .. } => vec![part("comment", body)],
        WriteBack::Review(review) => {
            let decision = serde_json::to_value(review.decision).unwrap_or_default();
            let name = format!("review ({})", decision.as_str().unwrap_or_default());
            let mut all = vec![(name, review.body.clone())];
            let comments = review.comments.iter();
            all.extend(comments.map(|one| {
                (format!("comment on {}:{}", plain(&one.path), one.line), one.body.clone())
            }));
            all
        }
        WriteBack::Push { branch, commit, from } => {
            let from = from.as_deref().unwrap_or("no commit: the branch is created");
            let diff = preview.diff.as_deref();
            let diff = diff.unwrap_or("not stored: see the commit in the checkout");
            let name = format!("push of {commit} to {} (from {from})", plain(branch));
            vec![(format!("commits of {commit}"), commits(preview)), (name, diff.to_owned())]
        }
        WriteBack::OpenIssue { title, body, .. } => {
            vec![part("issue", title), part("text", body)]
        }
        WriteBack::OpenPullRequest { head, base, title, body } => {
            let name = format!("pull request from {} to {}", plain(head), plain(base));
            vec![(name, title.clone()), part("text", body)]
        }
        WriteBack::CheckStatus { context, state, description, url, .. } => {
            let state = serde_json::to_value(state).unwrap_or_default();
            let name =
                format!("status {} ({})", plain(context), state.as_str().unwrap_or_default());
            let url = url.as_deref().map(|url| part("link", url));
            std::iter::once((name, description.clone())).chain(url).collect()
        }
        WriteBack::Rerun { run, whole_workflow, attempt } => {
            let what = if *whole_workflow { "workflow run" } else { "job" };
            vec![part("rerun", &format!("{what} {run}, after attempt {attempt}"))]
        }
        WriteBack::ReleaseNote { title, body, .. } => {
            vec![part("title", title), part("notes", body)]
        }
        WriteBack::DeploymentApproval { run, environment, comment } => {
            let name = format!("deployment of run {} to {}", plain(run), plain(environment));
            vec![(name, comment.clone())]
        }
    }
}

/// What each commit of a push says, who wrote it, and what it changes: the forge gets that with the diff.
fn commits(preview: &ApprovalPreview) -> String {
    if preview.commits.is_empty() {
        return "not stored: see the log of the commit in the checkout".to_owned();
    }
    let one = |commit: &PatchCommit| {
        let mut text = format!("{} by {}", commit.sha, plain(&commit.author));
        if let Some(committer) = &commit.committer {
            let _ = write!(text, ", committed by {}", plain(committer));
        }
        for line in commit.message.lines() {
            let _ = write!(text, "\n    {line}");
        }
        let files: Vec<String> = commit.files.iter().map(|file| plain(file)).collect();
        let files = if files.is_empty() { "none".to_owned() } else { files.join(", ") };
        let _ = write!(text, "\n    files: {files}");
        text
    };
    preview.commits.iter().map(one).collect::<Vec<_>>().join("\n")
}

/// A text with two blanks before each line. Characters that a terminal would hide or obey are written out.
fn indented(text: &str) -> String {
    let mut shown = String::new();
    for c in text.chars() {
        match c {
            '\n' => shown.push_str("\n  "),
            '\t' => shown.push(c),
            c if c.is_control() || is_hidden(c) => shown.extend(c.escape_unicode()),
            c => shown.push(c),
        }
    }
    format!("  {shown}")
}

#[cfg(test)]
mod tests {
    use bailiwick_resources::{ApprovalPhase, WriteBackTarget};

    use super::*;

    fn preview(write: &WriteBack) -> ApprovalPreview {
        ApprovalPreview {
            approval: "aap-1".to_owned(),
            phase: ApprovalPhase::Pending,
            action: ActionType::WriteBack(WriteBackTarget::IssueComment),
            target: "acme/app#4".to_owned(),
            summary: "3 checks passed".to_owned(),
            run: "adr-1".to_owned(),
            attempt: None,
            requested_by: "ada-1".to_owned(),
            digest: "d1".to_owned(),
            expires_at: Default::default(),
            target_state: None,
            target_now: None,
            obstacle: None,
            note: None,
            unknown: None,
            content: Some(serde_json::to_value(write).unwrap()),
            commits: Vec::new(),
            diff: None,
        }
    }

    #[test]
    fn full_text_is_shown_with_escaped_control_characters() {
        let body = format!("First.\n{}\nRight\u{202e}left\u{1b}[2J", "x".repeat(5_000));
        let write = WriteBack::Comment { number: 4, pull_request: false, body };
        let text = render(&preview(&write)).unwrap();
        assert!(text.contains("action        issue-comment"), "{text}");
        assert!(text.contains("target        acme/app#4"), "{text}");
        assert!(text.contains(&"x".repeat(5_000)), "{text}");
        assert!(text.contains("Right\\u{202e}left\\u{1b}[2J"), "{text}");
        assert!(!text.contains('\u{1b}') && !text.contains('\u{202e}'));
    }

    #[test]
    fn push_is_shown_with_its_diff_and_the_moved_target() {
        let write = WriteBack::Push {
            branch: "topic".to_owned(),
            commit: "c".repeat(40),
            from: Some("a".repeat(40)),
        };
        let mut preview = preview(&write);
        preview.action = ActionType::WriteBack(WriteBackTarget::BranchPush);
        preview.target_state = Some("a".repeat(40));
        preview.target_now = Some("b".repeat(40));
        preview.diff = Some("+a line\n".to_owned());
        let text = render(&preview).unwrap();
        let moved = format!("moved: it was at {} and is at {}", "a".repeat(40), "b".repeat(40));
        assert!(text.contains(&moved), "{text}");
        assert!(text.contains("+a line") && text.contains("to topic (from aaaa"), "{text}");
        assert!(text.contains("not stored: see the log"), "{text}");
        let commit = |message: &str, files: &[&str]| PatchCommit {
            sha: "c".repeat(40),
            author: "Agent <agent@example.org>".to_owned(),
            committer: Some("Other\u{1b} <other@example.org>".to_owned()),
            message: message.to_owned(),
            files: files.iter().map(|file| (*file).to_owned()).collect(),
        };
        preview.commits = vec![
            commit("Add a line\n\nApprove me\u{202e}", &["src/a.rs", "src/b.rs"]),
            commit("Undo", &[]),
        ];
        let text = render(&preview).unwrap();
        for shown in [
            "by Agent <agent@example.org>, committed by Other",
            "      Add a line\n",
            "      Approve me\\u{202e}\n",
            "files: src/a.rs, src/b.rs",
            "      Undo\n      files: none",
            "+a line",
        ] {
            assert!(text.contains(shown), "{shown}: {text}");
        }
        assert!(!text.contains('\u{1b}') && !text.contains('\u{202e}'));
        preview.note = Some("the forge has rules for topic (pull_request)".to_owned());
        assert!(render(&preview).unwrap().contains("; the forge has rules for topic"));
        preview.target_now = Some("a".repeat(40));
        assert!(render(&preview).unwrap().contains("as when it was requested"));
    }
}
