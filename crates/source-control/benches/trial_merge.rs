//! The trial merge without checks, compared with a public implementation's method: a worktree of the base,
//! the agent's difference applied there, the worktree deleted. Ratios from one interleaved run, in a
//! repository of 10,000 files and 1,000 commits.

#![expect(clippy::expect_used, clippy::indexing_slicing, reason = "a benchmark panics on failure")]

use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use bailiwick_lifecycle::ports::{Base, Merge, Preparation, Snapshot, Work as _, Workspaces as _};
use bailiwick_model::{AgentId, TreeId};
use bailiwick_source_control::{GitWork, Repository, WorktreeWorkspaces};
use bailiwick_testkit::stopwatch::{median, ratio};
use bailiwick_testkit::{Scratch, figure};

const FILES: usize = 10_000;
const COMMITS: usize = 1_000;
const ROUNDS: usize = 15;

fn main() {
    let scratch = Scratch::repository();
    fill(&scratch);
    let (id, worktree) = spawn(&scratch);
    work(&scratch, &worktree);
    let (base, snapshot, tree) = ours(&scratch, &worktree, &id).0;
    assert!(base.tip != snapshot.merge_base, "the base must have moved");
    assert_ne!(tree, snapshot.tree, "the merge must be a real one");

    let mut times: [Vec<Duration>; 7] = Default::default();
    for _ in 0..ROUNDS {
        let begin = Instant::now();
        let ((_, _, repeated_tree), parts) = ours(&scratch, &worktree, &id);
        times[0].push(begin.elapsed());
        assert_eq!(repeated_tree, tree);
        for (part, time) in parts.into_iter().enumerate() {
            times[part + 1].push(time);
        }
        let begin = Instant::now();
        theirs(&scratch, &worktree);
        times[5].push(begin.elapsed());
        let begin = Instant::now();
        git_in(&scratch, &worktree, &["rev-parse", "HEAD"]);
        scratch.git(&["merge-tree", "--write-tree", &base.tip, &snapshot.commit]);
        times[6].push(begin.elapsed());
    }
    let medians = times.each_mut().map(|times| median(times));
    let [us, open, found, recorded, merged, them, plain] = medians;
    let part = |part: Duration| 100.0 * ratio(part, us);
    figure(&format!(
        "trial merge in a repository of {FILES} files and {COMMITS} commits: {:.1} × faster than a \
         worktree of the base with the difference applied; {:.1} × `git rev-parse` and `git \
         merge-tree` alone; of our time {:.0} % open, {:.0} % base, {:.0} % snapshot, {:.0} % merge \
         (medians of {ROUNDS} interleaved runs)",
        ratio(them, us),
        ratio(us, plain),
        part(open),
        part(found),
        part(recorded),
        part(merged),
    ));
    assert!(them > 5 * us, "at least five times faster: {them:?} against {us:?}");
}

/// A history written by `git fast-import`.
fn fill(scratch: &Scratch) {
    let mut stream = String::new();
    for commit in 0..COMMITS {
        let date = 1_700_000_000 + commit;
        let message = format!("commit {commit}");
        let _ = write!(
            stream,
            "commit refs/heads/main\ncommitter A <a@b> {date} +0000\ndata {}\n{message}\n",
            message.len()
        );
        let mut change = |file: usize| {
            let text = format!("file {file}\n").repeat(20) + &format!("changed by {commit}\n");
            let path = format!("area-{}/part-{}/file-{file}.rs", file % 20, file % 200);
            let _ = write!(stream, "M 100644 inline {path}\ndata {}\n{text}\n", text.len());
        };
        if commit == 0 {
            (0..FILES).for_each(&mut change);
        } else {
            (0..5).for_each(|number| change((commit * 37 + number * 101) % FILES));
        }
    }
    let mut import = scratch
        .command("git")
        .args(["fast-import", "--quiet"])
        .stdin(Stdio::piped())
        .spawn()
        .expect("git");
    import.stdin.take().expect("a pipe").write_all(stream.as_bytes()).expect("the stream");
    assert!(import.wait().expect("git").success());
    scratch.git(&["gc", "--quiet"]);
    scratch.git(&["checkout", "--quiet", "--force", "main"]);
}

fn spawn(scratch: &Scratch) -> (AgentId, PathBuf) {
    let repository = Repository::discover(&scratch.root()).expect("a repository");
    let workspaces = WorktreeWorkspaces::new(repository, scratch.state());
    let id = AgentId::parse("ag-1").expect("an id");
    let _lock = workspaces.lock(&id).expect("a lock");
    workspaces.add_worktree(&id, "HEAD~20").expect("a worktree");
    workspaces.make_ready(&id, &Preparation::default()).expect("a ready worktree");
    let worktree = workspaces.worktree_path(&id);
    (id, worktree)
}

/// Forty files changed and committed, forty more changed, ten new.
fn work(scratch: &Scratch, worktree: &Path) {
    let change = |from: usize| {
        for file in (from..FILES).step_by(FILES / 40) {
            let path = format!("area-{}/part-{}/file-{file}.rs", file % 20, file % 200);
            let path = worktree.join(path);
            let text = fs::read_to_string(&path).expect("a file");
            fs::write(&path, format!("// by the agent\n{text}")).expect("a file");
        }
    };
    change(3);
    git_in(scratch, worktree, &["commit", "--quiet", "--all", "-m", "work"]);
    change(5);
    for number in 0..10 {
        fs::write(worktree.join(format!("new-{number}.rs")), "// new\n").expect("a file");
    }
}

type TrialMerge = (Base, Snapshot, TreeId);

fn ours(scratch: &Scratch, worktree: &Path, id: &AgentId) -> (TrialMerge, [Duration; 4]) {
    let mut begin = Instant::now();
    let mut lap = || std::mem::replace(&mut begin, Instant::now()).elapsed();
    let work = GitWork::open(&scratch.root(), worktree, &scratch.state(), id, None).expect("work");
    let open = lap();
    let base = work.base().expect("a base");
    let found = lap();
    let snapshot = work.snapshot(&base).expect("a snapshot");
    let recorded = lap();
    let merge = work.merge(&base, &snapshot).expect("a merge");
    let merged = lap();
    let Merge::Clean { tree } = merge else { unreachable_conflict() };
    ((base, snapshot, tree), [open, found, recorded, merged])
}

#[expect(clippy::panic, reason = "a benchmark panics on failure")]
fn unreachable_conflict() -> ! {
    panic!("the work of the benchmark must merge")
}

/// Like the public implementation. New files are left out, as they are there.
fn theirs(scratch: &Scratch, worktree: &Path) {
    let trial = scratch.place().join("trial");
    let shown = trial.to_str().expect("UTF-8");
    scratch.git(&["worktree", "add", "--quiet", "-b", "trial", shown, "main"]);
    let difference = git_in(scratch, worktree, &["diff", "main"]);
    let mut apply = scratch
        .command("git")
        .current_dir(&trial)
        .arg("apply")
        .stdin(Stdio::piped())
        .spawn()
        .expect("git");
    apply.stdin.take().expect("a pipe").write_all(difference.as_bytes()).expect("the difference");
    assert!(apply.wait().expect("git").success());
    scratch.git(&["worktree", "remove", "--force", shown]);
    scratch.git(&["branch", "--quiet", "-D", "trial"]);
}

fn git_in(scratch: &Scratch, directory: &Path, arguments: &[&str]) -> String {
    let output = scratch.command("git").current_dir(directory).args(arguments).output();
    let output = output.expect("git");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("UTF-8")
}
