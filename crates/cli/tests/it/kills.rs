//! A verification or a landing that is killed at any moment leaves the base at the old or the new commit and
//! the agent's worktree unchanged. The next one removes everything else.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bailiwick_testkit::random::Random;
use bailiwick_testkit::{Depth, figure};

use crate::BAILIWICK;
use crate::verify::{Place, toolchains};

const TASK: &str = "[scope]\nfiles-whitelist = [\"src/**\"]\n[verification]\ncommands = [\"test ! -f src/bad && sleep 0.02\"]\n[body]\ntext = \"Add b\"\n";

#[test]
fn random_kills_lose_nothing_and_leave_nothing() {
    let mut random = Random::rotating("kills");
    let kills = Depth::from_env().cases(100);
    let (mut before, mut after, mut finished) = (0, 0, 0);
    let mut kill_count = 0;
    let mut max_delay = landing_time();
    while kill_count < kills {
        let (place, old) = place_with_work();
        let work = files_and_index(&place.worktree("one"));
        for _ in 0..5 {
            let verb = if random.once_in(2) { "verify" } else { "land" };
            let extra: &[&str] = if verb == "verify" { &["--fresh"] } else { &[] };
            let max_millis = usize::try_from(max_delay.as_millis()).unwrap();
            let moment = Duration::from_millis(u64::try_from(random.below(max_millis)).unwrap());
            let has_ended = run_and_kill(&place, &[&[verb, "one"], extra].concat(), moment);
            // The delay is adapted to the speed of the machine, so that the kills hit all steps.
            max_delay = if has_ended { max_delay.mul_f64(0.97) } else { max_delay.mul_f64(1.03) };
            kill_count += u64::from(!has_ended);
            finished += u64::from(has_ended);
            let main = place.scratch.git(&["rev-parse", "main"]).trim().to_owned();
            let landed = main != old;
            if landed {
                let parent = place.scratch.git(&["rev-parse", "main^1"]).trim().to_owned();
                assert_eq!(parent, old, "the base is neither the old commit nor its child");
                assert_eq!(place.scratch.git(&["show", "main:src/b.txt"]), "b\n");
            }
            assert_eq!(files_and_index(&place.worktree("one")), work, "{verb} after {moment:?}");
            if landed {
                after += 1;
                break;
            }
            before += 1;
        }
        // The next command cleans up, and the ledger can be corrected.
        let landed = place.scratch.git(&["rev-parse", "main"]).trim() != old;
        let next = place.bailiwick(&["verify", "one", "--fresh"]);
        assert!(next.code == 0 || landed, "{}{}", next.out, next.err);
        assert_eq!(place.scratch.git(&["status", "--porcelain"]), "", "the checkout has changes");
        expect_nothing_left(&place);
        let listed = place.bailiwick(&["ledger", "list", "--status", "merged"]).out;
        if !listed.contains("one") {
            let landed = place.bailiwick(&["land", "one"]).expect_code(0);
            assert!(landed.out.contains("landed    one as"), "{}", landed.out);
        }
        let listed = place.bailiwick(&["ledger", "list", "--status", "merged"]).out;
        assert!(listed.contains("one"), "{listed}");
        assert_eq!(place.scratch.git(&["show", "main:src/b.txt"]), "b\n");
        assert_eq!(place.scratch.git(&["show", "main:src/c.txt"]), "c\n");
        place.scratch.git(&["fsck", "--strict"]);
    }
    figure(&format!(
        "kills of verify and land: {kill_count}, base old {before} times and new {after} times, {finished} \
         had ended before the kill"
    ));
}

/// A repository with work that can land on a changed base, and the base commit.
fn place_with_work() -> (Place, String) {
    let capabilities = ["scope::files-whitelist", "quality::commands-green"];
    let files = [("src/a.txt", "a\n"), (".gitignore", "tasks/\n")];
    let place = Place::new(&capabilities, TASK, &files).spawn("one");
    place.work("one", "src/b.txt", "b\n");
    place.scratch.write("src/c.txt", "c\n");
    let old = place.scratch.commit("meanwhile");
    (place, old)
}

/// The time of a landing without a kill, plus 10 %.
fn landing_time() -> Duration {
    let (place, _) = place_with_work();
    let started = std::time::Instant::now();
    place.bailiwick(&["land", "one"]).expect_code(0);
    started.elapsed().mul_f64(1.1)
}

/// Starts a command and kills it after a delay. Returns whether it had already ended.
fn run_and_kill(place: &Place, arguments: &[&str], moment: Duration) -> bool {
    let mut command = place.scratch.command(BAILIWICK);
    toolchains(&mut command);
    command.args(arguments).stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null());
    let mut child = command.spawn().unwrap();
    std::thread::sleep(moment);
    let has_ended = child.try_wait().unwrap().is_some();
    let _ = child.kill();
    child.wait().unwrap();
    // A git child process may still be writing its last object.
    std::thread::sleep(Duration::from_millis(60));
    has_ended
}

/// All files with their content and modification time, and the index.
fn files_and_index(worktree: &Path) -> BTreeMap<PathBuf, (Vec<u8>, std::time::SystemTime)> {
    let mut found = BTreeMap::new();
    let mut directories = vec![worktree.to_path_buf()];
    while let Some(directory) = directories.pop() {
        for entry in std::fs::read_dir(&directory).unwrap().flatten() {
            let path = entry.path();
            if path.is_dir() {
                directories.push(path);
            } else {
                let modified = entry.metadata().unwrap().modified().unwrap();
                found.insert(path.clone(), (std::fs::read(&path).unwrap(), modified));
            }
        }
    }
    let git = std::fs::read_to_string(worktree.join(".git")).unwrap();
    let index = Path::new(git.trim().strip_prefix("gitdir: ").unwrap()).join("index");
    let modified = std::fs::metadata(&index).unwrap().modified().unwrap();
    found.insert(index.clone(), (std::fs::read(&index).unwrap(), modified));
    found
}

/// Asserts that no tree, journal, temporary directory, worktree or reference is left.
fn expect_nothing_left(place: &Place) {
    let state = place.scratch.state();
    let mut directories = vec![state.join("caches"), state.join("landings"), state.join("work")];
    while let Some(directory) = directories.pop() {
        for entry in std::fs::read_dir(&directory).into_iter().flatten().flatten() {
            let path = entry.path();
            let name = entry.file_name().to_string_lossy().into_owned();
            if name == "tree" {
                let empty = std::fs::read_dir(&path).unwrap().next().is_none();
                assert!(empty, "{} is left", path.display());
            } else if path.parent() == Some(&state.join("landings")) && name != "lock" {
                panic!("{} is left", path.display());
            } else if path.is_dir() && name != "target" {
                directories.push(path);
            }
        }
    }
    let worktrees = place.scratch.git(&["worktree", "list", "--porcelain"]);
    assert_eq!(worktrees.matches("worktree ").count(), 2, "{worktrees}");
    let references = place.scratch.git(&["for-each-ref", "--format=%(refname)"]);
    let references: Vec<&str> = references.lines().collect();
    assert_eq!(references, ["refs/heads/agent/one", "refs/heads/main"]);
}
