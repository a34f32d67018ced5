//! Killed at a random moment, alone or with every git that it started: the branch is at the old
//! or the new commit, and after a recovery no file is left.

use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use bailiwick_lifecycle::ports::{LandError, Landing, Method, Work as _};
use bailiwick_source_control::git::recover;
use bailiwick_testkit::random::Random;
use bailiwick_testkit::{Depth, Scratch};

use crate::agent::{Agent, repository};
use crate::work_land::landing;
use crate::work_recover::leftovers;
use crate::work_snapshot_random::worktree_state;

const REQUEST_VARIABLE: &str = "BAILIWICK_TEST_WORK";
const PLACE_VARIABLE: &str = "BAILIWICK_TEST_PLACE";
const FILES: usize = 150;

/// This part is killed: it runs in its own process.
#[test]
fn runs_the_work_that_another_test_requests() {
    let Ok(what) = std::env::var(REQUEST_VARIABLE) else { return };
    let place = PathBuf::from(std::env::var_os(PLACE_VARIABLE).unwrap());
    let state = place.join("state");
    let agent = Agent::at(&place.join("repo"), &state.join("worktrees/ag-1"), &state, "ag-1");
    match what.as_str() {
        "snapshot" => drop(agent.snapshot()),
        "materialise" => {
            let (base, work) = agent.snapshot();
            let parents = [&base.tip, &work.commit];
            agent.work().materialise(&work.tree, &parents, &place.join("fresh")).unwrap();
        }
        "land" => match agent.work().land(&landing(&agent, Method::Merge)) {
            Ok(_) | Err(LandError::Moved { .. }) => {}
            Err(other) => panic!("{other}"),
        },
        "import" => drop(agent.work().import(&place.join("layer")).unwrap()),
        other => panic!("{other}"),
    }
    println!("done: {what}");
}

pub(crate) fn start(scratch: &Scratch, what: &str) -> Child {
    let mut command = scratch.command(std::env::current_exe().unwrap());
    let name = "work_killed::runs_the_work_that_another_test_requests";
    command.args(["--exact", name, "--nocapture", "--test-threads=1"]);
    command.env(REQUEST_VARIABLE, what).env(PLACE_VARIABLE, scratch.place());
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0).spawn().unwrap()
}

/// A repository whose agent has many changes, some of them uncommitted.
fn busy() -> (Scratch, Agent) {
    let scratch = repository();
    for number in 0..FILES {
        scratch.write(&format!("many/{number}.txt"), &format!("{number}\n").repeat(50));
    }
    scratch.commit("many");
    let agent = Agent::spawn(&scratch, "ag-1");
    for number in 0..FILES {
        match number % 3 {
            0 => agent.write(&format!("many/{number}.txt"), format!("new {number}\n").repeat(60)),
            1 => agent.write(&format!("added/{number}.txt"), "added\n".repeat(number)),
            _ => std::fs::remove_file(agent.worktree.join(format!("many/{number}.txt"))).unwrap(),
        }
        if number == FILES / 2 {
            agent.commit(&scratch, "half of it");
        }
    }
    scratch.write("theirs.txt", "theirs\n");
    scratch.commit("theirs");
    (scratch, agent)
}

/// The duration without a kill.
fn duration(what: &str) -> Duration {
    let (scratch, _agent) = busy();
    let begin = Instant::now();
    let output = start(&scratch, what).wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains(&format!("done: {what}")), "it has completed: {text}");
    begin.elapsed()
}

pub(crate) fn kill(child: &mut Child, whole_group: bool) {
    if whole_group {
        let group = format!("-{}", child.id());
        let status =
            Command::new("kill").args(["-KILL", "--", &group]).stderr(Stdio::null()).status();
        // It may have ended already.
        let _exit_code = status.unwrap();
    } else {
        child.kill().unwrap();
    }
    child.wait().unwrap();
}

