//! Merging without a checkout: renames are detected, and no merge driver runs.

use std::collections::BTreeMap;
use std::path::Path;

use bailiwick_lifecycle::ports::{Conflict, Merge};
use bailiwick_model::TreeId;

use super::escaped_path::escape_path;
use super::merge_compat;
use crate::git::command::{Git, GitError, Input};
use crate::git::version::{self, GitVersion};

/// The two sides of a merge.
pub(super) struct Sides<'a> {
    /// The merge base; git finds it if this is empty.
    pub(super) base: Option<&'a str>,
    /// The commit that is merged into.
    pub(super) ours: &'a str,
    /// The commit that is merged.
    pub(super) theirs: &'a str,
    /// The tree whose attributes apply (`merge=union`, `binary`).
    pub(super) attributes: &'a str,
}

/// The three-way merge. An old git needs temporary files below `state`.
pub(super) fn merge(git: &Git, state: &Path, sides: &Sides<'_>) -> Result<Merge, GitError> {
    merge_with_version(version::supported()?, git, state, sides)
}

/// The same with the options of this version of git.
fn merge_with_version(
    version: GitVersion,
    git: &Git,
    state: &Path,
    sides: &Sides<'_>,
) -> Result<Merge, GitError> {
    let mut options =
        ["merge-tree", "--write-tree", "-z", "--name-only"].map(str::to_owned).to_vec();
    let mut merged = [sides.ours.to_owned(), sides.theirs.to_owned()];
    match sides.base {
        Some(base) if version.has_merge_base() => options.push(format!("--merge-base={base}")),
        Some(base) => merged = merge_compat::with_base(git, base, sides.ours, sides.theirs)?,
        None => {}
    }
    if version.has_attr_source() {
        let attributes = format!("--attr-source={}", sides.attributes);
        return run(git, [attributes].into_iter().chain(options).chain(merged));
    }
    let directory = merge_compat::scratch_directory(state)?;
    let git = merge_compat::with_attributes_of(git, sides.attributes, &directory)?;
    run(&git, options.into_iter().chain(merged))
}

/// Runs the merge and parses its output.
fn run(git: &Git, arguments: impl Iterator<Item = String>) -> Result<Merge, GitError> {
    let output = git.output(arguments, Input::Nothing)?;
    if !matches!(output.exit_code, Some(0 | 1)) {
        return Err(output.into_error());
    }
    let merge = parse(&output.stdout).ok_or_else(|| GitError::UnexpectedOutput {
        command: "merge-tree".to_owned(),
        output: String::from_utf8_lossy(&output.stdout).into_owned(),
    })?;
    Ok(match output.exit_code {
        Some(0) => Merge::Clean { tree: TreeId::new(merge.tree) },
        _ => Merge::Conflicts(merge.conflicts()),
    })
}

struct MergeOutput {
    tree: String,
    files: Vec<String>,
    messages: Vec<Message>,
}

struct Message {
    paths: Vec<String>,
    kind: String,
    text: String,
}

/// The tree, the files in conflict, an empty field, and messages: how many paths, the paths, the
/// kind, the text.
fn parse(stdout: &[u8]) -> Option<MergeOutput> {
    let mut fields = stdout.split(|byte| *byte == 0);
    let tree = String::from_utf8(fields.next()?.to_owned()).ok()?;
    let files = fields.by_ref().take_while(|field| !field.is_empty()).map(escape_path).collect();
    let mut messages = Vec::new();
    while let Some(count) = fields.next().filter(|field| !field.is_empty()) {
        let count: usize = std::str::from_utf8(count).ok()?.parse().ok()?;
        let paths: Vec<String> = fields.by_ref().take(count).map(escape_path).collect();
        let kind = String::from_utf8_lossy(fields.next()?).into_owned();
        let text = String::from_utf8_lossy(fields.next()?).trim().to_owned();
        messages.push(Message { paths, kind, text });
    }
    Some(MergeOutput { tree, files, messages })
}

