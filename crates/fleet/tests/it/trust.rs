//! Untrusted work: its limits, its model key, and when the rights of an author count.

use std::sync::atomic::Ordering;

use bailiwick_fleet::ports::{
    ActionError, Fleet as _, FleetStore as _, ForgeError, Launched, LaunchedState, ModelKey,
    Rights, Selection, World as _, Write,
};
use bailiwick_resources::{
    AgentDispatchRun, AgentTriggerExecution, AgentTriggerRule, AnyObject, ExecutionDecision,
    ForgeKind, Kind, RunPhase, TrustTier, WriteBackState,
};
use serde_json::{Value, json};

use crate::dispatch::{SHA, caller, document, fleet, in_state, request, work};
use crate::plane::{SetPlane, TIP, all, declare, deliver, only, reconcile, start_plane};

const FOREIGN_COMMIT: &str = "2222222222222222222222222222222222222222";

/// Requests a run for a commit named by a person, which is not trusted.
async fn dispatch_untrusted(plane: &SetPlane, id: &str) -> Result<(), ActionError> {
    let mut dispatch_request = request(id);
    dispatch_request.sha = Some(FOREIGN_COMMIT.to_owned());
    plane.api.dispatch(&caller("ada"), "default", dispatch_request).await.map(drop)
}

#[tokio::test]
async fn untrusted_work_uses_the_kit_of_the_default_branch() {
    let plane = start_plane(|_| {}).await;
    dispatch_untrusted(&plane, "theirs").await.unwrap();
    assert_eq!(only::<AgentDispatchRun>(&plane).await.spec.trust_tier, TrustTier::Untrusted);
    // The roles and skills of its own commit are never read.
    assert_eq!(*plane.world.facts_requested_at.lock().unwrap(), [TIP]);
    reconcile(&plane).await;
    let launch = plane.engine.launched.lock().unwrap().first().cloned().unwrap();
    assert_eq!((launch.base.as_str(), launch.kit_commit.as_deref()), (FOREIGN_COMMIT, Some(TIP)));
    // This is also true for the review after the queue.
    assert!(plane.world.facts_requested_at.lock().unwrap().iter().all(|at| at == TIP));
    // Trusted work uses the kit of its base.
    plane.world.facts_requested_at.lock().unwrap().clear();
    plane.api.dispatch(&caller("ada"), "default", request("ours")).await.unwrap();
    reconcile(&plane).await;
    let launch = plane.engine.launched.lock().unwrap().last().cloned().unwrap();
    assert_eq!((launch.base.as_str(), launch.kit_commit.as_deref()), (TIP, None));
    let facts_requested_at = plane.world.facts_requested_at.lock().unwrap();
    assert!(
        !facts_requested_at.is_empty() && facts_requested_at.iter().all(|at| at == TIP),
        "{facts_requested_at:?}"
    );
}

#[tokio::test]
async fn run_is_requested_for_a_commit_and_never_for_a_name_that_a_checkout_could_resolve() {
    let plane = start_plane(|_| {}).await;
    for name in ["main", "HEAD", "refs/heads/main", "2222222", &"g".repeat(40)] {
        let mut dispatch_request = request("named");
        dispatch_request.sha = Some(name.to_owned());
        let answer = plane.api.dispatch(&caller("ada"), "default", dispatch_request).await;
        assert!(matches!(answer, Err(ActionError::Invalid(_))), "{name}: {answer:?}");
    }
    assert!(all::<AgentDispatchRun>(&plane).await.is_empty());
    dispatch_untrusted(&plane, "theirs").await.unwrap();
    assert_eq!(only::<AgentDispatchRun>(&plane).await.spec.sha, FOREIGN_COMMIT);
}

#[tokio::test]
async fn untrusted_work_without_a_default_branch_is_denied() {
    let plane = start_plane(|_| {}).await;
    *plane.world.default_tip.lock().unwrap() = None;
    let Err(ActionError::Denied { reasons, .. }) = dispatch_untrusted(&plane, "theirs").await
    else {
        panic!("it was admitted")
    };
    assert!(reasons.iter().any(|why| why.code == "TrustedKitMissing"), "{reasons:?}");
    assert_eq!(all::<AgentDispatchRun>(&plane).await.len(), 0);
    // With a default branch it is admitted.
    *plane.world.default_tip.lock().unwrap() = Some(TIP.to_owned());
    dispatch_untrusted(&plane, "theirs").await.unwrap();
}

