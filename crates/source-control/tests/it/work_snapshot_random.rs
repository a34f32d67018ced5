//! Random work, recorded by us and committed by plain git: the same tree, and no change by us.

use std::collections::BTreeMap;
use std::fs;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use bailiwick_lifecycle::ports::Work as _;
use bailiwick_testkit::random::Random;
use bailiwick_testkit::{Depth, Scratch};

use crate::agent::{Agent, repository};
use crate::random_work::{files_of, scribble};

/// Bytes, mode and times of the index and of every file, and git's status.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct WorktreeState {
    files: BTreeMap<PathBuf, (u64, u32, [i64; 4])>,
    administrative: BTreeMap<PathBuf, (u64, [i64; 2])>,
    status: String,
}

impl WorktreeState {
    /// Git's status of files that are not ignored.
    pub(crate) fn status(&self) -> String {
        self.status.lines().filter(|line| !line.starts_with('!')).collect()
    }
}

/// The state of an agent's worktree with all times; git may not write.
pub(crate) fn worktree_state(scratch: &Scratch, agent: &Agent) -> WorktreeState {
    let stamp = |path: &PathBuf| {
        let found = fs::symlink_metadata(path).unwrap();
        let bytes = match fs::read_link(path) {
            Ok(target) => target.into_os_string().into_encoded_bytes(),
            Err(_) => fs::read(path).unwrap(),
        };
        let mut digest = DefaultHasher::new();
        bytes.hash(&mut digest);
        let times = [found.mtime(), found.mtime_nsec(), found.ctime(), found.ctime_nsec()];
        (digest.finish(), found.mode(), times)
    };
    let private = administrative(scratch, agent);
    let files = files_of(&agent.worktree).into_iter().map(|path| (path.clone(), stamp(&path)));
    let administrative = files_of(&private).into_iter().map(|path| {
        let (digest, _, [seconds, parts, ..]) = stamp(&path);
        // Every reader of a split index changes the time of the shared part.
        let shared = path.file_name().unwrap().to_string_lossy().starts_with("sharedindex");
        let changed = if shared { [0, 0] } else { [seconds, parts] };
        (path, (digest, changed))
    });
    WorktreeState {
        files: files.collect(),
        administrative: administrative.collect(),
        status: agent
            .git(scratch, &["--no-optional-locks", "status", "--porcelain=v2", "--ignored"]),
    }
}

pub(crate) fn administrative(scratch: &Scratch, agent: &Agent) -> PathBuf {
    scratch.root().join(".git/worktrees").join(agent.id.as_str())
}

fn random_work(random: &mut Random, scratch: &Scratch, agent: &Agent) {
    for _ in 0..=random.below(3) {
        for _ in 0..=random.below(6) {
            scribble(random, &agent.worktree);
        }
        match random.below(4) {
            0 => drop(agent.commit(scratch, "some of it")),
            1 => drop(agent.git(scratch, &["add", "--all"])),
            2 => drop(agent.git(scratch, &["add", "--intent-to-add", "."])),
            _ => {}
        }
    }
    if random.once_in(4) {
        drop(agent.git(scratch, &["add", "--force", "--all", "."]));
    }
    if random.once_in(4) {
        for path in files_of(&agent.worktree).into_iter().take(2) {
            fs::remove_file(path).unwrap();
        }
    }
}

/// The tree that plain git records; this changes the agent's index.
fn with_plain_git(scratch: &Scratch, agent: &Agent) -> String {
    agent.git(scratch, &["add", "--all"]);
    agent.git(scratch, &["write-tree"]).trim().to_owned()
}

#[test]
fn random_work_is_recorded_as_git_commits_it_and_is_not_changed() {
    let mut random = Random::rotating("snapshots");
    for case in 0..Depth::from_env().cases(150) {
        let scratch = repository();
        let agent = Agent::spawn(&scratch, "ag-1");
        random_work(&mut random, &scratch, &agent);
        let before = worktree_state(&scratch, &agent);
        let (_, snapshot) = agent.snapshot();
        let (_, repeated) = agent.snapshot();
        assert_eq!(snapshot, repeated, "case {case}: the same work gives the same commit");
        assert_eq!(
            worktree_state(&scratch, &agent),
            before,
            "case {case}: the worktree has changed"
        );
        assert_eq!(left_in_state(&scratch), Vec::<PathBuf>::new(), "case {case}");
        let tree = agent.git(&scratch, &["rev-parse", &format!("{}^{{tree}}", snapshot.commit)]);
        assert_eq!(tree.trim(), snapshot.tree.as_str(), "case {case}");
        assert_eq!(snapshot.tree, with_plain_git(&scratch, &agent), "case {case}");
        let changes = agent.work().changes(&snapshot.merge_base_tree, &snapshot.tree).unwrap();
        let mut paths: Vec<&str> = changes.iter().flat_map(|change| change.paths()).collect();
        let count = paths.len();
        paths.sort_unstable();
        paths.dedup();
        assert!(paths.len() == count, "case {case}: two paths are shown as one: {paths:?}");
    }
}

/// The remaining private directories.
pub(crate) fn left_in_state(scratch: &Scratch) -> Vec<PathBuf> {
    let temporary = scratch.state().join("temporary");
    let entries = fs::read_dir(&temporary).unwrap().map(|entry| entry.unwrap().path());
    entries.filter(|path| path.file_name() != Path::new("door").file_name()).collect()
}

/// A file that changes right after it was staged and keeps its size may keep all its times too:
/// git reads the bytes only because the file is as new as the index.
#[test]
fn change_in_the_same_second_as_the_index_is_recorded() {
    let scratch = repository();
    let agent = Agent::spawn(&scratch, "ag-1");
    for round in 0..Depth::from_env().cases(300) {
        agent.write("racy.txt", format!("one {round:06}\n"));
        agent.git(&scratch, &["add", "racy.txt"]);
        agent.write("racy.txt", format!("two {round:06}\n"));
        let (_, snapshot) = agent.snapshot();
        let text = agent.git(&scratch, &["show", &format!("{}:racy.txt", snapshot.commit)]);
        assert_eq!(text, format!("two {round:06}\n"));
    }
}
