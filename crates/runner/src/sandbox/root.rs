//! The root that a program sees: the system read-only, private directories, and what it was given.
//!
//! The new root is a file system in memory that changes places with the old one. The old one is put
//! away only at the end: the kernel mounts a new `/proc` only beside one that is seen in full.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Component, Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{OFlag, open};
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sys::stat::Mode;
use nix::unistd::{chdir, pivot_root};

use super::mounts::{self, Access, LayerError};
use super::{Fallback, Overlay, Sandbox, SandboxError, SandboxErrorKind, read_only_paths};

/// System directories that every program can read, if they exist.
const SYSTEM: [&str; 9] = ["usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32", "etc", "opt"];
const DEVICES: [&str; 6] = ["null", "zero", "full", "random", "urandom", "tty"];
/// The size of a directory that stays empty; 0 would mean no limit.
const NOTHING: u64 = 4096;
/// The place of the old root until it is unmounted.
const OLD: &str = "/.old";

/// Builds the root and moves into it. Gives the new `/proc` as a directory in which our own process
/// can still be written to; inside it can only be read.
pub(super) fn build(sandbox: &Sandbox) -> Result<OwnedFd, SandboxError> {
    let limit = sandbox.bounds.memory;
    change_places(limit).map_err(|error| SandboxError::new("mount namespace", error))?;
    let processes = mount_processes().map_err(|error| at("/proc", error))?;
    make_devices().map_err(|error| at("/dev", error))?;
    for name in SYSTEM {
        show_system(name).map_err(|error| at(name, error))?;
    }
    hide_secrets(Path::new("/etc")).map_err(|error| at("/etc", error))?;
    for (place, mode) in [("/tmp", "1777"), ("/var/tmp", "1777"), ("/dev/shm", "1777")] {
        own_directory(Path::new(place), mode, limit).map_err(|error| at(place, error))?;
    }
    place_all(sandbox)?;
    for path in &sandbox.emptied {
        mounts::read_only(path).map_err(|error| at(&path.display().to_string(), error))?;
    }
    read_only_paths::freeze_all(sandbox)?;
    for path in &sandbox.hidden {
        hide(path).map_err(|error| at(&path.display().to_string(), error))?;
    }
    put_old_away().map_err(|error| SandboxError::new("mount namespace", error))?;
    Ok(processes)
}

fn at(place: &str, error: io::Error) -> SandboxError {
    SandboxError::new("mount namespace", format!("{place}: {error}"))
}

fn change_places(limit: Option<u64>) -> io::Result<()> {
    let root = Path::new("/");
    mount(None::<&str>, root, None::<&str>, MsFlags::MS_REC | MsFlags::MS_PRIVATE, None::<&str>)?;
    mounts::memory(Path::new("/tmp"), "0755", limit)?;
    chdir("/tmp")?;
    fs::create_dir(".old")?;
    pivot_root(".", ".old")?;
    chdir("/")?;
    Ok(())
}

fn put_old_away() -> io::Result<()> {
    umount2(OLD, MntFlags::MNT_DETACH)?;
    fs::remove_dir(OLD)?;
    mounts::read_only(Path::new("/"))
}

/// The path of a host file in the old root.
fn old(path: &Path) -> PathBuf {
    Path::new(OLD).join(path.strip_prefix("/").unwrap_or(path))
}

/// Inside, `/proc` can be read only: root on the host could else set the host's kernel up
/// through it, and any program could write to the memory of another.
fn mount_processes() -> io::Result<OwnedFd> {
    let (whole, seen) = (Path::new("/.proc"), Path::new("/proc"));
    fs::create_dir(whole)?;
    fs::create_dir(seen)?;
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
    mount(Some("proc"), whole, Some("proc"), flags, None::<&str>)?;
    mount(Some(whole), seen, None::<&str>, MsFlags::MS_BIND, None::<&str>)?;
    let read = flags | MsFlags::MS_BIND | MsFlags::MS_REMOUNT | MsFlags::MS_RDONLY;
    mount(None::<&str>, seen, None::<&str>, read, None::<&str>)?;
    let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
    let processes = open(whole, flags, Mode::empty())?;
    umount2(whole, MntFlags::MNT_DETACH)?;
    fs::remove_dir(whole)?;
    Ok(processes)
}

