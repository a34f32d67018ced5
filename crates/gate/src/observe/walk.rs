//! Resolves paths: follows every link as the kernel would, also for files that do not exist yet.

use std::collections::VecDeque;
use std::fs;
use std::path::Path;

use bailiwick_policy::facts::{Kind, ResolvedPath};

use super::reach::{Place, Reach};

/// As many links as the kernel follows.
const MAX_LINKS: usize = 40;

/// Resolves an absolute path; `None` if it is not UTF-8, or has a cycle of links.
pub(crate) fn resolve_path(path: &str, reach: Reach<'_>) -> Option<ResolvedPath> {
    let (entry, _) = resolve(path, FinalLink::Kept, reach)?;
    let (real, kind) = resolve(path, FinalLink::Followed, reach)?;
    Some(ResolvedPath { entry, real, kind })
}

/// Whether a link at the end of the path is followed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum FinalLink {
    Kept,
    Followed,
}

fn resolve(path: &str, last: FinalLink, reach: Reach<'_>) -> Option<(String, Kind)> {
    if path.contains('\0') || !path.starts_with('/') {
        return None;
    }
    let mut rest: VecDeque<String> = parts(path);
    let mut real = String::new();
    let mut kind = Kind::Directory;
    let mut links = 0;
    while let Some(part) = rest.pop_front() {
        if part == ".." {
            real.truncate(real.rfind('/').unwrap_or(0));
            kind = Kind::Directory;
            continue;
        }
        if kind == Kind::File {
            kind = Kind::Impossible;
        }
        let next = format!("{real}/{part}");
        if matches!(kind, Kind::Missing | Kind::Impossible) {
            real = next;
            continue;
        }
        match reach.place(&next) {
            Place::Seen => {}
            Place::Ancestor => {
                real = next;
                continue;
            }
            Place::Unseen => {
                real = next;
                kind = Kind::Missing;
                continue;
            }
        }
        match fs::symlink_metadata(&next) {
            Err(_) => {
                real = next;
                kind = Kind::Missing;
            }
            // Links of processes lead elsewhere for the one that will follow them.
            Ok(found) if found.is_symlink() && next.starts_with("/proc/") => return None,
            Ok(found)
                if found.is_symlink() && (!rest.is_empty() || last == FinalLink::Followed) =>
            {
                links += 1;
                if links > MAX_LINKS {
                    return None;
                }
                let target = fs::read_link(&next).ok()?;
                let target = target.to_str()?;
                if Path::new(target).is_absolute() {
                    real.clear();
                }
                for part in parts(target).into_iter().rev() {
                    rest.push_front(part);
                }
            }
            Ok(found) => {
                real = next;
                kind = if found.is_dir() { Kind::Directory } else { Kind::File };
            }
        }
    }
    if real.is_empty() {
        real.push('/');
    }
    Some((real, kind))
}

fn parts(path: &str) -> VecDeque<String> {
    let parts = path.split('/').filter(|part| !part.is_empty() && *part != ".");
    parts.map(str::to_owned).collect()
}
