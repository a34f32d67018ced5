//! Draft contents of files, before any is written.

use std::fs::{self, DirBuilder, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use bailiwick_model::Source;
use serde::Serialize;

use crate::failure::Failure;

/// The permissions of a new file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Readers {
    /// Readable by its owner.
    Owner,
    /// Readable and executable by its owner.
    OwnerRuns,
    /// The default of the system.
    Usual,
}

/// Files as they are, and as they would be.
#[derive(Debug, Default)]
pub struct Draft {
    files: Vec<Drafted>,
}

#[derive(Debug)]
struct Drafted {
    path: PathBuf,
    before: Option<String>,
    after: Option<String>,
    readers: Readers,
}

/// The change of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Change {
    /// It is new.
    Created,
    /// It contains something else.
    Changed,
    /// It is gone.
    Deleted,
}

impl Draft {
    /// The draft content of a file; none if it would not exist.
    pub fn text(&mut self, path: &Path) -> Result<Option<String>, Failure> {
        if let Some(file) = self.files.iter().find(|file| file.path == path) {
            return Ok(file.after.clone());
        }
        let text = read(path)?;
        let (path, readers) = (path.to_owned(), Readers::Usual);
        self.files.push(Drafted { path, before: text.clone(), after: text.clone(), readers });
        Ok(text)
    }

    /// The same as a source for problems with places.
    pub fn source(&mut self, path: &Path) -> Result<Option<Source>, Failure> {
        Ok(self.text(path)?.map(|text| Source::new(path.display().to_string(), text)))
    }

    /// Sets the content of a file. Files are written in the order in which they were set last.
    pub fn set(
        &mut self,
        path: &Path,
        text: Option<String>,
        readers: Readers,
    ) -> Result<(), Failure> {
        self.text(path)?;
        if let Some(index) = self.files.iter().position(|file| file.path == path) {
            let file = self.files.remove(index);
            self.files.push(Drafted { after: text, readers, ..file });
        }
        Ok(())
    }

    /// The changes.
    pub fn changes(&self) -> Vec<(PathBuf, Change)> {
        let change = |file: &Drafted| {
            let change = match (&file.before, &file.after) {
                (None, Some(_)) => Change::Created,
                (Some(_), None) => Change::Deleted,
                (Some(before), Some(after)) if before != after => Change::Changed,
                (Some(_), Some(_)) | (None, None) => return None,
            };
            Some((file.path.clone(), change))
        };
        self.files.iter().filter_map(change).collect()
    }

    /// Writes what differs, each file whole or not at all.
    pub fn apply(&self) -> Result<(), Failure> {
        for file in self.files.iter().filter(|file| file.before != file.after) {
            if read(&file.path)? != file.before {
                return Err(Failure::general(format!(
                    "{} was changed by someone else meanwhile",
                    file.path.display()
                ))
                .help("call the same command again"));
            }
            let written = match &file.after {
                Some(text) => write(&target(&file.path), text, file.readers),
                None => fs::remove_file(target(&file.path)),
            };
            written.map_err(|error| {
                Failure::general(format!("{} cannot be written: {error}", file.path.display()))
            })?;
        }
        Ok(())
    }
}

/// The directories that must be created for a file, outermost first.
pub fn missing_directories(file: &Path) -> Vec<PathBuf> {
    let parents = file.ancestors().skip(1).take_while(|directory| !directory.exists());
    let mut missing: Vec<PathBuf> = parents.map(Path::to_owned).collect();
    missing.reverse();
    missing
}

fn read(path: &Path) -> Result<Option<String>, Failure> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Failure::general(format!("{} cannot be read: {error}", path.display()))),
    }
}

/// The final target of links: writing there keeps the links.
pub fn target(path: &Path) -> PathBuf {
    let mut place = path.to_owned();
    for _ in 0..32 {
        let Ok(next) = fs::read_link(&place) else { break };
        place = place.parent().unwrap_or(Path::new("/")).join(next);
    }
    place
}

fn write(path: &Path, text: &str, readers: Readers) -> io::Result<()> {
    let directory = path.parent().unwrap_or(Path::new("/"));
    let (directory_mode, new_mode) = match readers {
        Readers::Owner => (0o700, 0o600),
        Readers::OwnerRuns => (0o700, 0o700),
        Readers::Usual => (0o777, 0o666),
    };
    DirBuilder::new().recursive(true).mode(directory_mode).create(directory)?;
    let mut temporary = tempfile::Builder::new()
        .prefix(".bailiwick-")
        .permissions(Permissions::from_mode(new_mode))
        .tempfile_in(directory)?;
    temporary.write_all(text.as_bytes())?;
    if let Ok(existing) = fs::metadata(path) {
        temporary.as_file().set_permissions(existing.permissions())?;
    }
    temporary.as_file().sync_all()?;
    temporary.persist(path)?;
    Ok(())
}