/// A git that outlives its parent keeps the scratch directory; it is deleted when that git has ended.
pub(crate) fn recover_until_unchanged(scratch: &Scratch) -> Vec<PathBuf> {
    let mut remaining = Vec::new();
    for _ in 0..600 {
        let recovery = recover(&scratch.state(), &scratch.root()).unwrap();
        assert_eq!(recovery.failed, Vec::new(), "a checkout was not recovered");
        remaining = leftovers(scratch);
        if remaining.is_empty() {
            break;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    remaining
}

pub(crate) fn micros(count: usize) -> Duration {
    Duration::from_micros(u64::try_from(count).unwrap())
}

fn wait_for(child: &mut Child, file: &Path) {
    while !file.exists() && child.try_wait().unwrap().is_none() {
        std::thread::yield_now();
    }
}

struct Before {
    old: String,
    wanted: Landing,
}

fn check(scratch: &Scratch, agent: &Agent, before: &Before, case: &str) -> bool {
    let git = |arguments: &[&str]| scratch.git(arguments).trim().to_owned();
    let current = git(&["rev-parse", "main"]);
    assert_eq!(git(&["status", "--porcelain", "--untracked-files=all"]), "", "{case}");
    if current == before.old {
        let landed = agent.work().land(&before.wanted).unwrap();
        assert_eq!(git(&["rev-parse", "main"]), landed.commit, "{case}: it can be repeated");
    }
    assert_eq!(git(&["rev-parse", "main^{tree}"]), before.wanted.tree, "{case}");
    assert_eq!(git(&["rev-parse", "main^1"]), before.old, "{case}");
    assert_eq!(git(&["status", "--porcelain", "--untracked-files=all"]), "", "{case}");
    current != before.old
}

#[test]
fn kill_at_any_moment_loses_no_work_and_leaves_no_files() {
    let mut random = Random::rotating("kills");
    let works = ["snapshot", "materialise", "land", "land", "land"];
    let durations: Vec<Duration> = works.iter().map(|what| duration(what)).collect();
    let (mut killed, mut moved, mut with_leftovers) = (0, 0, 0);
    let cases = Depth::from_env().cases(100);
    for number in 0..cases {
        let index = usize::try_from(number).unwrap() % works.len();
        let (what, duration) = (works.get(index).unwrap(), durations.get(index).unwrap());
        let (scratch, agent) = busy();
        let wanted = landing(&agent, Method::Merge);
        let before = Before { old: wanted.onto.to_string(), wanted };
        let state = worktree_state(&scratch, &agent);
        let mut child = start(&scratch, what);
        let delay = if index < 3 {
            micros(random.below(usize::try_from(duration.as_micros()).unwrap()))
        } else {
            // Within the few milliseconds in which the branch and the checkout move.
            wait_for(&mut child, &scratch.state().join("landings/ag-1.json"));
            micros(random.below(20_000))
        };
        std::thread::sleep(delay);
        killed += usize::from(child.try_wait().unwrap().is_none());
        let whole_group = random.once_in(2);
        kill(&mut child, whole_group);
        let case = format!("case {number}: {what} killed after {delay:?}, group {whole_group}");
        with_leftovers += usize::from(!leftovers(&scratch).is_empty());
        assert_eq!(recover_until_unchanged(&scratch), Vec::<PathBuf>::new(), "{case}");
        assert_eq!(
            worktree_state(&scratch, &agent),
            state,
            "{case}: the agent's worktree has changed"
        );
        moved += usize::from(check(&scratch, &agent, &before, &case));
        assert!(Path::new(&agent.worktree).exists());
    }
    bailiwick_testkit::figure(&format!(
        "{cases} kills at random moments of snapshot, tree and landing: {killed} met it at work, \
         {with_leftovers} left something behind, {moved} after the branch had moved; after recovery \
         nothing was left and every checkout was clean"
    ));
    assert!(killed > 0);
}
