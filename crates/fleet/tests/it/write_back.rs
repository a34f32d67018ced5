//! Write-back: nothing without a policy that allows it, only what was approved, and one decision.

use bailiwick_fleet::ports::{CheckState, ForgeError, Review, WriteBack, Written};
use bailiwick_fleet::write_back::{
    Actor, ActorKind, Answer, Decision, Next, NotAuthorised, NotDecided, Obstacle, Permission,
    Plan, Policies, Proposal, Report, authorise, check_status, decide, digest, expire, key, next,
    permit, plan,
};
use bailiwick_resources::{
    AgentApproval, AgentApprovalStatus, ApprovalPhase, ApprovalPolicy, ApprovalReason, Moment,
    Requester, ReviewComment, ReviewDecision, RunPhase, SubjectKind, TrustTier, WriteBackMode,
    WriteBackPolicy, WriteBackTarget,
};
use bailiwick_testkit::random::Random;

const REPOSITORY: &str = "acme/widgets";

fn any_write(random: &mut Random) -> WriteBack {
    let text = |random: &mut Random| format!("words {}", random.below(3));
    let number = 1 + u64::try_from(random.below(3)).unwrap();
    let sha = "a".repeat(40);
    match random.below(9) {
        0 | 1 => {
            let pull_request = random.once_in(2);
            WriteBack::Comment { number, pull_request, body: text(random) }
        }
        2 => WriteBack::Review(Review {
            number,
            sha,
            decision: ReviewDecision::Approved,
            body: text(random),
            comments: Vec::new(),
        }),
        3 => WriteBack::Push {
            branch: text(random).replace(' ', "-"),
            commit: sha,
            from: random.once_in(2).then(|| "b".repeat(40)),
        },
        4 => WriteBack::OpenPullRequest {
            head: "x".to_owned(),
            base: "main".to_owned(),
            title: text(random),
            body: text(random),
        },
        5 => WriteBack::CheckStatus {
            sha,
            context: text(random),
            state: CheckState::Success,
            description: text(random),
            url: None,
        },
        6 => WriteBack::Rerun {
            run: number.to_string(),
            whole_workflow: random.once_in(2),
            attempt: number,
        },
        7 => WriteBack::ReleaseNote { tag: text(random), title: text(random), body: text(random) },
        _ => WriteBack::DeploymentApproval {
            run: number.to_string(),
            environment: text(random),
            comment: text(random),
        },
    }
}

const MODES: [WriteBackMode; 4] = [
    WriteBackMode::Denied,
    WriteBackMode::Auto,
    WriteBackMode::AlwaysApprove,
    WriteBackMode::ApproveOnUntrusted,
];

fn any_policy(random: &mut Random) -> WriteBackPolicy {
    let mut policy = WriteBackPolicy {
        require_approval: [None, Some(true), Some(false)][random.below(3)],
        ..WriteBackPolicy::default()
    };
    for target in WriteBackTarget::ALL {
        if !random.once_in(4) {
            policy.allowed_targets.push(*target);
        }
        if !random.once_in(4) {
            policy.modes.insert(*target, MODES[random.below(4)]);
        }
    }
    policy
}

fn proposal<'a>(write: &'a WriteBack, content: &'a [&'a str]) -> Proposal<'a> {
    Proposal {
        repository: REPOSITORY,
        dispatch_run: "adr-1",
        attempt: "ada-1-1",
        requested_by: Requester { kind: SubjectKind::AgentStack, name: "repairer".to_owned() },
        write,
        target_state: None,
        artifact_refs: Vec::new(),
        content,
        redactor: None,
        summary: String::new(),
        now: Moment::from_millis(1_000),
    }
}

fn policy_with_mode(mode: WriteBackMode) -> WriteBackPolicy {
    WriteBackPolicy {
        require_approval: None,
        allowed_targets: WriteBackTarget::ALL.to_vec(),
        modes: WriteBackTarget::ALL.iter().map(|target| (*target, mode)).collect(),
        ..WriteBackPolicy::default()
    }
}

fn approval_for(write: &WriteBack) -> AgentApproval {
    let stack = policy_with_mode(WriteBackMode::AlwaysApprove);
    let policies =
        Policies { stack: &stack, rule: None, approvals: &[], trust: TrustTier::Trusted };
    let Plan::Ask(approval) = plan(&policies, &proposal(write, &[])) else {
        panic!("an approval is required")
    };
    *approval
}

fn person(name: &str) -> Actor {
    Actor { name: name.to_owned(), kind: ActorKind::Person, may_approve: true }
}

fn approve<'a>(by: &'a Actor, expected_digest: &'a str) -> Answer<'a> {
    let now = Moment::from_millis(2_000);
    Answer {
        by,
        decision: Decision::Approve,
        comment: None,
        expected_digest,
        target_now: None,
        obstacle: None,
        now,
    }
}

