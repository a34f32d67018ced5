//! Why this machine does not let programs create user namespaces, and the command that changes it.
//!
//! [`obstacles`] is pure: it reads nothing but the [`Facts`] that [`Facts::observe`] collects.

use std::fmt;
use std::fs;
use std::path::Path;

/// Facts about this machine and this process.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Facts {
    /// `user.max_user_namespaces`; `None` if the kernel does not have it.
    pub max_user_namespaces: Option<u64>,
    /// `kernel.unprivileged_userns_clone`, which Debian's kernels have.
    pub unprivileged_userns_clone: Option<u64>,
    /// `kernel.apparmor_restrict_unprivileged_userns`, which Ubuntu's kernels have.
    pub apparmor_restricts_userns: Option<u64>,
    /// The container that this process is in.
    pub container: Option<Container>,
    /// Whether a seccomp filter is applied to this process.
    pub seccomp_filter: bool,
    /// Whether this process has the capability `SYS_ADMIN`.
    pub sys_admin: bool,
}

/// A program that runs containers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Container {
    /// Docker.
    Docker,
    /// Podman.
    Podman,
    /// Kubernetes.
    Kubernetes,
    /// Another one, by its own name.
    Other(String),
}

/// Something that prevents programs from creating user namespaces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Obstacle {
    /// `user.max_user_namespaces` is 0.
    NamespaceLimit,
    /// The kernel was built without user namespaces.
    Kernel,
    /// `kernel.unprivileged_userns_clone` is 0.
    UnprivilegedClone,
    /// `kernel.apparmor_restrict_unprivileged_userns` is 1.
    AppArmor,
    /// The limits of a container.
    Container(Container),
    /// A seccomp filter outside of a container, such as that of a systemd service.
    SeccompFilter,
    /// None of these.
    Unknown,
}

impl Facts {
    /// Observes this machine and this process.
    pub fn observe() -> Self {
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        Self {
            max_user_namespaces: number("/proc/sys/user/max_user_namespaces"),
            unprivileged_userns_clone: number("/proc/sys/kernel/unprivileged_userns_clone"),
            apparmor_restricts_userns: number(
                "/proc/sys/kernel/apparmor_restrict_unprivileged_userns",
            ),
            container: container(),
            seccomp_filter: seccomp_filter(&status),
            sys_admin: sys_admin(&status),
        }
    }
}

fn number(file: &str) -> Option<u64> {
    fs::read_to_string(file).ok()?.trim().parse().ok()
}

fn container() -> Option<Container> {
    if std::env::var_os("KUBERNETES_SERVICE_HOST").is_some() {
        return Some(Container::Kubernetes);
    }
    if Path::new("/.dockerenv").exists() {
        return Some(Container::Docker);
    }
    if Path::new("/run/.containerenv").exists() {
        return Some(Container::Podman);
    }
    let name = fs::read_to_string("/run/systemd/container").ok()?;
    Some(Container::Other(name.trim().to_owned())).filter(|_| !name.trim().is_empty())
}

fn field<'a>(status: &'a str, name: &str) -> Option<&'a str> {
    status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
}

fn seccomp_filter(status: &str) -> bool {
    field(status, "Seccomp") == Some("2")
}

fn sys_admin(status: &str) -> bool {
    const SYS_ADMIN: u64 = 1 << 21;
    let effective = field(status, "CapEff").and_then(|text| u64::from_str_radix(text, 16).ok());
    effective.is_some_and(|effective| effective & SYS_ADMIN != 0)
}

/// Everything that prevents a process with these facts from creating user namespaces; at least one.
pub fn obstacles(facts: &Facts) -> Vec<Obstacle> {
    let mut found = Vec::new();
    match facts.max_user_namespaces {
        Some(0) => found.push(Obstacle::NamespaceLimit),
        Some(1..) => {}
        None => found.push(Obstacle::Kernel),
    }
    // Neither of these binds a process that has the capability.
    if facts.unprivileged_userns_clone == Some(0) && !facts.sys_admin {
        found.push(Obstacle::UnprivilegedClone);
    }
    if facts.apparmor_restricts_userns.is_some_and(|value| value != 0) && !facts.sys_admin {
        found.push(Obstacle::AppArmor);
    }
    match (&facts.container, facts.seccomp_filter) {
        // Without a filter a container can still deny mounts, but something else may be the cause.
        (Some(container), filter) if filter || found.is_empty() => {
            found.push(Obstacle::Container(container.clone()));
        }
        (None, true) => found.push(Obstacle::SeccompFilter),
        (Some(_) | None, _) => {}
    }
    if found.is_empty() {
        found.push(Obstacle::Unknown);
    }
    found
}

impl Obstacle {
    /// What to do about it: a command, or an explanation if there is no command.
    pub fn fix(&self) -> &'static str {
        match self {
            Self::NamespaceLimit => "sudo sysctl -w user.max_user_namespaces=15000",
            Self::Kernel => "use a kernel that is built with CONFIG_USER_NS=y",
            Self::UnprivilegedClone => "sudo sysctl -w kernel.unprivileged_userns_clone=1",
            Self::AppArmor => "sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0",
            Self::Container(Container::Docker) => {
                "docker run --security-opt seccomp=unconfined --security-opt apparmor=unconfined \
                 --security-opt systempaths=unconfined IMAGE"
            }
            Self::Container(Container::Podman) => {
                "podman run --security-opt seccomp=unconfined --security-opt unmask=ALL IMAGE"
            }
            Self::Container(Container::Kubernetes) => {
                "in the pod: hostUsers: false, and a securityContext with procMount: Unmasked, \
                 seccompProfile and appArmorProfile of type Unconfined"
            }
            Self::Container(Container::Other(_)) => {
                "start the container so that it may make user namespaces, or run outside of it"
            }
            Self::SeccompFilter => {
                "for a systemd service: RestrictNamespaces=no, and no SystemCallFilter= that denies \
                 unshare, clone or mount"
            }
            Self::Unknown => {
                "unshare --user --map-root-user --mount true   # shows what the kernel says"
            }
        }
    }
}

impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NamespaceLimit => f.write_str("the sysctl user.max_user_namespaces is 0"),
            Self::Kernel => f.write_str("the kernel has no user namespaces"),
            Self::UnprivilegedClone => {
                f.write_str("the sysctl kernel.unprivileged_userns_clone is 0")
            }
            Self::AppArmor => f.write_str(
                "AppArmor denies them (the sysctl kernel.apparmor_restrict_unprivileged_userns is 1)",
            ),
            Self::Container(container) => {
                write!(f, "{container} denies them to programs in this container")
            }
            Self::SeccompFilter => {
                f.write_str("this process runs under a seccomp filter, which can deny them")
            }
            Self::Unknown => f.write_str("the reason was not found"),
        }
    }
}

impl fmt::Display for Container {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Docker => "Docker",
            Self::Podman => "Podman",
            Self::Kubernetes => "Kubernetes",
            Self::Other(name) => name,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ordinary() -> Facts {
        Facts { max_user_namespaces: Some(15_000), ..Facts::default() }
    }

    fn docker() -> Facts {
        Facts { container: Some(Container::Docker), seccomp_filter: true, ..ordinary() }
    }

    #[test]
    fn each_cause_is_named_with_its_fix() {
        for (facts, expected, fix) in [
            (
                Facts { max_user_namespaces: Some(0), ..ordinary() },
                "the sysctl user.max_user_namespaces is 0",
                "sudo sysctl -w user.max_user_namespaces=15000",
            ),
            (
                Facts { unprivileged_userns_clone: Some(0), ..ordinary() },
                "the sysctl kernel.unprivileged_userns_clone is 0",
                "sudo sysctl -w kernel.unprivileged_userns_clone=1",
            ),
            (
                Facts { apparmor_restricts_userns: Some(1), ..ordinary() },
                "AppArmor denies them (the sysctl kernel.apparmor_restrict_unprivileged_userns is 1)",
                "sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0",
            ),
            (
                docker(),
                "Docker denies them to programs in this container",
                "docker run --security-opt seccomp=unconfined --security-opt apparmor=unconfined \
                 --security-opt systempaths=unconfined IMAGE",
            ),
            (
                Facts { seccomp_filter: true, ..ordinary() },
                "this process runs under a seccomp filter, which can deny them",
                "for a systemd service: RestrictNamespaces=no, and no SystemCallFilter= that denies \
                 unshare, clone or mount",
            ),
            (
                Facts::default(),
                "the kernel has no user namespaces",
                "use a kernel that is built with CONFIG_USER_NS=y",
            ),
            (
                ordinary(),
                "the reason was not found",
                "unshare --user --map-root-user --mount true   # shows what the kernel says",
            ),
        ] {
            let found = obstacles(&facts);
            let [obstacle] = found.as_slice() else { panic!("{facts:?}: {found:?}") };
            assert_eq!((obstacle.to_string().as_str(), obstacle.fix()), (expected, fix));
        }
    }

    #[test]
    fn all_causes_are_reported_together() {
        let facts = Facts {
            unprivileged_userns_clone: Some(0),
            apparmor_restricts_userns: Some(1),
            ..docker()
        };
        assert_eq!(
            obstacles(&facts),
            [
                Obstacle::UnprivilegedClone,
                Obstacle::AppArmor,
                Obstacle::Container(Container::Docker),
            ]
        );
    }

    #[test]
    fn container_without_a_filter_is_named_only_if_no_other_cause_is_found() {
        let unconfined = Facts { seccomp_filter: false, ..docker() };
        assert_eq!(obstacles(&unconfined), [Obstacle::Container(Container::Docker)]);
        let limited = Facts { max_user_namespaces: Some(0), ..unconfined };
        assert_eq!(obstacles(&limited), [Obstacle::NamespaceLimit]);
    }

    #[test]
    fn process_with_sys_admin_is_not_affected_by_userns_restrictions() {
        let facts = Facts {
            unprivileged_userns_clone: Some(0),
            apparmor_restricts_userns: Some(1),
            sys_admin: true,
            ..ordinary()
        };
        assert_eq!(obstacles(&facts), [Obstacle::Unknown]);
        let no_namespaces = Facts { max_user_namespaces: Some(0), ..facts };
        assert_eq!(obstacles(&no_namespaces), [Obstacle::NamespaceLimit]);
    }

    #[test]
    fn filters_and_capabilities_are_read_from_a_status_file() {
        let plain = "CapEff:\t0000000000000000\nSeccomp:\t0\nSeccomp_filters:\t0\n";
        assert!(!seccomp_filter(plain) && !sys_admin(plain));
        let root = "CapEff:\t000001ffffffffff\nSeccomp:\t2\n";
        assert!(seccomp_filter(root) && sys_admin(root));
        let docker_root = "CapEff:\t00000000a80425fb\nSeccomp:\t2\n";
        assert!(seccomp_filter(docker_root) && !sys_admin(docker_root));
    }
}