fn make_devices() -> io::Result<()> {
    fs::create_dir("/dev")?;
    for name in DEVICES {
        let device = Path::new("/dev").join(name);
        fs::File::create_new(&device)?;
        let source = old(&device);
        mount(Some(&source), &device, None::<&str>, MsFlags::MS_BIND, None::<&str>)?;
    }
    fs::create_dir("/dev/pts")?;
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NOEXEC;
    let options = "newinstance,ptmxmode=0666,mode=0620";
    mount(Some("devpts"), "/dev/pts", Some("devpts"), flags, Some(options))?;
    symlink("pts/ptmx", "/dev/ptmx")?;
    symlink("/proc/self/fd", "/dev/fd")?;
    for (number, name) in ["stdin", "stdout", "stderr"].into_iter().enumerate() {
        symlink(format!("/proc/self/fd/{number}"), Path::new("/dev").join(name))?;
    }
    // Private files in /proc are masked by a device, so this comes last.
    for entry in fs::read_dir("/proc")? {
        let entry = entry?;
        let data = entry.metadata()?;
        if data.is_file() && data.permissions().mode() & 0o004 == 0 {
            hide(&entry.path())?;
        }
    }
    Ok(())
}

fn show_system(name: &str) -> io::Result<()> {
    let target = Path::new("/").join(name);
    let source = old(&target);
    match fs::symlink_metadata(&source) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
        Ok(found) if found.is_symlink() => symlink(fs::read_link(&source)?, &target),
        Ok(_) => {
            fs::create_dir(&target)?;
            mounts::bind(&source, &target, Access::Read)
        }
    }
}

/// Files in `/etc` that others may not read are hidden from the program, under any user.
fn hide_secrets(place: &Path) -> io::Result<()> {
    for entry in fs::read_dir(place)? {
        let entry = entry?;
        let data = match entry.metadata() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            data => data?,
        };
        let mode = data.permissions().mode();
        let open = if data.is_dir() { mode & 0o005 == 0o005 } else { mode & 0o004 == 0o004 };
        if !open && (data.is_dir() || data.is_file()) {
            hide(&entry.path())?;
        } else if data.is_dir() {
            hide_secrets(&entry.path())?;
        }
    }
    Ok(())
}

/// Puts something empty over a file or directory, or over what a link leads to; `None` if that is not there.
fn hide(path: &Path) -> io::Result<()> {
    let nowhere = [Errno::ENOENT, Errno::ENOTDIR, Errno::ELOOP].map(|errno| Some(errno as i32));
    let path = match fs::canonicalize(path) {
        Err(error) if nowhere.contains(&error.raw_os_error()) => return Ok(()),
        path => path?,
    };
    if fs::symlink_metadata(&path)?.is_dir() {
        mounts::memory(&path, "0555", Some(NOTHING))?;
        return mounts::read_only(&path);
    }
    let nothing = Path::new("/dev/null");
    Ok(mount(Some(nothing), &path, None::<&str>, MsFlags::MS_BIND, None::<&str>)?)
}

