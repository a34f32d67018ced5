//! An agent's changes to the repository are distinguished from those of others.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use bailiwick_lifecycle::ports::{Preparation, Work as _, Workspaces as _};
use bailiwick_testkit::Scratch;
use bailiwick_verify::facts::{Baseline, RepositoryFacts};

use crate::agent::{Agent, repository};
use crate::workspaces::{id, over};

/// A change of an agent to the configuration.
type Happening = fn(&Scratch, &Agent);

fn facts(agent: &Agent) -> RepositoryFacts {
    let (base, snapshot) = agent.snapshot();
    agent.work().repository(&base, &snapshot).unwrap()
}

fn record(scratch: &Scratch, agent: &Agent) -> std::path::PathBuf {
    scratch.state().join("runs").join(agent.id.as_str()).join("spawned.json")
}

#[test]
fn unchanged_repository_has_no_findings() {
    let scratch = repository();
    let agent = Agent::spawn(&scratch, "ag-1");
    agent.write("new.txt", "files are no matter of the repository\n");
    let facts = facts(&agent);
    assert_eq!(facts.baseline, Baseline::Spawn);
    assert!(!facts.head.is_changed() && !facts.commit.is_changed(), "{facts:?}");
    assert_eq!(facts.head.now.as_deref(), Some("refs/heads/agent/ag-1"));
    assert_eq!((facts.configuration, facts.hooks), (Some(false), Some(Vec::new())));
    assert!(facts.references.is_empty() && facts.commits.is_empty());
}

#[test]
fn changes_of_others_are_not_attributed_to_the_agent() {
    let scratch = repository();
    scratch.git(&["branch", "feature"]);
    let agent = Agent::spawn(&scratch, "ag-1");
    scratch.write("theirs.txt", "theirs\n");
    scratch.commit("theirs");
    scratch.git(&["tag", "v2"]);
    scratch.git(&["branch", "--force", "feature", "main"]);
    scratch.git(&["branch", "fresh"]);
    scratch.git(&["config", "branch.fresh.remote", "origin"]);
    scratch.git(&["update-ref", "refs/remotes/origin/main", "main"]);
    let other = Agent::spawn(&scratch, "ag-2");
    other.write("x", "x\n");
    other.commit(&scratch, "of another agent");
    let facts = facts(&agent);
    assert!(facts.references.is_empty() && facts.commits.is_empty(), "{facts:?}");
    assert_eq!((facts.configuration, facts.hooks), (Some(false), Some(Vec::new())));
    assert!(!facts.head.is_changed() && !facts.commit.is_changed());
}

#[test]
fn commits_of_the_base_are_not_attributed_to_the_agent() {
    let scratch = repository();
    let agent = Agent::spawn(&scratch, "ag-1");
    scratch.write("theirs.txt", "theirs\n");
    let theirs = scratch.commit("theirs");
    agent.git(&scratch, &["merge", "--quiet", "--ff-only", "main"]);
    let found = facts(&agent);
    assert_eq!(found.commits, Vec::<String>::new());
    assert_eq!(found.commit.now.as_deref(), Some(theirs.as_str()));
    agent.write("mine.txt", "mine\n");
    let mine = agent.commit(&scratch, "mine");
    scratch.write("theirs.txt", "more\n");
    scratch.commit("more of theirs");
    agent.git(&scratch, &["merge", "--quiet", "-m", "merge", "main"]);
    let merge = agent.git(&scratch, &["rev-parse", "HEAD"]).trim().to_owned();
    let mut found = facts(&agent).commits;
    found.sort_unstable();
    let mut expected = vec![mine, merge];
    expected.sort_unstable();
    assert_eq!(found, expected);
}

#[test]
fn discarded_commits_are_reported() {
    let scratch = repository();
    let agent = Agent::spawn(&scratch, "ag-1");
    agent.write("a", "a\n");
    let first = agent.commit(&scratch, "first of mine");
    agent.git(&scratch, &["commit", "--quiet", "--amend", "-m", "amended"]);
    let amended = agent.git(&scratch, &["rev-parse", "HEAD"]).trim().to_owned();
    agent.git(&scratch, &["reset", "--quiet", "--hard", "main"]);
    let facts = facts(&agent);
    let mut expected = vec![first, amended];
    expected.sort_unstable();
    let mut found = facts.commits.clone();
    found.sort_unstable();
    assert_eq!(found, expected, "the log of HEAD contains them");
    assert!(!facts.commit.is_changed() && facts.references.is_empty(), "{facts:?}");
}

