//! Landing: the branch gets exactly the verified tree, or stays unchanged.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use bailiwick_lifecycle::ports::{
    Base, LandError, Landed, Landing, Merge, Method, Snapshot, Work as _,
};
use bailiwick_model::TreeId;
use bailiwick_testkit::Scratch;

use crate::agent::{Agent, git_in, repository};
use crate::work_land_refused::refused;

/// What an agent would land on the current base.
pub(crate) fn verified(agent: &Agent) -> (Base, Snapshot, TreeId) {
    let (base, snapshot) = agent.snapshot();
    match agent.work().merge(&base, &snapshot).unwrap() {
        Merge::Clean { tree } => (base, snapshot, tree),
        Merge::Conflicts(conflicts) => panic!("{conflicts:?}"),
    }
}

pub(crate) fn landing(agent: &Agent, method: Method) -> Landing {
    let (base, work, tree) = verified(agent);
    Landing {
        agent: agent.id.to_string(),
        branch: base.branch,
        expected: Some(base.tip.clone()),
        onto: base.tip,
        work,
        tree,
        method,
        message: format!("Land {}\n\nVerified-by: test\n", agent.id),
    }
}

pub(crate) fn land(agent: &Agent, landing: &Landing) -> Result<Landed, LandError> {
    agent.work().land(landing)
}

pub(crate) fn tip(scratch: &Scratch) -> String {
    scratch.git(&["rev-parse", "main"]).trim().to_owned()
}

pub(crate) fn tree(scratch: &Scratch, revision: &str) -> String {
    scratch.git(&["rev-parse", &format!("{revision}^{{tree}}")]).trim().to_owned()
}

pub(crate) fn status(scratch: &Scratch) -> String {
    scratch.git(&["status", "--porcelain", "--untracked-files=all"])
}

#[test]
fn every_method_lands_the_verified_tree_and_leaves_a_clean_checkout() {
    for method in [Method::Merge, Method::Squash, Method::Rebase] {
        let scratch = repository();
        let agent = Agent::spawn(&scratch, "ag-1");
        agent.write("src/lib.rs", "fn one() {}\n");
        agent.commit(&scratch, "Shorten");
        agent.write("new.txt", "new\n");
        scratch.write("other.txt", "other\n");
        let before = scratch.commit("Meanwhile");
        let wanted = landing(&agent, method);
        let landed = land(&agent, &wanted).unwrap();
        assert_eq!(tip(&scratch), landed.commit, "{method:?}");
        assert_eq!(tree(&scratch, "main"), wanted.tree, "{method:?}");
        assert_eq!(status(&scratch), "", "{method:?}");
        assert_eq!(scratch.read("new.txt"), "new\n");
        assert_eq!(landed.checkouts, [scratch.root().canonicalize().unwrap()]);
        let log = scratch.git(&["log", "--format=%s", &format!("{before}..main")]);
        let expected = match method {
            Method::Merge => "Land ag-1\nLand ag-1\nShorten\n",
            Method::Squash => "Land ag-1\n",
            Method::Rebase => "Land ag-1\nShorten\n",
        };
        assert_eq!(log, expected);
    }
}

#[test]
fn work_without_commits_lands_as_one_commit() {
    for (method, base_moves) in [Method::Merge, Method::Squash, Method::Rebase]
        .into_iter()
        .flat_map(|m| [(m, false), (m, true)])
    {
        let scratch = repository();
        let agent = Agent::spawn(&scratch, "ag-1");
        agent.write("new.txt", "new\n");
        if base_moves {
            scratch.write("other.txt", "other\n");
            scratch.commit("Meanwhile");
        }
        let before = tip(&scratch);
        let wanted = landing(&agent, method);
        land(&agent, &wanted).unwrap();
        assert_eq!(tree(&scratch, "main"), wanted.tree, "{method:?}");
        let log = scratch.git(&["log", "--format=%P %s", &format!("{before}..main")]);
        assert_eq!(log, format!("{before} Land ag-1\n"), "{method:?}");
    }
}

