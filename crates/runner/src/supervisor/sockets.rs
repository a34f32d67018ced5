//! UNIX sockets, however long the path to them is.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

/// Listens at a path, in place of an earlier listener: only one supervisor holds a run.
pub(super) fn listen(path: &Path) -> io::Result<UnixListener> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        Ok(()) | Err(_) => {}
    }
    let (_directory, short) = shortened(path)?;
    UnixListener::bind(short)
}

/// Connects to the listener there.
pub(super) fn connect(path: &Path) -> io::Result<UnixStream> {
    let (_directory, short) = shortened(path)?;
    UnixStream::connect(short)
}

/// The kernel accepts at most 107 bytes: any path becomes short through its open directory.
fn shortened(path: &Path) -> io::Result<(File, PathBuf)> {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(io::Error::other(format!("{} is no path of a socket", path.display())));
    };
    let directory = File::open(parent)?;
    let short = Path::new("/proc/self/fd").join(directory.as_raw_fd().to_string()).join(name);
    Ok((directory, short))
}
