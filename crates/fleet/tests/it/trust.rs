//! Untrusted work: its limits, its model key, and when the forge's statement about an author counts.

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

use crate::dispatch::{SHA, caller, document, fleet, request, standing, work};
use crate::plane::{SetPlane, TIP, all, declare, deliver, only, stand, turn};

const THEIRS: &str = "2222222222222222222222222222222222222222";

/// A wish for work on a commit that somebody names: nobody vouches for it.
async fn strangers(plane: &SetPlane, id: &str) -> Result<(), ActionError> {
    let mut wish = request(id);
    wish.sha = Some(THEIRS.to_owned());
    plane.api.dispatch(&caller("ada"), "default", wish).await.map(drop)
}

#[tokio::test]
async fn work_that_is_not_trusted_is_bound_by_the_default_branch() {
    let plane = stand(|_| {}).await;
    strangers(&plane, "theirs").await.unwrap();
    assert_eq!(only::<AgentDispatchRun>(&plane).await.spec.trust_tier, TrustTier::Untrusted);
    // What its own commit says of roles and skills was never read.
    assert_eq!(*plane.world.looked_at.lock().unwrap(), [TIP]);
    turn(&plane).await;
    let launch = plane.engine.launched.lock().unwrap().first().cloned().unwrap();
    assert_eq!((launch.base.as_str(), launch.kit_from.as_deref()), (THEIRS, Some(TIP)));
    // Nor when it left the queue, and was looked at again.
    assert!(plane.world.looked_at.lock().unwrap().iter().all(|at| at == TIP));
    // What is trusted is bound by what it starts from.
    plane.world.looked_at.lock().unwrap().clear();
    plane.api.dispatch(&caller("ada"), "default", request("ours")).await.unwrap();
    turn(&plane).await;
    let launch = plane.engine.launched.lock().unwrap().last().cloned().unwrap();
    assert_eq!((launch.base.as_str(), launch.kit_from.as_deref()), (TIP, None));
    let looked_at = plane.world.looked_at.lock().unwrap();
    assert!(!looked_at.is_empty() && looked_at.iter().all(|at| at == TIP), "{looked_at:?}");
}

#[tokio::test]
async fn where_no_default_branch_is_nothing_binds_a_stranger_and_nothing_starts() {
    let plane = stand(|_| {}).await;
    *plane.world.default_tip.lock().unwrap() = None;
    let Err(ActionError::Denied { reasons, .. }) = strangers(&plane, "theirs").await else {
        panic!("it was let in")
    };
    assert!(reasons.iter().any(|why| why.code == "TrustedKitMissing"), "{reasons:?}");
    assert_eq!(all::<AgentDispatchRun>(&plane).await.len(), 0);
    // With one, the same is let in.
    *plane.world.default_tip.lock().unwrap() = Some(TIP.to_owned());
    strangers(&plane, "theirs").await.unwrap();
}

#[tokio::test]
async fn the_servers_own_key_is_for_trusted_runs_unless_a_pool_lends_it() {
    for (setting, lent) in [
        (Value::Null, ModelKey::Withheld),
        (json!("trusted-runs"), ModelKey::Withheld),
        (json!("every-run"), ModelKey::Lent),
    ] {
        let plane = stand(|object| {
            if object.kind == Kind::RunnerPool && !setting.is_null() {
                object.spec["modelKey"] = setting.clone();
            }
        })
        .await;
        strangers(&plane, "theirs").await.unwrap();
        plane.api.dispatch(&caller("ada"), "default", request("ours")).await.unwrap();
        turn(&plane).await;
        let launched = plane.engine.launched.lock().unwrap().clone();
        let of = |base: &str| launched.iter().find(|one| one.base == base).unwrap().model_key;
        assert_eq!(of(THEIRS), lent, "{setting}");
        assert_eq!(of(TIP), ModelKey::Lent, "{setting}");
        // The choice is written down with what was permitted.
        let lines = plane.store.audit(0, 1_000).await.unwrap();
        let said = lines.iter().find(|(_, line)| line.detail["kitFrom"] == TIP).unwrap();
        assert_eq!(said.1.detail["lentModelKey"], json!(lent == ModelKey::Lent));
    }
}

