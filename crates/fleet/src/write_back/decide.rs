//! A person's answer, once; and what it allows.

use bailiwick_resources::{ActionType, AgentApproval, AgentApprovalStatus, ApprovalPhase, Moment};
use thiserror::Error;

use super::target::{digest as digest_of, key as key_of, target};
use super::{Authorised, Obstacle};
use crate::ports::WriteBack;

/// The authenticated caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Actor {
    /// The name of the login, never one that was sent.
    pub name: String,
    pub kind: ActorKind,
    /// Whether the login may decide.
    pub may_approve: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ActorKind {
    Person,
    /// An agent, a service account, a runner: anything but a person.
    Machine,
}

/// Yes or no.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// Yes.
    Approve,
    /// No.
    Reject,
}

#[derive(Debug, Clone)]
pub struct Answer<'a> {
    /// Who decides.
    pub by: &'a Actor,
    /// Yes or no.
    pub decision: Decision,
    /// In words.
    pub comment: Option<String>,
    /// The digest that the person has seen.
    pub expected_digest: &'a str,
    /// The current state of the target, if it could be read.
    pub target_now: Option<&'a str>,
    /// Why the forge would refuse it now, if that is known.
    pub obstacle: Option<Obstacle>,
    pub now: Moment,
}

/// Why an answer does not count.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum NotDecided {
    /// It was decided before.
    #[error("it is {phase:?} already, by {by}; request a new approval if that was wrong")]
    AlreadyDecided {
        /// The current phase.
        phase: ApprovalPhase,
        /// By whom.
        by: String,
    },
    /// It is too late.
    #[error("it expired at {at}; request a new approval")]
    Expired {
        /// When.
        at: Moment,
    },
    /// No person.
    #[error("{0} is not a person; a person has to log in")]
    NotAPerson(String),
    /// No right.
    #[error("{0} may not decide; a token with the scope approver may")]
    NotAllowed(String),
    /// The requester cannot decide.
    #[error(
        "{0} asked for it; another person must approve it, with a token of their own (`bailiwick tokens new NAME \
         --scope approver`)"
    )]
    OwnRequest(String),
    /// The person has seen another digest.
    #[error("what was looked at ({seen}) is not what is asked for ({asked}); look again")]
    Mismatch {
        /// The digest that was sent.
        seen: String,
        /// The digest of the approval.
        asked: String,
    },
    /// The target is not what it was.
    #[error("the target was at {then} and is at {now}; deny this request and start a new run")]
    Moved {
        /// Its state at the time of the request.
        then: String,
        /// Its current state.
        now: String,
    },
    /// The forge would refuse it.
    #[error("{obstacle}; {}", .obstacle.remedy())]
    Obstructed {
        /// The obstacle.
        obstacle: Obstacle,
    },
}

/// The status of an approval after a decision. Pure: the caller stores it only if no other decision was stored
/// meanwhile.
pub fn decide(
    approval: &AgentApproval,
    status: &AgentApprovalStatus,
    answer: &Answer<'_>,
) -> Result<AgentApprovalStatus, NotDecided> {
    let by = answer.by;
    if by.kind != ActorKind::Person {
        return Err(NotDecided::NotAPerson(by.name.clone()));
    }
    if !by.may_approve {
        return Err(NotDecided::NotAllowed(by.name.clone()));
    }
    // The requester may withdraw it.
    if answer.decision == Decision::Approve && is_own(approval, &by.name) {
        return Err(NotDecided::OwnRequest(by.name.clone()));
    }
    if status.phase != ApprovalPhase::Pending {
        let by = status.decided_by.clone().unwrap_or_else(|| "the clock".to_owned());
        return Err(NotDecided::AlreadyDecided { phase: status.phase, by });
    }
    if answer.now >= approval.expires_at {
        return Err(NotDecided::Expired { at: approval.expires_at });
    }
    if answer.expected_digest != approval.artifact_digest {
        return Err(NotDecided::Mismatch {
            seen: answer.expected_digest.to_owned(),
            asked: approval.artifact_digest.clone(),
        });
    }
    let phase = match answer.decision {
        Decision::Reject => ApprovalPhase::Rejected,
        Decision::Approve => {
            if let Some(obstacle) = &answer.obstacle {
                return Err(NotDecided::Obstructed { obstacle: obstacle.clone() });
            }
            if let Some(moved) = moved(approval, answer.target_now) {
                return Err(moved);
            }
            ApprovalPhase::Approved
        }
    };
    Ok(AgentApprovalStatus {
        phase,
        decided_by: Some(by.name.clone()),
        decided_at: Some(answer.now),
        comment: answer.comment.clone(),
        write_back_key: status.write_back_key.clone(),
    })
}

