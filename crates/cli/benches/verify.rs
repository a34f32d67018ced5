//! `bailiwick verify` of a tree that was checked before, on a repository of 10,000 files and 1,000
//! commits, beside what git alone takes: ratios from one interleaved run.

#![expect(clippy::expect_used, reason = "a benchmark that cannot do its work must stop")]

use std::fmt::Write as _;
use std::io::Write as _;
use std::process::Stdio;

use bailiwick_testkit::stopwatch::{median, ratio, time, time_line};
use bailiwick_testkit::{Scratch, figure};

const FILES: usize = 10_000;
const COMMITS: usize = 1_000;
const ROUNDS: usize = 40;
const ROLE: &str = "[role]\nname = \"worker\"\ndescription = \"d\"\n[capabilities]\nrequired = [\"scope::files-whitelist\", \"quality::commands-green\"]\n[tools]\nallowed = [\"*\"]\n";
const TASK: &str = "[task]\nrole = \"worker\"\n[scope]\nfiles-whitelist = [\"src/**\"]\n[verification]\ncommands = [\"true\"]\n";

fn main() {
    let scratch = Scratch::repository();
    fill(&scratch);
    let bailiwick = |arguments: &[&str]| {
        let mut command = scratch.command(env!("CARGO_BIN_EXE_bailiwick"));
        command.args(arguments);
        command
    };
    time(bailiwick(&["spawn", "task.toml", "--agent-id", "one", "--base", "HEAD~50"]));
    let worktree = scratch.state().join("worktrees/one");
    for number in 0..20 {
        std::fs::write(worktree.join(format!("src/d{number}/f7.txt")), "changed\n")
            .expect("a file");
    }
    std::fs::write(worktree.join("src/new.txt"), "new\n").expect("a file");
    time(bailiwick(&["verify", "one"]));
    let snapshot = scratch.place().join("index");
    let in_worktree = |arguments: &[&str]| {
        let mut command = scratch.command("git");
        command.arg("-C").arg(&worktree).args(arguments).env("GIT_INDEX_FILE", &snapshot);
        command
    };
    let index = scratch.git(&[
        "-C",
        worktree.to_str().expect("UTF-8"),
        "rev-parse",
        "--path-format=absolute",
        "--git-path",
        "index",
    ]);
    let (mut ours, mut least, mut whole) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        ours.push(time(bailiwick(&["verify", "one"])));
        // The same by git: the commit, a snapshot in an index of its own, the merge.
        std::fs::copy(index.trim(), &snapshot).expect("the index");
        let add = time(in_worktree(&["add", "--all"]));
        let (tree, write) = time_line(in_worktree(&["write-tree"]));
        let message = ["commit-tree", &tree, "-p", "HEAD", "-m", "work"];
        let (commit, record) = time_line(in_worktree(&message));
        let parse = time(in_worktree(&["rev-parse", "HEAD"]));
        let merge = time(in_worktree(&["merge-tree", "--write-tree", "main", &commit]));
        least.push(parse + merge);
        whole.push(parse + add + write + record + merge);
    }
    let (ours, least, whole) = (median(&mut ours), median(&mut least), median(&mut whole));
    figure(&format!(
        "verify of a tree that was checked before, {FILES} files and {COMMITS} commits: {:.2} × `git \
         rev-parse` and the trial merge by git (snapshot and `merge-tree`), {:.2} × `git rev-parse` \
         and `git merge-tree` alone (medians of {ROUNDS} interleaved runs)",
        ratio(ours, whole),
        ratio(ours, least),
    ));
}

/// A repository of that size, written by `git fast-import`.
fn fill(scratch: &Scratch) {
    let mut stream = String::new();
    let commit = |stream: &mut String, number: usize| {
        let message = format!("commit {number}");
        let time = 1_700_000_000 + number;
        let _ = write!(
            stream,
            "commit refs/heads/main\ncommitter A Person <person@example.org> {time} +0000\ndata \
             {}\n{message}\n",
            message.len()
        );
    };
    let file = |stream: &mut String, path: &str, text: &str| {
        let _ = write!(stream, "M 100644 inline {path}\ndata {}\n{text}\n", text.len());
    };
    commit(&mut stream, 0);
    file(&mut stream, ".bailiwick/roles/worker.toml", ROLE);
    file(&mut stream, "task.toml", TASK);
    for number in 0..FILES {
        let path = format!("src/d{}/f{}.txt", number / 100, number % 100);
        file(&mut stream, &path, &format!("file {number}\n").repeat(20));
    }
    for number in 1..COMMITS {
        commit(&mut stream, number);
        let path = format!("src/d{}/f{}.txt", number % 100, number % 89);
        file(&mut stream, &path, &format!("commit {number}\n").repeat(20));
    }
    let mut import = scratch.command("git");
    import.args(["fast-import", "--quiet"]).stdin(Stdio::piped());
    let mut import = import.spawn().expect("git fast-import");
    import.stdin.take().expect("a pipe").write_all(stream.as_bytes()).expect("a stream");
    assert!(import.wait().expect("git fast-import").success());
    scratch.git(&["reset", "--quiet", "--hard", "main"]);
    scratch.git(&["gc", "--quiet"]);
}
