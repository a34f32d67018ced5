//! Copying the objects of a layer.
//!
//! Only files with the name of a loose object or a pack are copied; other files that git would trust
//! (alternates, pack indexes, commit graphs, promisor files) are not. Packs are indexed again. Objects
//! and packs that the repository has are skipped.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use super::ImportLimits;
use super::layer::{self, Entry};

/// A copy of objects, within limits.
pub(super) struct ObjectCopy<'a> {
    /// The objects of the layer.
    pub(super) from: &'a Path,
    /// The objects of the repository.
    pub(super) known: &'a Path,
    /// The destination.
    pub(super) to: &'a Path,
    /// The length of an object name in hexadecimal digits.
    pub(super) length: usize,
    pub(super) limits: ImportLimits,
    pub(super) copied: CopiedSize,
}

/// How much was copied so far.
#[derive(Debug, Default)]
pub(super) struct CopiedSize {
    files: u64,
    bytes: u64,
}

impl ObjectCopy<'_> {
    /// Copies the objects and returns the packs, which have no index yet.
    pub(super) fn run(&mut self) -> io::Result<Vec<PathBuf>> {
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
        let left = self.limits.bytes.saturating_sub(self.copied.bytes);
        let mut file = layer::open(from)?.take(left.saturating_add(1));
        let bytes = io::copy(&mut file, &mut File::create_new(to)?)?;
        self.count(bytes)
    }

    /// Copies complete packs: git writes the index of a pack last.
    fn copy_packs(&mut self) -> io::Result<Vec<PathBuf>> {
        let from = self.from.join("pack");
        let mut packs = Vec::new();
        if !is_directory(&from)? {
            return Ok(packs);
        }
        for entry in fs::read_dir(&from)? {
            let path = from.join(entry?.file_name());
            let Some(name) = pack_name(&path, self.length) else { continue };
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
        let CopiedSize { files, bytes: all } = &mut self.copied;
        *files = files.saturating_add(1);
        *all = all.saturating_add(bytes);
        let ImportLimits { bytes: max_bytes, objects: max_files } = self.limits;
        if *all > max_bytes {
            return Err(io::Error::other(format!(
                "the layer has more than {max_bytes} bytes of objects, which is the limit of an \
                 import"
            )));
        }
        if *files > max_files {
            return Err(io::Error::other(format!(
                "the layer has more than {max_files} objects, which is the limit of an import"
            )));
        }
        Ok(())
    }
}

fn is_directory(path: &Path) -> io::Result<bool> {
    match layer::look(path)? {
        Entry::Directory => Ok(true),
        Entry::Nothing | Entry::Whiteout => Ok(false),
        Entry::File => Err(layer::wrong_kind(path)),
    }
}

fn is_file(path: &Path) -> io::Result<bool> {
    match layer::look(path)? {
        Entry::File => Ok(true),
        Entry::Nothing | Entry::Whiteout => Ok(false),
        Entry::Directory => Err(layer::wrong_kind(path)),
    }
}

fn hexadecimal(name: &OsStr, length: usize) -> Option<&str> {
    let name = name.to_str()?;
    let fits = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    (name.len() == length && name.bytes().all(fits)).then_some(name)
}

/// The file name of a pack.
fn pack_name(path: &Path, length: usize) -> Option<PathBuf> {
    let name = path.file_name()?.to_str()?;
    let checksum = name.strip_prefix("pack-")?.strip_suffix(".pack")?;
    hexadecimal(OsStr::new(checksum), length)?;
    Some(PathBuf::from(name))
}
