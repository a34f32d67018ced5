//! Polling CI runs that ended since the last poll.

use bailiwick_fleet::ports::Forge as _;
use bailiwick_resources::Moment;
use bailiwick_testkit::Depth;
use bailiwick_testkit::forge::RunSeed;
use bailiwick_testkit::random::Random;

use super::{BOTH, Setup, block_on};

#[test]
fn runs_that_ended_before_the_first_poll_are_not_reported() {
    for flavour in BOTH {
        let setup = Setup::new(flavour);
        setup.stand_in.add_run(&RunSeed { sha: &setup.main, ..RunSeed::default() });
        let (checks, cursor) = block_on(setup.forge.checks_since(None)).unwrap();
        assert!(checks.is_empty() && cursor.is_some());
        let seed =
            RunSeed { sha: &setup.feature, fork: Some("them/widgets"), ..RunSeed::default() };
        let (run, job) = setup.stand_in.add_run(&seed);
        let runs = setup.stand_in.runs();
        let end_time = runs.iter().find(|one| one.id == run).unwrap().ended.unwrap();
        let (checks, cursor) = block_on(setup.forge.checks_since(cursor.as_deref())).unwrap();
        assert_eq!(checks.len(), 1);
        let check = &checks[0];
        assert_eq!((check.id.as_str(), check.name.as_str()), (job.to_string().as_str(), "test"));
        assert_eq!(check.workflow.as_deref(), Some("ci.yml"));
        assert_eq!((check.sha.as_str(), check.branch.as_deref()), (&*setup.feature, Some("main")));
        assert_eq!(check.conclusion.as_deref(), Some("failure"));
        assert_eq!(check.payload["workflow_job"]["run_id"], run);
        let millis = u64::try_from(end_time.as_millisecond()).unwrap();
        assert_eq!(check.ended_at.map(Moment::millis), Some(millis));
        let head = &check.payload["workflow_run"]["head_repository"]["full_name"];
        assert_eq!(head, "them/widgets");
        let (checks, _) = block_on(setup.forge.checks_since(cursor.as_deref())).unwrap();
        assert!(checks.is_empty(), "{checks:?}");
        setup.keeps_contract();
    }
}

/// Runs start, end and are rerun in any order while they are polled: every end is reported
/// exactly once, in order.
#[test]
fn every_ended_run_is_reported_once() {
    let mut random = Random::rotating("every_ended_run_is_reported_once");
    for case in 0..Depth::from_env().cases(20) {
        let setup = Setup::new(BOTH[random.below(2)]);
        setup.stand_in.limit_pages(1 + random.below(5));
        let (_, mut cursor) = block_on(setup.forge.checks_since(None)).unwrap();
        let (mut open, mut ended, mut reported) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..40 {
            match random.below(4) {
                0 | 1 => {
                    let seed = RunSeed { conclusion: None, ..RunSeed::default() };
                    open.push(setup.stand_in.add_run(&seed));
                }
                2 if !open.is_empty() => {
                    let (run, job) = open.remove(random.below(open.len()));
                    setup.stand_in.end_run(run, "failure");
                    ended.push(job.to_string());
                }
                2 => {}
                _ => {
                    let poll = setup.forge.checks_since(cursor.as_deref());
                    let (checks, next) = block_on(poll).unwrap();
                    reported.extend(checks.into_iter().map(|check| check.id));
                    cursor = next;
                }
            }
        }
        let (checks, _) = block_on(setup.forge.checks_since(cursor.as_deref())).unwrap();
        reported.extend(checks.into_iter().map(|check| check.id));
        assert_eq!(reported, ended, "case {case}");
    }
}