/// What was admitted as trusted, in a repository that is trusted no more.
#[tokio::test]
async fn a_run_whose_repository_lost_its_trust_is_not_launched() {
    let plane = stand(|_| {}).await;
    plane.api.dispatch(&caller("ada"), "default", request("r")).await.unwrap();
    let mut changed = fleet(|object| {
        if object.kind == Kind::Repository {
            object.spec["trustTier"] = json!("untrusted");
        }
    });
    changed.retain(|object| object.kind == Kind::Repository);
    declare(&plane, &changed).await;
    turn(&plane).await;
    assert!(plane.engine.launched.lock().unwrap().is_empty());
    let run = only::<AgentDispatchRun>(&plane).await;
    assert_eq!(run.status.phase, RunPhase::Failed, "{:?}", run.status);
}

/// A rule that looks at checks.
fn watching() -> AnyObject {
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

/// GitHub's own checks name the branch, and a fork's branch has whatever name its owner likes.
#[tokio::test]
async fn a_check_of_a_branch_with_our_name_is_ours_only_if_our_branch_is_there() {
    for (event, head, trust) in [
        ("check_run", SHA, TrustTier::Trusted),
        ("check_suite", SHA, TrustTier::Trusted),
        ("check_run", THEIRS, TrustTier::Untrusted),
        ("check_suite", THEIRS, TrustTier::Untrusted),
    ] {
        let plane = stand(|object| {
            if object.kind == Kind::Repository {
                object.spec["forge"] = json!("github");
            }
        })
        .await;
        declare(&plane, &[watching()]).await;
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
        turn(&plane).await;
        let run = only::<AgentDispatchRun>(&plane).await;
        assert_eq!((run.spec.trust_tier, run.spec.sha.as_str()), (trust, head), "{event}");
        let launch = plane.engine.launched.lock().unwrap().first().cloned().unwrap();
        assert_eq!(launch.kit_from.is_some(), trust == TrustTier::Untrusted, "{event}");
    }
}

/// A run whose work is verified and may be written without asking.
async fn verified(plane: &SetPlane) {
    plane.api.dispatch(&caller("ada"), "default", request("r")).await.unwrap();
    turn(plane).await;
    let agent = plane.engine.launched.lock().unwrap().last().unwrap().agent.clone();
    let done = Launched { work: Some(work()), ..standing(LaunchedState::Verified) };
    plane.engine.states.lock().unwrap().insert(agent, done);
}

async fn writing() -> SetPlane {
    stand(|object| {
        if object.kind == Kind::AgentStack {
            object.spec["writeBackPolicy"] = json!({
                "allowedTargets": ["create-branch"], "modes": { "create-branch": "auto" },
            });
        }
    })
    .await
}

/// A forge that is out of reach is asked again, later and later, for a week.
#[tokio::test]
async fn a_forge_that_does_not_answer_is_asked_again_and_then_given_up() {
    let plane = writing().await;
    let away = || ForgeError::Unavailable("it answers with 503".to_owned());
    plane.world.forge.answers.lock().unwrap().extend((0..1_000).map(|_| away()));
    verified(&plane).await;
    let asked = || plane.world.forge.asked.load(Ordering::Relaxed);
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
        // Not before its time.
        let before = asked();
        assert_eq!(plane.advance().await.errors, []);
        assert_eq!(asked(), before);
        waits.push(next.millis() - plane.world.now().millis());
        plane.world.clock.store(next.millis(), Ordering::Relaxed);
    }
    let run = only::<AgentDispatchRun>(&plane).await;
    assert_eq!(run.status.phase, RunPhase::Failed, "{:?}", run.status);
    let why = run.status.terminal_reason.clone().unwrap();
    assert!(why.starts_with("WriteBackFailed") && why.contains("503"), "{why}");
    let record = run.status.write_backs.first().unwrap();
    assert_eq!((record.state, u64::from(record.tries)), (WriteBackState::Failed, asked()));
    let days = (plane.world.now().millis() - start.millis()) / (24 * 3_600_000);
    assert_eq!(days, 7, "an outage of a day or two loses nothing");
    assert!(waits.iter().all(|wait| *wait <= 15 * 60_000), "{waits:?}");
    assert!(waits.windows(2).all(|pair| pair[0] <= pair[1] + 100), "{waits:?}");
    assert!(waits.last().unwrap() > &(8 * waits.first().unwrap()), "{waits:?}");
    // Nothing more is asked.
    let before = asked();
    turn(&plane).await;
    assert_eq!(asked(), before);
}