#[tokio::test]
async fn model_key_of_the_server_is_for_trusted_runs_unless_the_pool_lends_it() {
    for (setting, lent) in [
        (Value::Null, ModelKey::Withheld),
        (json!("trusted-runs"), ModelKey::Withheld),
        (json!("every-run"), ModelKey::Lent),
    ] {
        let plane = start_plane(|object| {
            if object.kind == Kind::RunnerPool && !setting.is_null() {
                object.spec["modelKey"] = setting.clone();
            }
        })
        .await;
        dispatch_untrusted(&plane, "theirs").await.unwrap();
        plane.api.dispatch(&caller("ada"), "default", request("ours")).await.unwrap();
        reconcile(&plane).await;
        let launched = plane.engine.launched.lock().unwrap().clone();
        let model_key_of =
            |base: &str| launched.iter().find(|one| one.base == base).unwrap().model_key;
        assert_eq!(model_key_of(FOREIGN_COMMIT), lent, "{setting}");
        assert_eq!(model_key_of(TIP), ModelKey::Lent, "{setting}");
        // The decision is in the audit log.
        let lines = plane.store.audit(0, 1_000).await.unwrap();
        let entry = lines.iter().find(|(_, line)| line.detail["kitFrom"] == TIP).unwrap();
        assert_eq!(entry.1.detail["lentModelKey"], json!(lent == ModelKey::Lent));
    }
}

/// A run that was admitted as trusted, in a repository that has lost its trust.
#[tokio::test]
async fn run_whose_repository_lost_its_trust_is_not_launched() {
    let plane = start_plane(|_| {}).await;
    plane.api.dispatch(&caller("ada"), "default", request("r")).await.unwrap();
    let mut changed = fleet(|object| {
        if object.kind == Kind::Repository {
            object.spec["trustTier"] = json!("untrusted");
        }
    });
    changed.retain(|object| object.kind == Kind::Repository);
    declare(&plane, &changed).await;
    reconcile(&plane).await;
    assert!(plane.engine.launched.lock().unwrap().is_empty());
    let run = only::<AgentDispatchRun>(&plane).await;
    assert_eq!(run.status.phase, RunPhase::Failed, "{:?}", run.status);
}

/// A rule for failed checks.
fn failed_check_rule() -> AnyObject {
    document(
        Kind::AgentTriggerRule,
        "broken",
        json!({
            "lifecycleState": "active", "sources": ["ci"], "agentStack": "fixer",
            "match": { "conclusion": ["failure"] },
            "taskKind": "repair", "promptTemplate": "Mend it.",
        }),
    )
}

/// Checks of GitHub contain a branch name, and a fork can have a branch of any name.
#[tokio::test]
async fn check_is_trusted_only_if_our_branch_is_at_its_commit() {
    for (event, head, trust) in [
        ("check_run", SHA, TrustTier::Trusted),
        ("check_suite", SHA, TrustTier::Trusted),
        ("check_run", FOREIGN_COMMIT, TrustTier::Untrusted),
        ("check_suite", FOREIGN_COMMIT, TrustTier::Untrusted),
    ] {
        let plane = start_plane(|object| {
            if object.kind == Kind::Repository {
                object.spec["forge"] = json!("github");
            }
        })
        .await;
        declare(&plane, &[failed_check_rule()]).await;
        plane.reconcile_statuses().await;
        let branches = &plane.world.forge.branches;
        branches.lock().unwrap().insert("main".to_owned(), SHA.to_owned());
        let suite = json!({ "head_branch": "main", "head_sha": head, "conclusion": "failure" });
        let payload = json!({
            "action": "completed", "repository": { "full_name": "acme/app" },
            "sender": { "login": "mallory" },
            "check_run": {
                "id": 9, "name": "build", "head_sha": head, "conclusion": "failure",
                "check_suite": suite, "pull_requests": [],
            },
            "check_suite": suite,
        });
        deliver(&plane, ForgeKind::Github, event, &payload).await;
        reconcile(&plane).await;
        let run = only::<AgentDispatchRun>(&plane).await;
        assert_eq!((run.spec.trust_tier, run.spec.sha.as_str()), (trust, head), "{event}");
        let launch = plane.engine.launched.lock().unwrap().first().cloned().unwrap();
        assert_eq!(launch.kit_commit.is_some(), trust == TrustTier::Untrusted, "{event}");
    }
}

