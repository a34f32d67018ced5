//! Finds out what a program really is: the target of a link, or a copy.

use std::fs::{self, File, Metadata};
use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use bailiwick_policy::paths::join;

use super::reach::Reach;
use super::walk::resolve_path;

/// Programs that are recognised under another name, too.
const RECOGNISED: [&str; 2] = ["git", "gh"];
/// Where the programs of the system are.
const SYSTEM: [&str; 4] = ["/usr/bin/", "/usr/sbin/", "/bin/", "/sbin/"];

/// The real name of a program, if it differs from its own.
pub(crate) fn real_name(
    name: &str,
    directory: Option<&str>,
    root: &str,
    reach: Reach<'_>,
) -> Option<String> {
    let file = if name.contains('/') {
        let base = directory.filter(|_| !name.starts_with('/'));
        PathBuf::from(match base {
            Some(base) => join(base, name),
            None => name.to_owned(),
        })
    } else {
        on_path(name)?
    };
    if !may_be_known(file.to_str()?, reach) {
        return None;
    }
    let real = fs::canonicalize(&file).ok()?;
    let own = name.rsplit('/').next().unwrap_or(name);
    let named = real.file_name()?.to_str()?;
    if named != own {
        return Some(named.to_owned());
    }
    // Programs of the system are not copies of each other.
    let ours = name.contains('/') || real.starts_with(root);
    ours.then(|| copy_of(&real)).flatten()
}

/// Whether a program is in reach, with everything that leads to it, or belongs to the system, as on every machine.
fn may_be_known(file: &str, reach: Reach<'_>) -> bool {
    let is_system = |path: &str| SYSTEM.iter().any(|place| path.starts_with(place));
    if !reach.is_limited() {
        return true;
    }
    let Some(resolved) = resolve_path(file, reach) else { return false };
    let is_in_system = || {
        let real = fs::canonicalize(&resolved.real).ok();
        is_system(&resolved.real) && real.is_some_and(|real| real.to_str().is_some_and(is_system))
    };
    reach.sees(&resolved.real) || is_in_system()
}

fn on_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|place| place.join(name)).find(|file| file.is_file())
}

fn copy_of(file: &Path) -> Option<String> {
    let found = fs::metadata(file).ok().filter(Metadata::is_file)?;
    let path = std::env::var_os("PATH")?;
    for name in RECOGNISED {
        for place in std::env::split_paths(&path) {
            let original = place.join(name);
            let Ok(other) = fs::metadata(&original) else { continue };
            let same_file = found.dev() == other.dev() && found.ino() == other.ino();
            if same_file || (found.len() == other.len() && same_content(file, &original)) {
                return Some(name.to_owned());
            }
        }
    }
    None
}

fn same_content(one: &Path, other: &Path) -> bool {
    let (Ok(mut one), Ok(mut other)) = (File::open(one), File::open(other)) else { return true };
    let (mut left, mut right) = (vec![0; 64 * 1024], vec![0; 64 * 1024]);
    loop {
        let (Ok(read), Ok(also)) = (one.read(&mut left), other.read(&mut right)) else {
            return true;
        };
        // Regular files return as much as requested; if the lengths differ, the files count as equal.
        if read != also {
            return true;
        }
        if left.get(..read) != right.get(..also) {
            return false;
        }
        if read == 0 {
            return true;
        }
    }
}
