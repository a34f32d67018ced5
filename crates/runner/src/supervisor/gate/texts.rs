//! Texts about a call for people and agents: its subject, the question for a person, and objections to files.

use bailiwick_lifecycle::ports::{DecidedCall, ForbiddenFile};
use bailiwick_model::Sha256Hex;
use bailiwick_model::event::{EventKind, FileChange};
use bailiwick_policy::decision::Objection;
use bailiwick_policy::record::RecordedCall;

pub(super) fn tool(call: &RecordedCall) -> String {
    call.tools.first().cloned().unwrap_or_else(|| call.cli_tool_name.clone())
}

/// The question for a person: the tool, its input as far as it can be shown, and the digest of the input,
/// which differs for every other call.
pub(super) fn approval_text(decided_call: &DecidedCall) -> String {
    let DecidedCall { call, input_preview, input, .. } = decided_call;
    let about = about(decided_call);
    let text = match (&call.unreadable, &call.command) {
        (Some(_), _) | (None, Some(_)) => about,
        (None, None) if call.files.is_empty() => input_preview.clone(),
        (None, None) => format!("{about}: {input_preview}"),
    };
    let digest = match input.is_null() {
        true => String::new(),
        false => format!(" [input {}]", Sha256Hex::of(input.to_string()).prefix(24)),
    };
    format!("{} {}{digest}", tool(call), text.trim()).trim().to_owned()
}

/// The subject of a call, for people.
pub(super) fn about(DecidedCall { call, own_tool_text, .. }: &DecidedCall) -> String {
    match (&call.command, call.files.as_slice(), &call.unreadable) {
        (_, _, Some(why)) => why.clone(),
        (_, _, None) if own_tool_text.is_some() => own_tool_text.clone().unwrap_or_default(),
        (Some(command), _, None) => command.clone(),
        (None, files, None) => {
            files.iter().map(|file| file.path.as_str()).collect::<Vec<_>>().join(", ")
        }
    }
}

/// The event for a file that was removed.
pub(in crate::supervisor) fn removal_event(file: &ForbiddenFile) -> EventKind {
    let ForbiddenFile { path, capability } = file;
    let message = format!("the new file {path} was removed from the worktree: {capability}");
    EventKind::Error { message }
}

/// The event for a file that was created outside of the scope.
pub(in crate::supervisor) fn left_out_event(file: &ForbiddenFile) -> EventKind {
    EventKind::FileChange { path: file.path.clone(), change: FileChange::LeftOut }
}

/// How many files an objection names.
const NAMED: usize = 5;

pub(super) fn names(files: &[ForbiddenFile]) -> String {
    let named: Vec<&str> = files.iter().take(NAMED).map(|file| file.path.as_str()).collect();
    match files.len().saturating_sub(NAMED) {
        0 => named.join(", "),
        more => format!("{} and {more} more", named.join(", ")),
    }
}

pub(super) fn left_out_objection(left_out: &[ForbiddenFile]) -> Option<Objection> {
    let first = left_out.first()?;
    let reason = format!(
        "your last call made {}, outside of your scope: that is not part of your change and will not \
         land; this call did not run",
        names(left_out)
    );
    let instead = "repeat this call if that was only build output; if your change needs it, make it within \
                   your scope, or say in your report what is missing";
    Some(Objection::new(&first.capability, reason, instead))
}

pub(super) fn removal_objection(removed: &[ForbiddenFile]) -> Option<Objection> {
    let first = removed.first()?;
    let reason = format!(
        "your last call made {}, which you may not; it was removed, and this call did not run",
        names(removed)
    );
    let instead = "go on without it: repeat this call if it does not need it, and say in your report \
                   what you would have added";
    Some(Objection::new(&first.capability, reason, instead))
}
