//! References that an agent moves by plumbing are distinguished from those that others move.

use std::fs;

use bailiwick_lifecycle::ports::{Method, Work as _};
use bailiwick_memory::{CLAIMS_REF, ClaimTable, IssueMemory as _, SigningKey};
use bailiwick_source_control::git::{Git, Repository, retain_commit};
use bailiwick_source_control::issues::{LocalIssues, NewIssue};
use bailiwick_testkit::Scratch;

use crate::agent::{Agent, git_in, repository};
use crate::forge::block_on;
use crate::work_land::{land, landing};

fn counted(agent: &Agent) -> Vec<String> {
    let (base, snapshot) = agent.snapshot();
    agent.work().repository(&base, &snapshot).unwrap().references
}

fn none(agent: &Agent, what: &str) {
    assert_eq!(counted(agent), Vec::<String>::new(), "{what}");
}

/// A commit that is in no log of HEAD.
fn move_by_plumbing(scratch: &Scratch, agent: &Agent, parent: &str) -> String {
    let commit = ["commit-tree", "HEAD^{tree}", "-p", parent, "-m", "by plumbing"];
    agent.git(scratch, &commit).trim().to_owned()
}

#[test]
fn reference_moved_by_plumbing_counts() {
    let scratch = repository();
    let agent = Agent::spawn(&scratch, "ag-1");
    let commit = move_by_plumbing(&scratch, &agent, "HEAD");
    none(&agent, "no reference reaches it");
    agent.git(&scratch, &["tag", "harmless", "main"]);
    none(&agent, "nothing new is reached");
    agent.git(&scratch, &["update-ref", "refs/heads/side", &commit]);
    agent.git(&scratch, &["tag", "-a", "-m", "x", "v1", &commit]);
    assert_eq!(counted(&agent), ["refs/heads/side", "refs/tags/v1"]);
    agent.git(&scratch, &["update-ref", "-m", "commit: of a person", "refs/heads/main", &commit]);
    let expected = ["refs/heads/main", "refs/heads/side", "refs/tags/v1"];
    assert_eq!(counted(&agent), expected);
    // It is still the agent's commit if a person commits on top of it.
    scratch.write("more.txt", "more\n");
    scratch.commit("on top of it");
    assert_eq!(counted(&agent), expected);
}

#[test]
fn commit_that_was_fetched_for_another_run_does_not_count() {
    let scratch = repository();
    let agent = Agent::spawn(&scratch, "ag-1");
    let commit = move_by_plumbing(&scratch, &agent, "HEAD");
    let temporary = format!("refs/bailiwick/fetched/by-{}-3", std::process::id());
    scratch.git(&["update-ref", &temporary, &commit]);
    none(&agent, "a fetch is being done");
    scratch.git(&["update-ref", "refs/bailiwick/fetched/by-1-3", &commit]);
    assert_eq!(counted(&agent), ["refs/bailiwick/fetched/by-1-3"], "the process is not ours");
    scratch.git(&["update-ref", "-d", "refs/bailiwick/fetched/by-1-3"]);
    retain_commit(&Repository::discover(&scratch.root()).unwrap().git(), &commit).unwrap();
    none(&agent, "a fetch wrote the reference");
    // It permits no other reference, and no other name below its path.
    scratch.git(&["update-ref", "refs/bailiwick/fetched/other", &commit]);
    scratch.git(&["update-ref", "refs/heads/side", &commit]);
    assert_eq!(counted(&agent), ["refs/bailiwick/fetched/other", "refs/heads/side"]);
}

#[test]
fn removed_or_truncated_log_counts() {
    let scratch = repository();
    let agent = Agent::spawn(&scratch, "ag-1");
    let log = scratch.root().join(".git/worktrees/ag-1/logs/HEAD");
    let before = fs::read(&log).unwrap();
    assert!(!before.is_empty());
    agent.write("a", "a\n");
    agent.commit(&scratch, "mine");
    agent.git(&scratch, &["reset", "--quiet", "--hard", "main"]);
    none(&Agent::spawn(&scratch, "ag-2"), "another one sees nothing of it");
    fs::write(&log, &before).unwrap();
    none(&agent, "only the log had it");
    let expected = ["the log of HEAD in the worktree was removed or rewritten"];
    fs::write(&log, before.get(1..).unwrap()).unwrap();
    assert_eq!(counted(&agent), expected);
    fs::write(&log, "").unwrap();
    assert_eq!(counted(&agent), expected);
    fs::remove_file(&log).unwrap();
    assert_eq!(counted(&agent), expected);
}