/// Whether this person requested the approval, or started or continued by hand what requests it. Names are compared,
/// whatever they belong to: an agent may have the name of a person.
fn is_own(approval: &AgentApproval, by: &str) -> bool {
    let people = [&approval.dispatched_by, &approval.attempt_asked_by];
    approval.requested_by.name == by
        || people.into_iter().any(|person| person.as_deref() == Some(by))
}

fn moved(approval: &AgentApproval, now: Option<&str>) -> Option<NotDecided> {
    let then = approval.target_state.as_deref()?;
    let now = now?;
    let moved = || NotDecided::Moved { then: then.to_owned(), now: now.to_owned() };
    (then != now).then(moved)
}

/// The status of an approval that has expired.
pub fn expire(
    approval: &AgentApproval,
    status: &AgentApprovalStatus,
    now: Moment,
) -> Option<AgentApprovalStatus> {
    let late = status.phase == ApprovalPhase::Pending && now >= approval.expires_at;
    late.then(|| AgentApprovalStatus {
        phase: ApprovalPhase::Expired,
        decided_at: Some(now),
        ..status.clone()
    })
}

/// Why a write is not allowed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum NotAuthorised {
    #[error("the approval is {0:?}")]
    NotApproved(ApprovalPhase),
    /// Nobody who could approve.
    #[error("the approval does not say which person gave it")]
    ByNobody,
    /// Something else was approved.
    #[error("the approval is for {approved}, not for {wanted}")]
    Another {
        /// The approved digest.
        approved: String,
        /// The digest of the write.
        wanted: String,
    },
    /// The target is not what it was.
    #[error("the target was at {then} and is at {now}; nothing was written: start a new run")]
    Moved {
        /// Its state at the time of the approval.
        then: String,
        /// Its current state.
        now: String,
    },
}

/// Authorises a write by a person's approval of exactly that. `uid` is the approval's; `target_now` is the state of
/// the target, if it could be read.
pub fn authorise(
    uid: &str,
    approval: &AgentApproval,
    status: &AgentApprovalStatus,
    repository: &str,
    write: &WriteBack,
    target_now: Option<&str>,
) -> Result<Authorised, NotAuthorised> {
    if status.phase != ApprovalPhase::Approved {
        return Err(NotAuthorised::NotApproved(status.phase));
    }
    let by = status.decided_by.as_deref().filter(|by| !by.is_empty());
    if by.is_none_or(|by| is_own(approval, by)) {
        return Err(NotAuthorised::ByNobody);
    }
    let digest = digest_of(repository, write);
    let about = target(repository, write);
    let same = approval.action.kind == ActionType::WriteBack(write.target())
        && approval.artifact_digest == digest.as_str()
        && approval.action.target == about.name;
    if !same {
        return Err(NotAuthorised::Another {
            approved: format!("{} {}", approval.action.target, approval.artifact_digest),
            wanted: format!("{} {digest}", about.name),
        });
    }
    if let (Some(then), Some(now)) = (&approval.target_state, target_now)
        && then != now
    {
        return Err(NotAuthorised::Moved { then: then.clone(), now: now.to_owned() });
    }
    Ok(Authorised { key: key_of(uid, repository, write), write: write.clone() })
}
