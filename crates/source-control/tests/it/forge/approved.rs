//! From a request to the forge: policy, a person's approval, one write; and a target that moved.

use bailiwick_fleet::ports::{Forge as _, WriteBack};
use bailiwick_fleet::write_back::{
    Actor, ActorKind, Answer, Decision, Next, Plan, Policies, Proposal, authorise, decide, next,
    plan, send,
};
use bailiwick_resources::{
    AgentApprovalStatus, Moment, Requester, SubjectKind, TrustTier, WriteBackPolicy,
    WriteBackTarget,
};
use bailiwick_testkit::forge::{Fault, Flavour};

use super::{Setup, block_on};

const REPOSITORY: &str = "acme/widgets";

#[test]
fn approved_push_happens_once_and_not_on_a_moved_branch() {
    let setup = Setup::new(Flavour::Gitea);
    setup.scratch.write("src/c.rs", "fn c() {}\n");
    let commit = setup.scratch.commit("third");
    let write = WriteBack::Push {
        branch: "feature".to_owned(),
        commit: commit.clone(),
        from: Some(setup.feature.clone()),
    };
    let nothing = WriteBackPolicy::default();
    let pushes = WriteBackPolicy {
        allowed_targets: vec![WriteBackTarget::BranchPush],
        ..WriteBackPolicy::default()
    };
    let proposal = Proposal {
        repository: REPOSITORY,
        dispatch_run: "adr-1",
        attempt: "ada-1-1",
        requested_by: Requester { kind: SubjectKind::AgentStack, name: "repairer".to_owned() },
        write: &write,
        target_state: None,
        artifact_refs: Vec::new(),
        content: &[],
        redactor: None,
        summary: "mend it".to_owned(),
        now: Moment::from_millis(1_000),
    };
    let with = |stack| {
        let policies = Policies { stack, rule: None, approvals: &[], trust: TrustTier::Trusted };
        plan(&policies, &proposal)
    };
    assert!(matches!(with(&nothing), Plan::Denied(_)));
    let Plan::Ask(approval) = with(&pushes) else { panic!("a person is asked") };
    let anna = Actor { name: "anna".to_owned(), kind: ActorKind::Person, may_approve: true };
    let current_target = block_on(setup.forge.branch("feature")).unwrap();
    let answer = Answer {
        obstacle: None,
        by: &anna,
        decision: Decision::Approve,
        comment: None,
        expected_digest: &approval.artifact_digest,
        target_now: current_target.as_deref(),
        now: Moment::from_millis(2_000),
    };
    let status = decide(&approval, &AgentApprovalStatus::default(), &answer).unwrap();
    let allowed =
        authorise("uid-1", &approval, &status, REPOSITORY, &write, current_target.as_deref())
            .unwrap();
    // The answer is lost and the push is requested again: it happens once.
    setup.stand_in.fail_next("/git-receive-pack", Fault::DropAfterApplying);
    let first = next(block_on(send(&setup.forge, &allowed)));
    assert!(matches!(first, Next::TryAgain { .. }), "{first:?}");
    let Next::Done(written) = next(block_on(send(&setup.forge, &allowed))) else { panic!("done") };
    assert!(written.was_there && written.id == commit);
    assert_eq!(setup.stand_in.git(&["rev-parse", "feature"]).trim(), commit);
    // Somebody moves the branch: the same approval does not overwrite it.
    setup.stand_in.git(&["update-ref", "refs/heads/feature", &setup.main]);
    let moved = next(block_on(send(&setup.forge, &allowed)));
    assert!(matches!(moved, Next::RebaseFirst { .. }), "{moved:?}");
    assert_eq!(setup.stand_in.git(&["rev-parse", "feature"]).trim(), setup.main);
}
