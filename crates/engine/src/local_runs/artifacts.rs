//! The files of an agent that people can read: task, prompt, policy, decisions and change.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use bailiwick_fleet::ports::{LocalArtifact, LocalArtifacts, LocalRunError};
use bailiwick_model::{Run, Sha256Hex};

use super::LedgerRuns;
use crate::agent_names;

pub(super) const PROMPT: &str = "prompt.md";
const TASK: &str = "task.toml";
const POLICY: &str = "policy.json";
const DECISIONS: &str = "decisions.jsonl";
const PATCH: &str = "changes.patch";
/// The maximum size of an artifact that is shown.
const MAX_BYTES: u64 = 16 * 1024 * 1024;

/// Every artifact, and what it is. No other file of a run can be read.
const ALL: [(&str, &str); 5] = [
    (TASK, "The task as it was recorded."),
    (PROMPT, "The prompt as the agent was given it."),
    (POLICY, "The policy that binds the agent."),
    (DECISIONS, "Every decision about a tool call, with what was known."),
    (PATCH, "What the agent changed, as `git diff` prints it."),
];

impl LedgerRuns {
    /// A file of the task in the checkout; none if the repository is gone.
    pub(super) fn task_file(&self, run: &Run, name: &str) -> Option<PathBuf> {
        let repository = agent_names::repository_of(&self.context, run)?;
        Some(repository.root().join("tasks").join(run.id.as_str()).join(name))
    }

    pub(super) fn list_artifacts(&self, run: &Run) -> Result<LocalArtifacts, LocalRunError> {
        let mut items = Vec::new();
        for (name, about) in ALL {
            items.extend(listed(name, about, self.artifact_bytes(run, name)));
        }
        Ok(LocalArtifacts { items })
    }

    pub(super) fn read_artifact(&self, run: &Run, name: &str) -> Result<Vec<u8>, LocalRunError> {
        let missing = || LocalRunError::NotFound(format!("`{}` has no such file", run.name));
        let known = ALL.iter().find(|(known, _)| *known == name).ok_or_else(missing)?;
        self.artifact_bytes(run, known.0)?.ok_or_else(missing)
    }

    /// None if there is no such file any more.
    fn artifact_bytes(&self, run: &Run, name: &str) -> Result<Option<Vec<u8>>, LocalRunError> {
        let directory = self.directory(run);
        match name {
            TASK => Ok(Some(self.task_of(run)?.into_bytes()).filter(|task| !task.is_empty())),
            POLICY => read_plain(&directory.path().join(POLICY)),
            DECISIONS => read_plain(&directory.decisions()),
            // The work of a run can be gone; then there is no change to show.
            PATCH => {
                let patch = self.read_diff(run).ok().map(|diff| diff.patch.into_bytes());
                Ok(patch.filter(|patch| !patch.is_empty()))
            }
            name => match self.task_file(run, name) {
                Some(path) => read_plain(&path),
                None => Ok(None),
            },
        }
    }
}

/// The line of an artifact; none if there is no such file. One that cannot be read does not hide the others.
fn listed(
    name: &str,
    about: &str,
    read: Result<Option<Vec<u8>>, LocalRunError>,
) -> Option<LocalArtifact> {
    let (bytes, digest, unreadable) = match read {
        Ok(bytes) => {
            let bytes = bytes?;
            let size = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
            (size, Sha256Hex::of(&bytes).to_string(), None)
        }
        Err(LocalRunError::Refused { message, .. } | LocalRunError::NotFound(message)) => {
            (0, String::new(), Some(message))
        }
        // The reason names files of this machine.
        Err(LocalRunError::Unavailable(_)) => {
            (0, String::new(), Some("it is not a regular file, or cannot be opened".to_owned()))
        }
    };
    Some(LocalArtifact {
        name: name.to_owned(),
        about: about.to_owned(),
        bytes,
        digest,
        unreadable,
    })
}

/// Reads a regular file; a link could lead out of the run. None if there is none.
pub(super) fn read_plain(path: &Path) -> Result<Option<Vec<u8>>, LocalRunError> {
    let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
    let unusable = |why: String| {
        LocalRunError::Unavailable(format!("{} cannot be read: {why}", path.display()))
    };
    let flags = i32::try_from(flags.bits()).map_err(|error| unusable(error.to_string()))?;
    let file = match OpenOptions::new().read(true).custom_flags(flags).open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(unusable(error.to_string())),
    };
    let about = file.metadata().map_err(|error| unusable(error.to_string()))?;
    if !about.is_file() {
        return Err(unusable("it is not a regular file".to_owned()));
    }
    if about.len() > MAX_BYTES {
        return Err(LocalRunError::Refused {
            message: format!("the file has {} bytes; at most {MAX_BYTES} are shown", about.len()),
            advice: None,
        });
    }
    let mut bytes = Vec::new();
    let read = file.take(MAX_BYTES).read_to_end(&mut bytes);
    read.map_err(|error| unusable(error.to_string()))?;
    Ok(Some(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_regular_file_is_read() {
        let directory = tempfile::tempdir().unwrap();
        let (file, link) = (directory.path().join("file"), directory.path().join("link"));
        std::fs::write(&file, "text").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        assert_eq!(read_plain(&file), Ok(Some(b"text".to_vec())));
        assert_eq!(read_plain(&directory.path().join("none")), Ok(None));
        assert!(matches!(read_plain(&link), Err(LocalRunError::Unavailable(_))));
        assert!(matches!(read_plain(directory.path()), Err(LocalRunError::Unavailable(_))));
    }

    #[test]
    fn too_large_file_is_listed_with_the_reason() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("decisions.jsonl");
        let large = std::fs::File::create(&file).unwrap();
        large.set_len(MAX_BYTES + 1).unwrap();
        let one = listed("decisions.jsonl", "all", read_plain(&file)).unwrap();
        let reason = one.unreadable.unwrap();
        assert!(reason.contains("16777217 bytes") && one.digest.is_empty(), "{reason}");
        large.set_len(3).unwrap();
        let one = listed("decisions.jsonl", "all", read_plain(&file)).unwrap();
        assert_eq!((one.bytes, one.unreadable), (3, None), "positive control");
        assert_eq!(listed("none", "", read_plain(&directory.path().join("none"))), None);
    }
}