/// A simple model of the policy: each setting has a maximum, and the smallest maximum applies.
fn max_allowed(policy: &WriteBackPolicy, target: WriteBackTarget, trust: TrustTier) -> u8 {
    const NEVER: u8 = 0;
    const ASK: u8 = 1;
    const FREE: u8 = 2;
    if !policy.allowed_targets.contains(&target) {
        return NEVER;
    }
    let is_work = target == WriteBackTarget::WorkReference;
    let default = is_work.then_some(&WriteBackMode::ApproveOnUntrusted);
    let mode = policy.modes.get(&target).or(default);
    let by_mode = match (mode, trust) {
        (Some(WriteBackMode::Denied), _) => NEVER,
        (Some(WriteBackMode::Auto), _)
        | (Some(WriteBackMode::ApproveOnUntrusted), TrustTier::Trusted) => FREE,
        (Some(WriteBackMode::AlwaysApprove | WriteBackMode::ApproveOnUntrusted) | None, _) => ASK,
    };
    let by_requirement = if policy.require_approval == Some(true) { ASK } else { FREE };
    by_mode.min(by_requirement)
}

#[test]
fn nothing_is_written_that_stack_and_rule_do_not_both_allow() {
    let mut random = Random::rotating("nothing_is_written");
    let mut seen = [0_usize; 3];
    for _ in 0..5_000 {
        let write = any_write(&mut random);
        let (stack, rule) = (any_policy(&mut random), any_policy(&mut random));
        let rule = random.once_in(2).then_some(&rule);
        let trust = [TrustTier::Trusted, TrustTier::Untrusted][random.below(2)];
        let policies = Policies { stack: &stack, rule, approvals: &[], trust };
        let target = write.target();
        let max = max_allowed(&stack, target, trust)
            .min(rule.map_or(2, |rule| max_allowed(rule, target, trust)));
        let planned = plan(&policies, &proposal(&write, &[]));
        let level = match &planned {
            Plan::Denied(denial) => {
                assert!(!denial.reason.is_empty() && !denial.instead.is_empty());
                0
            }
            Plan::Ask(approval) => {
                assert_eq!(approval.artifact_digest, digest(REPOSITORY, &write).as_str());
                1
            }
            Plan::Write(allowed) => {
                assert_eq!(allowed.write(), &write);
                assert_eq!(allowed.key(), key("ada-1-1", REPOSITORY, &write));
                2
            }
        };
        assert_eq!(level, max, "{stack:?} {rule:?} {trust:?} {write:?}");
        seen[usize::from(level)] += 1;
    }
    assert!(seen.iter().all(|count| *count > 100), "{seen:?}");
}

#[test]
fn rule_can_require_an_approval_although_the_mode_is_auto() {
    let stack = policy_with_mode(WriteBackMode::Auto);
    for (reason, target, expected) in [
        (ApprovalReason::WriteBack, WriteBackTarget::IssueComment, true),
        (ApprovalReason::BranchPush, WriteBackTarget::BranchPush, true),
        (ApprovalReason::BranchPush, WriteBackTarget::CreateBranch, true),
        (ApprovalReason::BranchPush, WriteBackTarget::IssueComment, false),
        (ApprovalReason::Release, WriteBackTarget::ReleaseNote, true),
        (ApprovalReason::SecretAccess, WriteBackTarget::ReleaseNote, false),
    ] {
        let approval_policy = ApprovalPolicy { require_for: vec![reason], expires_after: None };
        let approvals = [&approval_policy];
        let policies = Policies {
            stack: &stack,
            rule: None,
            approvals: &approvals,
            trust: TrustTier::Trusted,
        };
        let is_required = matches!(permit(&policies, target), Permission::Ask(_));
        assert_eq!(is_required, expected, "{reason:?} {target:?}");
    }
}

#[test]
fn approval_of_one_write_is_not_valid_for_another() {
    let mut random = Random::rotating("a_yes_to_one_thing");
    let (mut same, mut others) = (0, 0);
    for _ in 0..3_000 {
        let (one, other) = (any_write(&mut random), any_write(&mut random));
        let approval = approval_for(&one);
        let by = person("anna");
        let answer = approve(&by, &approval.artifact_digest);
        let status = decide(&approval, &AgentApprovalStatus::default(), &answer).unwrap();
        let allowed = authorise("uid", &approval, &status, REPOSITORY, &other, None);
        if one == other {
            same += 1;
            assert_eq!(allowed.unwrap().key(), key("uid", REPOSITORY, &one));
        } else {
            others += 1;
            assert!(matches!(allowed, Err(NotAuthorised::Another { .. })), "{one:?} {other:?}");
        }
        // It is not valid in another repository.
        let elsewhere = authorise("uid", &approval, &status, "acme/other", &one, None);
        assert!(matches!(elsewhere, Err(NotAuthorised::Another { .. })));
        // It is not valid before the decision.
        let unanswered = AgentApprovalStatus::default();
        let allowed = authorise("uid", &approval, &unanswered, REPOSITORY, &one, None);
        assert_eq!(allowed, Err(NotAuthorised::NotApproved(ApprovalPhase::Pending)));
    }
    assert!(same > 10 && others > 1_000, "{same} {others}");
}