/// A run with verified work that can be written without approval.
async fn verified(plane: &SetPlane) {
    plane.api.dispatch(&caller("ada"), "default", request("r")).await.unwrap();
    reconcile(plane).await;
    let agent = plane.engine.launched.lock().unwrap().last().unwrap().agent.clone();
    let done = Launched { work: Some(work()), ..in_state(LaunchedState::Verified) };
    plane.engine.states.lock().unwrap().insert(agent, done);
}

async fn plane_with_write_policy() -> SetPlane {
    start_plane(|object| {
        if object.kind == Kind::AgentStack {
            object.spec["writeBackPolicy"] = json!({
                "allowedTargets": ["create-branch"], "modes": { "create-branch": "auto" },
            });
        }
    })
    .await
}

/// A write to an unavailable forge is retried for a week, with increasing waits.
#[tokio::test]
async fn unavailable_forge_is_retried_and_given_up_after_a_week() {
    let plane = plane_with_write_policy().await;
    let unavailable = || ForgeError::Unavailable("it answers with 503".to_owned());
    plane.world.forge.answers.lock().unwrap().extend((0..1_000).map(|_| unavailable()));
    verified(&plane).await;
    let request_count = || plane.world.forge.requests.load(Ordering::Relaxed);
    let mut waits = Vec::new();
    let start = plane.world.now();
    for _ in 0..1_000 {
        plane.advance().await;
        let run = only::<AgentDispatchRun>(&plane).await;
        let Some(next) = run.status.write_backs.first().and_then(|one| one.next_try_at) else {
            if run.status.phase.is_final() {
                break;
            }
            continue;
        };
        // Not before its backoff ends.
        let before = request_count();
        assert_eq!(plane.advance().await.errors, []);
        assert_eq!(request_count(), before);
        waits.push(next.millis() - plane.world.now().millis());
        plane.world.clock.store(next.millis(), Ordering::Relaxed);
    }
    let run = only::<AgentDispatchRun>(&plane).await;
    assert_eq!(run.status.phase, RunPhase::Failed, "{:?}", run.status);
    let why = run.status.terminal_reason.clone().unwrap();
    assert!(why.starts_with("WriteBackFailed") && why.contains("503"), "{why}");
    let record = run.status.write_backs.first().unwrap();
    assert_eq!((record.state, u64::from(record.tries)), (WriteBackState::Failed, request_count()));
    let days = (plane.world.now().millis() - start.millis()) / (24 * 3_600_000);
    assert_eq!(days, 7, "an outage of a day or two loses nothing");
    assert!(waits.iter().all(|wait| *wait <= 15 * 60_000), "{waits:?}");
    assert!(waits.windows(2).all(|pair| pair[0] <= pair[1] + 100), "{waits:?}");
    assert!(waits.last().unwrap() > &(8 * waits.first().unwrap()), "{waits:?}");
    // No more requests.
    let before = request_count();
    reconcile(&plane).await;
    assert_eq!(request_count(), before);
}

#[tokio::test]
async fn write_is_made_once_when_the_forge_is_available_again() {
    let plane = plane_with_write_policy().await;
    let unavailable = || ForgeError::Unavailable("the line was cut".to_owned());
    plane.world.forge.answers.lock().unwrap().extend([unavailable(), unavailable(), unavailable()]);
    verified(&plane).await;
    for _ in 0..200 {
        plane.advance().await;
        plane.world.clock.fetch_add(1_000, Ordering::Relaxed);
    }
    let run = only::<AgentDispatchRun>(&plane).await;
    assert_eq!(run.status.phase, RunPhase::Succeeded, "{:?}", run.status);
    assert_eq!(plane.world.forge.written.lock().unwrap().len(), 1);
    assert_eq!(plane.world.forge.requests.load(Ordering::Relaxed), 4);
}

