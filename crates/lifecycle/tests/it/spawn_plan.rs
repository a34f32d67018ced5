//! The plan of a spawn for every visible state, compared with a model from its description.

use bailiwick_lifecycle::ports::SeenWorkspace;
use bailiwick_lifecycle::spawn::{Refusal, Request, Step, plan};
use bailiwick_model::{Run, RunStatus};

use crate::failing_world::{recorded_run, request};
use crate::kit_in_memory::id;

/// What the ledger has recorded for the id.
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
        let half = recorded_run(&request.run);
        match self {
            Self::Nothing => None,
            Self::Ready => Some(Run { half_spawned: false, ..half }),
            Self::HalfSpawned => Some(half),
            Self::HalfSpawnedWithAnotherTask => Some(Run { spec_sha: "other".to_owned(), ..half }),
            Self::HalfSpawnedButFailed => Some(Run { status: RunStatus::Failed, ..half }),
        }
    }
}

fn all_workspace_states() -> impl Iterator<Item = SeenWorkspace> {
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

/// Every reason to refuse; the plan may give any of them.
fn reasons(request: &Request, recorded: Recorded, seen: &SeenWorkspace) -> Vec<Refusal> {
    let id = || request.id.clone();
    let taken = || Refusal::WorktreeTaken { path: "/state/worktrees/ag-1".to_owned() };
    let from_ledger = match recorded {
        Recorded::Nothing | Recorded::HalfSpawned => None,
        Recorded::Ready => Some(Refusal::IdTaken { id: id(), status: RunStatus::Running }),
        Recorded::HalfSpawnedButFailed => {
            Some(Refusal::IdTaken { id: id(), status: RunStatus::Failed })
        }
        Recorded::HalfSpawnedWithAnotherTask => Some(Refusal::OtherTask { id: id() }),
    };
    // Without a run of ours, everything that exists belongs to somebody else.
    let has_no_run = recorded == Recorded::Nothing;
    let from_workspace = [
        (seen.obstacle, taken()),
        (has_no_run && seen.task_directory, Refusal::TaskDirectoryTaken { id: id() }),
        (has_no_run && seen.branch, Refusal::BranchTaken { branch: "agent/ag-1".to_owned() }),
        (has_no_run && seen.worktree, taken()),
    ];
    let from_workspace = from_workspace.into_iter().filter(|(applies, _)| *applies);
    from_ledger.into_iter().chain(from_workspace.map(|(_, refusal)| refusal)).collect()
}

/// The remaining steps: one for each missing thing, and the last record.
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
    // A new worktree cannot have been prepared before.
    if !seen.worktree || !seen.ready {
        steps.push(Step::MakeReady);
    }
    steps.push(Step::FinishSpawn);
    steps
}

#[test]
fn plan_agrees_with_the_model_for_every_visible_state() {
    let request = request("ag-1");
    let (mut wrong, mut planned, mut refused) = (Vec::new(), 0, 0);
    for recorded in Recorded::ALL {
        for seen in all_workspace_states() {
            let run = recorded.run(&request);
            let found = plan(&request, run.as_ref(), &seen);
            let reasons = reasons(&request, recorded, &seen);
            let expected = steps(recorded, &seen);
            let agrees = match &found {
                Ok(steps) => reasons.is_empty() && *steps == expected,
                Err(refusal) => reasons.contains(refusal),
            };
            if reasons.is_empty() {
                planned += 1
            } else {
                refused += 1
            }
            if !agrees {
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
fn refusal_names_what_exists_already() {
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
