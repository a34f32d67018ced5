//! Whether Jobs on a node like that of this pod can confine agents. The worker in each Job has the last word: it begins
//! no attempt where its sandbox is not full.

use std::path::Path;

/// The oldest Linux with ID-mapped volumes for `hostUsers: false`. Its Landlock is what the sandbox needs, or newer.
const OLDEST_LINUX: (u32, u32) = (6, 3);
/// The program that a Job starts.
const WORKER: &str = "bailiwick";

/// What can be seen from a pod without a sandbox.
#[derive(Debug)]
struct Node {
    /// The release of Linux.
    release: String,
    /// How many user namespaces may exist.
    user_namespaces: Option<u64>,
    /// Whether the image has the worker.
    has_worker: bool,
}

/// What Jobs lack on a node like this one, or in an image like this one, and what to do. Nothing outside of a cluster.
pub(crate) fn shortfall_here() -> Option<String> {
    std::env::var_os("KUBERNETES_SERVICE_HOST")?;
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let search_path = std::env::var_os("PATH").unwrap_or_default();
    let has_worker = |directory: &Path| directory.join(WORKER).is_file();
    shortfall(&Node {
        release: read("/proc/sys/kernel/osrelease").trim().to_owned(),
        user_namespaces: read("/proc/sys/user/max_user_namespaces").trim().parse().ok(),
        has_worker: std::env::split_paths(&search_path).any(|directory| has_worker(&directory)),
    })
}

fn shortfall(node: &Node) -> Option<String> {
    let other_nodes = "choose other nodes with `job.nodeSelector` of the pool";
    if !node.has_worker {
        return Some(format!(
            "the image of this pod has no program `{WORKER}`, which confines agents in Jobs: make one with \
             `scripts/image --operator`, unless Jobs have another image"
        ));
    }
    if node.user_namespaces == Some(0) {
        return Some(format!(
            "Jobs on a node like this one end with SandboxInsufficient, because user.max_user_namespaces is 0: set it \
             on the node with sysctl, or {other_nodes}"
        ));
    }
    let is_old = version(&node.release).is_some_and(|version| version < OLDEST_LINUX);
    is_old.then(|| {
        let (major, minor) = OLDEST_LINUX;
        format!(
            "Jobs on a node like this one may end with SandboxInsufficient, because the Landlock and the ID-mapped \
             volumes of Linux {} are older than those of Linux {major}.{minor}: update the node, or {other_nodes}",
            node.release
        )
    })
}

/// The first two numbers of a release.
fn version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|letter: char| !letter.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::{Node, shortfall};

    fn node(release: &str) -> Node {
        Node { release: release.to_owned(), user_namespaces: Some(63_000), has_worker: true }
    }

    #[test]
    fn complete_node_has_no_shortfall() {
        for release in ["6.3.0", "6.8.0-45-generic", "6.12-rc1", "7.0.1", "", "unknown"] {
            assert_eq!(shortfall(&node(release)), None, "{release}");
        }
        let unreadable = Node { user_namespaces: None, ..node("6.8.0") };
        assert_eq!(shortfall(&unreadable), None);
    }

    #[test]
    fn shortfall_names_its_cause_and_a_fix() {
        let no_worker = Node { has_worker: false, ..node("6.8.0") };
        let no_namespaces = Node { user_namespaces: Some(0), ..node("6.8.0") };
        for (node, cause, fix) in [
            (no_worker, "no program `bailiwick`", "scripts/image --operator"),
            (no_namespaces, "user.max_user_namespaces is 0", "job.nodeSelector"),
            (node("5.15.0-1071-aws"), "Linux 5.15.0-1071-aws", "job.nodeSelector"),
            (node("6.2.16"), "older than those of Linux 6.3", "update the node"),
        ] {
            let message = shortfall(&node).unwrap();
            assert!(message.contains(cause) && message.contains(fix), "{message}");
        }
    }
}