impl MergeOutput {
    fn conflicts(self) -> Vec<Conflict> {
        let mut reasons: BTreeMap<String, Vec<String>> =
            self.files.into_iter().map(|file| (file, Vec::new())).collect();
        // Some conflicts leave no file unmerged, for example a directory that was renamed twice.
        let none = reasons.is_empty();
        for message in self.messages.into_iter().filter(|message| message.is_conflict()) {
            for path in message.paths {
                if none || reasons.contains_key(&path) {
                    reasons.entry(path).or_default().push(message.text.clone());
                }
            }
        }
        reasons
            .into_iter()
            .map(|(path, mut why)| {
                why.dedup();
                let why = if why.is_empty() {
                    "both sides changed it".to_owned()
                } else {
                    why.join("; ")
                };
                Conflict { path, why }
            })
            .collect()
    }
}

impl Message {
    fn is_conflict(&self) -> bool {
        self.kind.starts_with("CONFLICT")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bailiwick_testkit::Scratch;

    #[test]
    fn merge_with_options_of_an_old_git_equals_the_merge_of_a_new_one() {
        let scratch = Scratch::repository();
        let commit = |files: &[(&str, &str)]| {
            for (path, text) in files {
                scratch.write(path, text);
            }
            scratch.commit("change");
            scratch.git(&["rev-parse", "HEAD"]).trim().to_owned()
        };
        let base = commit(&[
            ("list/.gitattributes", "*.txt merge=union\n"),
            ("list/all.txt", "one\n"),
            ("plain.txt", "one\n"),
            ("same.txt", "1\n2\n3\n4\n5\n6\n7\n"),
        ]);
        let ours =
            commit(&[("list/all.txt", "one\nours\n"), ("same.txt", "0\n2\n3\n4\n5\n6\n7\n")]);
        scratch.git(&["checkout", "--quiet", "-b", "other", &base]);
        let theirs =
            commit(&[("list/all.txt", "one\ntheirs\n"), ("same.txt", "1\n2\n3\n4\n5\n6\n8\n")]);
        let conflicting = commit(&[("plain.txt", "theirs\n")]);
        scratch.git(&["checkout", "--quiet", "--detach", &ours]);
        let changed = commit(&[("plain.txt", "ours\n")]);
        let place = tempfile::tempdir().unwrap();
        let git = Git::at(scratch.root()).with_env("GIT_DIR", scratch.root().join(".git"));
        let by = |version, base: Option<&str>, ours: &str, theirs: &str| {
            let sides = Sides { base, ours, theirs, attributes: ours };
            merge_with_version(version, &git, place.path(), &sides).unwrap()
        };
        let newest = version::supported().unwrap();
        // A git cannot run with options of a newer version.
        let old = [GitVersion::new(2, 39), GitVersion::new(2, 40)];
        let old: Vec<_> = old.into_iter().filter(|version| *version <= newest).collect();
        for named in [None, Some(base.as_str()), Some(ours.as_str())] {
            let expected = by(newest, named, &ours, &theirs);
            assert!(matches!(expected, Merge::Clean { .. }), "{expected:?}");
            for &version in &old {
                assert_eq!(by(version, named, &ours, &theirs), expected, "{version} {named:?}");
                let Merge::Conflicts(conflicts) = by(version, named, &changed, &conflicting) else {
                    panic!("{version} {named:?}: no conflict");
                };
                let paths: Vec<&str> =
                    conflicts.iter().map(|conflict| conflict.path.as_str()).collect();
                assert!(paths.contains(&"plain.txt"), "{paths:?}");
            }
        }
        let remaining = std::fs::read_dir(place.path().join("temporary")).unwrap();
        let remaining = remaining.flatten().filter(|entry| entry.path().is_dir()).count();
        assert_eq!(remaining, 0, "the files with attributes are removed");
    }
}
