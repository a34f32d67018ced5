//! Repositories that an agent has prepared: they run nothing, and commits are read as stored.

use std::fs;
use std::path::{Path, PathBuf};

use bailiwick_kit::Tree as _;
use bailiwick_lifecycle::ports::Work as _;
use bailiwick_source_control::{CommitTree, Git, GitWork};
use bailiwick_testkit::Scratch;

use crate::agent::{Agent, git_in, repository};

fn refusal(agent: &Agent) -> String {
    let work = agent.work();
    work.snapshot(&work.base().unwrap()).unwrap_err().to_string()
}

/// A git directory, created from files only, with a promisor remote for missing objects.
fn promised(scratch: &Scratch, git: &Path) -> PathBuf {
    let marker = scratch.place().join("ran");
    fs::create_dir_all(git.join("refs/heads")).unwrap();
    fs::create_dir_all(git.join("objects")).unwrap();
    fs::write(git.join("HEAD"), "ref: refs/heads/main\n").unwrap();
    fs::write(git.join("refs/heads/main"), format!("{}\n", "1".repeat(40))).unwrap();
    let config = format!(
        "[core]\n\trepositoryformatversion = 1\n\tsshCommand = \"sh -c 'touch {}; exit 1'\"\n\
         [extensions]\n\tpartialClone = origin\n[remote \"origin\"]\n\turl = ssh://x/y\n\
         \tpromisor = true\n",
        marker.display()
    );
    fs::write(git.join("config"), config).unwrap();
    marker
}

#[test]
fn git_never_fetches_a_missing_object() {
    let scratch = Scratch::bare();
    let place = scratch.root().join("fake");
    let marker = promised(&scratch, &place.join(".git"));
    let arguments = ["rev-parse", "--verify", "HEAD^{commit}"];
    Git::at(&place).run(arguments).unwrap_err();
    assert!(!marker.exists());
    let plain = scratch.command("git").current_dir(&place).args(arguments).output().unwrap();
    assert!(!plain.status.success());
    assert!(marker.exists(), "the control: plain git runs it");
}

fn with_link(scratch: &Scratch) -> Agent {
    let link = format!("160000,{},vendor", "2".repeat(40));
    scratch.git(&["update-index", "--add", "--cacheinfo", &link]);
    scratch.git(&["commit", "--quiet", "-m", "a submodule"]);
    Agent::spawn(scratch, "ag-1")
}

#[test]
fn submodule_created_by_the_agent_runs_nothing() {
    let scratch = repository();
    let agent = with_link(&scratch);
    let inside = agent.worktree.join("vendor");
    let marker = promised(&scratch, &inside.join(".git"));
    let (_, snapshot) = agent.snapshot();
    let changes = agent.work().changes(&snapshot.merge_base_tree, &snapshot.tree).unwrap();
    let [change] = changes.as_slice() else { panic!("{changes:?}") };
    let now = change.after.as_ref().map(|after| after.object.clone());
    assert_eq!((change.path.as_str(), now), ("vendor", Some("1".repeat(40))));
    assert!(!marker.exists());
    let plain = ["rev-parse", "--verify", "HEAD^{commit}"];
    scratch.command("git").current_dir(&inside).args(plain).output().unwrap();
    assert!(marker.exists(), "the control: plain git runs it");
}

#[test]
fn submodule_without_a_commit_is_refused() {
    let scratch = repository();
    let agent = with_link(&scratch);
    let git = agent.worktree.join("vendor/.git");
    let at = || {
        let (_, snapshot) = agent.snapshot();
        let listed = agent.git(&scratch, &["ls-tree", &snapshot.tree, "vendor"]);
        listed.split_whitespace().nth(2).unwrap().to_owned()
    };
    promised(&scratch, &git);
    fs::remove_file(git.join("refs/heads/main")).unwrap();
    fs::write(git.join("packed-refs"), format!("{} refs/heads/main\n", "3".repeat(40))).unwrap();
    assert_eq!(at(), "3".repeat(40));
    fs::write(git.join("HEAD"), format!("{}\n", "4".repeat(40))).unwrap();
    assert_eq!(at(), "4".repeat(40));
    fs::rename(&git, agent.worktree.join("target-of-link")).unwrap();
    fs::write(&git, "gitdir: ../target-of-link\n").unwrap();
    assert_eq!(at(), "4".repeat(40));
    for head in ["ref: refs/heads/unborn\n", "ref: ../../secret\n", "ref: refs/../HEAD\n", "?\n"] {
        fs::write(agent.worktree.join("target-of-link/HEAD"), head).unwrap();
        let why = refusal(&agent);
        assert!(why.contains("the submodule vendor cannot be read"), "{head}: {why}");
    }
    fs::remove_file(agent.worktree.join("target-of-link/HEAD")).unwrap();
    pipe(&agent.worktree.join("target-of-link/HEAD"));
    assert!(refusal(&agent).contains("not a plain file"));
    fs::remove_file(&git).unwrap();
    assert_eq!(at(), "2".repeat(40), "a submodule that is not checked out is unchanged");
}

