//! Which versions of a worker and a server work together: the same, or one minor release apart.

use thiserror::Error;

/// Why a worker and a server do not work together.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "the worker has version {worker} and the server {server}: they may differ by one minor release; update the \
     older one"
)]
pub struct VersionSkew {
    pub worker: String,
    pub server: String,
}

/// Fails unless both have the same major version, and minor versions that differ by one at most.
pub fn check_version(server: &str, worker: &str) -> Result<(), VersionSkew> {
    let skew = || VersionSkew { worker: worker.to_owned(), server: server.to_owned() };
    let (Some(ours), Some(theirs)) = (release(server), release(worker)) else { return Err(skew()) };
    match ours.0 == theirs.0 && ours.1.abs_diff(theirs.1) <= 1 {
        true => Ok(()),
        false => Err(skew()),
    }
}

/// The major and minor version.
fn release(version: &str) -> Option<(u64, u64)> {
    let mut parts = version.split('.');
    let major = parts.next()?.parse().ok()?;
    let minor = parts.next()?.parse().ok()?;
    parts.next()?;
    Some((major, minor))
}

#[cfg(test)]
mod tests {
    use super::check_version;

    #[test]
    fn one_minor_release_of_difference_is_accepted() {
        for (server, worker, is_accepted) in [
            ("1.4.0", "1.4.9", true),
            ("1.4.0", "1.3.0", true),
            ("1.4.0", "1.5.2-rc.1", true),
            ("1.4.0", "1.2.9", false),
            ("1.4.0", "1.6.0", false),
            ("2.0.0", "1.0.0", false),
            ("1.4.0", "1.4", false),
            ("1.4.0", "", false),
            ("1.4.0", "new.4.0", false),
        ] {
            assert_eq!(check_version(server, worker).is_ok(), is_accepted, "{server} {worker}");
        }
    }
}
