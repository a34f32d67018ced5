//! Shortens the lists of faults and paths that verdicts show.

/// How many entries a verdict lists, unless a check needs more.
pub(super) const MAX_LISTED: usize = 20;

/// The first entries, one on a line, and how many more there are.
pub(super) fn limited(entries: &[String], limit: usize) -> String {
    let mut lines: Vec<String> = entries.iter().take(limit).cloned().collect();
    if entries.len() > limit {
        lines.push(format!("… and {} more", entries.len() - limit));
    }
    lines.join("\n")
}
