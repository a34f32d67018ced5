//! The intersection of two write-back policies.

use std::collections::BTreeMap;

use bailiwick_resources::{WriteBackMode, WriteBackPolicy};

/// What both policies allow, with the approvals of either.
pub fn narrowed(one: &WriteBackPolicy, other: &WriteBackPolicy) -> WriteBackPolicy {
    let both = one.allowed_targets.iter().filter(|target| other.allowed_targets.contains(target));
    let allowed_targets: Vec<_> = both.copied().collect();
    let modes: BTreeMap<_, _> = allowed_targets
        .iter()
        .map(|target| {
            let (one, other) = (one.mode(*target), other.mode(*target));
            (*target, if strictness(one) >= strictness(other) { one } else { other })
        })
        .collect();
    let require_approval = match (one.require_approval, other.require_approval) {
        (None, None) => None,
        (one, other) => Some(one.unwrap_or(false) || other.unwrap_or(false)),
    };
    let dispatcher_may_approve = one.dispatcher_may_approve && other.dispatcher_may_approve;
    WriteBackPolicy { require_approval, allowed_targets, modes, dispatcher_may_approve }
}

fn strictness(mode: WriteBackMode) -> u8 {
    match mode {
        WriteBackMode::Auto => 0,
        WriteBackMode::ApproveOnUntrusted => 1,
        WriteBackMode::AlwaysApprove => 2,
        WriteBackMode::Denied => 3,
    }
}
