//! A tree made of another one and some changes.

use std::path::Path;

use bailiwick_control::ports::WorkError;
use bailiwick_verify::Change;
use bailiwick_verify::change::Mode;

use super::places::Places;
use super::private::PrivateDirectory;
use super::{plain, trouble};
use crate::git::command::Input;

/// `tree` with these changes made to it.
pub(super) fn compose(
    places: &Places,
    state: &Path,
    tree: &str,
    changes: &[&Change],
) -> Result<String, WorkError> {
    let what = || format!("{tree} cannot be changed");
    let directory = PrivateDirectory::make(state).map_err(trouble(what()))?;
    let git = plain::git(state, places, tree)?
        .with_env("GIT_INDEX_FILE", directory.path().join("index"));
    git.run(["read-tree", tree]).map_err(trouble(what()))?;
    let nothing = "0".repeat(tree.len());
    let mut list = String::new();
    for change in changes {
        for path in change.paths() {
            let entry = change.after.as_ref().filter(|_| path == change.path);
            let (mode, object) = match entry {
                None => ("0", nothing.as_str()),
                Some(entry) => (octal(entry.mode), entry.object.as_str()),
            };
            list += &format!("{mode} {object}\t{path}\0");
        }
    }
    let arguments = ["update-index", "-z", "--index-info"];
    git.run_with_input(arguments, Input::Bytes(list.as_bytes())).map_err(trouble(what()))?;
    git.line(["write-tree"]).map_err(trouble(what()))
}

fn octal(mode: Mode) -> &'static str {
    match mode {
        Mode::File => "100644",
        Mode::Executable => "100755",
        Mode::Link => "120000",
        Mode::Submodule => "160000",
    }
}
