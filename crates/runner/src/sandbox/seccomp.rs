//! Seccomp: denies system calls that builds and tests do not need. They reach rarely used parts of the kernel, where
//! vulnerabilities are more likely.

use std::collections::BTreeMap;

use nix::errno::Errno;
use nix::libc;
use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition,
    SeccompFilter, SeccompRule, TargetArch,
};

use super::messages::Inactive;

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

/// Refused with any arguments.
const REFUSED: [i64; 50] = [
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    libc::SYS_unshare,
    libc::SYS_setns,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_kexec_load,
    libc::SYS_kexec_file_load,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_open_by_handle_at,
    libc::SYS_name_to_handle_at,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_acct,
    libc::SYS_quotactl,
    libc::SYS_quotactl_fd,
    libc::SYS_syslog,
    libc::SYS_vhangup,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_adjtimex,
    libc::SYS_clock_adjtime,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_lookup_dcookie,
    libc::SYS_nfsservctl,
    libc::SYS_fanotify_init,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_pidfd_getfd,
    libc::SYS_process_madvise,
];

/// Every kind of namespace that `clone` can create.
const NAMESPACES: [i32; 8] = [
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWNS,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWNET,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWUTS,
    libc::CLONE_NEWCGROUP,
    0x80, // CLONE_NEWTIME
];

/// The socket families that a network namespace isolates.
const FAMILIES: [i32; 4] = [libc::AF_UNIX, libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK];

/// Applies it to this process and all that it starts.
pub(super) fn apply() -> Result<String, Inactive> {
    let filters = filters().map_err(Inactive::because)?;
    for filter in &filters {
        seccompiler::apply_filter(filter).map_err(Inactive::because)?;
    }
    Ok(format!("{} system calls refused", REFUSED.len()))
}

fn filters() -> Result<Vec<BpfProgram>, BackendError> {
    let mut refused: Rules = REFUSED.into_iter().map(|call| (call, Vec::new())).collect();
    refused.insert(libc::SYS_clone, makes_a_namespace()?);
    refused.insert(libc::SYS_ioctl, types_for_somebody_else()?);
    refused.insert(libc::SYS_ptrace, takes_hold_of_another()?);
    // The flags of clone3 are where a filter cannot look: without it, programs use clone.
    let unknown: Rules = [(libc::SYS_clone3, Vec::new())].into();
    let other = Ok::<_, BackendError>(vec![SeccompRule::new(
        FAMILIES
            .into_iter()
            .map(|family| argument(0, SeccompCmpOp::Ne, family))
            .collect::<Result<_, _>>()?,
    )?])?;
    let families: Rules = [(libc::SYS_socket, other.clone()), (libc::SYS_socketpair, other)].into();
    [(refused, Errno::EPERM), (unknown, Errno::ENOSYS), (families, Errno::EAFNOSUPPORT)]
        .into_iter()
        .map(|(rules, error)| compiled(rules, error))
        .collect()
}

fn compiled(rules: Rules, error: Errno) -> Result<BpfProgram, BackendError> {
    let architecture = TargetArch::try_from(std::env::consts::ARCH)?;
    let rules = with_second_numbers(rules);
    let refusal = SeccompAction::Errno((error as i32).unsigned_abs());
    SeccompFilter::new(rules, SeccompAction::Allow, refusal, architecture)?.try_into()
}

/// On x86-64, a kernel may accept a second number for each call, for 32-bit pointers.
fn with_second_numbers(rules: Rules) -> Rules {
    if !cfg!(target_arch = "x86_64") {
        return rules;
    }
    const SECOND: i64 = 0x4000_0000;
    /// Those that have a number of their own there.
    const OWN: [(i64, i64); 5] = [
        (libc::SYS_ioctl, 514),
        (libc::SYS_ptrace, 521),
        (libc::SYS_kexec_load, 528),
        (libc::SYS_process_vm_readv, 539),
        (libc::SYS_process_vm_writev, 540),
    ];
    let second: Rules = rules
        .iter()
        .map(|(call, rules)| {
            let own = OWN.iter().find(|(first, _)| first == call).map(|(_, own)| *own);
            (own.unwrap_or(*call) | SECOND, rules.clone())
        })
        .collect();
    rules.into_iter().chain(second).collect()
}

/// Another process must not take control of the agent CLI, which asks the gate. Tracing one's own children needs
/// neither.
fn takes_hold_of_another() -> Result<Vec<SeccompRule>, BackendError> {
    const SEIZE: i32 = 0x4206;
    const ATTACH: i32 = 16;
    [ATTACH, SEIZE]
        .into_iter()
        .map(|request| SeccompRule::new(vec![argument(0, SeccompCmpOp::Eq, request)?]))
        .collect()
}

fn makes_a_namespace() -> Result<Vec<SeccompRule>, BackendError> {
    let one = |flag: i32| {
        let mask = u64::from(flag.unsigned_abs());
        SeccompRule::new(vec![argument(0, SeccompCmpOp::MaskedEq(mask), flag)?])
    };
    NAMESPACES.into_iter().map(one).collect()
}

/// Inserting characters into a terminal as if they were typed.
fn types_for_somebody_else() -> Result<Vec<SeccompRule>, BackendError> {
    const TIOCSTI: i32 = 0x5412;
    const TIOCLINUX: i32 = 0x541c;
    [TIOCSTI, TIOCLINUX]
        .into_iter()
        .map(|request| SeccompRule::new(vec![argument(1, SeccompCmpOp::Eq, request)?]))
        .collect()
}

fn argument(
    number: u8,
    operator: SeccompCmpOp,
    value: i32,
) -> Result<SeccompCondition, BackendError> {
    let value = u64::from(value.unsigned_abs());
    SeccompCondition::new(number, SeccompCmpArgLen::Dword, operator, value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_compile_for_this_machine() {
        assert_eq!(filters().unwrap().len(), 3);
    }
}
