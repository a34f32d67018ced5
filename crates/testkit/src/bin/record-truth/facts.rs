//! The observations of one case, and facts about the programs of this machine.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use bailiwick_testkit::corpus::{Program, Write, hex};
use sha2::{Digest as _, Sha256};

use crate::trace::{Trace, base_name};
use crate::view::{Last, View, shown};

/// The directories in which programs are looked for, after the stubs.
pub(crate) const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// The programs that count as git, by the size and digest of their files.
pub(crate) struct Tools {
    git: BTreeSet<(u64, String)>,
}

impl Tools {
    /// Looks for every git of this machine and all its helpers.
    pub(crate) fn observe() -> Self {
        let mut files: BTreeSet<PathBuf> = BTreeSet::new();
        for folder in PATH.split(':') {
            let file = Path::new(folder).join("git");
            let Ok(real) = file.canonicalize() else { continue };
            files.insert(real);
            let output = Command::new(&file).arg("--exec-path").output();
            let said = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
            let entries = said.ok().and_then(|said| std::fs::read_dir(said.trim()).ok());
            for entry in entries.into_iter().flatten().flatten() {
                files.extend(entry.path().canonicalize().ok().filter(|path| path.is_file()));
            }
        }
        // Most helpers are hard links to one file, which is read once.
        let mut known: BTreeMap<u64, (u64, String)> = BTreeMap::new();
        for file in files {
            let Ok(about) = file.metadata() else { continue };
            let digest = || (about.len(), digest(&file));
            known.entry(about.ino()).or_insert_with(digest);
        }
        Self { git: known.into_values().collect() }
    }

    /// Whether a file is git or one of its helpers, under any name; none if it does not exist.
    fn is_git(&self, file: &Path) -> Option<bool> {
        let size = file.metadata().ok()?.len();
        let same_size = self.git.iter().any(|(known, _)| *known == size);
        Some(same_size && self.git.contains(&(size, digest(file))))
    }
}

fn digest(file: &Path) -> String {
    hex(&Sha256::digest(std::fs::read(file).unwrap_or_default()))
}

/// The files of the repository, without what git ignores and without `.git`'s inside.
pub(crate) type Snapshot = BTreeMap<String, Option<String>>;

/// Files whose text is stored, because the dependencies in it are compared.
fn is_kept(name: &str) -> bool {
    let manifests = ["Cargo.toml", "Cargo.lock", "package.json", "package-lock.json", "go.mod"];
    let more = ["go.sum", "pyproject.toml", "yarn.lock", "pnpm-lock.yaml", "uv.lock"];
    manifests.contains(&name) || more.contains(&name) || name.starts_with("requirements")
}

/// Lists a repository.
pub(crate) fn snapshot(root: &Path) -> Snapshot {
    let mut files = Snapshot::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
            let path = entry.path();
            let name = base_name(&path);
            let kind = entry.file_type();
            if kind.is_ok_and(|kind| kind.is_dir()) {
                if !["target", "node_modules"].contains(&name.as_str()) {
                    folders.push(path);
                }
                continue;
            }
            let shown = path.strip_prefix(root).map(|path| path.display().to_string());
            let text = is_kept(&name).then(|| std::fs::read_to_string(&path).ok()).flatten();
            files.extend(shown.ok().map(|shown| (shown, text)));
        }
    }
    files
}

/// All that was seen of one case.
pub(crate) struct Seen {
    /// The exit status of the shell.
    pub(crate) status: i32,
    /// The executed programs and the written files.
    pub(crate) trace: Trace,
    /// The identities of the executed programs.
    pub(crate) programs: Vec<Program>,
    /// The repository before.
    pub(crate) before: Snapshot,
    /// The repository after.
    pub(crate) after: Snapshot,
}

impl Seen {
    /// The programs for the record: without the outermost shell, without repeats.
    pub(crate) fn programs(&self) -> Vec<Program> {
        let mut list: Vec<Program> = Vec::new();
        for program in self.programs.iter().skip(1) {
            let argv = program.argv.iter().take(4).cloned().collect();
            let program = Program { argv, ..program.clone() };
            if !list.contains(&program) && list.len() < 40 {
                list.push(program);
            }
        }
        list
    }

    /// The writes for the record.
    pub(crate) fn writes(&self) -> Vec<Write> {
        let mut list: Vec<Write> = Vec::new();
        for change in &self.trace.changes {
            let by = self.programs.get(change.by).map(|program| program.name.clone());
            let by = by.unwrap_or_default();
            let write = Write { path: shown(&change.path), how: change.how, by };
            if !list.contains(&write) && list.len() < 60 {
                list.push(write);
            }
        }
        list
    }
}

/// Identifies each executed program. A deleted file cannot be identified, which is an error.
pub(crate) fn identify(trace: &Trace, view: &View, tools: &Tools) -> Result<Vec<Program>, String> {
    let mut programs = Vec::new();
    for exec in &trace.execs {
        let file = view.resolve(&exec.named, Last::Followed);
        let mut name = base_name(&file);
        let loaded = loaded(&name, &exec.argv);
        let loaded = loaded.map(|path| view.resolve(Path::new(&path), Last::Followed));
        for candidate in loaded.iter().chain([&file]) {
            let outside = view.outside(candidate);
            match tools.is_git(&outside) {
                Some(true) => name = "git".to_owned(),
                Some(false) => {}
                None if candidate.starts_with("/proc") => {}
                None => {
                    return Err(format!(
                        "{} is gone after the run, so nobody can tell what it was: keep it",
                        candidate.display()
                    ));
                }
            }
        }
        programs.push(Program {
            name,
            file: file.display().to_string(),
            named: exec.named.display().to_string(),
            argv: exec.argv.clone(),
        });
    }
    Ok(programs)
}

/// The program that the dynamic loader starts.
fn loaded(name: &str, argv: &[String]) -> Option<String> {
    if !(name.starts_with("ld-linux") || name.starts_with("ld.so")) {
        return None;
    }
    let mut words = argv.iter().skip(1);
    loop {
        match words.next()?.as_str() {
            "--argv0" | "--library-path" | "--preload" | "--audit" | "--inhibit-rpath" => {
                words.next();
            }
            option if option.starts_with('-') => {}
            program => return Some(program.to_owned()),
        }
    }
}
