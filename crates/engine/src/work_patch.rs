//! The changes of a commit as a patch, and everything that its commits say and add.

use bailiwick_resources::PatchCommit;
use bailiwick_source_control::git::Git;

use crate::failure::Failure;
use crate::work_commits::commits;

/// The maximum size of a stored patch.
const MAX_PATCH_BYTES: usize = 16 * 1024 * 1024;
/// The maximum size of a searched history.
const MAX_HISTORY_BYTES: usize = 32 * 1024 * 1024;

/// The changes of a commit.
pub(crate) struct Change {
    pub(crate) patch: Vec<u8>,
    pub(crate) history: Option<Vec<u8>>,
    pub(crate) commits: Vec<PatchCommit>,
    pub(crate) files: Vec<String>,
}

/// The changes of a commit; `None` if the patch is too long.
pub(crate) fn change(git: &Git, begun: &str, commit: &str) -> Result<Option<Change>, Failure> {
    let arguments =
        ["diff", "--no-ext-diff", "--no-textconv", "--binary", "--full-index", begun, commit];
    let patch = git.run(arguments)?;
    if patch.len() > MAX_PATCH_BYTES {
        return Ok(None);
    }
    let history = history(git, begun, commit)?;
    let names = git.run(["diff", "--no-ext-diff", "--name-only", "-z", begun, commit])?;
    let files = String::from_utf8_lossy(&names);
    let files = files.split('\0').filter(|name| !name.is_empty()).map(str::to_owned).collect();
    let commits = commits(git, begun, commit)?;
    Ok(Some(Change { patch, history, commits, files }))
}

/// What every commit between two says and adds. What a merge has from a listed commit is listed with
/// that, so that of the merge itself only what none of its parents has is left.
pub(crate) fn history(git: &Git, begun: &str, commit: &str) -> Result<Option<Vec<u8>>, Failure> {
    let range = format!("{begun}..{commit}");
    let heads = ["log", "--no-show-signature", "--no-notes", "--no-patch", "--format=raw", &range];
    let Some(mut output) = git.run_limited(&heads, MAX_HISTORY_BYTES)? else { return Ok(None) };
    // A file that calls itself binary is looked through all the same.
    let patches = [
        "log",
        "--no-show-signature",
        "--format=",
        "--patch",
        "-c",
        "--unified=0",
        "--text",
        "--no-renames",
        "--no-color",
        "--no-ext-diff",
        "--no-textconv",
        &range,
    ];
    let Some(patches) = git.run_limited(&patches, MAX_HISTORY_BYTES)? else { return Ok(None) };
    // What was there before may be taken away.
    for line in patches.split_inclusive(|byte| *byte == b'\n') {
        if !line.starts_with(b"-") {
            output.extend_from_slice(line);
        }
    }
    Ok(Some(output))
}

#[cfg(test)]
mod tests {
    use bailiwick_testkit::Scratch;

    use super::*;

    /// Content that a later commit deletes is still pushed with the earlier commit.
    #[test]
    fn history_has_deleted_changes_but_not_the_base_content() {
        let scratch = Scratch::repository();
        scratch.write("src/a.txt", "old-value\nkept\n");
        let base = scratch.commit("before");
        scratch.write("src/a.txt", "passing-value\nkept\n");
        scratch.write("src/b.bin", "nul\0hidden-value\n");
        scratch.commit("said-value");
        std::fs::remove_file(scratch.root().join("src/b.bin")).unwrap();
        scratch.write("src/a.txt", "new\nkept\n");
        let work = scratch.commit("after");
        let git = Git::at(scratch.root());
        let patches = history(&git, &base, &work).unwrap().unwrap();
        let patches = String::from_utf8_lossy(&patches);
        for content in ["passing-value", "hidden-value", "said-value", "+new", "src/b.bin"] {
            assert!(patches.contains(content), "{content}: {patches}");
        }
        assert!(!patches.contains("old-value") && !patches.contains("before"), "{patches}");
        let heads = ["log", "--format=raw"];
        assert_eq!(git.run_limited(&heads, 40).unwrap(), None);
        assert!(git.run_limited(&["log", "nothing..such"], 40).is_err());
    }
}