#[test]
fn stash_counts_by_the_branch_it_was_created_on() {
    let scratch = repository();
    scratch.write("README.md", "before the spawn\n");
    scratch.git(&["stash", "--quiet"]);
    let agent = Agent::spawn(&scratch, "ag-1");
    scratch.write("README.md", "of a person\n");
    scratch.git(&["stash", "--quiet"]);
    scratch.write("README.md", "of a person\n");
    scratch.git(&["stash", "push", "--quiet", "-m", "with: a name"]);
    none(&agent, "stashed in the main checkout");
    agent.write("README.md", "of the agent\n");
    agent.git(&scratch, &["stash", "--quiet"]);
    assert_eq!(counted(&agent), ["refs/stash"]);
    scratch.write("README.md", "of a person, later\n");
    scratch.git(&["stash", "--quiet"]);
    assert_eq!(counted(&agent), ["refs/stash"], "it is still in the log");
    scratch.git(&["stash", "drop", "--quiet", "stash@{1}"]);
    none(&agent, "only those of the person are left");
    fs::remove_file(scratch.root().join(".git/logs/refs/stash")).unwrap();
    assert_eq!(counted(&agent), ["refs/stash"], "no log names its owner");
}

#[test]
fn commits_from_a_remote_or_another_checkout_do_not_count() {
    let scratch = repository();
    let agent = Agent::spawn(&scratch, "ag-1");
    let remote = scratch.place().join("remote");
    let (from, to) = (scratch.root(), remote.to_str().unwrap().to_owned());
    git_in(&scratch, scratch.place(), &["clone", "--quiet", from.to_str().unwrap(), &to]);
    let grow = |name: &str| {
        fs::write(remote.join(name), name).unwrap();
        git_in(&scratch, &remote, &["add", "."]);
        git_in(&scratch, &remote, &["commit", "--quiet", "-m", name]);
    };
    grow("one");
    scratch.git(&["fetch", "--quiet", &to, "main:pr-1"]);
    none(&agent, "fetched without a remote of any name");
    scratch.git(&["remote", "add", "origin", &to]);
    grow("two");
    scratch.git(&["fetch", "--quiet", "origin"]);
    scratch.git(&["branch", "theirs", "origin/main"]);
    none(&agent, "fetched");
    scratch.write("mine", "mine\n");
    scratch.commit("of the person");
    scratch.git(&["merge", "--quiet", "-m", "merge", "origin/main"]);
    scratch.git(&["tag", "-a", "-m", "v1", "v1"]);
    none(&agent, "merged");
    scratch.git(&["checkout", "--quiet", "-b", "topic", "HEAD~1"]);
    scratch.write("topic", "topic\n");
    scratch.commit("a topic");
    scratch.git(&["commit", "--quiet", "--amend", "-m", "the same, amended"]);
    scratch.git(&["rebase", "--quiet", "main"]);
    scratch.git(&["checkout", "--quiet", "main"]);
    none(&agent, "rebased");
    let linked = scratch.place().join("linked");
    scratch.git(&["worktree", "add", "--quiet", "-b", "linked", linked.to_str().unwrap()]);
    git_in(&scratch, &linked, &["commit", "--quiet", "--allow-empty", "-m", "there"]);
    none(&agent, "committed in another worktree");
    let commit = move_by_plumbing(&scratch, &agent, "HEAD");
    agent.git(&scratch, &["update-ref", "refs/heads/side", &commit]);
    assert_eq!(counted(&agent), ["refs/heads/side"], "it is reported for every agent");
}

