//! Landing: the branch gets exactly the verified tree, or stays where it was.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use bailiwick_control::ports::{
    Base, LandError, Landed, Landing, Merge, Method, Snapshot, Work as _,
};
use bailiwick_testkit::Scratch;

use crate::agent::{Agent, git_in, repository};
use crate::workspaces::snapshot;

/// What an agent would land on the base as it is now.
pub(crate) fn verified(agent: &Agent) -> (Base, Snapshot, String) {
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

fn land(agent: &Agent, landing: &Landing) -> Result<Landed, LandError> {
    agent.work().land(landing)
}

fn tip(scratch: &Scratch) -> String {
    scratch.git(&["rev-parse", "main"]).trim().to_owned()
}

fn tree(scratch: &Scratch, revision: &str) -> String {
    scratch.git(&["rev-parse", &format!("{revision}^{{tree}}")]).trim().to_owned()
}

fn status(scratch: &Scratch) -> String {
    scratch.git(&["status", "--porcelain", "--untracked-files=all"])
}

#[test]
fn each_method_gives_the_verified_tree_and_a_clean_checkout() {
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
            Method::Merge => "Land ag-1\nThe work of ag-1, with what is not committed\nShorten\n",
            Method::Squash => "Land ag-1\n",
            Method::Rebase => "Land ag-1\nShorten\n",
        };
        assert_eq!(log, expected);
    }
}

/// The branch is where it was, and nothing in the checkout was touched.
fn refused(scratch: &Scratch, agent: &Agent, wanted: &Landing) -> LandError {
    let before = (tip(scratch), status(scratch), snapshot(&scratch.root()), index(scratch));
    let error = land(agent, wanted).unwrap_err();
    let after = (tip(scratch), status(scratch), snapshot(&scratch.root()), index(scratch));
    assert_eq!(before, after, "{error}");
    assert_eq!(crate::work_recover::leftovers(scratch), Vec::<PathBuf>::new(), "{error}");
    error
}

fn index(scratch: &Scratch) -> Vec<u8> {
    fs::read(scratch.root().join(".git/index")).unwrap()
}

/// An agent that has changed a file, added one, and removed one.
fn ready(scratch: &Scratch) -> (Agent, Landing) {
    let agent = Agent::spawn(scratch, "ag-1");
    agent.write("src/lib.rs", "fn changed() {}\n");
    agent.write("new/file.txt", "new\n");
    fs::remove_file(agent.worktree.join("src/deep/er.rs")).unwrap();
    let wanted = landing(&agent, Method::Merge);
    (agent, wanted)
}

#[test]
fn a_checkout_with_uncommitted_changes_is_refused_and_stays() {
    let changes: [(&str, fn(&Scratch)); 9] = [
        ("README.md", |scratch| scratch.write("README.md", "changed by hand\n")),
        ("src/lib.rs", |scratch| scratch.write("src/lib.rs", "changed by hand\n")),
        ("staged.txt", |scratch| {
            scratch.write("staged.txt", "staged\n");
            scratch.git(&["add", "staged.txt"]);
        }),
        ("README.md", |scratch| drop(scratch.git(&["rm", "--quiet", "README.md"]))),
        ("src/deep/er.rs", |scratch| {
            fs::remove_file(scratch.root().join("src/deep/er.rs")).unwrap()
        }),
        ("new/file.txt", |scratch| scratch.write("new/file.txt", "in the way\n")),
        ("new", |scratch| scratch.write("new", "in the way\n")),
        ("new/file.txt/deep", |scratch| scratch.write("new/file.txt/deep", "in the way\n")),
        ("new/file.txt", |scratch| {
            fs::write(scratch.root().join(".git/info/exclude"), "new/\n").unwrap();
            scratch.write("new/file.txt", "in the way, and ignored\n");
        }),
    ];
    for (path, change) in changes {
        let scratch = repository();
        fs::create_dir_all(scratch.root().join(".git/info")).unwrap();
        let (agent, wanted) = ready(&scratch);
        change(&scratch);
        match refused(&scratch, &agent, &wanted) {
            LandError::Unclean { branch, changes, checkout } => {
                assert_eq!(branch, "refs/heads/main");
                assert_eq!(changes, [path]);
                assert_eq!(checkout, scratch.root().canonicalize().unwrap());
            }
            other => panic!("{path}: {other:?}"),
        }
    }
}

#[test]
fn untracked_files_that_are_not_in_the_way_are_no_matter() {
    let scratch = repository();
    let (agent, wanted) = ready(&scratch);
    scratch.write("notes.txt", "mine\n");
    scratch.write("new/other.txt", "mine\n");
    scratch.write("target/out", "built\n");
    land(&agent, &wanted).unwrap();
    assert_eq!(status(&scratch), "?? new/other.txt\n?? notes.txt\n");
    assert_eq!(scratch.read("new/file.txt"), "new\n");
    assert!(!scratch.root().join("src/deep").exists());
}

