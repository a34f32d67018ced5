//! The executor: if it is killed at any point of any step, a second spawn reaches the same result.

use bailiwick_lifecycle::executor::{SpawnError, spawn};
use bailiwick_lifecycle::spawn::{Refusal, Request, Step};
use bailiwick_model::RunStatus;
use bailiwick_testkit::Depth;
use bailiwick_testkit::random::Random;

use crate::failing_world::{CrashPoint, DurableState, World, ready_result, request};

const STEPS: [Step; 5] =
    [Step::RecordRun, Step::WriteTask, Step::AddWorktree, Step::MakeReady, Step::FinishSpawn];

fn attempt(world: &World, request: &Request) -> (Result<(), SpawnError>, Vec<Step>) {
    let mut reported = Vec::new();
    let result = ready_result(spawn(request, world, world, |step| reported.push(step.clone())));
    (result, reported)
}

fn uninterrupted(request: &Request) -> DurableState {
    let world = World::default();
    let (result, reported) = attempt(&world, request);
    result.unwrap();
    assert_eq!(reported, STEPS);
    world.durable_state()
}

#[test]
fn uninterrupted_spawn_does_every_step_once() {
    let request = request("ag-1");
    let world = uninterrupted(&request);
    assert_eq!(world.effects, STEPS);
    assert_eq!(world.spec.as_ref(), Some(&request.files.task));
    assert_eq!(world.task.as_ref(), Some(&request.files));
    assert_eq!(world.worktree.as_ref(), Some(&request.base));
    assert_eq!(world.ready.as_ref(), Some(&request.preparation));
    assert!(!world.run.unwrap().half_spawned);
}

/// Spawns until it is done; a refusal is right only if all steps were done.
fn finish_spawn(world: &World, request: &Request) {
    match attempt(world, request) {
        (Ok(()), _) => {}
        (
            Err(SpawnError::Refused(Refusal::IdTaken { status: RunStatus::Running, .. })),
            reported,
        ) => {
            assert_eq!(reported, [], "refused after a step was done");
            assert!(
                world.durable_state().effects.contains(&Step::FinishSpawn),
                "refused before the last step"
            );
        }
        (Err(error), reported) => panic!("{error} after {reported:?}: {:?}", world.durable_state()),
    }
}

#[test]
fn second_spawn_reaches_the_same_result_after_any_crash() {
    let request = request("ag-1");
    let expected = uninterrupted(&request);
    for number in 0..STEPS.len() {
        for point in CrashPoint::ALL {
            let world = World::default();
            world.crash_at(number, point);
            let (crashed, reported) = attempt(&world, &request);
            assert!(crashed.is_err(), "step {number} {point:?}: the process did not crash");
            assert_eq!(reported, STEPS[..=number], "a step is reported before it is done");
            let done = number + usize::from(point == CrashPoint::After);
            assert_eq!(world.durable_state().effects, STEPS[..done], "step {number} {point:?}");
            finish_spawn(&world, &request);
            assert_eq!(world.durable_state(), expected, "step {number} {point:?}");
        }
    }
}

#[test]
fn many_crashes_in_a_row_reach_the_same_result() {
    let mut random = Random::rotating("deaths");
    let request = request("ag-1");
    let expected = uninterrupted(&request);
    for _ in 0..Depth::from_env().cases(5_000) {
        let world = World::default();
        let mut points = Vec::new();
        for _ in 0..random.below(8) {
            let crash = (random.below(5), CrashPoint::ALL[random.below(3)]);
            points.push(crash);
            world.crash_at(crash.0, crash.1);
            let _crashed = attempt(&world, &request);
        }
        world.crash_at(99, CrashPoint::Before);
        finish_spawn(&world, &request);
        assert_eq!(world.durable_state(), expected, "{points:?}");
    }
}

#[test]
fn completed_spawn_is_not_repeated() {
    let (world, request) = (World::default(), request("ag-1"));
    attempt(&world, &request).0.unwrap();
    let expected = world.durable_state();
    let (second, reported) = attempt(&world, &request);
    assert!(matches!(second, Err(SpawnError::Refused(Refusal::IdTaken { .. }))), "{second:?}");
    assert_eq!(reported, []);
    assert_eq!(world.durable_state(), expected);
}

#[test]
fn interrupted_spawn_is_not_resumed_by_another_task() {
    let (world, first) = (World::default(), request("ag-1"));
    world.crash_at(2, CrashPoint::Before);
    assert!(attempt(&world, &first).0.is_err());
    let before = world.durable_state();
    let mut other = first.clone();
    other.run.spec_sha = "another".to_owned();
    let (refused, reported) = attempt(&world, &other);
    assert!(matches!(refused, Err(SpawnError::Refused(Refusal::OtherTask { .. }))), "{refused:?}");
    assert_eq!((reported, world.durable_state()), (vec![], before));
    finish_spawn(&world, &first);
    assert_eq!(world.durable_state(), uninterrupted(&first));
}

#[test]
fn lost_worktree_is_prepared_again() {
    let request = request("ag-1");
    for second_crash in [None, Some((0, CrashPoint::After)), Some((1, CrashPoint::Halfway))] {
        let world = World::default();
        world.crash_at(4, CrashPoint::Before);
        assert!(attempt(&world, &request).0.is_err());
        world.change(|durable_state| durable_state.worktree = None);
        if let Some((number, point)) = second_crash {
            world.crash_at(number, point);
            assert!(attempt(&world, &request).0.is_err());
        }
        finish_spawn(&world, &request);
        let world_after = world.durable_state();
        assert_eq!(
            world_after.ready.as_ref(),
            Some(&request.preparation),
            "{:?}",
            world_after.effects
        );
        assert!(
            world_after.effects.ends_with(&[Step::MakeReady, Step::FinishSpawn]),
            "{:?}",
            world_after.effects
        );
    }
}