/// An agent that has changed a file, added one, and removed one.
pub(crate) fn ready(scratch: &Scratch) -> (Agent, Landing) {
    let agent = Agent::spawn(scratch, "ag-1");
    agent.write("src/lib.rs", "fn changed() {}\n");
    agent.write("new/file.txt", "new\n");
    fs::remove_file(agent.worktree.join("src/deep/er.rs")).unwrap();
    let wanted = landing(&agent, Method::Merge);
    (agent, wanted)
}

#[test]
fn branch_without_a_checkout_is_advanced() {
    let scratch = repository();
    let (agent, wanted) = ready(&scratch);
    scratch.git(&["checkout", "--quiet", "--detach"]);
    scratch.write("README.md", "changed by hand\n");
    let landed = land(&agent, &wanted).unwrap();
    assert_eq!((tip(&scratch), landed.checkouts.len()), (landed.commit.to_string(), 0));
    assert_eq!(status(&scratch), " M README.md\n");
    let log = scratch.git(&["reflog", "-1", "--format=%gs", "main"]);
    assert_eq!(log, "bailiwick: land\n");
}

#[test]
fn new_branch_is_created() {
    let scratch = repository();
    let (agent, mut wanted) = ready(&scratch);
    (wanted.branch, wanted.expected) = ("refs/heads/review/one".to_owned(), None);
    let main = tip(&scratch);
    let landed = land(&agent, &wanted).unwrap();
    assert_eq!(scratch.git(&["rev-parse", "review/one"]).trim(), landed.commit.as_str());
    assert_eq!(tree(&scratch, "review/one"), wanted.tree);
    assert_eq!((tip(&scratch), status(&scratch)), (main, String::new()));
    let error = land(&agent, &wanted).unwrap_err();
    assert!(matches!(error, LandError::Work(_)), "{error:?}");
    assert!(error.to_string().contains("a branch of that name already exists"), "{error}");
    scratch.git(&["tag", "v1"]);
    scratch.git(&["update-ref", "refs/remotes/origin/topic", "main"]);
    let object = format!("refs/heads/{}", "a".repeat(40));
    let before = scratch.git(&["for-each-ref"]);
    for name in [
        "review/two",
        "refs/heads/a..b",
        "refs/tags/x",
        "HEAD",
        "refs/heads/HEAD",
        "refs/heads/@",
        "refs/heads/-x",
        "refs/heads/refs/heads/x",
        "refs/heads/",
        "refs/heads/v1",
        "refs/heads/origin/topic",
        "refs/heads/@{-1}",
        &object,
        "refs/heads/review/one/more",
    ] {
        wanted.branch = name.to_owned();
        assert!(matches!(land(&agent, &wanted), Err(LandError::Work(_))), "{name}");
        assert_eq!(scratch.git(&["for-each-ref"]), before, "{name}");
    }
}

#[test]
fn rebase_keeps_authors_and_messages_and_refuses_merges() {
    let scratch = repository();
    scratch.git(&["config", "user.name", "The Person"]);
    scratch.git(&["config", "user.email", "the@person"]);
    let agent = Agent::spawn(&scratch, "ag-1");
    for (name, text) in [("One", "größer\n\nlong text\n"), ("Two", "two")] {
        agent.write(name, text);
        agent.git(&scratch, &["add", "--all"]);
        let author = format!("{name} <{name}@example.org>");
        let date = "2001-02-03T04:05:06+0700";
        agent
            .git(&scratch, &["commit", "--quiet", "-m", text, "--author", &author, "--date", date]);
    }
    scratch.write("theirs.txt", "theirs\n");
    scratch.commit("theirs");
    land(&agent, &landing(&agent, Method::Rebase)).unwrap();
    let format = "--format=%an|%ae|%aI|%cn|%ce|%s";
    let expected = "Two|Two@example.org|2001-02-03T04:05:06+07:00|The Person|the@person|two\n\
                    One|One@example.org|2001-02-03T04:05:06+07:00|The Person|the@person|größer\n";
    assert_eq!(scratch.git(&["log", "-2", format]), expected);

    let agent = Agent::spawn(&scratch, "ag-2");
    agent.write("three", "three\n");
    agent.commit(&scratch, "three");
    scratch.write("theirs.txt", "more\n");
    scratch.commit("more");
    agent.git(&scratch, &["merge", "--quiet", "-m", "merge", "main"]);
    let error = refused(&scratch, &agent, &landing(&agent, Method::Rebase)).to_string();
    assert!(error.contains("is a merge") && error.contains("land by merge or squash"), "{error}");

    // Changed and changed back: the single commits do not match, although the result does.
    let agent = Agent::spawn(&scratch, "ag-3");
    agent.write("README.md", "one way\n");
    agent.commit(&scratch, "one way");
    agent.write("README.md", "first\nsecond\nthird\n");
    agent.write("four", "four\n");
    agent.commit(&scratch, "and back");
    scratch.write("README.md", "another way\n");
    scratch.commit("another way");
    let error = refused(&scratch, &agent, &landing(&agent, Method::Rebase));
    assert!(matches!(&error, LandError::OtherTree { how: "rebasing", .. }), "{error}");
    land(&agent, &landing(&agent, Method::Squash)).unwrap();
    assert_eq!(scratch.read("README.md"), "another way\n");
}

