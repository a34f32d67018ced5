//! Paths as they look inside the sandbox, and where they are outside.

use std::path::{Component, Path, PathBuf};

use bailiwick_testkit::corpus::{HOME, ROOT};

/// The private places of one case.
pub(crate) struct View {
    /// The directory that holds `repo`, `home`, `tmp`, `trace` and `stubs`.
    pub(crate) place: PathBuf,
}

/// The path of the stubs inside the sandbox.
pub(crate) const STUBS: &str = "/stubs";

impl View {
    /// The place outside of a path inside.
    pub(crate) fn outside(&self, path: &Path) -> PathBuf {
        for (inside, name) in [(ROOT, "repo"), (HOME, "home"), ("/tmp", "tmp"), (STUBS, "stubs")] {
            if let Ok(rest) = path.strip_prefix(inside) {
                return self.place.join(name).join(rest);
            }
        }
        path.to_owned()
    }

    /// Resolves the symbolic links of a path inside; the last component only if `last` requires it.
    pub(crate) fn resolve(&self, path: &Path, last: Last) -> PathBuf {
        let mut resolved = PathBuf::from("/");
        let mut parts: Vec<PathBuf> = split(path);
        let mut budget = 64;
        while let Some(part) = parts.pop() {
            match part.to_str() {
                Some("..") => {
                    resolved.pop();
                    continue;
                }
                Some("/") => {
                    resolved = PathBuf::from("/");
                    continue;
                }
                Some("." | "") => continue,
                Some(_) | None => {}
            }
            let candidate = resolved.join(&part);
            let follow = !parts.is_empty() || last == Last::Followed;
            // The sandbox creates these links itself; /proc differs inside.
            let target = match candidate.to_str() {
                Some("/proc/self/root") => Some(PathBuf::from("/")),
                Some(inside) if inside.starts_with("/proc/") => None,
                Some("/bin" | "/sbin" | "/lib" | "/lib64") => {
                    Some(PathBuf::from("/usr").join(&part))
                }
                Some(_) | None => std::fs::read_link(self.outside(&candidate)).ok(),
            };
            match target {
                Some(target) if follow && budget > 0 => {
                    budget -= 1;
                    parts.extend(split(&target));
                }
                Some(_) | None => resolved = candidate,
            }
        }
        resolved
    }
}

/// Whether the last part of a path is followed when it is a link.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Last {
    /// To where it leads.
    Followed,
    /// The link itself is meant.
    Kept,
}

/// The parts of a path, the last one first.
fn split(path: &Path) -> Vec<PathBuf> {
    let part = |component: Component<'_>| PathBuf::from(component.as_os_str());
    path.components().rev().map(part).collect()
}

/// A path as the truth shows it: relative to the repository's root if it is inside.
pub(crate) fn shown(path: &Path) -> String {
    match path.strip_prefix(ROOT) {
        Ok(rest) if rest.as_os_str().is_empty() => ".".to_owned(),
        Ok(rest) => rest.display().to_string(),
        Err(_) => path.display().to_string(),
    }
}
