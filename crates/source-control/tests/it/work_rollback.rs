//! Rolling back landings.

use bailiwick_lifecycle::ports::{Landing, Merge, Method, Work as _};
use bailiwick_model::CommitId;
use bailiwick_testkit::Scratch;

use crate::agent::{Agent, git_in, repository};
use crate::work_land::landing;

/// An agent that changed two files in two commits and has landed.
fn landed(scratch: &Scratch, method: Method) -> (Agent, Landing, CommitId) {
    let agent = Agent::spawn(scratch, "ag-1");
    agent.write("src/lib.rs", "fn one() {}\n");
    agent.commit(scratch, "first of mine");
    agent.write("new.txt", "new\n");
    agent.commit(scratch, "second of mine");
    scratch.write("theirs.txt", "theirs\n");
    scratch.commit("theirs");
    let wanted = landing(&agent, method);
    let commit = agent.work().land(&wanted).unwrap().commit;
    (agent, wanted, commit)
}

#[test]
fn every_landing_can_be_rolled_back_after_later_commits() {
    for method in [Method::Merge, Method::Squash, Method::Rebase] {
        let scratch = repository();
        let (agent, wanted, commit) = landed(&scratch, method);
        scratch.write("README.md", "later\n");
        let tip = CommitId::new(scratch.commit("later"));
        let work = agent.work();
        let before = (method == Method::Rebase).then_some(&wanted.onto);
        let plan = work.plan_rollback(&commit, before, &tip).unwrap();
        assert_eq!(plan.before, wanted.onto, "{method:?}");
        let Merge::Clean { tree } = plan.merge else { panic!("{plan:?}") };
        // The result of `git revert`.
        let clone = scratch.place().join("clone");
        let root = scratch.root();
        scratch.git(&["clone", "--quiet", root.to_str().unwrap(), clone.to_str().unwrap()]);
        let range = format!("{}..{commit}", wanted.onto);
        let revert: &[&str] = match method {
            Method::Merge => &["revert", "--no-edit", "-m", "1", &commit],
            Method::Squash => &["revert", "--no-edit", &commit],
            Method::Rebase => &["revert", "--no-edit", &range],
        };
        git_in(&scratch, &clone, revert);
        assert_eq!(
            git_in(&scratch, &clone, &["rev-parse", "HEAD^{tree}"]).trim(),
            tree.as_str(),
            "{method:?}"
        );
        let (base, snapshot) = agent.snapshot();
        let rollback = Landing {
            agent: wanted.agent.clone(),
            branch: base.branch,
            expected: Some(tip.clone()),
            onto: tip,
            work: snapshot,
            tree: tree.clone(),
            method: Method::Squash,
            message: "Take it back".to_owned(),
        };
        work.land(&rollback).unwrap();
        assert_eq!(scratch.git(&["rev-parse", "main^{tree}"]).trim(), tree.as_str());
        assert_eq!(scratch.git(&["status", "--porcelain"]), "");
        assert_eq!(scratch.read("README.md"), "later\n");
        assert!(!scratch.root().join("new.txt").exists());
    }
}

#[test]
fn rollback_can_conflict_with_later_commits() {
    let scratch = repository();
    let (agent, _, commit) = landed(&scratch, Method::Squash);
    scratch.write("new.txt", "built upon\n");
    let tip = CommitId::new(scratch.commit("later"));
    let plan = agent.work().plan_rollback(&commit, None, &tip).unwrap();
    let Merge::Conflicts(conflicts) = plan.merge else { panic!("{plan:?}") };
    let paths: Vec<&str> = conflicts.iter().map(|conflict| conflict.path.as_str()).collect();
    assert_eq!(paths, ["new.txt"]);
}

#[test]
fn commit_that_is_not_in_the_branch_cannot_be_rolled_back() {
    let scratch = repository();
    let (agent, wanted, commit) = landed(&scratch, Method::Squash);
    let work = agent.work();
    let error = work.plan_rollback(&commit, None, &wanted.onto).unwrap_err().to_string();
    assert!(error.contains("does not contain it"), "{error}");
    let error = work.plan_rollback(&commit, Some(&wanted.work.commit), &commit).unwrap_err();
    assert!(error.to_string().contains("is not a descendant of"), "{error}");
}
