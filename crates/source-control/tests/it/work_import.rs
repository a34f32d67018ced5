//! Importing the commits that an agent made in a layer, and nothing else.

use std::fs;
use std::os::unix::fs::FileTypeExt as _;
use std::path::Path;

use bailiwick_lifecycle::ports::Work as _;
use bailiwick_source_control::git::{ImportLimits, Imported};
use bailiwick_testkit::Scratch;

use crate::agent::{Agent, repository};
use crate::layer::{Layer, everything};

fn has(scratch: &Scratch, object: &str) -> bool {
    scratch.command("git").args(["cat-file", "-e", object]).status().unwrap().success()
}

fn is_whiteout(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_char_device())
}

#[test]
fn commits_of_a_layer_are_imported() {
    let scratch = repository();
    let agent = Agent::spawn(&scratch, "ag-1");
    let layer = Layer::over(&scratch, &agent);
    let first = layer.commit("new.txt");
    agent.write("README.md", "changed\n");
    let second = layer.commit("deep/er/new.txt");
    assert!(
        !has(&scratch, &first) && !has(&scratch, &second),
        "the repository has the commits already"
    );
    layer.brought(&second, 2);
    assert!(has(&scratch, &first));
    assert_eq!(agent.git(&scratch, &["rev-parse", "HEAD^"]).trim(), first);
    // The files are those of the commit; the index is still the old one.
    let status = agent.git(&scratch, &["status", "--porcelain", "--untracked-files=all"]);
    assert_eq!(
        status,
        "MM README.md\nD  deep/er/new.txt\nD  new.txt\n?? deep/er/new.txt\n?? new.txt\n"
    );
    let (_, snapshot) = agent.snapshot();
    assert_eq!(snapshot.head, second);
    assert_eq!(snapshot.tree, agent.git(&scratch, &["rev-parse", "HEAD^{tree}"]).trim());
    agent.git(&scratch, &["reset", "--quiet"]);
    assert_eq!(agent.git(&scratch, &["status", "--porcelain"]), "");
    assert_eq!(scratch.git(&["status", "--porcelain"]), "");
    // The result is the same as that of an agent without a layer.
    let work = agent.work();
    let base = work.base().unwrap();
    let facts = work.repository(&base, &work.snapshot(&base).unwrap()).unwrap();
    assert_eq!(facts.commits.len(), 2, "{facts:?}");
    assert_eq!(facts.references, ["refs/heads/agent/ag-1"]);
}

#[test]
fn later_commits_are_imported_later() {
    let scratch = repository();
    let agent = Agent::spawn(&scratch, "ag-1");
    let layer = Layer::over(&scratch, &agent);
    let first = layer.commit("one");
    layer.brought(&first, 1);
    let second = layer.commit("two");
    layer.brought(&second, 1);
}

#[test]
fn layer_without_commits_imports_nothing() {
    let scratch = repository();
    let agent = Agent::spawn(&scratch, "ag-1");
    let layer = Layer::over(&scratch, &agent);
    let before = everything(&layer.common());
    assert_eq!(layer.import().unwrap(), Imported::Nothing);
    agent.write("new", "new\n");
    layer.run("git add -A; git stash -q; git stash pop -q; git gc -q --prune=now");
    assert!(layer.upper("packed-refs").exists());
    assert_eq!(layer.import().unwrap(), Imported::Nothing);
    assert!(before == everything(&layer.common()));
    fs::remove_dir_all(&layer.place).unwrap();
    assert!(layer.refused().contains("`upper`"));
}

#[test]
fn commits_are_imported_from_packs_and_packed_refs() {
    for commands in
        ["git gc -q --prune=now", "git repack -q -a -d; git pack-refs --all", "git pack-refs --all"]
    {
        let scratch = repository();
        let agent = Agent::spawn(&scratch, "ag-1");
        let layer = Layer::over(&scratch, &agent);
        layer.commit("one");
        let tip = layer.commit("two");
        layer.run(commands);
        assert!(!layer.branch().exists() && layer.upper("packed-refs").exists(), "{commands}");
        layer.brought(&tip, 2);
        let third = layer.commit("three");
        layer.brought(&third, 1);
    }
}

#[test]
fn branch_in_the_packed_refs_of_the_repository_is_found() {
    let scratch = repository();
    let agent = Agent::spawn(&scratch, "ag-1");
    scratch.git(&["branch", "other"]);
    scratch.git(&["pack-refs", "--all"]);
    let layer = Layer::over(&scratch, &agent);
    layer.run("git branch -q -D other");
    assert!(layer.upper("packed-refs").exists());
    assert_eq!(layer.import().unwrap(), Imported::Nothing);
    let tip = layer.commit("one");
    layer.brought(&tip, 1);
    scratch.git(&["rev-parse", "--verify", "other"]);
}