/// How a path inside is mounted.
#[derive(Clone, Copy)]
enum MountKind<'a> {
    Own,
    Given(&'a Path, Access),
    Layered(&'a Path),
    Overlaid(&'a Overlay),
}

/// Mounts what the sandbox names, outer paths first.
fn place_all(sandbox: &Sandbox) -> Result<(), SandboxError> {
    let own = sandbox.private.iter().chain(&sandbox.emptied);
    let own = own.map(|path| (path.as_path(), MountKind::Own));
    let read =
        sandbox.read_only.iter().map(|bind| (bind, MountKind::Given(&bind.source, Access::Read)));
    let write =
        sandbox.writable.iter().map(|bind| (bind, MountKind::Given(&bind.source, Access::Write)));
    let layered = sandbox.layered.iter().map(|bind| (bind, MountKind::Layered(&bind.source)));
    let given = read.chain(write).chain(layered).map(|(bind, how)| (bind.target.as_path(), how));
    let overlaid =
        sandbox.overlaid.iter().map(|one| (one.target.as_path(), MountKind::Overlaid(one)));
    let mut all: Vec<_> = own.chain(given).chain(overlaid).collect();
    all.sort_by_key(|(target, _)| target.components().count());
    for (number, (target, how)) in all.into_iter().enumerate() {
        let placed: io::Result<()> = match how {
            MountKind::Own => own_directory(target, "0755", sandbox.bounds.memory),
            MountKind::Given(source, access) => give(source, target, access),
            MountKind::Layered(source) => match lay(&[old(source)], target, &layers(number)) {
                Err(LayerError::Unsupported(_)) => give(source, target, Access::Read),
                laid => laid.map_err(LayerError::cause),
            },
            MountKind::Overlaid(overlay) => {
                let lower: Vec<PathBuf> = overlay.lower.iter().map(|path| old(path)).collect();
                let laid = lay(&lower, target, &old(&overlay.layer));
                match (laid, overlay.fallback, overlay.lower.first()) {
                    (Err(LayerError::Unsupported(_)), Fallback::Write, Some(first)) => {
                        give(first, target, Access::Write)
                    }
                    (Err(LayerError::Unsupported(error)), _, _) => {
                        return Err(SandboxError {
                            kind: SandboxErrorKind::LayersUnsupported,
                            ..at(&target.display().to_string(), error)
                        });
                    }
                    (laid, _, _) => laid.map_err(LayerError::cause),
                }
            }
        };
        placed.map_err(|error| at(&target.display().to_string(), error))?;
    }
    Ok(())
}

fn lay(lower: &[PathBuf], target: &Path, layers: &Path) -> Result<(), LayerError> {
    make_way(target, Kind::Directory)?;
    mounts::layer(lower, target, layers)
}

/// The directory of layers: in the root itself, which no process inside can write.
fn layers(number: usize) -> PathBuf {
    PathBuf::from(format!("/.layers/{number}"))
}

fn own_directory(place: &Path, mode: &str, limit: Option<u64>) -> io::Result<()> {
    make_way(place, Kind::Directory)?;
    mounts::memory(place, mode, limit)
}

fn give(source: &Path, target: &Path, access: Access) -> io::Result<()> {
    let source = old(source);
    let kind = if fs::symlink_metadata(&source)?.is_dir() { Kind::Directory } else { Kind::File };
    make_way(target, kind)?;
    mounts::bind(&source, target, access)
}

#[derive(Clone, Copy)]
enum Kind {
    Directory,
    File,
}

/// Creates a mount point. No component may be a link: it could lead to where something else is mounted.
fn make_way(target: &Path, kind: Kind) -> io::Result<()> {
    let refused = |why: &str| io::Error::other(why.to_owned());
    let parts: Vec<Component<'_>> = target.components().collect();
    let Some((Component::RootDir, parts)) = parts.split_first() else {
        return Err(refused("the path is not absolute"));
    };
    let mut place = PathBuf::from("/");
    for (number, part) in parts.iter().enumerate() {
        let Component::Normal(name) = part else {
            return Err(refused("the path is not a plain one"));
        };
        place.push(name);
        let last = number + 1 == parts.len();
        match (fs::symlink_metadata(&place), kind) {
            (Ok(found), Kind::File) if last && found.is_file() => {}
            (Ok(found), Kind::Directory) if last && found.is_dir() => {}
            (Ok(found), _) if !last && found.is_dir() => {}
            (Ok(_), _) => return Err(refused("something else is in its way")),
            (Err(_), Kind::File) if last => drop(fs::File::create_new(&place)?),
            (Err(_), _) => match fs::create_dir(&place) {
                Err(error) if error.raw_os_error() == Some(Errno::EROFS as i32) => {
                    return Err(refused("it is in a directory that can only be read"));
                }
                made => made?,
            },
        }
    }
    Ok(())
}
