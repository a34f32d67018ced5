//! `patch`: files that are named, or that the text of the patch names.

use super::super::field::Field;
use super::super::redirect::Input;
use super::super::walk::Walker;
use super::super::{HiddenReason, WriteKind};
use super::options::Grammar;

const PATCH: Grammar = Grammar {
    flags: "bcEeflNnRstTuvZ",
    values: "BdDFgioprVxYz",
    attached: "",
    long_flags: &[
        "backup",
        "binary",
        "dry-run",
        "force",
        "forward",
        "reverse",
        "remove-empty-files",
        "silent",
        "quiet",
        "unified",
        "verbose",
        "posix",
        "batch",
        "normal",
        "context",
        "ed",
        "ignore-whitespace",
        "merge",
        "set-time",
        "set-utc",
        "backup-if-mismatch",
        "no-backup-if-mismatch",
        "help",
        "version",
        "follow-symlinks",
    ],
    long_values: &[
        "directory",
        "input",
        "output",
        "strip",
        "reject-file",
        "fuzz",
        "suffix",
        "prefix",
        "basename-prefix",
        "get",
        "ifdef",
        "version-control",
        "quoting-style",
        "reject-format",
        "read-only",
    ],
};

pub(super) fn note(walker: &mut Walker, arguments: &[Field], input: &Input) {
    let parsed = PATCH.read(arguments);
    if parsed.has(&["dry-run", "help", "version"]) && !parsed.unsure {
        return;
    }
    let directory = parsed.value(&["d", "directory"]);
    let placed = |path: Field| match &directory {
        Some(directory) if !path.is_absolute() => directory.below(&path),
        _ => path,
    };
    let mut named = parsed.all(&["o", "output", "r", "reject-file"]);
    named.retain(|file| file.known().as_deref() != Some("-"));
    walker.wrote_all(named.into_iter().map(placed), WriteKind::Change, "patch");
    let backs_up = parsed.has(&["b", "backup", "z", "suffix", "B", "prefix", "Y", "V"]);
    let suffix = parsed.value(&["z", "suffix"]).and_then(|suffix| suffix.known());
    let backup = |path: &Field| path.followed_by(suffix.as_deref().unwrap_or(".orig"));
    let files = match parsed.operands.first() {
        Some(file) => vec![file.clone()],
        None => {
            let here = (!parsed.has(&["i", "input"])).then_some(input);
            let Some(Input::Text(Some(texts))) = here else {
                return walker.hide(HiddenReason::ComputedPath, "patch");
            };
            let text = texts.join("\n");
            let strip = parsed.value(&["p", "strip"]);
            let count = strip.as_ref().and_then(|strip| strip.known()?.parse().ok());
            if strip.is_some() && count.is_none() {
                return walker.hide(HiddenReason::ComputedPath, "patch");
            }
            match files_of(&text, count) {
                Some(files) => files,
                None => return walker.hide(HiddenReason::ComputedPath, "patch"),
            }
        }
    };
    if parsed.has(&["B", "prefix", "Y", "basename-prefix", "V", "version-control"]) {
        walker.wrote(Field::unknown(), WriteKind::Change, "patch");
    }
    for file in files {
        let file = placed(file);
        if backs_up {
            walker.wrote(backup(&file), WriteKind::Change, "patch");
        }
        // If it does not apply, both versions are kept.
        for ending in [".orig", ".rej"] {
            walker.wrote(file.followed_by(ending), WriteKind::Change, "patch");
        }
        walker.create_directories(&[file], "patch");
    }
}

/// The files that a patch names; `None` if it is not sure.
fn files_of(text: &str, strip: Option<usize>) -> Option<Vec<Field>> {
    let mut files = Vec::new();
    for line in text.lines() {
        let line = line.trim_start();
        let marks = ["+++ ", "--- ", "*** ", "Index: ", "rename to ", "rename from ", "copy to "];
        let Some(name) = marks.iter().find_map(|mark| line.strip_prefix(mark)) else { continue };
        let name = name.split('\t').next().unwrap_or_default().trim_end();
        // Quoted names have escapes, and a script for `ed` may do anything.
        if name.starts_with('"') {
            return None;
        }
        let plain = line.starts_with("rename") || line.starts_with("copy");
        if name == "/dev/null" || name.ends_with("****") || name.ends_with("----") {
            continue;
        }
        let parts: Vec<&str> = name.split('/').filter(|part| !part.is_empty()).collect();
        let mut add = |skip: usize| {
            let rest = parts.get(skip.min(parts.len().saturating_sub(1))..).unwrap_or_default();
            let root = if skip == 0 && name.starts_with('/') { "/" } else { "" };
            files.push(Field::text(format!("{root}{}", rest.join("/"))));
        };
        match strip {
            Some(count) if !plain => add(count),
            Some(_) => add(0),
            None => {
                add(0);
                add(parts.len().saturating_sub(1));
            }
        }
    }
    files.dedup();
    (!files.is_empty()).then_some(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_names_are_read_from_the_patch() {
        let names = |text: &str, strip| -> Option<Vec<String>> {
            Some(files_of(text, strip)?.iter().map(ToString::to_string).collect())
        };
        let patch = "--- a/src/x.rs\n+++ b/src/x.rs\n@@ -1 +1 @@\n-a\n+b\n";
        assert_eq!(names(patch, Some(1)).unwrap(), ["src/x.rs"]);
        assert_eq!(names(patch, Some(0)).unwrap(), ["a/src/x.rs", "b/src/x.rs"]);
        assert_eq!(names("--- /dev/null\n+++ b/new\n", Some(1)).unwrap(), ["new"]);
        assert_eq!(names("1c1\n< a\n> b\n", Some(0)), None);
    }
}