#[test]
fn outdated_line_in_packed_refs_is_ignored() {
    let scratch = repository();
    let agent = Agent::spawn(&scratch, "ag-1");
    scratch.git(&["branch", "other"]);
    scratch.git(&["pack-refs", "--all"]);
    agent.write("own", "own\n");
    agent.commit(&scratch, "the repository's own");
    let layer = Layer::over(&scratch, &agent);
    layer.run("git branch -q -D other");
    let packed = fs::read_to_string(layer.upper("packed-refs")).unwrap();
    assert!(packed.contains("refs/heads/agent/ag-1"), "{packed}");
    assert_eq!(layer.import().unwrap(), Imported::Nothing);
    let tip = layer.commit("one");
    layer.run("git pack-refs --all");
    layer.brought(&tip, 1);
}

#[test]
fn branch_deleted_in_the_layer_stays_in_the_repository() {
    for packed in [false, true] {
        let scratch = repository();
        let agent = Agent::spawn(&scratch, "ag-1");
        if packed {
            scratch.git(&["pack-refs", "--all"]);
        }
        let layer = Layer::over(&scratch, &agent);
        layer.commit("one");
        layer.run("git checkout -q --detach; git branch -q -D agent/ag-1");
        let deleted = [layer.branch(), layer.upper("refs/heads/agent")];
        assert!(packed || deleted.iter().any(|path| is_whiteout(path)), "{packed}");
        let before = everything(&layer.common());
        assert_eq!(layer.import().unwrap(), Imported::Deleted, "{packed}");
        assert!(before == everything(&layer.common()));
    }
}

#[test]
fn merges_and_many_commits_are_imported() {
    let scratch = repository();
    let agent = Agent::spawn(&scratch, "ag-1");
    scratch.write("theirs", "theirs\n");
    scratch.commit("theirs");
    let layer = Layer::over(&scratch, &agent);
    layer.commit("ours");
    let tip = layer.run(
        "git merge -q --no-edit main
        for number in $(seq 120); do
            echo $number > counted; git add counted; git commit -q -m $number
        done
        git checkout -q -b side HEAD~50; echo side > side; git add side; git commit -q -m side
        git checkout -q agent/ag-1; git merge -q --no-edit side; git rev-parse HEAD",
    );
    // One commit of the agent, theirs, its merge, 120, the side and its merge.
    layer.brought(&tip, 125);
    let branches = scratch.git(&["for-each-ref", "--format=%(refname)"]);
    assert_eq!(branches, "refs/heads/agent/ag-1\nrefs/heads/main\n", "side is not imported");
    // A commit that the repository has already needs no object.
    scratch.git(&["merge", "--quiet", "--no-edit", "agent/ag-1"]);
    scratch.write("later", "later\n");
    let later = scratch.commit("later");
    layer.run("git merge -q --ff-only main");
    layer.brought(&later, 1);
}

#[test]
fn sha256_names_are_imported() {
    let scratch = Scratch::bare();
    scratch.git(&["init", "--quiet", "--initial-branch=main", "--object-format=sha256"]);
    scratch.write("README.md", "first\n");
    scratch.commit("first");
    let agent = Agent::spawn(&scratch, "ag-1");
    let layer = Layer::over(&scratch, &agent);
    let tip = layer.commit("one");
    assert_eq!(tip.len(), 64);
    let short = tip.split_at(40).0;
    let complete = fs::read(layer.branch()).unwrap();
    fs::write(layer.branch(), format!("{short}\n")).unwrap();
    assert!(layer.refused().contains("object name"));
    fs::write(layer.branch(), complete).unwrap();
    layer.brought(&tip, 1);
    let second = layer.commit("two");
    layer.run("git gc -q --prune=now");
    layer.brought(&second, 1);
}

#[test]
fn only_the_agents_own_branch_is_imported() {
    let scratch = repository();
    scratch.git(&["branch", "other"]);
    let agent = Agent::spawn(&scratch, "ag-1");
    let layer = Layer::over(&scratch, &agent);
    let tip = layer.commit("one");
    let elsewhere = layer.run(
        "stray=$(git commit-tree -m stray -p HEAD HEAD^{tree})
        git update-ref refs/heads/other $stray; git update-ref refs/heads/main $stray
        git update-ref refs/heads/agent/ag-2 $stray; git tag tagged $stray
        git config user.name somebody; git config core.bare true
        echo '* -text' > \"$(git rev-parse --git-common-dir)/info/attributes\"
        echo $stray",
    );
    let old = scratch.git(&["rev-parse", "main", "other"]);
    layer.brought(&tip, 1);
    assert_eq!(scratch.git(&["rev-parse", "main", "other"]), old);
    assert!(!has(&scratch, &elsewhere), "objects of other branches were imported");
    assert!(layer.upper("refs/heads/other").exists(), "they are in the layer");
}

