//! Mounts in our own namespace: binds that keep their flags, and get more.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::mount::{MsFlags, mount};
use nix::sys::statvfs::{FsFlags, statvfs};

/// The permissions of a mount.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    Read,
    Write,
}

/// Binds a file or directory with all that is mounted below it; set-user-id bits and devices mean
/// nothing there.
pub(super) fn bind(source: &Path, target: &Path, access: Access) -> io::Result<()> {
    mount(Some(source), target, None::<&str>, MsFlags::MS_BIND | MsFlags::MS_REC, None::<&str>)?;
    restrict(target, access)
}

/// Mounts a directory over itself, so that it can be neither renamed nor removed.
pub(super) fn pin(directory: &Path) -> io::Result<()> {
    // The new mount and all mounts below it keep their flags.
    let flags = MsFlags::MS_BIND | MsFlags::MS_REC;
    Ok(mount(Some(directory), directory, None::<&str>, flags, None::<&str>)?)
}

/// A file system in memory with at most this many bytes; without a limit, half of the machine's memory.
pub(super) fn memory(target: &Path, mode: &str, limit: Option<u64>) -> io::Result<()> {
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV;
    let size = limit.map_or_else(|| "50%".to_owned(), |limit| limit.to_string());
    let options = format!("mode={mode},size={size}");
    Ok(mount(Some("tmpfs"), target, Some("tmpfs"), flags, Some(options.as_str()))?)
}

/// Makes one of our mounts, such as a file system in memory, read-only.
pub(super) fn read_only(target: &Path) -> io::Result<()> {
    let flags = MsFlags::MS_BIND
        | MsFlags::MS_REMOUNT
        | MsFlags::MS_RDONLY
        | MsFlags::MS_NOSUID
        | MsFlags::MS_NODEV;
    Ok(mount(None::<&str>, target, None::<&str>, flags, None::<&str>)?)
}

/// Why no layer lies over directories.
#[derive(Debug)]
pub(super) enum LayerError {
    /// This kernel or file system has no layers, or the name of a directory cannot be given to it.
    Unsupported(io::Error),
    /// It supports them, and something else failed.
    Failed(io::Error),
}

impl LayerError {
    pub(super) fn cause(self) -> io::Error {
        match self {
            Self::Unsupported(error) | Self::Failed(error) => error,
        }
    }
}

impl From<io::Error> for LayerError {
    fn from(error: io::Error) -> Self {
        Self::Failed(error)
    }
}

impl From<Errno> for LayerError {
    /// The kernel has the file system not at all, not for us, or not over these directories.
    fn from(error: Errno) -> Self {
        let unsupported =
            [Errno::ENODEV, Errno::EPERM, Errno::EINVAL, Errno::ENOSYS, Errno::EOPNOTSUPP];
        match unsupported.contains(&error) {
            true => Self::Unsupported(error.into()),
            false => Self::Failed(error.into()),
        }
    }
}

/// Mounts an overlay of directories, upper ones first, whose writes go below `layers`.
pub(super) fn layer(lower: &[PathBuf], target: &Path, layers: &Path) -> Result<(), LayerError> {
    let (upper, work) = (layers.join("upper"), layers.join("work"));
    fs::create_dir_all(&upper)?;
    fs::create_dir_all(&work)?;
    let shown = |path: &Path| {
        let text = path.to_str().filter(|text| !text.contains([',', ':', '\\']));
        let unnamed = || LayerError::Unsupported(io::Error::other("its name cannot be mounted"));
        text.map(str::to_owned).ok_or_else(unnamed)
    };
    let lower = lower.iter().map(|path| shown(path)).collect::<Result<Vec<_>, _>>()?;
    let options = format!(
        "lowerdir={},upperdir={},workdir={},userxattr",
        lower.join(":"),
        shown(&upper)?,
        shown(&work)?
    );
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV;
    Ok(mount(Some("overlay"), target, Some("overlay"), flags, Some(options.as_str()))?)
}