fn pipe(path: &Path) {
    let status = std::process::Command::new("mkfifo").arg(path).status().unwrap();
    assert!(status.success());
}

#[test]
fn common_directory_forged_by_the_agent_is_refused() {
    let scratch = repository();
    let agent = Agent::spawn(&scratch, "ag-1");
    let marker = scratch.place().join("ran");
    let fake = agent.worktree.join("fake");
    let real = scratch.root().join(".git");
    let copied = scratch.run("cp", &["-r", real.to_str().unwrap(), fake.to_str().unwrap()]);
    assert_eq!(copied.code, 0);
    let config = fs::read_to_string(fake.join("config")).unwrap();
    let filter = format!("[filter \"x\"]\n\tclean = \"touch '{}'; cat\"\n", marker.display());
    fs::write(fake.join("config"), config + &filter).unwrap();
    fs::create_dir_all(fake.join("info")).unwrap();
    fs::write(fake.join("info/attributes"), "*.t filter=x\n").unwrap();
    agent.write("b.t", "text\n");
    let opened = agent.work();
    let commondir = real.join("worktrees/ag-1/commondir");
    fs::write(&commondir, format!("{}\n", fake.display())).unwrap();
    // Work that was opened before keeps the paths that it found.
    opened.snapshot(&opened.base().unwrap()).unwrap();
    assert!(!marker.exists());
    let open =
        || GitWork::open(&scratch.root(), &agent.worktree, &scratch.state(), &agent.id, None);
    let why = open().unwrap_err().to_string();
    assert!(why.contains("commondir"), "{why}");
    assert!(!marker.exists());
    git_in(&scratch, &agent.worktree, &["add", "b.t"]);
    assert!(marker.exists(), "the control: plain git runs it");
    fs::remove_file(&commondir).unwrap();
    open().unwrap_err();
    pipe(&commondir);
    open().unwrap_err();
    fs::remove_file(&commondir).unwrap();
    fs::write(&commondir, "../..\n").unwrap();
    open().unwrap();
    // The repository itself shares nothing with another one.
    fs::write(real.join("commondir"), format!("{}\n", fake.display())).unwrap();
    open().unwrap_err();
}

/// A commit like `commit`, with other text in one file.
fn forged(scratch: &Scratch, commit: &str, path: &str, text: &str) -> String {
    let file = scratch.place().join("forged");
    fs::write(&file, text).unwrap();
    let index = scratch.place().join("forged-index");
    let git = |arguments: &[&str]| {
        let mut git = scratch.command("git");
        git.current_dir(scratch.root()).env("GIT_INDEX_FILE", &index).args(arguments);
        let output = git.output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    };
    let blob = git(&["hash-object", "-w", file.to_str().unwrap()]);
    git(&["read-tree", commit]);
    git(&["update-index", "--add", "--cacheinfo", &format!("100644,{blob},{path}")]);
    let tree = git(&["write-tree"]);
    git(&["commit-tree", &tree, "-m", "forged"])
}

