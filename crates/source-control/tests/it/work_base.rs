//! The branch to land on is found, and it is never the agent's own.

use bailiwick_lifecycle::ports::{Base, Preparation, Work as _, WorkError, Workspaces as _};
use bailiwick_model::CommitId;
use bailiwick_source_control::{GitWork, Repository, WorktreeWorkspaces};
use bailiwick_testkit::Scratch;

use crate::agent::{Agent, repository};

/// An agent without a spawn record.
fn without_record(scratch: &Scratch, agent: &Agent) {
    std::fs::remove_file(scratch.state().join("runs").join(agent.id.as_str()).join("spawned.json"))
        .unwrap();
}

fn base(agent: &Agent, named: Option<&str>) -> Result<Base, WorkError> {
    agent.work_on(named).base()
}

#[test]
fn named_base_comes_before_the_recorded_one() {
    let scratch = repository();
    scratch.git(&["branch", "develop"]);
    scratch.git(&["branch", "release"]);
    let agent = Agent::spawn_on(&scratch, "ag-1", "develop");
    let found = base(&agent, None).unwrap();
    assert_eq!(found.branch, "refs/heads/develop");
    assert_eq!(found.found, "recorded when the agent was spawned");
    scratch.git(&["checkout", "--quiet", "release"]);
    assert_eq!(base(&agent, None).unwrap().branch, "refs/heads/develop");
    for name in ["release", "refs/heads/release"] {
        let found = base(&agent, Some(name)).unwrap();
        assert_eq!(
            (found.branch.as_str(), found.found.as_str()),
            ("refs/heads/release", "given by --base")
        );
        assert_eq!(found.tip, scratch.git(&["rev-parse", "release"]).trim());
        assert_eq!(found.tree, scratch.git(&["rev-parse", "release^{tree}"]).trim());
    }
    let error = base(&agent, Some("no-such")).unwrap_err().to_string();
    assert!(error.contains("there is no branch no-such"), "{error}");
    scratch.git(&["branch", "--quiet", "-D", "develop"]);
    let error = base(&agent, None).unwrap_err().to_string();
    assert!(error.contains("refs/heads/develop") && error.contains("--base NAME"), "{error}");
}

#[test]
fn base_has_its_current_tip() {
    let scratch = repository();
    let agent = Agent::spawn(&scratch, "ag-1");
    let before = base(&agent, None).unwrap();
    scratch.write("more", "more\n");
    let commit = scratch.commit("more");
    let after = base(&agent, None).unwrap();
    assert_ne!(before.tip, after.tip);
    assert_eq!(after.tip, commit);
}

#[test]
fn remote_branch_means_the_local_branch_of_that_name() {
    let scratch = repository();
    scratch.git(&["branch", "topic"]);
    scratch.git(&["update-ref", "refs/remotes/origin/topic", "HEAD"]);
    let agent = Agent::spawn_on(&scratch, "ag-1", "origin/topic");
    assert_eq!(base(&agent, None).unwrap().branch, "refs/heads/topic");
    let agent = Agent::spawn_on(&scratch, "ag-2", "HEAD~0");
    assert_eq!(base(&agent, None).unwrap().branch, "refs/heads/main", "a commit names no branch");
}

#[test]
fn agent_spawned_from_a_worktree_lands_on_its_branch() {
    let scratch = repository();
    let linked = scratch.place().join("linked");
    scratch.git(&["worktree", "add", "--quiet", "-b", "topic", linked.to_str().unwrap()]);
    let repository = Repository::discover(&linked).unwrap();
    let workspaces = WorktreeWorkspaces::new(repository, scratch.state()).with_base("HEAD");
    let id = crate::workspaces::id("ag-1");
    workspaces.add_worktree(&id, "HEAD").unwrap();
    let _lock = workspaces.lock(&id).unwrap();
    workspaces.make_ready(&id, &Preparation::default()).unwrap();
    let worktree = workspaces.worktree_path(&id);
    let work = GitWork::open(&scratch.root(), &worktree, &scratch.state(), &id, None).unwrap();
    assert_eq!(work.base().unwrap().branch, "refs/heads/topic");
    let recorded = work.spawn_record().unwrap().base.clone().unwrap();
    assert_eq!(recorded.found, "checked out where the agent was spawned");
}

#[test]
fn without_a_record_the_base_is_the_branch_of_the_main_checkout() {
    let scratch = repository();
    scratch.git(&["checkout", "--quiet", "-b", "somewhere/else"]);
    let agent = Agent::spawn(&scratch, "ag-1");
    without_record(&scratch, &agent);
    let found = base(&agent, None).unwrap();
    assert_eq!(found.branch, "refs/heads/somewhere/else");
    assert_eq!(found.found, "checked out in the main checkout");
    // The same from every directory of the repository.
    let work = GitWork::open(&agent.worktree, &agent.worktree, &scratch.state(), &agent.id, None);
    assert_eq!(work.unwrap().base().unwrap(), found);
}