/// Adds flags to a mount and to all below it. Existing flags stay: in a user namespace, the kernel does not let them
/// be removed.
fn restrict(target: &Path, access: Access) -> io::Result<()> {
    let mounts = match fs::symlink_metadata(target)?.is_dir() {
        true => below(&fs::read_to_string("/.old/proc/self/mountinfo")?, target),
        // Nothing is mounted below a file, and the table is long.
        false => vec![(target.to_owned(), mount_flags(statvfs(target)?.flags()))],
    };
    for (place, has) in mounts {
        let mut flags =
            MsFlags::MS_BIND | MsFlags::MS_REMOUNT | MsFlags::MS_NOSUID | MsFlags::MS_NODEV | has;
        if access == Access::Read {
            flags |= MsFlags::MS_RDONLY;
        }
        match mount(None::<&str>, &place, None::<&str>, flags, None::<&str>) {
            // It is covered by another mount, so it cannot be reached.
            Err(Errno::EINVAL | Errno::ENOENT | Errno::EACCES) | Ok(()) => {}
            Err(error) => return Err(error.into()),
        }
        let seen = match statvfs(&place) {
            Ok(seen) => seen.flags(),
            Err(Errno::ENOENT | Errno::EACCES | Errno::ENOTDIR) => continue,
            Err(error) => return Err(error.into()),
        };
        if access == Access::Read && !seen.contains(FsFlags::ST_RDONLY) {
            return Err(io::Error::other(format!("{} can still be written", place.display())));
        }
    }
    Ok(())
}

/// The mounts at or below a place, each with the flags it has; of several at one place the last,
/// which covers the others.
fn below(table: &str, target: &Path) -> Vec<(PathBuf, MsFlags)> {
    let mut found: Vec<(PathBuf, MsFlags)> = Vec::new();
    for line in table.lines() {
        let mut fields = line.split(' ');
        let (Some(place), Some(options)) = (fields.nth(4), fields.next()) else { continue };
        let place = PathBuf::from(unescaped(place));
        if place.starts_with(target) {
            found.retain(|(other, _)| *other != place);
            found.push((place, flags(options)));
        }
    }
    found
}

fn flags(options: &str) -> MsFlags {
    options.split(',').fold(MsFlags::empty(), |flags, option| {
        flags
            | match option {
                "ro" => MsFlags::MS_RDONLY,
                "nosuid" => MsFlags::MS_NOSUID,
                "nodev" => MsFlags::MS_NODEV,
                "noexec" => MsFlags::MS_NOEXEC,
                "noatime" => MsFlags::MS_NOATIME,
                "nodiratime" => MsFlags::MS_NODIRATIME,
                "relatime" => MsFlags::MS_RELATIME,
                _ => MsFlags::empty(),
            }
    })
}

/// The same flags as mount flags; those about times stay if none are named.
fn mount_flags(seen: FsFlags) -> MsFlags {
    let pairs = [
        (FsFlags::ST_RDONLY, MsFlags::MS_RDONLY),
        (FsFlags::ST_NOSUID, MsFlags::MS_NOSUID),
        (FsFlags::ST_NODEV, MsFlags::MS_NODEV),
        (FsFlags::ST_NOEXEC, MsFlags::MS_NOEXEC),
    ];
    let has = pairs.iter().filter(|(flag, _)| seen.contains(*flag));
    has.fold(MsFlags::empty(), |flags, (_, flag)| flags | *flag)
}

/// The kernel writes blanks, newlines and backslashes as a backslash and three octal digits.
fn unescaped(field: &str) -> std::ffi::OsString {
    use std::os::unix::ffi::OsStringExt as _;
    let mut bytes = Vec::new();
    let mut rest = field.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let octal = after
            .get(..3)
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .and_then(|digits| u8::from_str_radix(digits, 8).ok());
        match octal {
            Some(byte) if *first == b'\\' => {
                bytes.push(byte);
                rest = after.get(3..).unwrap_or_default();
            }
            _ => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    std::ffi::OsString::from_vec(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_mount_at_a_path_counts_and_escaped_names_are_decoded() {
        let table = "22 27 0:21 / /a\\040b rw,relatime - proc proc rw\n\
                     23 22 0:22 / /a\\040b/c ro,nosuid,nodev,noexec - tmpfs tmpfs rw\n\
                     24 22 0:22 / /a\\040b rw,noatime,nodiratime - tmpfs tmpfs rw\n\
                     25 22 0:22 / /a\\040bc rw - tmpfs tmpfs rw\n";
        let found = below(table, Path::new("/a b"));
        let places: Vec<&str> = found.iter().filter_map(|(place, _)| place.to_str()).collect();
        assert_eq!(places, ["/a b/c", "/a b"]);
        assert_eq!(found[1].1, MsFlags::MS_NOATIME | MsFlags::MS_NODIRATIME);
        assert_eq!(unescaped("x\\134040y"), "x\\040y");
    }

    #[test]
    fn only_errors_of_missing_kernel_support_are_unsupported() {
        for error in [Errno::ENODEV, Errno::EPERM, Errno::EINVAL] {
            assert!(matches!(error.into(), LayerError::Unsupported(_)), "{error}");
        }
        for error in [Errno::ENOSPC, Errno::EIO, Errno::ENOMEM, Errno::EACCES, Errno::EROFS] {
            assert!(matches!(error.into(), LayerError::Failed(_)), "{error}");
        }
    }
}
