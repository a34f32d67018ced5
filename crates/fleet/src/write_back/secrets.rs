//! Refuses texts that look as if they contain a secret.

use bailiwick_model::secret;

use crate::bundle::Redactor;
use crate::ports::WriteBack;

/// The problem of a write that contains a known secret, or text that looks like one.
pub(super) fn suspect(
    write: &WriteBack,
    content: &[&str],
    redactor: Option<&Redactor>,
) -> Option<String> {
    let known = |text: &str| redactor.is_some_and(|redactor| redactor.finds_in_code(text));
    let told = |place: &str, looks: bool, known: bool| match (looks, known) {
        (_, true) => Some(format!("{place} has a value in it that is kept as a secret here")),
        (true, false) => Some(format!("{place} looks as if it had a secret in it")),
        (false, false) => None,
    };
    let words = texts(write).into_iter();
    let mut words = words.filter_map(|(place, text)| told(place, in_words(text), known(text)));
    let code = |text: &&str| told("the change", in_code(text), known(text));
    words.next().or_else(|| content.iter().find_map(code))
}

/// Words for people have no reason to look like a secret.
fn in_words(text: &str) -> bool {
    secret::redacted(text) != text
}

/// Code often mentions tokens and passwords: only known formats count.
fn in_code(text: &str) -> bool {
    secret::has_key_or_token(text)
}

fn texts(write: &WriteBack) -> Vec<(&'static str, &str)> {
    match write {
        WriteBack::Comment { body, .. } => vec![("the comment", body)],
        WriteBack::Review(review) => {
            let comments = review.comments.iter().map(|one| ("a comment", one.body.as_str()));
            std::iter::once(("the review", review.body.as_str())).chain(comments).collect()
        }
        // A name alone; what it brings is in the content.
        WriteBack::Push { branch, .. } => vec![("the branch", branch)],
        WriteBack::OpenPullRequest { title, body, .. }
        | WriteBack::OpenIssue { title, body, .. } => {
            vec![("the title", title), ("the text", body)]
        }
        WriteBack::CheckStatus { description, context, url, .. } => {
            let url = url.as_deref().unwrap_or_default();
            vec![("the description", description), ("the context", context), ("the address", url)]
        }
        WriteBack::Rerun { .. } => Vec::new(),
        WriteBack::ReleaseNote { title, body, .. } => {
            vec![("the title", title), ("the notes", body)]
        }
        WriteBack::DeploymentApproval { comment, .. } => vec![("the comment", comment)],
    }
}