#[test]
fn landings_of_other_agents_do_not_count() {
    let scratch = repository();
    let agent = Agent::spawn(&scratch, "ag-1");
    for (name, method) in
        [("ag-2", Method::Merge), ("ag-3", Method::Squash), ("ag-4", Method::Rebase)]
    {
        let other = Agent::spawn(&scratch, name);
        other.write(&format!("{name}.txt"), "committed\n");
        other.commit(&scratch, "of another agent");
        other.write(&format!("{name}-more.txt"), "not committed\n");
        let (_, snapshot) = other.snapshot();
        scratch.git(&["update-ref", &format!("refs/bailiwick/kept/{name}"), &snapshot.commit]);
        land(&other, &landing(&other, method)).unwrap();
        none(&agent, name);
        scratch.git(&["worktree", "remove", "--force", other.worktree.to_str().unwrap()]);
        none(&agent, "when its worktree is gone");
    }
    // Without our record, the agent could have created it.
    fs::remove_file(scratch.state().join("landed")).unwrap();
    assert_eq!(counted(&agent), ["refs/heads/main"]);
    let commit = move_by_plumbing(&scratch, &agent, "HEAD");
    agent.git(&scratch, &["update-ref", "refs/bailiwick/kept/ag-1", &commit]);
    agent.git(&scratch, &["update-ref", "refs/bailiwick/kept/nobody", &commit]);
    let found = counted(&agent);
    assert!(found.contains(&"refs/bailiwick/kept/ag-1".to_owned()), "{found:?}");
    assert!(found.contains(&"refs/bailiwick/kept/nobody".to_owned()), "{found:?}");
}

#[test]
fn landing_does_not_cover_the_commits_below_it() {
    let scratch = repository();
    let agent = Agent::spawn(&scratch, "ag-1");
    let other = Agent::spawn(&scratch, "ag-2");
    let commit = move_by_plumbing(&scratch, &agent, "HEAD");
    agent.git(&scratch, &["update-ref", "refs/heads/main", &commit]);
    other.write("other.txt", "other\n");
    land(&other, &landing(&other, Method::Merge)).unwrap();
    assert_eq!(counted(&agent), ["refs/heads/main"]);
}

#[test]
fn changes_of_issues_and_claims_do_not_count() {
    let scratch = repository();
    let agent = Agent::spawn(&scratch, "ag-1");
    let issues =
        LocalIssues::new(Git::at(scratch.root()), "ada", SigningKey::new(b"a secret")).unwrap();
    let new = NewIssue { title: "One".to_owned(), body: String::new(), labels: Vec::new() };
    let number = issues.open(&new).unwrap();
    let claims = ClaimTable::default().render();
    block_on(async {
        issues.post_comment(number, "words").await.unwrap();
        issues.swap_ref(CLAIMS_REF, None, &claims).await.unwrap();
    });
    let fetched = "refs/bailiwick/remotes/origin/issues/1";
    scratch.git(&["update-ref", fetched, "refs/bailiwick/issues/1"]);
    none(&agent, "they have no files");
    // The same commit permits no branch, and an operation on top of the agent's commit permits nothing.
    scratch.git(&["update-ref", "refs/heads/side", "refs/bailiwick/issues/1"]);
    let commit = move_by_plumbing(&scratch, &agent, "HEAD");
    scratch.git(&["update-ref", "refs/bailiwick/issues/2", &commit]);
    let tree = scratch.git(&["rev-parse", "refs/bailiwick/issues/1^{tree}"]);
    let message = scratch.git(&["log", "-1", "--format=%B", "refs/bailiwick/issues/1"]);
    let arguments = ["commit-tree", tree.trim(), "-p", &commit, "-m", message.trim()];
    let on_top = scratch.git(&arguments);
    scratch.git(&["update-ref", "refs/bailiwick/issues/3", on_top.trim()]);
    // Nor does an operation with files or another message.
    let arguments = ["commit-tree", "HEAD^{tree}", "-m", message.trim()];
    scratch.git(&["update-ref", "refs/bailiwick/issues/4", scratch.git(&arguments).trim()]);
    let arguments = ["commit-tree", tree.trim(), "-m", "words"];
    scratch.git(&["update-ref", "refs/bailiwick/issues/5", scratch.git(&arguments).trim()]);
    scratch.git(&["update-ref", "refs/bailiwick/claims", "refs/bailiwick/issues/1"]);
    let expected = [
        "refs/bailiwick/claims",
        "refs/bailiwick/issues/2",
        "refs/bailiwick/issues/3",
        "refs/bailiwick/issues/4",
        "refs/bailiwick/issues/5",
        "refs/heads/side",
    ];
    assert_eq!(counted(&agent), expected);
}