#[test]
fn references_that_reach_a_commit_of_the_agent_are_reported() {
    let scratch = repository();
    scratch.git(&["branch", "feature"]);
    let agent = Agent::spawn(&scratch, "ag-1");
    agent.write("a", "a\n");
    let commit = agent.commit(&scratch, "mine");
    agent.git(&scratch, &["update-ref", "refs/heads/feature", &commit]);
    agent.git(&scratch, &["tag", "-a", "-m", "mine", "mine"]);
    agent.git(&scratch, &["update-ref", "refs/remotes/origin/pushed", &commit]);
    agent.git(&scratch, &["tag", "harmless", "main"]);
    let found = facts(&agent);
    assert_eq!(found.commits, std::slice::from_ref(&commit));
    let expected = [
        "refs/heads/agent/ag-1",
        "refs/heads/feature",
        "refs/remotes/origin/pushed",
        "refs/tags/mine",
    ];
    assert_eq!(found.references, expected);
    // Even the base branch, which then contains the commit.
    agent.git(&scratch, &["update-ref", "refs/heads/main", &commit]);
    let found = facts(&agent);
    assert_eq!(found.commits, [commit]);
    assert!(found.references.contains(&"refs/heads/main".to_owned()), "{found:?}");
}

#[test]
fn another_checked_out_branch_is_reported() {
    let scratch = repository();
    let agent = Agent::spawn(&scratch, "ag-1");
    agent.git(&scratch, &["checkout", "--quiet", "-b", "elsewhere"]);
    let found = facts(&agent);
    assert!(found.head.is_changed());
    assert_eq!(found.head.before.as_deref(), Some("refs/heads/agent/ag-1"));
    assert_eq!(found.head.now.as_deref(), Some("refs/heads/elsewhere"));
    agent.git(&scratch, &["checkout", "--quiet", "--detach"]);
    let found = facts(&agent);
    assert!(found.head.is_changed());
    assert!(found.head.now.as_deref().unwrap().starts_with("detached at "));
}

#[test]
fn configuration_changes_are_reported_from_every_file() {
    let place = |scratch: &Scratch, name: &str| scratch.root().join(".git").join(name);
    let changes: [(&str, Happening); 6] = [
        ("a setting", |scratch, _| drop(scratch.git(&["config", "core.fsmonitor", "evil"]))),
        ("a setting that is gone", |scratch, _| {
            drop(scratch.git(&["config", "--unset", "user.flag"]))
        }),
        ("a second value", |scratch, _| {
            drop(scratch.git(&["config", "--add", "user.flag", "two"]))
        }),
        ("a setting of the worktree", |scratch, agent| {
            scratch.git(&["config", "extensions.worktreeConfig", "true"]);
            agent.git(scratch, &["config", "--worktree", "alias.x", "!evil"]);
        }),
        ("an attribute", |scratch, _| {
            fs::write(scratch.root().join(".git/info/attributes"), "* filter=x\n").unwrap();
        }),
        ("an included file", |scratch, _| {
            fs::write(scratch.place().join("included"), "[alias]\n\ty = !evil\n").unwrap();
        }),
    ];
    for (what, change) in changes {
        let scratch = repository();
        let included = scratch.place().join("included");
        fs::write(&included, "[alias]\n\ty = log\n").unwrap();
        scratch.git(&["config", "include.path", included.to_str().unwrap()]);
        scratch.git(&["config", "user.flag", "one"]);
        fs::create_dir_all(place(&scratch, "info")).unwrap();
        let agent = Agent::spawn(&scratch, "ag-1");
        assert_eq!(facts(&agent).configuration, Some(false), "{what}");
        change(&scratch, &agent);
        assert_eq!(facts(&agent).configuration, Some(true), "{what}");
    }
}