#[test]
fn with_a_detached_checkout_the_remote_or_a_usual_name_is_used() {
    let scratch = repository();
    let agent = Agent::spawn(&scratch, "ag-1");
    without_record(&scratch, &agent);
    scratch.git(&["checkout", "--quiet", "--detach"]);
    let found = base(&agent, None).unwrap();
    assert_eq!(
        (found.branch.as_str(), found.found.as_str()),
        ("refs/heads/main", "the only branch with a usual name")
    );
    scratch.git(&["branch", "master"]);
    let error = base(&agent, None).unwrap_err().to_string();
    assert!(error.contains("--base NAME"), "two branches are possible: {error}");
    scratch.git(&["branch", "stem"]);
    scratch.git(&["update-ref", "refs/remotes/origin/stem", "HEAD"]);
    scratch.git(&["symbolic-ref", "refs/remotes/origin/HEAD", "refs/remotes/origin/stem"]);
    let found = base(&agent, None).unwrap();
    assert_eq!(
        (found.branch.as_str(), found.found.as_str()),
        ("refs/heads/stem", "the default branch of origin")
    );
    scratch.git(&["branch", "--quiet", "-D", "stem", "master", "main"]);
    scratch.git(&["branch", "odd"]);
    assert!(base(&agent, None).is_err());
    scratch.git(&["config", "init.defaultBranch", "odd"]);
    assert_eq!(base(&agent, None).unwrap().branch, "refs/heads/odd");
}

#[test]
fn own_branch_of_the_agent_is_never_its_base() {
    let scratch = repository();
    let agent = Agent::spawn(&scratch, "ag-1");
    let error = base(&agent, Some("agent/ag-1")).unwrap_err().to_string();
    assert!(error.contains("the agent's own branch"), "{error}");
    // Nor any branch that it checks out, even if the record names it.
    agent.git(&scratch, &["checkout", "--quiet", "--ignore-other-worktrees", "main"]);
    for named in [None, Some("main")] {
        let error = base(&agent, named).unwrap_err().to_string();
        assert!(error.contains("own branch"), "{error}");
    }
    without_record(&scratch, &agent);
    assert!(base(&agent, None).is_err());
    agent.git(&scratch, &["checkout", "--quiet", "agent/ag-1"]);
    assert_eq!(base(&agent, None).unwrap().branch, "refs/heads/main");
}

#[test]
fn bare_repository_has_a_base() {
    let scratch = repository();
    let bare = scratch.place().join("bare.git");
    let worktree = scratch.place().join("linked");
    scratch.git(&["clone", "--quiet", "--bare", ".", bare.to_str().unwrap()]);
    let git = |arguments: &[&str]| crate::agent::git_in(&scratch, &bare, arguments);
    git(&["worktree", "add", "--quiet", "-b", "agent/ag-1", worktree.to_str().unwrap()]);
    let id = crate::workspaces::id("ag-1");
    let work = GitWork::open(&bare, &worktree, &scratch.state(), &id, None).unwrap();
    assert_eq!(work.base().unwrap().branch, "refs/heads/main");
}

#[test]
fn worktree_of_another_repository_is_refused() {
    let scratch = repository();
    let agent = Agent::spawn(&scratch, "ag-1");
    let other = Agent::spawn(&scratch, "ag-2");
    let open =
        || GitWork::open(&scratch.root(), &agent.worktree, &scratch.state(), &agent.id, None);
    assert!(open().is_ok());
    let git = agent.worktree.join(".git");
    let git_file = std::fs::read(&git).unwrap();
    std::fs::copy(other.worktree.join(".git"), &git).unwrap();
    let error = open().unwrap_err().to_string();
    assert!(error.contains("its .git points to"), "{error}");
    std::fs::remove_file(&git).unwrap();
    assert!(open().is_err(), "the surrounding repository was used");
    crate::agent::git_in(&scratch, &agent.worktree, &["init", "--quiet"]);
    assert!(open().is_err());
    std::fs::remove_dir_all(&git).unwrap();
    std::os::unix::fs::symlink(scratch.root().join(".git"), &git).unwrap();
    assert!(open().is_err());
    std::fs::remove_file(&git).unwrap();
    std::fs::write(&git, git_file).unwrap();
    assert!(open().is_ok());
    let missing = GitWork::open(
        &scratch.root(),
        &scratch.place().join("gone"),
        &scratch.state(),
        &agent.id,
        None,
    );
    assert!(missing.is_err());
}

#[test]
fn commits_of_the_work_have_their_parents() {
    let scratch = repository();
    let agent = Agent::spawn(&scratch, "ag-1");
    assert_eq!(agent.work().commits(&agent.snapshot().1).unwrap(), []);
    agent.write("a", "a\n");
    let first = agent.commit(&scratch, "first");
    let second = agent.commit(&scratch, "second");
    let (base, snapshot) = agent.snapshot();
    let commits: Vec<(CommitId, Vec<CommitId>)> = agent
        .work()
        .commits(&snapshot)
        .unwrap()
        .into_iter()
        .map(|commit| (commit.name, commit.parents))
        .collect();
    let (first, second) = (CommitId::new(first), CommitId::new(second));
    assert_eq!(commits, [(second, vec![first.clone()]), (first, vec![base.tip])]);
}
