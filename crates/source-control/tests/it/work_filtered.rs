//! Files that a repository stores through a filter.

use std::fs;

use bailiwick_lifecycle::ports::{LandError, Landing, Merge, Method, Work as _};
use bailiwick_source_control::Repository;
use bailiwick_testkit::Scratch;

use crate::agent::{Agent, repository};

const POINTER: &str = "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 8\n";

/// A repository with `data/a.bin`, which is stored in capitals; the filter is in its configuration or nowhere.
fn filtered(configured: bool) -> Scratch {
    let scratch = repository();
    scratch.write(".gitattributes", "*.bin filter=capitals\n*.big filter=lfs\n");
    scratch.write("data/a.bin", "small\n");
    scratch.write("data/b.big", POINTER);
    for (key, value) in [("clean", "tr a-z A-Z"), ("smudge", "tr A-Z a-z")] {
        scratch.git(&["config", &format!("filter.capitals.{key}"), value]);
    }
    scratch.commit("filtered");
    assert_eq!(scratch.git(&["show", "HEAD:data/a.bin"]), "SMALL\n");
    if !configured {
        scratch.git(&["config", "--remove-section", "filter.capitals"]);
    }
    scratch
}

fn changed(agent: &Agent) -> Vec<String> {
    let (_, snapshot) = agent.snapshot();
    let changes = agent.work().changes(&snapshot.merge_base_tree, &snapshot.tree).unwrap();
    changes.into_iter().map(|change| change.path).collect()
}

fn refusal(agent: &Agent) -> String {
    let work = agent.work();
    work.snapshot(&work.base().unwrap()).unwrap_err().to_string()
}

#[test]
fn unmodified_filtered_file_is_not_a_change_with_a_new_index() {
    for configured in [true, false] {
        let scratch = filtered(configured);
        let agent = Agent::spawn(&scratch, "ag-1");
        let text = if configured { "small\n" } else { "SMALL\n" };
        assert_eq!(fs::read_to_string(agent.worktree.join("data/a.bin")).unwrap(), text);
        assert_eq!(changed(&agent), Vec::<String>::new(), "{configured}");
        agent.write("src/new.rs", "// new\n");
        assert_eq!(changed(&agent), ["src/new.rs"], "{configured}");
    }
}

#[test]
fn raw_content_of_a_filtered_file_is_refused() {
    let scratch = filtered(false);
    let agent = Agent::spawn(&scratch, "ag-1");
    agent.write("data/a.bin", "raw\n");
    assert!(refusal(&agent).contains("stores data/a.bin through the git filter `capitals`"));
    agent.git(&scratch, &["checkout", "--quiet", "data/a.bin"]);
    agent.write("data/new.big", "raw\n");
    assert!(refusal(&agent).contains("stores data/new.big through the git filter `lfs`"));
    // Nor in a commit that a later one reverts.
    agent.commit(&scratch, "raw");
    fs::remove_file(agent.worktree.join("data/new.big")).unwrap();
    agent.commit(&scratch, "undone");
    agent.write("src/new.rs", "// new\n");
    assert!(refusal(&agent).contains("data/new.big"));
}

#[test]
fn content_written_by_the_filter_is_accepted() {
    let scratch = filtered(false);
    let agent = Agent::spawn(&scratch, "ag-1");
    agent.write("data/b.big", POINTER.replace("size 8", "size 9"));
    fs::rename(agent.worktree.join("data/a.bin"), agent.worktree.join("data/moved.bin")).unwrap();
    let mut changed = changed(&agent);
    changed.sort_unstable();
    assert_eq!(changed, ["data/b.big", "data/moved.bin"]);
    fs::remove_file(agent.worktree.join("data/moved.bin")).unwrap();
    assert_eq!(agent.snapshot().1.merge_base, agent.snapshot().0.tip);
}

/// The commits that a landing of the agent's work would need; it lands.
fn land(agent: &Agent) -> Result<(), LandError> {
    let work = agent.work();
    let base = work.base().unwrap();
    let snapshot = work.snapshot(&base).unwrap();
    let Merge::Clean { tree } = work.merge(&base, &snapshot).unwrap() else { panic!("conflicts") };
    work.land(&Landing {
        agent: agent.id.to_string(),
        branch: base.branch.clone(),
        expected: Some(base.tip.clone()),
        onto: base.tip,
        work: snapshot,
        tree,
        method: Method::Merge,
        message: "lands\n".to_owned(),
    })
    .map(drop)
}

/// Writes the files and the index of the checkout at the same time, so that git must read the files.
fn check_out_again(scratch: &Scratch) {
    let filters =
        ["-c", "filter.capitals.clean=tr a-z A-Z", "-c", "filter.capitals.smudge=tr A-Z a-z"];
    fs::remove_file(scratch.root().join("data/a.bin")).unwrap();
    let checkout = ["checkout", "--quiet", "--", "data/a.bin"];
    scratch.git(&[&filters[..], &checkout[..]].concat());
    assert_eq!(fs::read_to_string(scratch.root().join("data/a.bin")).unwrap(), "small\n");
}

#[test]
fn checkout_with_filtered_files_is_clean_with_a_new_index() {
    let scratch = filtered(false);
    check_out_again(&scratch);
    let open = Repository::discover(&scratch.root()).unwrap();
    assert_eq!(open.uncommitted().unwrap(), Vec::<String>::new());
    let agent = Agent::spawn(&scratch, "ag-1");
    agent.write("src/new.rs", "// new\n");
    check_out_again(&scratch);
    land(&agent).unwrap();
    assert!(scratch.root().join("src/new.rs").exists());
    assert_eq!(fs::read_to_string(scratch.root().join("data/a.bin")).unwrap(), "small\n");
    // A changed file is a change.
    fs::write(scratch.root().join("data/a.bin"), "changed by a person\n").unwrap();
    assert_eq!(open.uncommitted().unwrap(), ["data/a.bin"]);
    let other = Agent::spawn(&scratch, "ag-2");
    other.write("src/other.rs", "// other\n");
    assert!(matches!(land(&other), Err(LandError::Unclean { .. })));
}
