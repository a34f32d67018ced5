//! Killed at any moment, a verification or a landing leaves the base at the old or the new commit, the
//! agent's worktree as it was, and nothing behind once the next one has run.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bailiwick_testkit::random::Random;
use bailiwick_testkit::{Depth, figure};

use crate::BAILIWICK;
use crate::verify::{Place, toolchains};

const TASK: &str = "[scope]\nfiles-whitelist = [\"src/**\"]\n[verification]\ncommands = [\"test ! -f src/bad && sleep 0.02\"]\n[body]\ntext = \"Add b\"\n";

#[test]
fn a_kill_at_any_moment_loses_nothing_and_leaves_nothing() {
    let mut random = Random::rotating("kills");
    let kills = Depth::from_env().cases(100);
    let (mut before, mut after, mut finished) = (0, 0, 0);
    let mut done = 0;
    let mut longest = uninterrupted();
    while done < kills {
        let (place, old) = ready();
        let work = everything(&place.worktree("one"));
        for _ in 0..5 {
            let verb = if random.once_in(2) { "verify" } else { "land" };
            let more: &[&str] = if verb == "verify" { &["--fresh"] } else { &[] };
            let within = usize::try_from(longest.as_millis()).unwrap();
            let moment = Duration::from_millis(u64::try_from(random.below(within)).unwrap());
            let ended = killed(&place, &[&[verb, "one"], more].concat(), moment);
            // Where it is never cut short, or always, the machine is busier or idler than it was.
            longest = if ended { longest.mul_f64(0.97) } else { longest.mul_f64(1.03) };
            done += u64::from(!ended);
            finished += u64::from(ended);
            let main = place.scratch.git(&["rev-parse", "main"]).trim().to_owned();
            let landed = main != old;
            if landed {
                let parent = place.scratch.git(&["rev-parse", "main^1"]).trim().to_owned();
                assert_eq!(parent, old, "the base is the old commit or the one on it");
                assert_eq!(place.scratch.git(&["show", "main:src/b.txt"]), "b\n");
            }
            assert_eq!(everything(&place.worktree("one")), work, "{verb} after {moment:?}");
            if landed {
                after += 1;
                break;
            }
            before += 1;
        }
        // The next start tidies up, and the ledger can be brought to what has happened.
        let landed = place.scratch.git(&["rev-parse", "main"]).trim() != old;
        let next = place.bailiwick(&["verify", "one", "--fresh"]);
        assert!(next.code == 0 || landed, "{}{}", next.out, next.err);
        assert_eq!(place.scratch.git(&["status", "--porcelain"]), "", "the checkout follows");
        nothing_left(&place);
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
        "kills of verify and land: {done}, base old {before} times and new {after} times, {finished} \
         had ended before the kill"
    ));
}

/// A repository whose base has moved, with work that can land; and the base.
fn ready() -> (Place, String) {
    let capabilities = ["scope::files-whitelist", "quality::commands-green"];
    let files = [("src/a.txt", "a\n"), (".gitignore", "tasks/\n")];
    let place = Place::new(&capabilities, TASK, &files).spawn("one");
    place.work("one", "src/b.txt", "b\n");
    place.scratch.write("src/c.txt", "c\n");
    let old = place.scratch.commit("meanwhile");
    (place, old)
}

/// A little more than a landing takes that nobody kills.
fn uninterrupted() -> Duration {
    let (place, _) = ready();
    let begin = std::time::Instant::now();
    place.bailiwick(&["land", "one"]).expect_code(0);
    begin.elapsed().mul_f64(1.1)
}

/// Starts a program of ours and kills it; whether it had ended by itself.
fn killed(place: &Place, arguments: &[&str], moment: Duration) -> bool {
    let mut command = place.scratch.command(BAILIWICK);
    toolchains(&mut command);
    command.args(arguments).stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null());
    let mut child = command.spawn().unwrap();
    std::thread::sleep(moment);
    let ended = child.try_wait().unwrap().is_some();
    let _ = child.kill();
    child.wait().unwrap();
    // A git that was cut off from us may still be writing its last object.
    std::thread::sleep(Duration::from_millis(60));
    ended
}

/// Every file with its content and time, and the index.
fn everything(worktree: &Path) -> BTreeMap<PathBuf, (Vec<u8>, std::time::SystemTime)> {
    let mut found = BTreeMap::new();
    let mut left = vec![worktree.to_path_buf()];
    while let Some(directory) = left.pop() {
        for entry in std::fs::read_dir(&directory).unwrap().flatten() {
            let path = entry.path();
            if path.is_dir() {
                left.push(path);
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

/// No tree, journal, temporary directory, worktree or reference that was not there.
fn nothing_left(place: &Place) {
    let state = place.scratch.state();
    let mut left = vec![state.join("caches"), state.join("landings"), state.join("work")];
    while let Some(directory) = left.pop() {
        for entry in std::fs::read_dir(&directory).into_iter().flatten().flatten() {
            let path = entry.path();
            let name = entry.file_name().to_string_lossy().into_owned();
            if name == "tree" {
                let empty = std::fs::read_dir(&path).unwrap().next().is_none();
                assert!(empty, "{} is left", path.display());
            } else if path.parent() == Some(&state.join("landings")) && name != "lock" {
                panic!("{} is left", path.display());
            } else if path.is_dir() && name != "target" {
                left.push(path);
            }
        }
    }
    let worktrees = place.scratch.git(&["worktree", "list", "--porcelain"]);
    assert_eq!(worktrees.matches("worktree ").count(), 2, "{worktrees}");
    let references = place.scratch.git(&["for-each-ref", "--format=%(refname)"]);
    let references: Vec<&str> = references.lines().collect();
    assert_eq!(references, ["refs/heads/agent/one", "refs/heads/main"]);
}
