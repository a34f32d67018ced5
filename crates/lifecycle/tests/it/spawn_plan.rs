//! The plan of a spawn over everything that can be seen, against a model from its description.

use bailiwick_lifecycle::ports::SeenWorkspace;
use bailiwick_lifecycle::spawn::{Refusal, Request, Step, plan};
use bailiwick_model::{Run, RunStatus};

use crate::failing_world::{recorded, request};
use crate::kit_in_memory::id;

/// What the ledger has of the id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Recorded {
    Nothing,
    Ready,
    HalfSpawned,
    HalfSpawnedWithAnotherTask,
    HalfSpawnedButFailed,
}

impl Recorded {
    const ALL: [Self; 5] = [
        Self::Nothing,
        Self::Ready,
        Self::HalfSpawned,
        Self::HalfSpawnedWithAnotherTask,
        Self::HalfSpawnedButFailed,
    ];

    fn run(self, request: &Request) -> Option<Run> {
        let half = recorded(&request.run);
        match self {
            Self::Nothing => None,
            Self::Ready => Some(Run { half_spawned: false, ..half }),
            Self::HalfSpawned => Some(half),
            Self::HalfSpawnedWithAnotherTask => Some(Run { spec_sha: "other".to_owned(), ..half }),
            Self::HalfSpawnedButFailed => Some(Run { status: RunStatus::Failed, ..half }),
        }
    }
}

fn everything_that_can_be_seen() -> impl Iterator<Item = SeenWorkspace> {
    (0..32_u8).map(|bits| {
        let bit = |number: u8| bits & (1 << number) != 0;
        SeenWorkspace {
            task_directory: bit(0),
            branch: bit(1),
            worktree: bit(2),
            obstacle: bit(3),
            ready: bit(4),
        }
    })
}

/// Every reason not to go on; any of them may be given.
fn reasons(request: &Request, recorded: Recorded, seen: &SeenWorkspace) -> Vec<Refusal> {
    let id = || request.id.clone();
    let taken = || Refusal::WorktreeTaken { path: "/state/worktrees/ag-1".to_owned() };
    let of_the_ledger = match recorded {
        Recorded::Nothing | Recorded::HalfSpawned => None,
        Recorded::Ready => Some(Refusal::IdTaken { id: id(), status: RunStatus::Running }),
        Recorded::HalfSpawnedButFailed => {
            Some(Refusal::IdTaken { id: id(), status: RunStatus::Failed })
        }
        Recorded::HalfSpawnedWithAnotherTask => Some(Refusal::OtherTask { id: id() }),
    };
    // Without a run of ours, whatever is there is somebody else's.
    let nobodys = recorded == Recorded::Nothing;
    let of_the_workspace = [
        (seen.obstacle, taken()),
        (nobodys && seen.task_directory, Refusal::TaskDirectoryTaken { id: id() }),
        (nobodys && seen.branch, Refusal::BranchTaken { branch: "agent/ag-1".to_owned() }),
        (nobodys && seen.worktree, taken()),
    ];
    let of_the_workspace = of_the_workspace.into_iter().filter(|(holds, _)| *holds);
    of_the_ledger.into_iter().chain(of_the_workspace.map(|(_, refusal)| refusal)).collect()
}

/// What is left to do: each thing that is not there, and the last note.
fn steps(recorded: Recorded, seen: &SeenWorkspace) -> Vec<Step> {
    let mut steps = Vec::new();
    if recorded == Recorded::Nothing {
        steps.push(Step::RecordRun);
    }
    if !seen.task_directory {
        steps.push(Step::WriteTask);
    }
    if !seen.worktree {
        steps.push(Step::AddWorktree);
    }
    // A worktree that is made only now cannot have been made ready before.
    if !seen.worktree || !seen.ready {
        steps.push(Step::MakeReady);
    }
    steps.push(Step::FinishSpawn);
    steps
}

#[test]
fn the_plan_agrees_with_the_model_over_all_that_can_be_seen() {
    let request = request("ag-1");
    let (mut wrong, mut planned, mut refused) = (Vec::new(), 0, 0);
    for recorded in Recorded::ALL {
        for seen in everything_that_can_be_seen() {
            let run = recorded.run(&request);
            let found = plan(&request, run.as_ref(), &seen);
            let reasons = reasons(&request, recorded, &seen);
            let expected = steps(recorded, &seen);
            let right = match &found {
                Ok(steps) => reasons.is_empty() && *steps == expected,
                Err(refusal) => reasons.contains(refusal),
            };
            if reasons.is_empty() {
                planned += 1
            } else {
                refused += 1
            }
            if !right {
                wrong.push(format!(
                    "{recorded:?} {seen:?}\n  plan {found:?}\n  model {reasons:?} or {expected:?}"
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{} of 160 differ:\n{}", wrong.len(), wrong.join("\n"));
    assert!(planned > 10 && refused > 100, "{planned} planned, {refused} refused");
}

#[test]
fn a_refusal_says_what_is_in_the_way_and_what_to_do() {
    let request = request("ag-1");
    let texts = [
        (Refusal::IdTaken { id: id("ag-1"), status: RunStatus::Done }, "`ag-1` already (done)"),
        (Refusal::OtherTask { id: id("ag-1") }, "another task"),
        (Refusal::TaskDirectoryTaken { id: id("ag-1") }, "tasks/ag-1/"),
        (Refusal::BranchTaken { branch: request.run.branch.clone() }, "agent/ag-1"),
        (Refusal::WorktreeTaken { path: "/state/x".to_owned() }, "/state/x"),
    ];
    for (refusal, text) in texts {
        assert!(refusal.to_string().contains(text), "{refusal}");
    }
}
