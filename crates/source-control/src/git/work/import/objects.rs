//! The objects of a layer, copied to where nothing but objects is.
//!
//! Only files that have the name of a loose object or a pack are taken; what git would believe
//! beside them (alternates, indexes, graphs, promises) stays behind. Packs are indexed anew. An
//! object or a pack that the repository has is the repository's.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use super::ImportLimits;
use super::layer::{self, Entry};

/// Copies objects, as far as the limits allow.
pub(super) struct Gathering<'a> {
    /// Where the layer has its objects.
    pub(super) from: &'a Path,
    /// Where the repository has its own.
    pub(super) known: &'a Path,
    /// Where they go.
    pub(super) to: &'a Path,
    /// How many letters the name of an object has.
    pub(super) length: usize,
    /// How much is taken.
    pub(super) limits: ImportLimits,
    /// How much has been taken.
    pub(super) taken: Taken,
}

/// How much has been taken.
#[derive(Debug, Default)]
pub(super) struct Taken {
    files: u64,
    bytes: u64,
}

impl Gathering<'_> {
    /// Copies what there is; gives the packs, which have no index yet.
    pub(super) fn gather(&mut self) -> io::Result<Vec<PathBuf>> {
        if !is_directory(self.from)? {
            return Ok(Vec::new());
        }
        for entry in fs::read_dir(self.from)? {
            let name = entry?.file_name();
            if let Some(name) = hexadecimal(&name, 2) {
                self.copy_directory(name)?;
            }
        }
        self.copy_packs()
    }

    fn copy_directory(&mut self, directory: &str) -> io::Result<()> {
        let from = self.from.join(directory);
        if !is_directory(&from)? {
            return Ok(());
        }
        let to = self.to.join(directory);
        fs::create_dir_all(&to)?;
        for entry in fs::read_dir(&from)? {
            let name = entry?.file_name();
            let Some(name) = hexadecimal(&name, self.length.saturating_sub(2)) else { continue };
            let object = from.join(name);
            let known = self.known.join(directory).join(name);
            if is_file(&object)? && fs::symlink_metadata(known).is_err() {
                self.copy(&object, &to.join(name))?;
            }
        }
        Ok(())
    }

    fn copy(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        let left = self.limits.bytes.saturating_sub(self.taken.bytes);
        let mut file = layer::open(from)?.take(left.saturating_add(1));
        let bytes = io::copy(&mut file, &mut File::create_new(to)?)?;
        self.count(bytes)
    }

    /// Packs that are complete: git writes the index of a pack last.
    fn copy_packs(&mut self) -> io::Result<Vec<PathBuf>> {
        let from = self.from.join("pack");
        let mut packs = Vec::new();
        if !is_directory(&from)? {
            return Ok(packs);
        }
        for entry in fs::read_dir(&from)? {
            let path = from.join(entry?.file_name());
            let Some(name) = pack(&path, self.length) else { continue };
            let complete = is_file(&path)? && is_file(&path.with_extension("idx"))?;
            if complete && fs::symlink_metadata(self.known.join("pack").join(&name)).is_err() {
                let to = self.to.join("pack").join(name);
                self.copy(&path, &to)?;
                packs.push(to);
            }
        }
        Ok(packs)
    }

    fn count(&mut self, bytes: u64) -> io::Result<()> {
        let Taken { files, bytes: all } = &mut self.taken;
        *files = files.saturating_add(1);
        *all = all.saturating_add(bytes);
        let ImportLimits { bytes: most_bytes, objects: most_files } = self.limits;
        if *all > most_bytes {
            return Err(io::Error::other(format!(
                "the layer has more than {most_bytes} bytes of objects, which is the most that is \
                 taken"
            )));
        }
        if *files > most_files {
            return Err(io::Error::other(format!(
                "the layer has more than {most_files} objects, which is the most that is taken"
            )));
        }
        Ok(())
    }
}

fn is_directory(path: &Path) -> io::Result<bool> {
    match layer::look(path)? {
        Entry::Directory => Ok(true),
        Entry::Nothing | Entry::Whiteout => Ok(false),
        Entry::File => Err(wrong(path)),
    }
}

fn is_file(path: &Path) -> io::Result<bool> {
    match layer::look(path)? {
        Entry::File => Ok(true),
        Entry::Nothing | Entry::Whiteout => Ok(false),
        Entry::Directory => Err(wrong(path)),
    }
}

fn wrong(path: &Path) -> io::Error {
    io::Error::other(format!("{} has the wrong kind", path.display()))
}

fn hexadecimal(name: &OsStr, length: usize) -> Option<&str> {
    let name = name.to_str()?;
    let fits = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    (name.len() == length && name.bytes().all(fits)).then_some(name)
}

/// The name of a pack, if it is one.
fn pack(path: &Path, length: usize) -> Option<PathBuf> {
    let name = path.file_name()?.to_str()?;
    let checksum = name.strip_prefix("pack-")?.strip_suffix(".pack")?;
    hexadecimal(OsStr::new(checksum), length)?;
    Some(PathBuf::from(name))
}
