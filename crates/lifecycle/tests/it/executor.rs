//! The executor: killed at any moment of any step, a second spawn comes to the same end.

use bailiwick_lifecycle::executor::{SpawnError, spawn};
use bailiwick_lifecycle::spawn::{Refusal, Request, Step};
use bailiwick_model::RunStatus;
use bailiwick_testkit::Depth;
use bailiwick_testkit::random::Random;

use crate::failing_world::{Lasting, Moment, World, at_once, request};

const STEPS: [Step; 5] =
    [Step::RecordRun, Step::WriteTask, Step::AddWorktree, Step::MakeReady, Step::FinishSpawn];

fn attempt(world: &World, request: &Request) -> (Result<(), SpawnError>, Vec<Step>) {
    let mut told = Vec::new();
    let result = at_once(spawn(request, world, world, |step| told.push(step.clone())));
    (result, told)
}

fn uninterrupted(request: &Request) -> Lasting {
    let world = World::default();
    let (result, told) = attempt(&world, request);
    result.unwrap();
    assert_eq!(told, STEPS);
    world.lasting()
}

#[test]
fn an_undisturbed_spawn_does_every_step_once() {
    let request = request("ag-1");
    let end = uninterrupted(&request);
    assert_eq!(end.effects, STEPS);
    assert_eq!(end.spec.as_ref(), Some(&request.files.task));
    assert_eq!(end.task.as_ref(), Some(&request.files));
    assert_eq!(end.worktree.as_ref(), Some(&request.base));
    assert_eq!(end.ready.as_ref(), Some(&request.preparation));
    assert!(!end.run.unwrap().half_spawned);
}

/// Spawns until it is done; a refusal is right only when nothing was left to do.
fn come_to_the_end(world: &World, request: &Request) {
    match attempt(world, request) {
        (Ok(()), _) => {}
        (Err(SpawnError::Refused(Refusal::IdTaken { status: RunStatus::Running, .. })), told) => {
            assert_eq!(told, [], "refused after a step");
            assert!(world.lasting().effects.contains(&Step::FinishSpawn), "refused too early");
        }
        (Err(error), told) => panic!("{error} after {told:?}: {:?}", world.lasting()),
    }
}

#[test]
fn whatever_the_moment_of_death_a_second_spawn_comes_to_the_same_end() {
    let request = request("ag-1");
    let end = uninterrupted(&request);
    for number in 0..STEPS.len() {
        for moment in Moment::ALL {
            let world = World::default();
            world.die_at(number, moment);
            let (died, told) = attempt(&world, &request);
            assert!(died.is_err(), "step {number} {moment:?}: nobody died");
            assert_eq!(told, STEPS[..=number], "a step is told before it is done");
            let done = number + usize::from(moment == Moment::After);
            assert_eq!(world.lasting().effects, STEPS[..done], "step {number} {moment:?}");
            come_to_the_end(&world, &request);
            assert_eq!(world.lasting(), end, "step {number} {moment:?}");
        }
    }
}

#[test]
fn many_deaths_in_a_row_do_not_change_the_end() {
    let mut random = Random::rotating("deaths");
    let request = request("ag-1");
    let end = uninterrupted(&request);
    for _ in 0..Depth::from_env().cases(5_000) {
        let world = World::default();
        let mut moments = Vec::new();
        for _ in 0..random.below(8) {
            let death = (random.below(5), Moment::ALL[random.below(3)]);
            moments.push(death);
            world.die_at(death.0, death.1);
            let _died = attempt(&world, &request);
        }
        world.die_at(99, Moment::Before);
        come_to_the_end(&world, &request);
        assert_eq!(world.lasting(), end, "{moments:?}");
    }
}

#[test]
fn a_spawn_that_is_done_is_not_begun_again() {
    let (world, request) = (World::default(), request("ag-1"));
    attempt(&world, &request).0.unwrap();
    let end = world.lasting();
    let (again, told) = attempt(&world, &request);
    assert!(matches!(again, Err(SpawnError::Refused(Refusal::IdTaken { .. }))), "{again:?}");
    assert_eq!(told, []);
    assert_eq!(world.lasting(), end);
}

#[test]
fn another_task_does_not_take_up_what_was_cut_off() {
    let (world, first) = (World::default(), request("ag-1"));
    world.die_at(2, Moment::Before);
    assert!(attempt(&world, &first).0.is_err());
    let before = world.lasting();
    let mut other = first.clone();
    other.run.spec_sha = "another".to_owned();
    let (refused, told) = attempt(&world, &other);
    assert!(matches!(refused, Err(SpawnError::Refused(Refusal::OtherTask { .. }))), "{refused:?}");
    assert_eq!((told, world.lasting()), (vec![], before));
    come_to_the_end(&world, &first);
    assert_eq!(world.lasting(), uninterrupted(&first));
}

#[test]
fn a_worktree_that_was_lost_is_made_ready_again() {
    let request = request("ag-1");
    for second_death in [None, Some((0, Moment::After)), Some((1, Moment::Halfway))] {
        let world = World::default();
        world.die_at(4, Moment::Before);
        assert!(attempt(&world, &request).0.is_err());
        world.change(|lasting| lasting.worktree = None);
        if let Some((number, moment)) = second_death {
            world.die_at(number, moment);
            assert!(attempt(&world, &request).0.is_err());
        }
        come_to_the_end(&world, &request);
        let end = world.lasting();
        assert_eq!(end.ready.as_ref(), Some(&request.preparation), "{:?}", end.effects);
        assert!(end.effects.ends_with(&[Step::MakeReady, Step::FinishSpawn]), "{:?}", end.effects);
    }
}