/// A refused write is final.
#[tokio::test]
async fn refused_write_is_not_retried() {
    for refusal in [
        ForgeError::Refused("403 you may not".to_owned()),
        ForgeError::Unsupported("do this".to_owned()),
    ] {
        let plane = plane_with_write_policy().await;
        plane.world.forge.answers.lock().unwrap().push_back(refusal.clone());
        verified(&plane).await;
        reconcile(&plane).await;
        let run = only::<AgentDispatchRun>(&plane).await;
        assert_eq!(run.status.phase, RunPhase::Failed, "{:?}", run.status);
        let why = run.status.terminal_reason.clone().unwrap();
        assert!(why.contains(&refusal.to_string()), "{why}");
        assert_eq!(plane.world.forge.requests.load(Ordering::Relaxed), 1);
    }
}

/// The target repository was deleted: the run ends with the reason.
#[tokio::test]
async fn run_whose_repository_was_deleted_ends_without_its_write() {
    let plane = plane_with_write_policy().await;
    let unavailable = ForgeError::Unavailable("the line was cut".to_owned());
    plane.world.forge.answers.lock().unwrap().push_back(unavailable);
    verified(&plane).await;
    plane.advance().await;
    let deletion = Write::Delete {
        kind: Kind::Repository,
        namespace: "default".to_owned(),
        name: "app".to_owned(),
        version: 0,
    };
    plane.store.commit(vec![deletion], plane.world.now()).await.unwrap();
    for _ in 0..6 {
        plane.advance().await;
        plane.world.clock.fetch_add(60_000, Ordering::Relaxed);
    }
    let run = only::<AgentDispatchRun>(&plane).await;
    assert_eq!(run.status.phase, RunPhase::Failed, "{:?}", run.status);
    assert!(run.status.terminal_reason.unwrap().contains("there is no repository"));
}

/// An object that cannot be read does not block others, and is reported once.
#[tokio::test]
async fn unreadable_object_blocks_only_itself() {
    let plane = start_plane(|_| {}).await;
    let nightly = |name: &str| {
        document(
            Kind::AgentTriggerRule,
            name,
            json!({
                "lifecycleState": "active", "sources": ["schedule"], "agentStack": "fixer",
                "taskKind": "tend", "promptTemplate": "Tend it.",
                "schedule": { "cron": "*/5 * * * *", "repository": "acme/app" },
            }),
        )
    };
    declare(&plane, &[nightly("good")]).await;
    // Written by an older or newer version.
    let mut bad = nightly("bad");
    bad.spec["fromTheFuture"] = json!(true);
    let mut pool = document(Kind::RunnerPool, "odd", json!({ "capacity": "many" }));
    pool.status = json!({});
    let mut run = document(Kind::AgentDispatchRun, "adr-odd", json!({ "sha": 7 }));
    run.status = json!({ "phase": "running" });
    let writes = [bad, pool, run].map(Write::Create).to_vec();
    plane.store.commit(writes, plane.world.now()).await.unwrap();

    for _ in 0..3 {
        let errors = plane.reconcile_statuses().await.errors;
        let about: Vec<&str> = errors.iter().map(|(about, _)| about.as_str()).collect();
        assert_eq!(
            about,
            [
                "AgentTriggerRule/default/bad",
                "RunnerPool/default/odd",
                "AgentDispatchRun/default/adr-odd"
            ],
            "{errors:?}"
        );
    }
    let lines = plane.store.audit(0, 10_000).await.unwrap();
    let lines: Vec<&str> = lines
        .iter()
        .filter(|(_, line)| line.event == "ObjectUnreadable")
        .map(|(_, line)| line.subject.as_str())
        .collect();
    assert_eq!(lines.len(), 3, "{lines:?}");
    // Everything else continues: conditions are set, schedules fire, runs are launched.
    plane.world.forge.branches.lock().unwrap().insert("main".to_owned(), TIP.to_owned());
    reconcile(&plane).await;
    plane.world.clock.fetch_add(5 * 60 * 1_000, Ordering::Relaxed);
    reconcile(&plane).await;
    let fired = only::<AgentTriggerExecution>(&plane).await;
    assert_eq!(fired.spec.decision, ExecutionDecision::Created, "{:?}", fired.spec);
    assert_eq!(plane.engine.launched.lock().unwrap().len(), 1);
    let page = plane.store.list(&Selection::of(Kind::AgentTriggerRule)).await.unwrap();
    let good = page.objects.iter().find(|one| one.metadata.name == "good").unwrap();
    let good = good.typed::<AgentTriggerRule>().unwrap();
    assert_eq!(good.status.conditions.len(), 6);
    // After the fix it is treated like the others.
    declare(&plane, &[nightly("bad")]).await;
    let errors = plane.reconcile_statuses().await.errors;
    assert!(!errors.iter().any(|(about, _)| about.contains("bad")), "{errors:?}");
}

