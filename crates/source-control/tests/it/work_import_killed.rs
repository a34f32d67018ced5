//! An import is killed at a random moment, alone or with every git that it started: the branch is
//! at the old or the new commit, the repository is intact, and the import can be repeated.

use std::time::{Duration, Instant};

use bailiwick_source_control::git::Imported;
use bailiwick_testkit::random::Random;
use bailiwick_testkit::{Depth, Scratch};

use crate::agent::{Agent, repository};
use crate::layer::{Layer, everything};
use crate::work_killed::{kill, micros, recover_until_unchanged, start};
use crate::work_recover::leftovers;

/// An agent with commits in its layer, some of them packed.
fn busy(scratch: &Scratch) -> (Agent, String) {
    let agent = Agent::spawn(scratch, "ag-1");
    let layer = Layer::over(scratch, &agent);
    for number in 0..60 {
        agent.write(&format!("many/{number}.txt"), format!("{number}\n").repeat(number));
    }
    layer.commit("packed");
    layer.run("git repack -q -a -d");
    let tip = layer.commit("loose");
    (agent, tip)
}

fn duration() -> Duration {
    let scratch = repository();
    let _busy = busy(&scratch);
    let begin = Instant::now();
    let output = start(&scratch, "import").wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("done: import"), "it has completed: {text}");
    begin.elapsed()
}

#[test]
fn killed_import_can_be_repeated() {
    let mut random = Random::rotating("killed imports");
    let duration = usize::try_from(duration().as_micros()).unwrap();
    let (mut killed, mut moved, mut with_leftovers) = (0, 0, 0);
    let cases = Depth::from_env().cases(120);
    for number in 0..cases {
        let scratch = repository();
        let (agent, tip) = busy(&scratch);
        let layer = Layer::over(&scratch, &agent);
        let old = scratch.git(&["rev-parse", "agent/ag-1"]).trim().to_owned();
        let before = everything(&layer.common());
        let mut child = start(&scratch, "import");
        // The first milliseconds belong to the start of the test program.
        std::thread::sleep(micros(random.below(duration)));
        killed += usize::from(child.try_wait().unwrap().is_none());
        let whole_group = random.once_in(2);
        kill(&mut child, whole_group);
        let case = format!("case {number}, group {whole_group}");
        with_leftovers += usize::from(!leftovers(&scratch).is_empty());
        let current = scratch.git(&["rev-parse", "agent/ag-1"]).trim().to_owned();
        assert!(current == old || current == tip, "{case}: {current}");
        scratch.git(&["fsck", "--strict", "--full", "--no-dangling"]);
        // Only the next import clears a lock on the branch.
        let lock = layer.common().join("refs/heads/agent/ag-1.lock");
        if !lock.exists() {
            assert_eq!(
                recover_until_unchanged(&scratch),
                Vec::<std::path::PathBuf>::new(),
                "{case}"
            );
        }
        let current = scratch.git(&["rev-parse", "agent/ag-1"]).trim().to_owned();
        moved += usize::from(current == tip);
        match layer.import().unwrap() {
            Imported::Nothing => {}
            Imported::Commits { tip: brought, count } => {
                assert_eq!((brought, count), (tip.clone(), 2), "{case}");
            }
            Imported::Deleted => panic!("{case}"),
        }
        assert_eq!(scratch.git(&["rev-parse", "agent/ag-1"]).trim(), tip, "{case}");
        assert_eq!(recover_until_unchanged(&scratch), Vec::<std::path::PathBuf>::new(), "{case}");
        scratch.git(&["fsck", "--strict", "--full", "--no-dangling"]);
        for (path, bytes) in before {
            let is_agents_branch = path.ends_with("refs/heads/agent/ag-1");
            let is_unchanged = std::fs::read(layer.common().join(&path)).unwrap() == bytes;
            assert!(is_agents_branch || is_unchanged, "{case}: {}", path.display());
        }
    }
    bailiwick_testkit::figure(&format!(
        "{cases} kills at random moments of an import: {killed} met it at work, {with_leftovers} \
         left something behind, {moved} after the branch had moved; every one could be done again"
    ));
    assert!(killed > 0);
}