/// Any number of people and machines decide at any time: only the first valid decision counts.
#[test]
fn at_most_one_decision_counts() {
    let mut random = Random::rotating("at_most_one_answer_counts");
    for _ in 0..1_000 {
        let write = any_write(&mut random);
        let approval = approval_for(&write);
        let mut status = AgentApprovalStatus::default();
        let mut winner = None;
        let mut now = 1_000;
        for _ in 0..12 {
            now += u64::try_from(random.below(20_000_000)).unwrap();
            let at = Moment::from_millis(now);
            if random.once_in(6)
                && let Some(expired) = expire(&approval, &status, at)
            {
                assert!(winner.is_none() && at >= approval.expires_at);
                status = expired;
            }
            let names = ["anna", "ben", "repairer"];
            let by = Actor {
                name: names[random.below(3)].to_owned(),
                kind: [ActorKind::Person, ActorKind::Machine][random.below(2)],
                may_approve: !random.once_in(4),
            };
            let wrong = "0".repeat(64);
            let has_right_digest = !random.once_in(3);
            let answer = Answer {
                by: &by,
                decision: [Decision::Approve, Decision::Reject][random.below(2)],
                comment: None,
                expected_digest: if has_right_digest { &approval.artifact_digest } else { &wrong },
                target_now: None,
                obstacle: None,
                now: at,
            };
            let is_valid = by.kind == ActorKind::Person
                && by.may_approve
                && (by.name != "repairer" || answer.decision == Decision::Reject)
                && has_right_digest
                && at < approval.expires_at
                && status.phase == ApprovalPhase::Pending;
            match decide(&approval, &status, &answer) {
                Ok(decided) => {
                    assert!(is_valid && winner.is_none(), "{by:?}");
                    assert_eq!(decided.decided_by.as_deref(), Some(by.name.as_str()));
                    assert_eq!(decided.decided_at, Some(at));
                    winner = Some(decided.phase);
                    status = decided;
                }
                Err(why) => assert!(!is_valid, "{by:?}: {why}"),
            }
        }
        let allowed = authorise("uid", &approval, &status, REPOSITORY, &write, None).is_ok();
        assert_eq!(allowed, winner == Some(ApprovalPhase::Approved));
    }
}

#[test]
fn each_refusal_has_its_own_error() {
    let write = WriteBack::Push {
        branch: "fix".to_owned(),
        commit: "a".repeat(40),
        from: Some("b".repeat(40)),
    };
    let approval = approval_for(&write);
    assert_eq!(approval.target_state.as_deref(), Some("b".repeat(40).as_str()));
    assert_eq!(approval.action.target, "acme/widgets@refs/heads/fix");
    let pending = AgentApprovalStatus::default();
    let (anna, digest) = (person("anna"), approval.artifact_digest.clone());
    let agent = Actor { kind: ActorKind::Machine, ..person("x") };
    let viewer = Actor { may_approve: false, ..person("vera") };
    let own = person("repairer");
    let refused = |answer: Answer<'_>| decide(&approval, &pending, &answer).unwrap_err();
    assert!(matches!(refused(approve(&agent, &digest)), NotDecided::NotAPerson(_)));
    assert!(matches!(refused(approve(&viewer, &digest)), NotDecided::NotAllowed(_)));
    assert!(matches!(refused(approve(&own, &digest)), NotDecided::OwnRequest(_)));
    assert!(matches!(refused(approve(&anna, "")), NotDecided::Mismatch { .. }));
    let late = Answer { now: approval.expires_at, ..approve(&anna, &digest) };
    assert!(matches!(refused(late), NotDecided::Expired { .. }));
    let moved = "c".repeat(40);
    let answer = Answer { target_now: Some(&moved), ..approve(&anna, &digest) };
    assert!(matches!(refused(answer.clone()), NotDecided::Moved { .. }));
    // A rejection counts even if the target has moved, and even from the person who requested the write.
    let rejection = Answer { decision: Decision::Reject, ..approve(&own, &digest) };
    assert_eq!(decide(&approval, &pending, &rejection).unwrap().phase, ApprovalPhase::Rejected);
    let closed = Obstacle::PullRequestClosed(5);
    let answer = Answer { obstacle: Some(closed), target_now: None, ..answer };
    let why = refused(answer.clone());
    assert!(matches!(why, NotDecided::Obstructed { .. }) && why.to_string().contains("reopen"));
    let rejection_with_obstacle = Answer { decision: Decision::Reject, ..answer };
    assert_eq!(
        decide(&approval, &pending, &rejection_with_obstacle).unwrap().phase,
        ApprovalPhase::Rejected
    );
    let status = decide(&approval, &pending, &approve(&anna, &digest)).unwrap();
    let second = decide(&approval, &status, &approve(&person("ben"), &digest)).unwrap_err();
    let by = "anna".to_owned();
    assert_eq!(second, NotDecided::AlreadyDecided { phase: ApprovalPhase::Approved, by });
    // The target moved between the approval and the push.
    let late = authorise("uid", &approval, &status, REPOSITORY, &write, Some(&moved));
    assert!(matches!(late, Err(NotAuthorised::Moved { .. })));
    assert!(authorise("uid", &approval, &status, REPOSITORY, &write, None).is_ok());
    // A status with an impossible decider.
    for by in [None, Some(String::new()), Some("repairer".to_owned())] {
        let status = AgentApprovalStatus { decided_by: by, ..status.clone() };
        let allowed = authorise("uid", &approval, &status, REPOSITORY, &write, None);
        assert_eq!(allowed, Err(NotAuthorised::ByNobody));
    }
}

