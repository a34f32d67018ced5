//! Reads the output of `git diff` into files, hunks and numbered lines.

use bailiwick_model::Sha256Hex;

use crate::text::visible;

/// A changed file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct FilePatch {
    pub(crate) path: String,
    /// Lines about the file itself: renamed, mode, binary.
    pub(crate) notes: Vec<String>,
    pub(crate) hunks: Vec<Hunk>,
    pub(crate) added: usize,
    pub(crate) removed: usize,
}

/// Changed lines that are near each other, with some lines around them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Hunk {
    pub(crate) header: String,
    pub(crate) lines: Vec<PatchLine>,
}

impl Hunk {
    /// The same for the same change of the same file, wherever in the file it is.
    pub(crate) fn digest(&self, path: &str) -> String {
        let lines = self.lines.iter().map(|line| format!("\n{}{}", line.kind.sign(), line.text));
        let text: String = std::iter::once(path.to_owned()).chain(lines).collect();
        Sha256Hex::of(text).prefix(16).to_owned()
    }

    /// Which lines stand side by side: what was there on the left, what is there now on the right.
    pub(crate) fn pairs(&self) -> Vec<Pair> {
        let mut pairs = Vec::new();
        let (mut removed, mut added) = (Vec::new(), Vec::new());
        for (index, line) in self.lines.iter().enumerate() {
            match line.kind {
                LineKind::Removed => {
                    if !added.is_empty() {
                        pair(&mut pairs, &mut removed, &mut added);
                    }
                    removed.push(index);
                }
                LineKind::Added => added.push(index),
                LineKind::Context | LineKind::NoNewline => {
                    pair(&mut pairs, &mut removed, &mut added);
                    pairs.push((Some(index), Some(index)));
                }
            }
        }
        pair(&mut pairs, &mut removed, &mut added);
        pairs
    }
}

/// Two lines of a hunk by their places in it.
pub(crate) type Pair = (Option<usize>, Option<usize>);

/// Puts the removed lines beside the added ones.
fn pair(pairs: &mut Vec<Pair>, removed: &mut Vec<usize>, added: &mut Vec<usize>) {
    let count = removed.len().max(added.len());
    let (mut left, mut right) = (removed.drain(..), added.drain(..));
    pairs.extend((0..count).map(|_| (left.next(), right.next())));
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PatchLine {
    pub(crate) kind: LineKind,
    pub(crate) old: Option<u64>,
    pub(crate) new: Option<u64>,
    pub(crate) text: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LineKind {
    Context,
    Added,
    Removed,
    /// The end of the file has no newline.
    NoNewline,
}

impl LineKind {
    pub(crate) fn class(self) -> &'static str {
        match self {
            Self::Context => "same",
            Self::Added => "add",
            Self::Removed => "del",
            Self::NoNewline => "note",
        }
    }

    /// The sign as text: colour is not the only sign.
    pub(crate) fn sign(self) -> &'static str {
        match self {
            Self::Added => "+",
            Self::Removed => "−",
            Self::Context | Self::NoNewline => " ",
        }
    }
}

/// The start of a range in a hunk header, as `12` in `-12,3`.
fn start(text: &str) -> Option<u64> {
    text.get(1..)?.split(',').next()?.parse().ok()
}

/// The files of a patch. The paths come from the listing of the changes, which has them unquoted.
pub(crate) fn files(patch: &str, paths: &[String]) -> Vec<FilePatch> {
    let mut files: Vec<FilePatch> = Vec::new();
    let (mut old, mut new) = (0, 0);
    // Inside of a hunk, a line is never a header, whatever it looks like.
    let (mut left_old, mut left_new) = (0_u64, 0_u64);
    let mut header = None;
    for text in patch.split('\n') {
        if left_old == 0 && left_new == 0 && text.starts_with("diff --git ") {
            // A file that becomes a link is deleted and made with the same header, and is listed once.
            if header.replace(text) != Some(text) {
                let path = paths.get(files.len()).map_or(text, String::as_str);
                files.push(FilePatch { path: visible(path), ..FilePatch::default() });
            }
            continue;
        }
        let Some(file) = files.last_mut() else { continue };
        if left_old == 0 && left_new == 0 {
            if let Some((ranges, _)) = hunk(text) {
                (old, left_old, new, left_new) = ranges;
                file.hunks.push(Hunk { header: visible(text), lines: Vec::new() });
            } else if text.starts_with('\\') {
                if let Some(hunk) = file.hunks.last_mut() {
                    hunk.lines.push(note(text));
                }
            } else if is_note(text) {
                file.notes.push(visible(text));
            }
            continue;
        }
        let (sign, rest) = (text.chars().next(), text.get(1..).unwrap_or_default());
        let mut line =
            PatchLine { kind: LineKind::Context, old: None, new: None, text: visible(rest) };
        match sign {
            Some('+') => {
                line.kind = LineKind::Added;
                line.new = Some(new);
                (new, left_new) = (new + 1, left_new.saturating_sub(1));
                file.added += 1;
            }
            Some('-') => {
                line.kind = LineKind::Removed;
                line.old = Some(old);
                (old, left_old) = (old + 1, left_old.saturating_sub(1));
                file.removed += 1;
            }
            Some('\\') => line = note(text),
            Some(_) | None => {
                (line.old, line.new) = (Some(old), Some(new));
                (old, left_old) = (old + 1, left_old.saturating_sub(1));
                (new, left_new) = (new + 1, left_new.saturating_sub(1));
            }
        }
        if let Some(hunk) = file.hunks.last_mut() {
            hunk.lines.push(line);
        }
    }
    files
}

