//! An agent whose git writes to a real overlay over the repository, as in the sandbox.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use bailiwick_lifecycle::ports::WorkError;
use bailiwick_source_control::git::Imported;
use bailiwick_testkit::Scratch;

use crate::agent::{Agent, git_in};

/// Covers the first directory, runs the script in the third, and leaves a layer that can be deleted.
const COVERED: &str = r#"
    common=$1 layer=$2 worktree=$3 script=$4
    mount -t overlay overlay \
        -o "lowerdir=$common,upperdir=$layer/upper,workdir=$layer/work,userxattr" "$common"
    cd "$worktree"
    sh -ec "$script"
    cd /
    umount "$common"
    chmod -R u+rwx "$layer/work"
"#;

pub(crate) struct Layer<'a> {
    pub(crate) scratch: &'a Scratch,
    pub(crate) agent: &'a Agent,
    pub(crate) place: PathBuf,
}

impl<'a> Layer<'a> {
    pub(crate) fn over(scratch: &'a Scratch, agent: &'a Agent) -> Self {
        let place = scratch.place().join("layer");
        for name in ["upper", "work"] {
            fs::create_dir_all(place.join(name)).unwrap();
        }
        Self { scratch, agent, place }
    }

    pub(crate) fn common(&self) -> PathBuf {
        self.scratch.root().join(".git")
    }

    pub(crate) fn upper(&self, path: &str) -> PathBuf {
        self.place.join("upper").join(path)
    }

    /// The path of the agent's branch in the layer.
    pub(crate) fn branch(&self) -> PathBuf {
        self.upper("refs/heads/agent/ag-1")
    }

    /// The path of an object in the layer.
    pub(crate) fn object(&self, name: &str) -> PathBuf {
        let (directory, file) = name.split_at(2);
        self.upper("objects").join(directory).join(file)
    }

    /// Runs a script in the worktree, as the agent does; it must succeed.
    pub(crate) fn run(&self, script: &str) -> String {
        let mut command = self.scratch.command("unshare");
        command.args(["--user", "--map-root-user", "--mount", "--", "sh", "-ec", COVERED, "sh"]);
        command.arg(self.common()).arg(&self.place).arg(&self.agent.worktree).arg(script);
        // No process remains when the script has ended, as with an agent.
        command.env("GIT_CONFIG_COUNT", "1").env("GIT_CONFIG_KEY_0", "maintenance.auto");
        command.env("GIT_CONFIG_VALUE_0", "false");
        let output = command.output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{script}: {stderr}");
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    /// Commits a file as the agent does; returns the commit.
    pub(crate) fn commit(&self, file: &str) -> String {
        self.agent.write(file, format!("{file}\n"));
        self.run(&format!("git add -A; git commit -q -m 'add {file}'; git rev-parse HEAD"))
    }

    pub(crate) fn import(&self) -> Result<Imported, WorkError> {
        self.agent.work().import(&self.place)
    }

    /// The import is refused, and nothing of the repository has changed.
    #[track_caller]
    pub(crate) fn refused(&self) -> String {
        let before = everything(&self.common());
        let why = self.import().unwrap_err().to_string();
        let after = everything(&self.common());
        assert_eq!(before.keys().collect::<Vec<_>>(), after.keys().collect::<Vec<_>>());
        assert!(before == after, "a file has changed");
        assert_eq!(private(self.scratch), Vec::<PathBuf>::new());
        why
    }

    /// The import succeeds, and nothing but the branch, its log and a pack has changed.
    #[track_caller]
    pub(crate) fn brought(&self, tip: &str, count: u64) {
        let before = everything(&self.common());
        let imported = self.import().unwrap();
        assert_eq!(imported, Imported::Commits { tip: tip.to_owned(), count });
        let after = everything(&self.common());
        let changed = after.iter().filter(|(path, bytes)| before.get(*path) != Some(*bytes));
        for (path, _) in changed {
            let known = path.starts_with("objects/pack")
                || path.ends_with("refs/heads/agent/ag-1")
                    && (path.starts_with("refs") || path.starts_with("logs"));
            assert!(known, "{}", path.display());
        }
        assert!(before.keys().all(|path| after.contains_key(path)), "a file was deleted");
        assert_eq!(private(self.scratch), Vec::<PathBuf>::new());
        let real = |arguments: &[&str]| git_in(self.scratch, &self.scratch.root(), arguments);
        assert_eq!(real(&["rev-parse", "agent/ag-1"]).trim(), tip);
        let stderr = real(&["fsck", "--strict", "--full", "--no-dangling"]);
        assert_eq!(stderr, "");
        assert_eq!(self.import().unwrap(), Imported::Nothing, "once more");
    }
}

/// Every file below a directory.
pub(crate) fn everything(directory: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut pending = vec![directory.to_owned()];
    let mut files = BTreeMap::new();
    while let Some(place) = pending.pop() {
        for entry in fs::read_dir(&place).unwrap() {
            let entry = entry.unwrap();
            if entry.file_type().unwrap().is_dir() {
                pending.push(entry.path());
                continue;
            }
            let path = entry.path().strip_prefix(directory).unwrap().to_owned();
            files.insert(path, fs::read(entry.path()).unwrap());
        }
    }
    files
}

/// Scratch directories that were not deleted.
fn private(scratch: &Scratch) -> Vec<PathBuf> {
    let entries = fs::read_dir(scratch.state().join("temporary")).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).filter(|path| path.is_dir()).collect()
}
