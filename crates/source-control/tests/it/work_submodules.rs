//! Changed submodules: the commit that one points to must be in a repository of the person.

use std::path::Path;
use std::process::Command;

use bailiwick_lifecycle::ports::Work as _;
use bailiwick_testkit::Scratch;

use crate::agent::{Agent, git_in, repository};

/// A commit in its own repository; returns its name.
fn commit_in(scratch: &Scratch, directory: &Path, text: &str) -> String {
    std::fs::create_dir_all(directory).unwrap();
    let git = |arguments: &[&str]| git_in(scratch, directory, arguments);
    if !directory.join(".git").exists() {
        git(&["init", "--quiet"]);
    }
    std::fs::write(directory.join("file"), text).unwrap();
    git(&["add", "file"]);
    git(&["-c", "user.name=a", "-c", "user.email=a@example.org", "commit", "--quiet", "-m", text]);
    git(&["rev-parse", "HEAD"]).trim().to_owned()
}

/// A repository whose submodule `lib` is at its first commit of two.
fn with_submodule() -> (Scratch, [String; 2]) {
    let scratch = repository();
    let library = scratch.place().join("library");
    let first = commit_in(&scratch, &library, "first");
    let second = commit_in(&scratch, &library, "second");
    let modules = scratch.root().join(".git/modules/lib");
    let cloned = Command::new("git")
        .args(["clone", "--quiet", "--bare"])
        .args([&library, &modules])
        .status()
        .unwrap();
    assert!(cloned.success());
    scratch.write(".gitmodules", "[submodule \"lib\"]\n\tpath = lib\n\turl = ../library\n");
    scratch.git(&["update-index", "--add", "--cacheinfo", &format!("160000,{first},lib")]);
    scratch.git(&["add", ".gitmodules"]);
    scratch.git(&["commit", "--quiet", "-m", "submodule"]);
    (scratch, [first, second])
}

fn checked(agent: &Agent) -> Result<(), String> {
    let (_, snapshot) = agent.snapshot();
    let changes = agent.work().changes(&snapshot.merge_base_tree, &snapshot.tree).unwrap();
    assert!(changes.iter().any(|change| change.path == "lib"), "{changes:?}");
    agent.work().require_submodule_commits(&changes).map_err(|error| error.to_string())
}

#[test]
fn commit_that_only_the_agent_has_is_refused() {
    let (scratch, [_, second]) = with_submodule();
    let agent = Agent::spawn(&scratch, "ag-1");
    let agents_commit = commit_in(&scratch, &agent.worktree.join("lib"), "made by the agent");
    let why = checked(&agent).unwrap_err();
    assert!(why.contains(&format!("the submodule lib points to {:.12}", agents_commit)), "{why}");
    assert!(why.contains("in no repository of yours"), "{why}");
    // The control: a commit that the person has.
    std::fs::remove_dir_all(agent.worktree.join("lib")).unwrap();
    std::fs::create_dir(agent.worktree.join("lib")).unwrap();
    let place = agent.worktree.join("lib");
    git_in(&scratch, &place, &["init", "--quiet"]);
    std::fs::write(place.join(".git/HEAD"), format!("{second}\n")).unwrap();
    checked(&agent).unwrap();
}