#[test]
fn a_branch_that_is_checked_out_nowhere_just_moves() {
    let scratch = repository();
    let (agent, wanted) = ready(&scratch);
    scratch.git(&["checkout", "--quiet", "--detach"]);
    scratch.write("README.md", "changed by hand\n");
    let landed = land(&agent, &wanted).unwrap();
    assert_eq!((tip(&scratch), landed.checkouts.len()), (landed.commit, 0));
    assert_eq!(status(&scratch), " M README.md\n");
    let log = scratch.git(&["reflog", "-1", "--format=%gs", "main"]);
    assert_eq!(log, "bailiwick: land\n");
}

#[test]
fn every_checkout_of_the_branch_follows_or_none() {
    let scratch = repository();
    let (agent, wanted) = ready(&scratch);
    let second = scratch.place().join("second");
    scratch.git(&["worktree", "add", "--quiet", "--force", second.to_str().unwrap(), "main"]);
    fs::write(second.join("README.md"), "changed by hand\n").unwrap();
    let error = refused(&scratch, &agent, &wanted);
    assert!(matches!(error, LandError::Unclean { .. }), "{error}");
    git_in(&scratch, &second, &["checkout", "--quiet", "README.md"]);
    let landed = land(&agent, &wanted).unwrap();
    assert_eq!(landed.checkouts.len(), 2);
    assert_eq!(git_in(&scratch, &second, &["status", "--porcelain"]), "");
    assert_eq!(status(&scratch), "");
}

#[test]
fn a_branch_that_is_in_use_is_refused() {
    let uses: [(&str, fn(&Scratch)); 4] = [
        ("a merge is in progress", |scratch| {
            scratch.git(&["checkout", "--quiet", "-b", "side", "main"]);
            scratch.commit("side");
            scratch.git(&["checkout", "--quiet", "main"]);
            scratch.git(&["merge", "--quiet", "--no-ff", "--no-commit", "side"]);
        }),
        ("a rebase is in progress", |scratch| {
            let mut rebase = scratch.command("git");
            rebase.args(["rebase", "--quiet", "--exec", "false", "HEAD~1"]);
            assert!(!rebase.output().unwrap().status.success());
        }),
        ("a bisection is in progress", |scratch| {
            scratch.git(&["bisect", "start", "HEAD", "HEAD~2"]);
        }),
        ("another git is at work there", |scratch| {
            fs::write(scratch.root().join(".git/index.lock"), "").unwrap();
        }),
    ];
    for (what, begin) in uses {
        let scratch = repository();
        for text in ["two\n", "three\n"] {
            scratch.write("more.txt", text);
            scratch.commit(text);
        }
        let (agent, wanted) = ready(&scratch);
        begin(&scratch);
        let before = (tip(&scratch), index(&scratch), snapshot(&scratch.root()));
        match land(&agent, &wanted).unwrap_err() {
            LandError::Held { why, checkout, .. } => {
                assert!(why.contains(what), "{what}: {why}");
                assert_eq!(checkout, scratch.root().canonicalize().unwrap(), "{what}");
            }
            other => panic!("{what}: {other:?}"),
        }
        assert_eq!((tip(&scratch), index(&scratch), snapshot(&scratch.root())), before, "{what}");
    }
}