fn note(text: &str) -> PatchLine {
    PatchLine { kind: LineKind::NoNewline, old: None, new: None, text: visible(text) }
}

type Ranges = (u64, u64, u64, u64);

/// The ranges of `@@ -1,2 +3,4 @@ name`, and the rest.
fn hunk(text: &str) -> Option<(Ranges, &str)> {
    let (ranges, rest) = text.strip_prefix("@@ ")?.split_once(" @@")?;
    let (old, new) = ranges.split_once(' ')?;
    let length = |range: &str| match range.split_once(',') {
        Some((_, length)) => length.parse().ok(),
        None => Some(1),
    };
    Some(((start(old)?, length(old)?, start(new)?, length(new)?), rest))
}

/// Whether a line of the header says something that the paths do not.
fn is_note(text: &str) -> bool {
    let said = ["old mode", "new mode", "deleted file", "new file", "rename ", "Binary files"];
    said.iter().any(|start| text.starts_with(start))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATCH: &str = "diff --git a/a b/a\nindex 1..2 100644\n--- a/a\n+++ b/a\n@@ -1,3 +1,3 @@ fn x\n one\n\
                         -two\n+diff --git a/x b/x\n three\n\\ No newline at end of file\ndiff --git a/b b/b\n\
                         new file mode 100644\nindex 0..1\n--- /dev/null\n+++ b/b\n@@ -0,0 +1 @@\n+x\n";

    #[test]
    fn line_numbers_are_right_for_lines_that_look_like_headers() {
        let files = files(PATCH, &["a".to_owned(), "b".to_owned()]);
        assert_eq!(files.len(), 2, "{files:#?}");
        assert_eq!((files[0].added, files[0].removed), (1, 1));
        let lines = &files[0].hunks[0].lines;
        let added = &lines[2];
        assert_eq!((added.kind, added.new), (LineKind::Added, Some(2)));
        assert_eq!(added.text, "diff --git a/x b/x");
        assert_eq!(lines[3].old, Some(3));
        assert_eq!(lines[4].kind, LineKind::NoNewline);
        assert_eq!(files[1].notes, ["new file mode 100644"]);
        assert_eq!(files[1].hunks[0].lines[0].new, Some(1));
    }

    #[test]
    fn file_that_becomes_a_symlink_is_one_file() {
        let patch = "diff --git a/a b/a\ndeleted file mode 100644\n--- a/a\n+++ /dev/null\n\
                     @@ -1 +0,0 @@\n-one\ndiff --git a/a b/a\nnew file mode 120000\n--- /dev/null\n\
                     +++ b/a\n@@ -0,0 +1 @@\n+b\n\\ No newline at end of file\n\
                     diff --git a/b b/b\n--- a/b\n+++ b/b\n@@ -1 +1 @@\n-two\n+three\n";
        let files = files(patch, &["a".to_owned(), "b".to_owned()]);
        let summaries: Vec<(&str, usize, usize, usize)> = files
            .iter()
            .map(|file| (file.path.as_str(), file.hunks.len(), file.added, file.removed))
            .collect();
        assert_eq!(summaries, [("a", 2, 1, 1), ("b", 1, 1, 1)]);
        assert_eq!(files[0].notes, ["deleted file mode 100644", "new file mode 120000"]);
    }

    #[test]
    fn no_line_of_the_patch_is_lost() {
        let files = files(PATCH, &[]);
        let hunks = |file: &FilePatch| -> usize {
            file.hunks.iter().map(|hunk| hunk.lines.len() + 1).sum()
        };
        let line_count: usize = files.iter().map(|file| hunks(file) + file.notes.len()).sum();
        // Not shown: the four header lines of each of the two files.
        assert_eq!(line_count, PATCH.lines().count() - 8);
    }
    #[test]
    fn old_and_new_lines_are_shown_side_by_side() {
        let patch =
            "diff --git a/a b/a\n@@ -1,5 +1,4 @@\n one\n-two\n-three\n+2\n four\n-five\n+5\n";
        let files = files(patch, &["a".to_owned()]);
        let pairs = files[0].hunks[0].pairs();
        let lines = &files[0].hunks[0].lines;
        let text = |at: Option<usize>| at.map_or("", |at| lines[at].text.as_str()).to_owned();
        let texts: Vec<(String, String)> =
            pairs.into_iter().map(|(left, right)| (text(left), text(right))).collect();
        let expected =
            [("one", "one"), ("two", "2"), ("three", ""), ("four", "four"), ("five", "5")];
        assert_eq!(texts, expected.map(|(left, right)| (left.to_owned(), right.to_owned())));
    }

    #[test]
    fn hunk_digest_depends_on_file_and_text_but_not_on_position() {
        let digest = |from: u64, path: &str, text: &str| {
            let patch = format!("diff --git a/a b/a\n@@ -{from} +{from} @@\n-one\n+{text}\n");
            files(&patch, &[])[0].hunks[0].digest(path)
        };
        assert_eq!(digest(1, "a", "two"), digest(7, "a", "two"));
        assert_ne!(digest(1, "a", "two"), digest(1, "b", "two"));
        assert_ne!(digest(1, "a", "two"), digest(1, "a", "three"));
    }
}
