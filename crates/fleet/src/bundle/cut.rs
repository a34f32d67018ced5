//! Cuts a text to a limit: the most relevant part stays, and a marker says what is missing.

use std::sync::LazyLock;

use bailiwick_resources::Truncation;
use regex::Regex;

use super::parts::Form;

/// How many bytes of one job's log.
pub const LOG_LIMIT: usize = 256 * 1024;
/// How many bytes of a diff.
pub const DIFF_LIMIT: usize = 256 * 1024;

/// Lines before the first error that show what led to it.
const LINES_BEFORE: usize = 20;

/// The pattern of a failing line. Without one, the end of a log is kept.
static ERROR: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(
        r"(?i)(^|\W)(error(\[\w+\])?:|error |fatal:|failed|failure|panicked at|exception|traceback|assertion|##\[error\]|not ok)",
    )
    .ok()
});

/// The text, with what is over the limit cut out of it.
pub(super) fn cut(
    text: &str,
    limit: usize,
    name: &str,
    form: Form,
) -> (String, Option<Truncation>) {
    if text.len() <= limit {
        return (text.to_owned(), None);
    }
    let (kept, what) = match form {
        Form::Log => log(text, limit),
        Form::Diff => diff(text, limit),
        Form::Instruction | Form::Plain | Form::Breadcrumbs => {
            (head(text, limit), "its beginning".to_owned())
        }
    };
    let truncation = Truncation {
        original_bytes: u64::try_from(text.len()).unwrap_or(u64::MAX),
        limit: name.to_owned(),
        kept: what,
    };
    (kept, Some(truncation))
}

fn marker(bytes: usize) -> String {
    format!("[… {bytes} bytes cut …]\n")
}

/// Room for a marker with any number.
const MARKER_BYTES: usize = 48;

/// The longest beginning in whole lines; of one line that is too long, its beginning.
fn head(text: &str, limit: usize) -> String {
    let room = limit.saturating_sub(MARKER_BYTES);
    let mut kept = lines_up_to(text, room);
    if kept.is_empty() {
        kept = text.get(..text.floor_char_boundary(room)).unwrap_or_default();
    }
    let gone = text.len().saturating_sub(kept.len());
    let line = if kept.is_empty() || kept.ends_with('\n') { "" } else { "\n" };
    fit(format!("{kept}{line}{}", marker(gone)), limit)
}

/// Never exceeds the limit, even with the marker.
fn fit(text: String, limit: usize) -> String {
    match text.get(..text.floor_char_boundary(limit)) {
        Some(part) if part.len() < text.len() => part.to_owned(),
        Some(_) | None => text,
    }
}

fn lines_up_to(text: &str, room: usize) -> &str {
    let within = text.get(..text.floor_char_boundary(room)).unwrap_or_default();
    match within.rfind('\n') {
        Some(end) => within.get(..=end).unwrap_or_default(),
        None => "",
    }
}

fn lines_down_from(text: &str, room: usize) -> &str {
    let from = text.ceil_char_boundary(text.len().saturating_sub(room));
    let within = text.get(from..).unwrap_or_default();
    match within.find('\n') {
        Some(end) => within.get(end + 1..).unwrap_or_default(),
        None => within,
    }
}

/// The first actionable error with what led to it, and the end.
fn log(text: &str, limit: usize) -> (String, String) {
    let room = limit.saturating_sub(3 * MARKER_BYTES);
    let Some(error) = first_error(text) else {
        let tail = lines_down_from(text, room);
        let gone = text.len().saturating_sub(tail.len());
        return (fit(format!("{}{tail}", marker(gone)), limit), "its end".to_owned());
    };
    let before: usize = text
        .get(..error)
        .unwrap_or_default()
        .split_inclusive('\n')
        .rev()
        .take(LINES_BEFORE)
        .map(str::len)
        .sum();
    // Long lines before the error must not push it out.
    let start = text.ceil_char_boundary(error.saturating_sub(before.min(room / 4)));
    let first = text.get(start..).unwrap_or_default();
    let mut around = lines_up_to(first, room / 2);
    if around.len() <= error.saturating_sub(start) {
        around = first.get(..first.floor_char_boundary(room / 2)).unwrap_or_default();
    }
    let rest = first.get(around.len()..).unwrap_or_default();
    let tail = lines_down_from(rest, room.saturating_sub(around.len()));
    let mut out = String::new();
    if start > 0 {
        out.push_str(&marker(start));
    }
    out.push_str(around);
    let gone = rest.len().saturating_sub(tail.len());
    if gone > 0 {
        if !out.ends_with('\n') {
            out.push('\n');
        }
        out.push_str(&marker(gone));
    }
    out.push_str(tail);
    (fit(out, limit), "the first error with the lines around it, and the end".to_owned())
}

/// The start of the first line that looks like a failure.
fn first_error(text: &str) -> Option<usize> {
    let pattern = ERROR.as_ref()?;
    let found = pattern.find(text)?.start();
    let before = text.get(..found).unwrap_or_default();
    // The match may begin with the line break before it.
    let line = before.rfind('\n').map_or(0, |end| end + 1);
    Some(if text.get(found..).is_some_and(|rest| rest.starts_with('\n')) {
        found + 1
    } else {
        line
    })
}

/// Which files changed by how much, and as much of the diff as fits.
fn diff(text: &str, limit: usize) -> (String, String) {
    let mut files: Vec<(String, u64, u64)> = Vec::new();
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("diff --git ") {
            let name = rest.split_once(" b/").map_or(rest, |(_, name)| name);
            files.push((name.to_owned(), 0, 0));
        } else if let Some((_, added, removed)) = files.last_mut() {
            if line.starts_with('+') && !line.starts_with("+++") {
                *added += 1;
            } else if line.starts_with('-') && !line.starts_with("---") {
                *removed += 1;
            }
        }
    }
    let mut summary = format!("[{} files changed]\n", files.len());
    for (name, added, removed) in &files {
        let line = format!("[{name} +{added} -{removed}]\n");
        if summary.len() + line.len() > limit / 2 {
            summary.push_str("[… and more files …]\n");
            break;
        }
        summary.push_str(&line);
    }
    let room = limit.saturating_sub(summary.len() + MARKER_BYTES);
    let kept = lines_up_to(text, room);
    let gone = text.len().saturating_sub(kept.len());
    let out = format!("{summary}{kept}{}", marker(gone));
    (fit(out, limit), "the list of changed files, and the beginning of the diff".to_owned())
}
