//! The use of pools, and paused pools.

use bailiwick_fleet::ports::{
    Fleet as _, FleetStore as _, LaunchPlace, LaunchedState, RunVerb, RunVerbRequest, Target,
    World as _, Write,
};
use bailiwick_resources::{AgentDispatchRun, Kind, Object, RunPhase, RunnerPool};
use serde_json::json;

use crate::dispatch::{
    Plane, agent, all, caller, declare, fleet, in_state, only_run, reconcile, request, set_state,
    start_plane,
};

async fn pool(plane: &Plane) -> Object<RunnerPool> {
    let found = plane.store.get(Kind::RunnerPool, "default", "inside").await.unwrap().unwrap();
    found.typed::<RunnerPool>().unwrap()
}

async fn pool_use(plane: &Plane) -> (u32, u32) {
    let pool = pool(plane).await;
    (pool.status.active, pool.status.queued)
}

async fn pause(plane: &Plane, paused: bool) {
    let mut changed = fleet(|object| object.spec["paused"] = json!(paused));
    changed.retain(|one| one.kind == Kind::RunnerPool && one.metadata.name == "inside");
    declare(plane, &changed).await;
}

#[tokio::test]
async fn run_of_a_paused_pool_waits() {
    let plane = start_plane(|_| {}).await;
    pause(&plane, true).await;
    for id in ["a", "b"] {
        let answer = plane.api.dispatch(&caller("ada"), "default", request(id)).await.unwrap();
        assert_eq!(answer.phase, RunPhase::Queued);
    }
    reconcile(&plane).await;
    assert!(plane.engine.launched.lock().unwrap().is_empty());
    assert_eq!(plane.reconcile_statuses().await.errors, []);
    assert_eq!(pool_use(&plane).await, (0, 2));
    pause(&plane, false).await;
    reconcile(&plane).await;
    assert_eq!(plane.engine.launched.lock().unwrap().len(), 1, "up to the capacity of the pool");
    assert_eq!(pool_use(&plane).await, (1, 1));
}

#[tokio::test]
async fn pool_status_counts_active_and_queued_runs() {
    let plane = start_plane(|_| {}).await;
    let mut names = Vec::new();
    for id in ["a", "b", "c"] {
        names.push(plane.api.dispatch(&caller("ada"), "default", request(id)).await.unwrap().run);
    }
    reconcile(&plane).await;
    assert_eq!(pool_use(&plane).await, (1, 2));
    // A queued run is cancelled.
    let runs = all::<AgentDispatchRun>(&plane).await;
    let waiting = runs.iter().find(|run| run.status.phase == RunPhase::Queued).unwrap();
    let target = Target { namespace: "default".to_owned(), name: waiting.name().to_owned() };
    let cancel = RunVerbRequest::default();
    plane.api.act_on_run(&caller("ada"), &target, RunVerb::Cancel, cancel).await.unwrap();
    reconcile(&plane).await;
    assert_eq!(pool_use(&plane).await, (1, 1));
    // A run ends and the next one starts; then that one ends too.
    set_state(&plane, &agent(&plane), in_state(LaunchedState::Failed));
    reconcile(&plane).await;
    assert_eq!(pool_use(&plane).await, (1, 0));
    set_state(&plane, &agent(&plane), in_state(LaunchedState::Failed));
    reconcile(&plane).await;
    assert_eq!(pool_use(&plane).await, (0, 0));
    // Without changes, nothing is written.
    let version = pool(&plane).await.metadata.resource_version;
    reconcile(&plane).await;
    plane.reconcile_statuses().await;
    assert_eq!(pool(&plane).await.metadata.resource_version, version);
}

#[tokio::test]
async fn attempt_in_a_job_gets_its_identity_and_one_on_the_server_gets_none() {
    for runs_on in ["server", "jobs"] {
        let plane = start_plane(|object| {
            if object.kind == Kind::RunnerPool && object.metadata.name == "inside" {
                object.spec["runsOn"] = json!(runs_on);
            }
            if object.kind == Kind::AgentServiceAccount && runs_on == "jobs" {
                object.spec["automountServiceAccountToken"] = json!(true);
                object.spec["tokenAudience"] = json!("vault");
                object.spec["tokenExpirationSeconds"] = json!(21_600);
            }
        })
        .await;
        plane.api.dispatch(&caller("ada"), "default", request("a")).await.unwrap();
        reconcile(&plane).await;
        let launched = plane.engine.launched.lock().unwrap()[0].clone();
        match (runs_on, &launched.place) {
            ("server", LaunchPlace::Server) => assert!(!launched.task.contains("IDENTITY_TOKEN")),
            ("jobs", LaunchPlace::Job(grants)) => {
                assert_eq!(grants.identity.as_ref().unwrap().account, "fixer");
                assert_eq!(grants.token().unwrap().audience, "vault");
                assert!(launched.task.contains("IDENTITY_TOKEN"), "{}", launched.task);
            }
            (_, other) => panic!("{runs_on}: {other:?}"),
        }
    }
}

/// Without its pool, the allowed machines of an attempt are unknown.
#[tokio::test]
async fn attempt_whose_pool_was_deleted_is_not_launched() {
    for is_deleted in [false, true] {
        let plane = start_plane(|_| {}).await;
        plane.api.dispatch(&caller("ada"), "default", request("a")).await.unwrap();
        reconcile(&plane).await;
        // The attempt was admitted, but the engine has not started it.
        plane.engine.states.lock().unwrap().clear();
        plane.engine.launched.lock().unwrap().clear();
        if is_deleted {
            let pool = pool(&plane).await;
            let deletion = Write::Delete {
                kind: Kind::RunnerPool,
                namespace: "default".to_owned(),
                name: "inside".to_owned(),
                version: pool.metadata.resource_version,
            };
            plane.store.commit(vec![deletion], plane.world.now()).await.unwrap();
        }
        reconcile(&plane).await;
        let launched = plane.engine.launched.lock().unwrap().len();
        assert_eq!(launched, usize::from(!is_deleted));
        let run = only_run(&plane).await;
        assert_eq!(run.status.phase == RunPhase::Failed, is_deleted, "{:#?}", run.status);
        let status_text = serde_json::to_string(&run.status).unwrap();
        assert_eq!(status_text.contains("LaunchFailed"), is_deleted, "{status_text}");
    }
}