#[tokio::test]
async fn a_forge_that_comes_back_gets_it_once() {
    let plane = writing().await;
    let away = || ForgeError::Unavailable("the line was cut".to_owned());
    plane.world.forge.answers.lock().unwrap().extend([away(), away(), away()]);
    verified(&plane).await;
    for _ in 0..200 {
        plane.advance().await;
        plane.world.clock.fetch_add(1_000, Ordering::Relaxed);
    }
    let run = only::<AgentDispatchRun>(&plane).await;
    assert_eq!(run.status.phase, RunPhase::Succeeded, "{:?}", run.status);
    assert_eq!(plane.world.forge.written.lock().unwrap().len(), 1);
    assert_eq!(plane.world.forge.asked.load(Ordering::Relaxed), 4);
}

/// A refused write is final.
#[tokio::test]
async fn what_a_forge_refuses_is_not_tried_again() {
    for no in [
        ForgeError::Refused("403 you may not".to_owned()),
        ForgeError::Unsupported("do this".to_owned()),
    ] {
        let plane = writing().await;
        plane.world.forge.answers.lock().unwrap().push_back(no.clone());
        verified(&plane).await;
        turn(&plane).await;
        let run = only::<AgentDispatchRun>(&plane).await;
        assert_eq!(run.status.phase, RunPhase::Failed, "{:?}", run.status);
        let why = run.status.terminal_reason.clone().unwrap();
        assert!(why.contains(&no.to_string()), "{why}");
        assert_eq!(plane.world.forge.asked.load(Ordering::Relaxed), 1);
    }
}

/// What it was to be written to is gone: the run ends, and says so.
#[tokio::test]
async fn a_run_whose_repository_is_gone_does_not_wait_to_write_for_ever() {
    let plane = writing().await;
    let away = ForgeError::Unavailable("the line was cut".to_owned());
    plane.world.forge.answers.lock().unwrap().push_back(away);
    verified(&plane).await;
    plane.advance().await;
    let gone = Write::Delete {
        kind: Kind::Repository,
        namespace: "default".to_owned(),
        name: "app".to_owned(),
        version: 0,
    };
    plane.store.commit(vec![gone], plane.world.now()).await.unwrap();
    for _ in 0..6 {
        plane.advance().await;
        plane.world.clock.fetch_add(60_000, Ordering::Relaxed);
    }
    let run = only::<AgentDispatchRun>(&plane).await;
    assert_eq!(run.status.phase, RunPhase::Failed, "{:?}", run.status);
    assert!(run.status.terminal_reason.unwrap().contains("there is no repository"));
}

