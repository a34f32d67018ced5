//! The snapshot of an agent's work against what plain git would commit, and that it leaves no trace.

use bailiwick_control::ports::{Merge, Work as _};

use crate::agent::{Agent, repository};

#[test]
fn everything_that_is_not_ignored_is_in_it() {
    let scratch = repository();
    let agent = Agent::spawn(&scratch, "ag-1");
    agent.write("src/lib.rs", "fn one() {}\n");
    agent.commit(&scratch, "committed");
    agent.write("staged.txt", "staged\n");
    agent.git(&scratch, &["add", "staged.txt"]);
    agent.write("README.md", "changed\n");
    agent.write("new/untracked", [0, 159, 255]);
    agent.write("target/out", "ignored");
    let (base, snapshot) = agent.snapshot();
    assert_eq!(base.branch, "refs/heads/main");
    let work = agent.work();
    let changes = work.changes(&snapshot.merge_base_tree, &snapshot.tree).unwrap();
    let paths: Vec<&str> = changes.iter().map(|change| change.path.as_str()).collect();
    assert_eq!(paths, ["README.md", "new/untracked", "src/lib.rs", "staged.txt"]);
    scratch.write("other.txt", "other\n");
    scratch.commit("second");
    let base = work.base().unwrap();
    let snapshot = work.snapshot(&base).unwrap();
    let merged = work.merge(&base, &snapshot).unwrap();
    assert!(matches!(merged, Merge::Clean { .. }), "{merged:?}");
    let place = scratch.place().join("fresh");
    let Merge::Clean { tree } = merged else { return };
    work.materialise(&tree, &[&base.tip, &snapshot.commit], &place).unwrap();
    let status = crate::agent::git_in(&scratch, &place, &["status", "--porcelain"]);
    assert_eq!(status, "");
    println!("{:?}", work.repository(&base, &snapshot).unwrap());
    println!("{}", crate::agent::git_in(&scratch, &place, &["log", "--graph", "--oneline"]));
    println!("{:?}", work.texts(&changes, &["new/untracked".to_owned(), "README.md".to_owned()]));
}
