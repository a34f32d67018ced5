//! Several checkouts of a branch, and several concurrent landings on it.

use std::fs;
use std::path::PathBuf;

use bailiwick_lifecycle::ports::{LandError, Method, Work as _};
use bailiwick_model::TreeId;
use bailiwick_testkit::Scratch;

use crate::agent::{Agent, git_in, repository};
use crate::work_land::{land, landing, ready, status, tip};
use crate::work_land_refused::refused;
use crate::work_recover::leftovers;
use crate::workspaces::snapshot;

#[test]
fn all_checkouts_of_the_branch_are_updated_or_none() {
    let scratch = repository();
    let (agent, wanted) = ready(&scratch);
    let second = scratch.place().join("second");
    scratch.git(&["worktree", "add", "--quiet", "--force", second.to_str().unwrap(), "main"]);
    fs::write(second.join("README.md"), "changed by hand\n").unwrap();
    let error = refused(&scratch, &agent, &wanted);
    assert!(matches!(error, LandError::Unclean { .. }), "{error}");
    git_in(&scratch, &second, &["checkout", "--quiet", "README.md"]);
    let landed = land(&agent, &wanted).unwrap();
    assert_eq!(landed.checkouts.len(), 2);
    assert_eq!(git_in(&scratch, &second, &["status", "--porcelain"]), "");
    assert_eq!(status(&scratch), "");
}

/// The first landing wins; the others report the current commit of the branch. With one state directory they
/// wait for each other; with several, only git's own compare-and-swap separates them.
#[test]
fn exactly_one_of_many_concurrent_landings_succeeds() {
    for states in [1, 4] {
        let scratch = repository();
        let mut agents = Vec::new();
        for number in 0..6 {
            let agent = Agent::spawn(&scratch, &format!("ag-{number}"));
            agent.write(&format!("file-{number}"), "text\n");
            let state = scratch.place().join(format!("state-{}", number % states));
            agents.push(agent.with_state(&state));
        }
        let mut landed = 0;
        while landed < agents.len() {
            let before = tip(&scratch);
            let results: Vec<_> = std::thread::scope(|scope| {
                let threads: Vec<_> = agents
                    .iter()
                    .map(|agent| scope.spawn(|| agent.work().land(&landing(agent, Method::Merge))))
                    .collect();
                threads.into_iter().map(|thread| thread.join().unwrap()).collect()
            });
            let mut winners = 0;
            for result in results {
                match result {
                    Ok(landed) => {
                        winners += 1;
                        scratch.git(&["merge-base", "--is-ancestor", &landed.commit, "main"]);
                    }
                    Err(LandError::Moved { .. } | LandError::Nothing { .. }) => {}
                    // Another landing has locked the checkout.
                    Err(LandError::Held { .. } | LandError::Unclean { .. }) if states > 1 => {}
                    Err(LandError::Work(error)) if states > 1 => {
                        assert!(error.why.contains("cannot lock ref"), "{error}");
                    }
                    Err(other) => panic!("{other:?}"),
                }
            }
            landed += winners;
            let range = format!("{before}..main");
            let count = scratch.git(&["rev-list", "--count", "--first-parent", &range]);
            assert_eq!(count.trim(), winners.to_string(), "one commit for every winner");
            assert_eq!(status(&scratch), "");
        }
        for number in 0..6 {
            assert_eq!(scratch.read(&format!("file-{number}")), "text\n");
        }
    }
}

/// The tree with one more file, whose object is missing.
fn incomplete(scratch: &Scratch, tree: &str) -> String {
    let listing = scratch.git(&["ls-tree", tree]);
    let input = scratch.place().join("listing");
    fs::write(&input, format!("{listing}100644 blob {}\tzz\n", "1".repeat(40))).unwrap();
    let mut command = scratch.command("git");
    let created =
        command.args(["mktree", "--missing"]).stdin(fs::File::open(&input).unwrap()).output();
    String::from_utf8(created.unwrap().stdout).unwrap().trim().to_owned()
}

#[test]
fn branch_is_moved_back_if_a_checkout_cannot_be_updated() {
    let scratch = repository();
    let (agent, mut wanted) = ready(&scratch);
    wanted.tree = TreeId::new(incomplete(&scratch, &wanted.tree));
    let before = (tip(&scratch), status(&scratch), snapshot(&scratch.root()));
    let error = land(&agent, &wanted).unwrap_err();
    assert!(error.to_string().contains("cannot be updated"), "{error}");
    assert_eq!((tip(&scratch), status(&scratch), snapshot(&scratch.root())), before);
    assert_eq!(leftovers(&scratch), Vec::<PathBuf>::new());
    // Positive control: plain git writes the other files before it fails.
    assert_ne!(scratch.run("git", &["read-tree", "-m", "-u", "HEAD", &wanted.tree]).code, 0);
    assert_eq!(scratch.read("new/file.txt"), "new\n");
}