/// One object that nobody can read does not take the others with it; it is told, once.
#[tokio::test]
async fn an_object_that_cannot_be_read_stops_nothing_but_itself() {
    let plane = stand(|_| {}).await;
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
    // As if an older or a newer one of us had written it.
    let mut bad = nightly("bad");
    bad.spec["fromTheFuture"] = json!(true);
    let mut pool = document(Kind::RunnerPool, "odd", json!({ "capacity": "many" }));
    pool.status = json!({});
    let mut run = document(Kind::AgentDispatchRun, "adr-odd", json!({ "sha": 7 }));
    run.status = json!({ "phase": "running" });
    let writes = [bad, pool, run].map(Write::Create).to_vec();
    plane.store.commit(writes, plane.world.now()).await.unwrap();

    for _ in 0..3 {
        let told = plane.reconcile_statuses().await.errors;
        let about: Vec<&str> = told.iter().map(|(about, _)| about.as_str()).collect();
        assert_eq!(
            about,
            [
                "AgentTriggerRule/default/bad",
                "RunnerPool/default/odd",
                "AgentDispatchRun/default/adr-odd"
            ],
            "{told:?}"
        );
    }
    let lines = plane.store.audit(0, 10_000).await.unwrap();
    let lines: Vec<&str> = lines
        .iter()
        .filter(|(_, line)| line.event == "ObjectUnreadable")
        .map(|(_, line)| line.subject.as_str())
        .collect();
    assert_eq!(lines.len(), 3, "{lines:?}");
    // All else goes on: conditions are stated, schedules fire, runs are launched.
    plane.world.forge.branches.lock().unwrap().insert("main".to_owned(), TIP.to_owned());
    turn(&plane).await;
    plane.world.clock.fetch_add(5 * 60 * 1_000, Ordering::Relaxed);
    turn(&plane).await;
    let fired = only::<AgentTriggerExecution>(&plane).await;
    assert_eq!(fired.spec.decision, ExecutionDecision::Created, "{:?}", fired.spec);
    assert_eq!(plane.engine.launched.lock().unwrap().len(), 1);
    let page = plane.store.list(&Selection::of(Kind::AgentTriggerRule)).await.unwrap();
    let good = page.objects.iter().find(|one| one.metadata.name == "good").unwrap();
    let good = good.typed::<AgentTriggerRule>().unwrap();
    assert_eq!(good.status.conditions.len(), 6);
    // Mended, it is one of the others.
    declare(&plane, &[nightly("bad")]).await;
    let told = plane.reconcile_statuses().await.errors;
    assert!(!told.iter().any(|(about, _)| about.contains("bad")), "{told:?}");
}

/// An event of Gitea does not contain the rights of the author of a comment, so the forge is asked for them.
#[tokio::test]
async fn a_comment_is_trusted_if_the_forge_says_that_its_author_may_write() {
    let refused = ForgeError::Refused("403 only for owners".to_owned());
    for (rights, trust) in [
        (Ok(Rights::Write), TrustTier::Trusted),
        (Ok(Rights::Read), TrustTier::Untrusted),
        (Ok(Rights::Unknown), TrustTier::Untrusted),
        (Err(refused), TrustTier::Untrusted),
    ] {
        let plane = stand(|_| {}).await;
        let mut rule = watching();
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
        turn(&plane).await;
        let run = only::<AgentDispatchRun>(&plane).await;
        assert_eq!(run.spec.trust_tier, trust, "{rights:?}");
    }
}

/// A forge that is away is asked again before anybody is judged.
#[tokio::test]
async fn a_comment_waits_for_a_forge_that_does_not_say_who_its_author_is() {
    let plane = stand(|_| {}).await;
    let mut rule = watching();
    rule.spec["sources"] = json!(["issue-comment"]);
    rule.spec["match"] = json!({});
    declare(&plane, &[rule]).await;
    plane.world.forge.branches.lock().unwrap().insert("main".to_owned(), TIP.to_owned());
    let away = Err(ForgeError::Unavailable("the line was cut".to_owned()));
    let rights = &plane.world.forge.rights;
    rights.lock().unwrap().insert("zoe".to_owned(), away);
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
    turn(&plane).await;
    let run = only::<AgentDispatchRun>(&plane).await;
    assert_eq!(run.spec.trust_tier, TrustTier::Trusted);
}
