//! Who leads, by a Lease of the cluster. Pure.
//!
//! Clocks of machines differ. A candidate therefore measures on its own clock how long a lease has not changed, and
//! never compares the time in it with its own. A lease coordinates; `sync::Fence` and the versions that each write
//! names stop a leader that does not know yet that it was replaced.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use k8s_openapi::jiff::Timestamp;

/// A lease that does not change for this long can be taken over.
pub const LEASE_DURATION: Duration = Duration::from_secs(15);
/// A leader that could not renew its lease for this long stops writing: before another one can take over.
pub const RENEWAL_DEADLINE: Duration = Duration::from_secs(10);
/// How often a leader renews its lease, and how often candidates look at it.
pub const RETRY_PERIOD: Duration = Duration::from_secs(2);

/// What a candidate or leader does now.
#[derive(Debug, Clone, PartialEq)]
pub enum Turn {
    /// Creates the lease.
    Create(Box<Lease>),
    /// Replaces the lease at the version that it names.
    Replace(Box<Lease>),
    /// Waits: another one leads.
    Wait,
}

/// What to do with the lease as it is, if it has not changed for this long.
pub fn turn(
    (namespace, name): (&str, &str),
    lease: Option<&Lease>,
    identity: &str,
    unchanged: Duration,
    now: Timestamp,
) -> Turn {
    let Some(lease) = lease else {
        let metadata = ObjectMeta {
            namespace: Some(namespace.to_owned()),
            name: Some(name.to_owned()),
            ..ObjectMeta::default()
        };
        let spec = Some(held(identity, 0, now, now));
        return Turn::Create(Box::new(Lease { metadata, spec }));
    };
    let before = lease.spec.clone().unwrap_or_default();
    let holder = before.holder_identity.as_deref().unwrap_or_default();
    let transitions = before.lease_transitions.unwrap_or_default();
    let spec = if holder == identity {
        let since = before.acquire_time.map_or(now, |MicroTime(since)| since);
        held(identity, transitions, since, now)
    } else if holder.is_empty() || unchanged >= LEASE_DURATION {
        held(identity, transitions.saturating_add(1), now, now)
    } else {
        return Turn::Wait;
    };
    Turn::Replace(Box::new(Lease { metadata: lease.metadata.clone(), spec: Some(spec) }))
}

/// The lease without a holder, so that another one can lead at once.
pub fn released(lease: &Lease) -> Lease {
    let spec = lease.spec.clone().unwrap_or_default();
    let spec = LeaseSpec { holder_identity: Some(String::new()), ..spec };
    Lease { metadata: lease.metadata.clone(), spec: Some(spec) }
}

fn held(identity: &str, transitions: i32, since: Timestamp, now: Timestamp) -> LeaseSpec {
    LeaseSpec {
        holder_identity: Some(identity.to_owned()),
        lease_duration_seconds: i32::try_from(LEASE_DURATION.as_secs()).ok(),
        lease_transitions: Some(transitions),
        acquire_time: Some(MicroTime(since)),
        renew_time: Some(MicroTime(now)),
        ..LeaseSpec::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAME: (&str, &str) = ("agents", "bailiwick-operator");

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn lease(turn: Turn) -> Lease {
        match turn {
            Turn::Create(lease) | Turn::Replace(lease) => *lease,
            Turn::Wait => panic!("the candidate waits"),
        }
    }

    #[test]
    fn first_candidate_creates_and_renews_the_lease() {
        let first = turn(NAME, None, "a", Duration::ZERO, at(1));
        assert!(matches!(first, Turn::Create(_)));
        let renewed = lease(turn(NAME, Some(&lease(first)), "a", Duration::ZERO, at(9)));
        let spec = renewed.spec.unwrap();
        assert_eq!((spec.lease_transitions, spec.acquire_time), (Some(0), Some(MicroTime(at(1)))));
        assert_eq!(spec.renew_time, Some(MicroTime(at(9))));
    }

    #[test]
    fn other_candidate_waits_for_the_lease_duration_on_its_own_clock() {
        let current = lease(turn(NAME, None, "a", Duration::ZERO, at(1_000_000)));
        let try_after = |unchanged| turn(NAME, Some(&current), "b", unchanged, at(5));
        assert_eq!(try_after(LEASE_DURATION - Duration::from_millis(1)), Turn::Wait);
        let acquired = lease(try_after(LEASE_DURATION)).spec.unwrap();
        assert_eq!(acquired.lease_transitions, Some(1));
        assert_eq!(acquired.holder_identity.as_deref(), Some("b"));
    }

    #[test]
    fn released_lease_is_acquired_immediately_at_its_version() {
        let mut current = lease(turn(NAME, None, "a", Duration::ZERO, at(1)));
        current.metadata.resource_version = Some("7".to_owned());
        let acquired = turn(NAME, Some(&released(&current)), "b", Duration::ZERO, at(2));
        assert_eq!(lease(acquired).metadata.resource_version.as_deref(), Some("7"));
    }

    #[test]
    fn leader_stops_writing_before_another_one_can_lead() {
        assert!(RENEWAL_DEADLINE + RETRY_PERIOD < LEASE_DURATION);
    }
}
