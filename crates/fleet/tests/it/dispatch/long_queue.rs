//! A pass over a queue of hundreds of runs reads few of them, and still does what is due.

use std::sync::atomic::Ordering;

use bailiwick_fleet::controllers::ControlPlane;
use bailiwick_fleet::ports::{Fleet as _, FleetStore as _, LaunchedState, World as _, Write};
use bailiwick_resources::{AgentDispatchRun, AnyObject, Kind, Metadata, Object, RunPhase};
use serde_json::json;

use super::cost::{CountingStore, counting_plane};
use super::{
    Plane, ScriptedEngine, ScriptedWorld, agent, caller, declare, document, in_state, reconcile,
    request, set_state, start_plane,
};

type CountingPlane = ControlPlane<CountingStore, ScriptedEngine, ScriptedWorld>;

const QUEUED: usize = 800;

/// What a pass reads at most: a page of the queue, the pool of each of its runs, and little else.
const MAX_READS: usize = 600;

async fn run(plane: &Plane, name: &str) -> Object<AgentDispatchRun> {
    let found = plane.store.get(Kind::AgentDispatchRun, "default", name).await.unwrap().unwrap();
    found.typed::<AgentDispatchRun>().unwrap()
}

async fn dispatch(plane: &Plane, id: &str, pool: &str) -> String {
    let mut request = request(id);
    request.runner_pool = Some(pool.to_owned());
    plane.api.dispatch(&caller("ada"), "default", request).await.unwrap().run
}

async fn reads_of_a_pass(plane: &CountingPlane) -> usize {
    plane.store.read.store(0, Ordering::Relaxed);
    assert_eq!(plane.advance().await.errors, []);
    plane.store.read.load(Ordering::Relaxed)
}

/// A plane with one active run, one that is next, and hundreds of copies of it behind it.
async fn plane_with_long_queue() -> (Plane, String) {
    let plane = start_plane(|object| {
        if object.kind == Kind::AgentServiceAccount {
            object.spec["allowedRunnerPools"] = json!(["inside", "spare"]);
        }
    })
    .await;
    let other = json!({ "capacity": 1, "trustTier": "trusted", "serviceAccountRef": "runner" });
    declare(&plane, &[document(Kind::RunnerPool, "spare", other)]).await;
    plane.reconcile_statuses().await;
    dispatch(&plane, "a", "inside").await;
    let next = dispatch(&plane, "b", "inside").await;
    reconcile(&plane).await;
    let original = AnyObject::of(&run(&plane, &next).await).unwrap();
    assert_eq!(run(&plane, &next).await.status.phase, RunPhase::Queued);
    let copy = |number: usize| {
        let metadata = Metadata::named(format!("copy-{number:04}"));
        Write::Create(AnyObject { metadata, ..original.clone() })
    };
    let copies = (0..QUEUED).map(copy).collect();
    plane.store.commit(copies, plane.world.now()).await.unwrap();
    (plane, next)
}

#[tokio::test]
async fn pass_over_a_long_queue_reads_one_page_while_no_pool_has_room() {
    let (plane, next) = plane_with_long_queue().await;
    let counting = counting_plane(&plane);
    let first = reads_of_a_pass(&counting).await;
    assert!(first > QUEUED, "positive control: the first pass reads the whole queue, not {first}");
    let later = reads_of_a_pass(&counting).await;
    assert!(later < MAX_READS, "{later}");
    // The place of the active run becomes free: the next one gets it.
    set_state(&plane, &agent(&plane), in_state(LaunchedState::Failed));
    for _ in 0..4 {
        let reads = reads_of_a_pass(&counting).await;
        assert!(reads < 2 * MAX_READS, "{reads}");
    }
    assert_eq!(run(&plane, &next).await.status.phase, RunPhase::Running);
}

#[tokio::test]
async fn run_at_the_end_of_a_long_queue_starts_in_a_pool_with_room() {
    let (plane, _) = plane_with_long_queue().await;
    let counting = counting_plane(&plane);
    counting.advance().await;
    let last = dispatch(&plane, "last", "spare").await;
    assert_eq!(run(&plane, &last).await.status.phase, RunPhase::Queued);
    for _ in 0..4 {
        assert_eq!(counting.advance().await.errors, []);
    }
    assert_eq!(run(&plane, &last).await.status.phase, RunPhase::Running);
}

#[tokio::test]
async fn run_far_behind_is_cancelled_within_a_minute() {
    let (plane, _) = plane_with_long_queue().await;
    let counting = counting_plane(&plane);
    counting.advance().await;
    for name in ["copy-0005", "copy-0799"] {
        let mut cancelled = run(&plane, name).await;
        cancelled.status.cancel_requested = Some("cancelled by ada".to_owned());
        let write = Write::Status(AnyObject::of(&cancelled).unwrap());
        plane.store.commit(vec![write], plane.world.now()).await.unwrap();
    }
    let phases = async || {
        let phase = async |name: &str| run(&plane, name).await.status.phase;
        (phase("copy-0005").await, phase("copy-0799").await)
    };
    counting.advance().await;
    assert_eq!(phases().await, (RunPhase::Cancelled, RunPhase::Queued));
    plane.world.clock.fetch_add(60_000, Ordering::Relaxed);
    counting.advance().await;
    assert_eq!(phases().await, (RunPhase::Cancelled, RunPhase::Cancelled));
}