#[test]
fn committer_is_the_person_of_the_configuration() {
    let scratch = repository();
    let (agent, wanted) = ready(&scratch);
    // The repository's configuration overrides that of the user who runs the test.
    scratch.git(&["config", "user.name", " "]);
    scratch.git(&["config", "user.email", "x@y"]);
    scratch.git(&["config", "committer.name", "The Lander"]);
    scratch.git(&["config", "committer.email", "lander@example.org"]);
    land(&agent, &wanted).unwrap();
    let names = scratch.git(&["log", "-1", "--format=%an <%ae> %cn <%ce>"]);
    assert_eq!(names, "The Lander <lander@example.org> The Lander <lander@example.org>\n");
    assert_eq!(scratch.git(&["log", "-1", "--format=%B"]), format!("{}\n", wanted.message));
}

#[test]
fn no_hook_and_no_filter_runs() {
    let scratch = repository();
    let (agent, wanted) = ready(&scratch);
    let attributes = scratch.root().join(".git/info/attributes");
    fs::write(attributes, "*.txt filter=evil\n").unwrap();
    let marker = scratch.place().join("ran");
    let hooks = scratch.root().join(".git/hooks");
    fs::create_dir_all(&hooks).unwrap();
    for hook in ["post-checkout", "post-merge", "reference-transaction", "post-index-change"] {
        fs::write(hooks.join(hook), format!("#!/bin/sh\ntouch '{}'\n", marker.display())).unwrap();
        fs::set_permissions(hooks.join(hook), fs::Permissions::from_mode(0o755)).unwrap();
    }
    let command = format!("touch '{}'; cat", marker.display());
    scratch.git(&["config", "filter.evil.smudge", &command]);
    scratch.git(&["config", "filter.evil.clean", &command]);
    let _removed = fs::remove_file(&marker);
    land(&agent, &wanted).unwrap();
    assert!(!marker.exists());
    scratch.git(&["reset", "--quiet", "--hard", "HEAD~1"]);
    assert!(marker.exists(), "the control: plain git runs them");
}

#[test]
fn bare_repository_can_be_landed_on() {
    let scratch = repository();
    let bare = scratch.place().join("bare.git");
    let worktree = scratch.place().join("linked");
    scratch.git(&["clone", "--quiet", "--bare", ".", bare.to_str().unwrap()]);
    git_in(
        &scratch,
        &bare,
        &["worktree", "add", "--quiet", "-b", "agent/ag-1", worktree.to_str().unwrap()],
    );
    let agent = Agent::at(&bare, &worktree, &scratch.state(), "ag-1");
    agent.write("new.txt", "new\n");
    let wanted = landing(&agent, Method::Squash);
    let landed = land(&agent, &wanted).unwrap();
    assert_eq!(git_in(&scratch, &bare, &["rev-parse", "main"]).trim(), landed.commit.as_str());
    assert_eq!(git_in(&scratch, &bare, &["rev-parse", "main^{tree}"]).trim(), wanted.tree.as_str());
}