#[test]
fn rewritten_history_is_refused() {
    let scratch = repository();
    scratch.write("second", "second\n");
    scratch.commit("second");
    let agent = Agent::spawn(&scratch, "ag-1");
    let layer = Layer::over(&scratch, &agent);
    for rewrite in [
        "git commit -q --amend -m other",
        "git reset -q --hard HEAD~1",
        "git checkout -q --orphan x; git commit -q -m x; git branch -f agent/ag-1 x; git checkout -q agent/ag-1",
    ] {
        let start = layer.run("git rev-parse HEAD");
        layer.run(rewrite);
        let why = layer.refused();
        assert!(why.contains("rewritten"), "{rewrite}: {why}");
        layer.run(&format!("git reset -q --hard {start}"));
        assert_eq!(layer.import().unwrap(), Imported::Nothing);
    }
    // Commits that are not in the repository yet may be rewritten.
    layer.commit("one");
    let tip = layer.run("git commit -q --amend -m other; git rev-parse HEAD");
    layer.brought(&tip, 1);
}

#[test]
fn branch_that_moved_is_not_changed() {
    let scratch = repository();
    let agent = Agent::spawn(&scratch, "ag-1");
    let layer = Layer::over(&scratch, &agent);
    let tip = layer.commit("one");
    let start = scratch.git(&["rev-parse", "agent/ag-1"]);
    let tree = format!("{}^{{tree}}", start.trim());
    let other = scratch.git(&["commit-tree", "-m", "other", "-p", start.trim(), &tree]);
    scratch.git(&["update-ref", "refs/heads/agent/ag-1", other.trim()]);
    assert!(layer.refused().contains("rewritten"));
    scratch.git(&["update-ref", "refs/heads/agent/ag-1", start.trim()]);
    layer.brought(&tip, 1);
}

#[test]
fn lock_of_a_killed_git_is_removed_and_any_other_lock_stays() {
    let scratch = repository();
    let agent = Agent::spawn(&scratch, "ag-1");
    let layer = Layer::over(&scratch, &agent);
    let lock = layer.common().join("refs/heads/agent/ag-1.lock");
    let tip = layer.commit("one");
    let theirs = format!("{}\n", "3".repeat(40));
    fs::write(&lock, &theirs).unwrap();
    assert!(layer.import().unwrap_err().to_string().contains("lock"));
    assert_eq!(fs::read_to_string(&lock).unwrap(), theirs);
    fs::write(&lock, format!("{tip}\n")).unwrap();
    assert_eq!(layer.import().unwrap(), Imported::Commits { tip: tip.clone(), count: 1 });
    assert!(!lock.exists());
    let second = layer.commit("two");
    fs::write(&lock, "").unwrap();
    assert_eq!(layer.import().unwrap(), Imported::Commits { tip: second, count: 1 });
    assert!(!lock.exists());
}

#[test]
fn layer_beyond_the_limits_is_refused_with_the_reason() {
    let scratch = repository();
    let agent = Agent::spawn(&scratch, "ag-1");
    let layer = Layer::over(&scratch, &agent);
    let tip = layer.commit("one");
    let within = |bytes, objects| {
        agent.work().import_with_limits(&layer.place, ImportLimits { bytes, objects })
    };
    let before = everything(&layer.common());
    for packed in [false, true] {
        if packed {
            layer.run("git gc -q --prune=now");
        }
        let why = within(100, 1_000).unwrap_err().to_string();
        assert!(why.contains("more than 100 bytes"), "{why}");
        let why = within(1 << 20, 2).unwrap_err().to_string();
        assert!(why.contains("objects, ") && why.contains("limit of an import"), "{why}");
    }
    // A small object can be a huge file.
    agent.write("zeros", vec![0; 8 << 20]);
    layer.run("git add zeros; git commit -q -m zeros");
    let why = within(1 << 20, 1_000).unwrap_err().to_string();
    assert!(why.contains("over limit"), "{why}");
    assert!(before == everything(&layer.common()));
    let imported = within(32 << 20, 1_000).unwrap();
    assert!(matches!(imported, Imported::Commits { count: 2, .. }), "{imported:?}");
    assert!(has(&scratch, &tip));
}