#[test]
fn added_changed_and_removed_hooks_are_reported() {
    let scratch = repository();
    let hooks = scratch.root().join(".git/hooks");
    fs::create_dir_all(&hooks).unwrap();
    fs::write(hooks.join("pre-push"), "#!/bin/sh\n").unwrap();
    fs::write(hooks.join("post-merge"), "#!/bin/sh\n").unwrap();
    let committed = scratch.root().join(".husky");
    fs::create_dir_all(&committed).unwrap();
    fs::write(committed.join("pre-commit"), "#!/bin/sh\n").unwrap();
    scratch.git(&["config", "core.hooksPath", ".husky"]);
    let agent = Agent::spawn(&scratch, "ag-1");
    assert_eq!(facts(&agent).hooks, Some(Vec::new()));
    fs::write(hooks.join("pre-commit"), "#!/bin/sh\nevil\n").unwrap();
    fs::set_permissions(hooks.join("pre-push"), fs::Permissions::from_mode(0o755)).unwrap();
    fs::remove_file(hooks.join("post-merge")).unwrap();
    fs::write(committed.join("pre-commit"), "#!/bin/sh\nevil\n").unwrap();
    let expected = [
        ".git/hooks/post-merge",
        ".git/hooks/pre-commit",
        ".git/hooks/pre-push",
        ".husky/pre-commit",
    ];
    assert_eq!(facts(&agent).hooks.unwrap(), expected);
}

#[test]
fn without_a_record_the_merge_base_is_compared() {
    let scratch = repository();
    let agent = Agent::spawn(&scratch, "ag-1");
    fs::remove_file(record(&scratch, &agent)).unwrap();
    let found = facts(&agent);
    assert_eq!(found.baseline, Baseline::MergeBase);
    assert_eq!((found.configuration, found.hooks.clone(), &found.head.before), (None, None, &None));
    assert!(found.commits.is_empty() && found.references.is_empty(), "{found:?}");
    agent.write("a", "a\n");
    let commit = agent.commit(&scratch, "mine");
    agent.git(&scratch, &["tag", "mine"]);
    let found = facts(&agent);
    assert_eq!(found.commits, [commit]);
    assert_eq!(found.references, ["refs/heads/agent/ag-1", "refs/tags/mine"]);
}

#[test]
fn unreadable_record_is_an_error() {
    let scratch = repository();
    let agent = Agent::spawn(&scratch, "ag-1");
    fs::write(record(&scratch, &agent), "{\"base\": 3}").unwrap();
    let open = bailiwick_source_control::GitWork::open(
        &scratch.root(),
        &agent.worktree,
        &scratch.state(),
        &agent.id,
        None,
    );
    assert!(open.unwrap_err().to_string().contains("spawned.json cannot be read"));
}

#[test]
fn record_is_written_before_the_agent_runs() {
    let scratch = repository();
    let agent = id("ag-1");
    let workspaces = over(&scratch, scratch.state());
    let place = scratch.state().join("runs/ag-1/spawned.json");
    let _lock = workspaces.lock(&agent).unwrap();
    workspaces.add_worktree(&agent, "HEAD").unwrap();
    assert!(!place.exists());
    // Hooks that a setup installs belong to the person, also if the setup was repeated.
    let setup =
        |command: &str| Preparation { setup: vec![command.to_owned()], ..Preparation::default() };
    workspaces.make_ready(&agent, &setup("git config a.b first")).unwrap();
    let first = fs::read(&place).unwrap();
    fs::remove_file(scratch.state().join("runs/ag-1/ready")).unwrap();
    workspaces.make_ready(&agent, &setup("git config a.b second")).unwrap();
    let second = fs::read(&place).unwrap();
    assert_ne!(
        first, second,
        "the spawn was interrupted before the agent could start, and is recorded again"
    );
    scratch.git(&["config", "a.b", "third"]);
    workspaces.make_ready(&agent, &Preparation::default()).unwrap();
    assert_eq!(
        fs::read(&place).unwrap(),
        second,
        "an agent may have run: the record must not change"
    );
    fs::remove_dir_all(workspaces.worktree_path(&agent)).unwrap();
    workspaces.add_worktree(&agent, "HEAD").unwrap();
    assert!(!place.exists(), "the record belongs to the previous worktree");
}