/// A Gitea event does not contain the rights of the author of a comment, so the forge is asked for them.
#[tokio::test]
async fn comment_is_trusted_if_its_author_has_write_rights() {
    let refused = ForgeError::Refused("403 only for owners".to_owned());
    for (rights, trust) in [
        (Ok(Rights::Write), TrustTier::Trusted),
        (Ok(Rights::Read), TrustTier::Untrusted),
        (Ok(Rights::Unknown), TrustTier::Untrusted),
        (Err(refused), TrustTier::Untrusted),
    ] {
        let plane = start_plane(|_| {}).await;
        let mut rule = failed_check_rule();
        rule.spec["sources"] = json!(["issue-comment"]);
        rule.spec["match"] = json!({});
        declare(&plane, &[rule]).await;
        plane.world.forge.branches.lock().unwrap().insert("main".to_owned(), TIP.to_owned());
        plane.world.forge.rights.lock().unwrap().insert("zoe".to_owned(), rights.clone());
        let payload = json!({
            "action": "created", "repository": { "full_name": "acme/app" },
            "sender": { "login": "zoe" },
            "issue": { "number": 3, "title": "It fails", "body": "Why?" },
            "comment": { "id": 5, "body": "Please mend it.", "user": { "login": "zoe" } },
        });
        deliver(&plane, ForgeKind::Gitea, "issue_comment", &payload).await;
        reconcile(&plane).await;
        let run = only::<AgentDispatchRun>(&plane).await;
        assert_eq!(run.spec.trust_tier, trust, "{rights:?}");
    }
}

/// If the forge is unavailable, the request is repeated before the author is judged.
#[tokio::test]
async fn comment_waits_until_the_forge_returns_the_rights_of_its_author() {
    let plane = start_plane(|_| {}).await;
    let mut rule = failed_check_rule();
    rule.spec["sources"] = json!(["issue-comment"]);
    rule.spec["match"] = json!({});
    declare(&plane, &[rule]).await;
    plane.world.forge.branches.lock().unwrap().insert("main".to_owned(), TIP.to_owned());
    let unavailable = Err(ForgeError::Unavailable("the line was cut".to_owned()));
    let rights = &plane.world.forge.rights;
    rights.lock().unwrap().insert("zoe".to_owned(), unavailable);
    let payload = json!({
        "action": "created", "repository": { "full_name": "acme/app" },
        "sender": { "login": "zoe" }, "issue": { "number": 3, "title": "It fails", "body": "" },
        "comment": { "id": 5, "body": "Please mend it.", "user": { "login": "zoe" } },
    });
    deliver(&plane, ForgeKind::Gitea, "issue_comment", &payload).await;
    assert_eq!(plane.advance().await.errors.len(), 1);
    assert_eq!(all::<AgentDispatchRun>(&plane).await.len(), 0);
    rights.lock().unwrap().insert("zoe".to_owned(), Ok(Rights::Write));
    plane.world.clock.fetch_add(60_000, Ordering::Relaxed);
    reconcile(&plane).await;
    let run = only::<AgentDispatchRun>(&plane).await;
    assert_eq!(run.spec.trust_tier, TrustTier::Trusted);
}
