//! Random histories with several agents: exactly the verified tree lands.

use std::path::Path;

use bailiwick_lifecycle::ports::{LandError, Landing, Merge, Method, Work as _};
use bailiwick_testkit::random::Random;
use bailiwick_testkit::{Depth, Scratch};

use crate::agent::{Agent, git_in, repository};
use crate::random_work::scribble;

#[derive(Debug, Default)]
struct Tally {
    landed: usize,
    stale: usize,
    conflicting: usize,
    not_rebased: usize,
    nothing: usize,
}

/// Somebody commits to the base by hand, and leaves no uncommitted files.
fn commit_by_hand(random: &mut Random, scratch: &Scratch) {
    for _ in 0..=random.below(2) {
        scribble(random, &scratch.root());
    }
    scratch.commit("by hand");
    scratch.git(&["clean", "--quiet", "-d", "-x", "--force", "--force"]);
    scratch.git(&["reset", "--quiet", "--hard"]);
}

fn work(random: &mut Random, scratch: &Scratch, agent: &Agent) {
    for _ in 0..=random.below(2) {
        for _ in 0..=random.below(3) {
            scribble(random, &agent.worktree);
        }
        match random.below(3) {
            0 => drop(agent.commit(scratch, "some of it")),
            1 => drop(agent.git(scratch, &["add", "--all"])),
            _ => {}
        }
    }
}

fn land(random: &mut Random, scratch: &Scratch, agent: &Agent, tally: &mut Tally) {
    let (base, snapshot) = agent.snapshot();
    let tree = match agent.work().merge(&base, &snapshot).unwrap() {
        Merge::Clean { tree } => tree,
        Merge::Conflicts(_) => {
            tally.conflicting += 1;
            return;
        }
    };
    tally.stale += usize::from(snapshot.merge_base != base.tip);
    let methods = [Method::Merge, Method::Squash, Method::Rebase];
    let mut landing = Landing {
        agent: agent.id.to_string(),
        branch: base.branch.clone(),
        expected: Some(base.tip.clone()),
        onto: base.tip.clone(),
        work: snapshot,
        tree: tree.clone(),
        method: *methods.get(random.below(3)).unwrap(),
        message: format!("Land {}", agent.id),
    };
    let mut result = agent.work().land(&landing);
    if let Err(LandError::OtherTree { .. }) = &result {
        tally.not_rebased += 1;
        landing.method = Method::Squash;
        result = agent.work().land(&landing);
    }
    let landed = match result {
        Ok(landed) => landed,
        Err(LandError::Nothing { .. }) => {
            assert_eq!(tree, base.tree);
            tally.nothing += 1;
            return;
        }
        Err(other) => panic!("{landing:?}: {other}"),
    };
    tally.landed += 1;
    let root = scratch.root();
    let git = |arguments: &[&str]| git_in(scratch, &root, arguments).trim().to_owned();
    assert_eq!(git(&["rev-parse", "refs/heads/main"]), landed.commit);
    assert_eq!(git(&["rev-parse", "refs/heads/main^{tree}"]), tree, "{landing:?}");
    git(&["merge-base", "--is-ancestor", &base.tip, &landed.commit]);
    assert_eq!(git(&["status", "--porcelain", "--untracked-files=all", "--ignored"]), "");
    git(&["diff", "--quiet", "HEAD"]);
}

fn history(random: &mut Random, tally: &mut Tally) {
    let scratch = repository();
    for _ in 0..4 {
        commit_by_hand(random, &scratch);
    }
    let mut agents = Vec::new();
    // More agents mean more conflicts: most of the work should land.
    for number in 0..2 + random.below(4) {
        agents.push(Agent::spawn(&scratch, &format!("ag-{number}")));
        if random.once_in(3) {
            commit_by_hand(random, &scratch);
        }
    }
    while !agents.is_empty() {
        let agent = agents.remove(random.below(agents.len()));
        work(random, &scratch, &agent);
        land(random, &scratch, &agent, tally);
        if random.once_in(3) {
            commit_by_hand(random, &scratch);
        }
    }
    assert!(crate::work_recover::leftovers(&scratch).is_empty());
    scratch.git(&["fsck", "--strict", "--no-dangling", "--no-progress"]);
    assert!(Path::new(&scratch.state()).exists());
}

#[test]
fn random_histories_land_exactly_the_verified_tree() {
    let histories: u64 = match Depth::from_env() {
        Depth::Ci => 40,
        Depth::Full => 200,
    };
    let seed = Random::rotating("landings").number();
    let workers = 2;
    let tallies: Vec<Tally> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..workers)
            .map(|worker| {
                scope.spawn(move || {
                    let mut tally = Tally::default();
                    for number in (worker..histories).step_by(2) {
                        history(&mut Random::new(seed ^ number), &mut tally);
                    }
                    tally
                })
            })
            .collect();
        workers.into_iter().map(|worker| worker.join().unwrap()).collect()
    });
    let sum = |of: fn(&Tally) -> usize| tallies.iter().map(of).sum::<usize>();
    bailiwick_testkit::figure(&format!(
        "{histories} random histories: {} landings, each the verified tree; {} of them on a stale \
         base, {} conflicts, {} that cannot be rebased, {} with nothing to land",
        sum(|tally| tally.landed),
        sum(|tally| tally.stale),
        sum(|tally| tally.conflicting),
        sum(|tally| tally.not_rebased),
        sum(|tally| tally.nothing),
    ));
    assert!(sum(|tally| tally.landed) > sum(|tally| tally.conflicting));
    assert!(sum(|tally| tally.stale) > 0 && sum(|tally| tally.conflicting) > 0);
}