#[test]
fn replaced_commit_is_read_as_stored() {
    let scratch = repository();
    let agent = Agent::spawn(&scratch, "ag-1");
    let (_, before) = agent.snapshot();
    let start = scratch.git(&["rev-parse", "HEAD"]).trim().to_owned();
    agent.write("README.md", "changed by the agent\n");
    let replacement = forged(&scratch, &start, "README.md", "changed by the agent\n");
    scratch.git(&["update-ref", &format!("refs/replace/{start}"), &replacement]);
    let (_, after) = agent.snapshot();
    assert_eq!(after.merge_base_tree, before.merge_base_tree);
    let changes = agent.work().changes(&after.merge_base_tree, &after.tree).unwrap();
    assert_eq!(changes.len(), 1);
    let tree = CommitTree::read(&Git::at(scratch.root()), &start, "", &["README.md"]).unwrap();
    assert_eq!(tree.read("README.md").unwrap().unwrap(), "first\nsecond\nthird\n");
    let plain = scratch.git(&["show", &format!("{start}:README.md")]);
    assert_eq!(plain, "changed by the agent\n", "the control: plain git uses the replacement");
    // It does not count, regardless of who created it.
    let facts = agent.work().repository(&agent.work().base().unwrap(), &after).unwrap();
    assert_eq!(facts.references, [format!("refs/replace/{start}")]);
}

#[test]
fn replacement_from_before_the_spawn_does_not_count() {
    let scratch = repository();
    let start = scratch.git(&["rev-parse", "HEAD"]).trim().to_owned();
    let replacement = forged(&scratch, &start, "README.md", "by a person\n");
    scratch.git(&["update-ref", &format!("refs/replace/{start}"), &replacement]);
    let agent = Agent::spawn(&scratch, "ag-1");
    let (base, snapshot) = agent.snapshot();
    let facts = agent.work().repository(&base, &snapshot).unwrap();
    assert_eq!(facts.references, Vec::<String>::new());
}

#[test]
fn grafts_do_not_change_the_parents_of_a_commit() {
    let scratch = repository();
    let agent = Agent::spawn(&scratch, "ag-1");
    let start = scratch.git(&["rev-parse", "HEAD"]).trim().to_owned();
    agent.write("README.md", "evil\n");
    let first = agent.commit(&scratch, "first of mine");
    agent.write("src/lib.rs", "fn one() {}\n");
    agent.commit(&scratch, "second of mine");
    let info = scratch.root().join(".git/info");
    fs::create_dir_all(&info).unwrap();
    fs::write(info.join("grafts"), format!("{start} {first}\n{first}\n")).unwrap();
    let plain = scratch.git(&["rev-list", &start]);
    assert!(plain.contains(&first), "the control: plain git uses the graft");
    let (base, snapshot) = agent.snapshot();
    assert_eq!(snapshot.merge_base, start);
    let changes = agent.work().changes(&snapshot.merge_base_tree, &snapshot.tree).unwrap();
    assert_eq!(changes.len(), 2);
    assert_eq!(Git::at(scratch.root()).line(["rev-list", &base.tip]).unwrap(), start);
}

#[test]
fn pipe_in_the_place_of_a_file_in_the_worktree_is_refused() {
    for name in ["src/.gitignore", ".gitattributes", "deep/er/.gitignore", "nested/.git/HEAD"] {
        let scratch = repository();
        let agent = Agent::spawn(&scratch, "ag-1");
        agent.write("src/new.rs", "// new\n");
        for directory in ["deep/er", "nested/.git/objects", "nested/.git/refs"] {
            fs::create_dir_all(agent.worktree.join(directory)).unwrap();
        }
        agent.write("deep/er/file", "file\n");
        agent.write("nested/file", "file\n");
        let place = agent.worktree.join(name);
        let _removed = fs::remove_file(&place);
        pipe(&place);
        let why = refusal(&agent);
        assert!(why.contains(name) && why.contains("not a plain file"), "{name}: {why}");
        fs::remove_file(&place).unwrap();
        // Git does not open other pipes.
        pipe(&agent.worktree.join("pipe"));
        agent.snapshot();
    }
}

#[test]
fn pipe_in_the_repository_is_refused() {
    let files =
        ["config", "info/attributes", "packed-refs", "worktrees/ag-1/index", "worktrees/ag-1/HEAD"];
    for name in files {
        let scratch = repository();
        let agent = Agent::spawn(&scratch, "ag-1");
        let open =
            || GitWork::open(&scratch.root(), &agent.worktree, &scratch.state(), &agent.id, None);
        open().unwrap();
        let place = scratch.root().join(".git").join(name);
        fs::create_dir_all(place.parent().unwrap()).unwrap();
        let _removed = fs::remove_file(&place);
        pipe(&place);
        let why = open().unwrap_err().to_string();
        assert!(why.contains("not a plain file"), "{name}: {why}");
    }
}
