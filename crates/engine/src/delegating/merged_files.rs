//! The files of a merge, as the caller's MCP server writes them: inside of the sandbox, so that the kernel enforces the
//! limits of the caller.

use std::fs;
use std::io;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use bailiwick_model::Sha256Hex;
use bailiwick_verify::change::Mode;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::counted::counted;

/// How many paths the answer lists.
const SHOWN_PATHS: usize = 100;

/// The files that one merge writes.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct MergePlan {
    /// The agent whose work it is.
    pub(super) agent: String,
    /// The worktree of the caller.
    pub(super) root: PathBuf,
    pub(super) files: Vec<FileWrite>,
}

/// One file that is written or removed.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct FileWrite {
    /// Relative to the root of the worktree.
    pub(super) path: String,
    /// The digest of the current content; `None` if there is no file.
    pub(super) before: Option<String>,
    /// The new content; `None` if the file is removed.
    pub(super) after: Option<FileContent>,
}

/// The content of a file, or the target of a link.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct FileContent {
    pub(super) mode: Mode,
    pub(super) base64: String,
}

/// The digest of what is at a path: a file's content, or where a link leads. `None` if nothing is there.
pub(super) fn found(path: &Path) -> io::Result<Option<String>> {
    let metadata = match fs::symlink_metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if is_missing(&error) => return Ok(None),
        Err(error) => return Err(error),
    };
    let (kind, content) = if metadata.is_symlink() {
        ("link", fs::read_link(path)?.into_os_string().into_encoded_bytes())
    } else if metadata.is_file() {
        ("file", fs::read(path)?)
    } else {
        return Ok(Some("directory".to_owned()));
    };
    Ok(Some(format!("{kind}:{}", Sha256Hex::of(content))))
}

fn is_missing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// Writes a merge that the supervisor has decided; returns the answer for the caller.
pub(super) fn write(answer: &Value) -> Result<Value, String> {
    let plan = MergePlan::deserialize(answer).map_err(|error| error.to_string())?;
    write_plan(&plan)?;
    let paths: Vec<&str> = plan.files.iter().map(|file| file.path.as_str()).collect();
    let listed: Vec<&&str> = paths.iter().take(SHOWN_PATHS).collect();
    Ok(json!({ "merged": plan.agent, "changed_files": paths.len(), "files": listed }))
}

/// Writes all files, if nothing of them has changed.
pub(super) fn write_plan(plan: &MergePlan) -> Result<(), String> {
    for file in &plan.files {
        let path = plan.root.join(&file.path);
        let now = found(&path).map_err(|error| format!("`{}`: {error}", file.path))?;
        if now != file.before {
            return Err(format!(
                "`{}` has just changed, nothing was merged; call merge_agent again",
                file.path
            ));
        }
    }
    // Removals first: a directory may replace a file.
    let (deletions, writes): (Vec<&FileWrite>, Vec<&FileWrite>) =
        plan.files.iter().partition(|file| file.after.is_none());
    for (index, file) in deletions.into_iter().chain(writes).enumerate() {
        put(&plan.root, file).map_err(|error| {
            format!(
                "`{}` cannot be written: {error}; {} of {} merged",
                file.path,
                index,
                counted(plan.files.len(), "file")
            )
        })?;
    }
    Ok(())
}

fn put(root: &Path, file: &FileWrite) -> io::Result<()> {
    let path = root.join(&file.path);
    let Some(content) = &file.after else {
        fs::remove_file(&path)?;
        let above = path.ancestors().skip(1).take_while(|above| above.starts_with(root));
        // Git keeps no empty directories; one that is not empty stays.
        let _ = above.filter(|above| *above != root).try_for_each(fs::remove_dir);
        return Ok(());
    };
    let bytes = STANDARD.decode(&content.base64).map_err(io::Error::other)?;
    if let Some(directory) = path.parent() {
        fs::create_dir_all(directory)?;
    }
    let is_link = fs::symlink_metadata(&path).is_ok_and(|metadata| metadata.is_symlink());
    match content.mode {
        Mode::Link => {
            if file.before.is_some() {
                fs::remove_file(&path)?;
            }
            let target = String::from_utf8(bytes).map_err(io::Error::other)?;
            symlink(target, &path)
        }
        mode @ (Mode::File | Mode::Executable) => {
            if is_link {
                fs::remove_file(&path)?;
            }
            fs::write(&path, bytes)?;
            let mut permissions = fs::metadata(&path)?.permissions();
            let bits = permissions.mode();
            let required = match mode {
                Mode::Executable => bits | 0o111,
                Mode::File | Mode::Link | Mode::Submodule => bits & !0o111,
            };
            if required == bits {
                return Ok(());
            }
            permissions.set_mode(required);
            fs::set_permissions(&path, permissions)
        }
        Mode::Submodule => Err(io::Error::other("a submodule cannot be merged")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bailiwick_testkit::Scratch;

    fn plan(root: &Path, files: Vec<FileWrite>) -> Value {
        let plan = MergePlan { agent: "a".to_owned(), root: root.to_owned(), files };
        serde_json::to_value(plan).unwrap()
    }

    fn change(root: &Path, path: &str, after: Option<(Mode, &str)>) -> FileWrite {
        FileWrite {
            path: path.to_owned(),
            before: found(&root.join(path)).unwrap(),
            after: after.map(|(mode, text)| FileContent { mode, base64: STANDARD.encode(text) }),
        }
    }

    #[test]
    fn files_are_added_changed_and_deleted() {
        let scratch = Scratch::repository();
        let root = scratch.root();
        scratch.write("kept/run.sh", "old\n");
        scratch.write("gone/deep/x.txt", "x\n");
        scratch.write("was-file", "x\n");
        let files = vec![
            change(&root, "kept/run.sh", Some((Mode::Executable, "new\n"))),
            change(&root, "new/a.txt", Some((Mode::File, "a\n"))),
            change(&root, "new/link", Some((Mode::Link, "a.txt"))),
            change(&root, "gone/deep/x.txt", None),
            change(&root, "was-file", None),
            change(&root, "was-file/inside.txt", Some((Mode::File, "y\n"))),
        ];
        let result = write(&plan(&root, files)).unwrap();
        assert_eq!(result["changed_files"], 6, "{result}");
        let read = |path: &str| fs::read_to_string(root.join(path)).unwrap();
        assert_eq!((read("kept/run.sh"), read("new/link")), ("new\n".into(), "a\n".into()));
        let mode = fs::metadata(root.join("kept/run.sh")).unwrap().permissions().mode();
        assert_eq!(mode & 0o111, 0o111);
        assert!(!root.join("gone").exists() && root.join("kept").exists());
        assert_eq!(read("was-file/inside.txt"), "y\n");
    }

    #[test]
    fn nothing_is_written_if_a_file_changed_after_planning() {
        let scratch = Scratch::repository();
        let root = scratch.root();
        scratch.write("a.txt", "old\n");
        let files = vec![
            change(&root, "new.txt", Some((Mode::File, "new\n"))),
            change(&root, "a.txt", Some((Mode::File, "merged\n"))),
        ];
        let answer = plan(&root, files);
        scratch.write("a.txt", "written meanwhile\n");
        assert!(write(&answer).unwrap_err().contains("a.txt"));
        assert!(!root.join("new.txt").exists());
        assert_eq!(fs::read_to_string(root.join("a.txt")).unwrap(), "written meanwhile\n");
    }
}