#[test]
fn a_branch_that_moved_or_vanished_is_told() {
    let scratch = repository();
    let (agent, wanted) = ready(&scratch);
    scratch.write("theirs.txt", "theirs\n");
    let now = scratch.commit("theirs");
    assert_eq!(
        refused(&scratch, &agent, &wanted),
        LandError::Moved { branch: wanted.branch.clone(), now }
    );
    scratch.git(&["checkout", "--quiet", "--detach"]);
    scratch.git(&["branch", "--quiet", "-D", "main"]);
    match land(&agent, &wanted).unwrap_err() {
        LandError::Moved { now, .. } => assert!(now.contains("not there"), "{now}"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_new_branch_is_made_where_none_is() {
    let scratch = repository();
    let (agent, mut wanted) = ready(&scratch);
    (wanted.branch, wanted.expected) = ("refs/heads/review/one".to_owned(), None);
    let main = tip(&scratch);
    let landed = land(&agent, &wanted).unwrap();
    assert_eq!(scratch.git(&["rev-parse", "review/one"]).trim(), landed.commit);
    assert_eq!(tree(&scratch, "review/one"), wanted.tree);
    assert_eq!((tip(&scratch), status(&scratch)), (main, String::new()));
    match land(&agent, &wanted).unwrap_err() {
        LandError::Moved { now, .. } => assert_eq!(now, landed.commit),
        other => panic!("{other:?}"),
    }
    for name in
        ["review/two", "refs/heads/a..b", "refs/tags/x", "HEAD", "refs/heads/review/one/more"]
    {
        wanted.branch = name.to_owned();
        assert!(matches!(land(&agent, &wanted), Err(LandError::Work(_))), "{name}");
    }
}

#[test]
fn commits_of_the_branch_are_never_dropped() {
    let scratch = repository();
    let (agent, mut wanted) = ready(&scratch);
    scratch.write("theirs.txt", "theirs\n");
    wanted.expected = Some(scratch.commit("theirs"));
    let error = refused(&scratch, &agent, &wanted).to_string();
    assert!(error.contains("commits that the work was not verified on"), "{error}");
}

#[test]
fn nothing_is_not_landed() {
    let scratch = repository();
    let agent = Agent::spawn(&scratch, "ag-1");
    agent.write("a", "a\n");
    agent.commit(&scratch, "there");
    fs::remove_file(agent.worktree.join("a")).unwrap();
    for method in [Method::Merge, Method::Squash, Method::Rebase] {
        let error = refused(&scratch, &agent, &landing(&agent, method));
        assert!(matches!(error, LandError::Nothing { .. }), "{error}");
    }
}

#[test]
fn a_rebase_keeps_authors_and_messages_and_refuses_what_it_cannot_do() {
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

    // Changed and changed back: each commit for itself does not fit, though the whole does.
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
fn the_person_signs_by_their_own_configuration() {
    let scratch = repository();
    let (agent, wanted) = ready(&scratch);
    // The person's own configuration is that of whoever runs the test; the repository's goes first.
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
    scratch.write(".gitattributes", "*.txt filter=evil\n");
    scratch.commit("attributes");
    let (agent, wanted) = ready(&scratch);
    let ran = scratch.place().join("ran");
    let hooks = scratch.root().join(".git/hooks");
    fs::create_dir_all(&hooks).unwrap();
    for hook in ["post-checkout", "post-merge", "reference-transaction", "post-index-change"] {
        fs::write(hooks.join(hook), format!("#!/bin/sh\ntouch '{}'\n", ran.display())).unwrap();
        fs::set_permissions(hooks.join(hook), fs::Permissions::from_mode(0o755)).unwrap();
    }
    let command = format!("touch '{}'; cat", ran.display());
    scratch.git(&["config", "filter.evil.smudge", &command]);
    scratch.git(&["config", "filter.evil.clean", &command]);
    let _gone = fs::remove_file(&ran);
    land(&agent, &wanted).unwrap();
    assert!(!ran.exists());
    scratch.git(&["reset", "--quiet", "--hard", "HEAD~1"]);
    assert!(ran.exists(), "plain git does run them");
}

#[test]
fn a_bare_repository_is_landed_on() {
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
    assert_eq!(git_in(&scratch, &bare, &["rev-parse", "main"]).trim(), landed.commit);
    assert_eq!(git_in(&scratch, &bare, &["rev-parse", "main^{tree}"]).trim(), wanted.tree);
}

/// Whoever lands first wins; the others see where the branch is now. With one state they wait for
/// each other, with several only git's own compare-and-swap is between them.
#[test]
fn of_many_at_once_exactly_one_lands_on_a_tip() {
    for states in [1, 4] {
        let scratch = repository();
        let mut agents = Vec::new();
        for number in 0..6 {
            let agent = Agent::spawn(&scratch, &format!("ag-{number}"));
            agent.write(&format!("file-{number}"), "text\n");
            let state = scratch.place().join(format!("state-{}", number % states));
            agents.push(agent.with_state(&state));
        }
        let mut landed = 0;
        while landed < agents.len() {
            let before = tip(&scratch);
            let results: Vec<_> = std::thread::scope(|scope| {
                let threads: Vec<_> = agents
                    .iter()
                    .map(|agent| scope.spawn(|| agent.work().land(&landing(agent, Method::Merge))))
                    .collect();
                threads.into_iter().map(|thread| thread.join().unwrap()).collect()
            });
            let mut winners = 0;
            for result in results {
                match result {
                    Ok(landed) => {
                        winners += 1;
                        scratch.git(&["merge-base", "--is-ancestor", &landed.commit, "main"]);
                    }
                    Err(LandError::Moved { .. } | LandError::Nothing { .. }) => {}
                    // Somebody else's landing holds the checkout at this moment.
                    Err(LandError::Held { .. } | LandError::Unclean { .. }) if states > 1 => {}
                    Err(LandError::Work(error)) if states > 1 => {
                        assert!(error.why.contains("cannot lock ref"), "{error}");
                    }
                    Err(other) => panic!("{other:?}"),
                }
            }
            landed += winners;
            let range = format!("{before}..main");
            let count = scratch.git(&["rev-list", "--count", "--first-parent", &range]);
            assert_eq!(count.trim(), winners.to_string(), "one commit for every winner");
            assert_eq!(status(&scratch), "");
        }
        for number in 0..6 {
            assert_eq!(scratch.read(&format!("file-{number}")), "text\n");
        }
    }
}