#[test]
fn text_that_looks_like_a_secret_is_not_written() {
    let stack = policy_with_mode(WriteBackMode::Auto);
    let policies =
        Policies { stack: &stack, rule: None, approvals: &[], trust: TrustTier::Trusted };
    let comment =
        |body: &str| WriteBack::Comment { number: 1, pull_request: true, body: body.to_owned() };
    let is_written = |write: &WriteBack, content: &[&str]| {
        matches!(plan(&policies, &proposal(write, content)), Plan::Write(_))
    };
    let secret = "ghp_0123456789abcdefghij0123";
    assert!(is_written(&comment("All is well."), &[]));
    assert!(!is_written(&comment(&format!("It used {secret}.")), &[]));
    let review = WriteBack::Review(Review {
        number: 1,
        sha: "a".repeat(40),
        decision: ReviewDecision::CommentOnly,
        body: String::new(),
        comments: vec![ReviewComment {
            path: "a".to_owned(),
            line: 1,
            body: "password=hunter2".to_owned(),
        }],
    });
    assert!(!is_written(&review, &[]));
    let push = WriteBack::Push { branch: "fix".to_owned(), commit: "a".repeat(40), from: None };
    assert!(is_written(&push, &["+    let token: String = read();", "+fn password() {}"]));
    assert!(!is_written(&push, &[&format!("+let key = \"{secret}\";")]));
    assert!(!is_written(&push, &["+-----BEGIN OPENSSH PRIVATE KEY-----"]));
}

#[test]
fn key_contains_everything_that_identifies_a_write() {
    let write = WriteBack::Comment { number: 7, pull_request: true, body: "hi".to_owned() };
    let expected = format!(
        "uid-1:pull-request-comment:pull-request:acme/widgets#7:{}",
        digest(REPOSITORY, &write)
    );
    assert_eq!(key("uid-1", REPOSITORY, &write), expected);
}

#[test]
fn response_of_the_forge_decides_the_next_step() {
    let written = Written { id: "1".to_owned(), url: None, was_there: true };
    assert_eq!(next(Ok(written.clone())), Next::Done(written));
    let moved = ForgeError::Moved {
        target: "the branch x".to_owned(),
        expected: "a".to_owned(),
        found: "b".to_owned(),
    };
    assert!(matches!(next(Err(moved)), Next::RebaseFirst { .. }));
    let later = ForgeError::Unavailable("late".to_owned());
    assert!(matches!(next(Err(later)), Next::TryAgain { .. }));
    let refusal = ForgeError::Refused("no".to_owned());
    assert!(matches!(next(Err(refusal)), Next::Failed { .. }));
}

#[test]
fn every_run_phase_is_a_status_without_secrets() {
    for phase in RunPhase::ALL {
        let reason = format!("token=abcdef {}", "x ".repeat(200));
        let report = Report { name: "repair", sha: "abc", phase, reason: &reason, url: None };
        let WriteBack::CheckStatus { context, description, state, .. } = check_status(&report)
        else {
            panic!("a status")
        };
        assert_eq!(context, "bailiwick/repair");
        assert!(description.chars().count() <= 140 && !description.contains("abcdef"));
        assert_eq!(state == CheckState::Success, phase == RunPhase::Succeeded);
    }
}
