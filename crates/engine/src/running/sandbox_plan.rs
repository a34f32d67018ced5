//! Plans an agent's sandbox: its program, compilers and git, and what it may write.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use bailiwick_lifecycle::ports::Preparation;
use bailiwick_model::module::GateModule;
use bailiwick_policy::path_policy::{Tracked, TrackedKind};
use bailiwick_policy::{PathPolicy, Policy};
use bailiwick_runner::agents::{self, adapter::Adapter};
use bailiwick_runner::checks::OpenSetup;
use bailiwick_runner::environment::{self, ProjectEnvironment};
use bailiwick_runner::sandbox::{Bind, Bounds, Launcher, Level, WorktreeAccess};
use bailiwick_runner::supervisor::Enclosure;
use bailiwick_runner::toolchain::{
    GIT_ACROSS_MOUNTS, Host, NO_BYTECODE, OFFLINE, VisibleToolchain,
};
use bailiwick_source_control::{GitError, GitWork, Repository};

use super::{LockedRun, versions};
use crate::failure::Failure;
use crate::options::SandboxLevel;
use crate::policy_file;
use crate::running::AttemptOptions;
use crate::system;
use crate::verifying::worktree_setup::WorktreeSetup;

/// The default resource limits of an agent with all its processes.
const MEMORY: u64 = 8 << 30;
const PROCESSES: u64 = 4096;

/// Where a run's directory says which setup its agent works with.
pub const SETUP_NOTE: &str = "setup";

/// The agent program that is our own.
const SCRIPT: &str = "script";

/// An installed agent program.
pub struct InstalledProgram {
    /// The path of the program.
    pub program: PathBuf,
    /// Its version.
    pub version: String,
}

/// Looks for the program of an agent on PATH.
pub fn program(adapter: &dyn Adapter, state: &Path) -> Result<InstalledProgram, Failure> {
    if adapter.name() == SCRIPT {
        let version = env!("CARGO_PKG_VERSION").to_owned();
        return Ok(InstalledProgram { program: system::own_program()?, version });
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    program_on(&path, adapter, state)?.ok_or_else(|| {
        Failure::general(format!("{} is not installed: no `{}` on PATH", adapter.name(), adapter.program()))
            .help("install it, or choose another in [agent] cli of the task; `bailiwick doctor` lists them")
    })
}

/// An adapter's program on `path`, if it says its version: for that it is asked, unless this very program
/// has said it before.
pub fn program_on(
    path: &OsStr,
    adapter: &dyn Adapter,
    state: &Path,
) -> Result<Option<InstalledProgram>, Failure> {
    // It is asked outside of any sandbox: in an empty home, never in one that an agent has written to.
    let home = tempfile::tempdir()
        .map_err(|error| Failure::general(format!("no temporary directory: {error}")))?;
    Ok(agents::on_path(path, adapter.program()).and_then(|program| {
        let version = versions::known(state, adapter.name(), &program)
            .or_else(|| agents::version(adapter, &program, path, home.path()))?;
        versions::keep(state, adapter.name(), &program, &version);
        Some(InstalledProgram { program, version })
    }))
}

/// What the agent of a run sees.
pub fn enclosure(
    running: &LockedRun,
    found: InstalledProgram,
    options: &AttemptOptions,
) -> Result<Enclosure, Failure> {
    let subject = &running.subject;
    let policy = policy_file::recorded(&running.directory)?.policy;
    let scope = Scope::of(&subject.repository, Some(&subject.base), &subject.worktree, &policy)?;
    let mut enclosure = enclosed(found, subject.git_work()?, &policy, options.sandbox, scope)?;
    enclosure.environment = subject.environment(enclosure.level)?;
    enclosure.path = enclosure.environment.path(&enclosure.path);
    note_setup(running, enclosure.environment.setup())?;
    match enclosure.level {
        Level::Off => set_up_worktree(running, options.open_setup)?,
        Level::Partial | Level::Full => subject.place_files(&enclosure.environment)?,
    }
    if !subject.bound.task.agent.hosts.is_empty() {
        // It has a network and may download, so programs are not told that they are offline.
        enclosure.variables.retain(|(name, _)| OFFLINE.iter().all(|(other, _)| name != other));
    }
    Ok(enclosure)
}

/// The enclosure of an agent with this policy.
pub(super) fn enclosed(
    found: InstalledProgram,
    work: &GitWork,
    policy: &Policy,
    sandbox: SandboxLevel,
    scope: Scope,
) -> Result<Enclosure, Failure> {
    let closed =
        read_only_enclosure(found, work.common_dir(), work.git_dir(), Level::from(sandbox))?;
    let Scope { access, protected } = scope;
    let mut enclosure =
        Enclosure { access, commits: commits(policy), read_only_paths: protected, ..closed };
    if enclosure.commits {
        // The agent cannot read the person's git configuration. A repository's own comes before this one.
        enclosure.home_files.push((".gitconfig".to_owned(), work.identity_file()));
    }
    Ok(enclosure)
}

/// The enclosure of an agent that may not write, with these directories of git.
pub fn read_only_enclosure(
    found: InstalledProgram,
    git_common: &Path,
    git_private: &Path,
    level: Level,
) -> Result<Enclosure, Failure> {
    let launcher = Launcher::own().map_err(|error| Failure::general(error.to_string()))?;
    let host = Host::observe();
    let visible = host.visible();
    let mut programs = visible.binds.clone();
    add_program(&mut programs, &found.program, &host.home);
    Ok(Enclosure {
        launcher,
        level,
        program: found.program,
        programs,
        path: visible.path.clone(),
        bailiwick_program: system::own_program()?,
        gate_arguments: vec!["gate".to_owned()],
        git_common: git_common.to_path_buf(),
        git_private: git_private.to_path_buf(),
        access: WorktreeAccess::ReadOnly,
        commits: false,
        read_only_paths: Vec::new(),
        bounds: Bounds { memory: Some(MEMORY), processes: Some(PROCESSES) },
        environment: ProjectEnvironment::of_person(&host.home, &host.home, &[]),
        variables: variables(&visible, level),
        home_files: host
            .cargo_settings()
            .map(|settings| (".cargo/config.toml".to_owned(), settings))
            .into_iter()
            .collect(),
    })
}

/// Without a sandbox nothing can be shown in the worktree: what the setup installs is put there, once.
fn set_up_worktree(running: &LockedRun, open: OpenSetup) -> Result<(), Failure> {
    let subject = &running.subject;
    let setup = WorktreeSetup {
        state: subject.context.state.clone(),
        repository: subject.repository.clone(),
        agent: running.id.clone(),
        base: subject.base.clone(),
        trust: subject.base_trust(),
        preparation: Preparation::of(&subject.bound.task),
        time: subject.time_of_a_check(),
        open,
        notices: subject.context.notices.clone(),
    };
    setup.run(&subject.worktree, None)
}

/// Records which setup an agent uses, so that it is not removed before the work has ended.
fn note_setup(running: &LockedRun, setup: Option<&Path>) -> Result<(), Failure> {
    let Some(setup) = setup else { return Ok(()) };
    let file = running.directory.path().join(SETUP_NOTE);
    std::fs::write(&file, setup.as_os_str().as_encoded_bytes())
        .map_err(|error| Failure::general(format!("{} cannot be written: {error}", file.display())))
}

/// Which environment is active, where tools are, and that there is no network but to the model.
fn variables(toolchain: &VisibleToolchain, level: Level) -> Vec<(String, String)> {
    let mut active = toolchain.variables.clone();
    active.push((NO_BYTECODE.0.to_owned(), NO_BYTECODE.1.to_owned()));
    if let Some(rustup) = &toolchain.rustup {
        active.push(("RUSTUP_HOME".to_owned(), rustup.clone()));
        // A toolchain that is not there is an error that says so.
        active.push(("RUSTUP_AUTO_INSTALL".to_owned(), "0".to_owned()));
    }
    if level != Level::Off {
        let (name, value) = GIT_ACROSS_MOUNTS;
        active.push((name.to_owned(), value.to_owned()));
        active.extend(OFFLINE.map(|(name, value)| (name.to_owned(), value.to_owned())));
    }
    active
}

/// A program from npm needs the packages around it; another one only itself.
fn add_program(binds: &mut Vec<Bind>, program: &Path, home: &Path) {
    let real = std::fs::canonicalize(program).unwrap_or_else(|_| program.to_path_buf());
    for place in [program.to_path_buf(), real] {
        let packages = place.ancestors().filter(|above| above.ends_with("node_modules")).last();
        let directory = match packages {
            Some(packages) => packages.to_path_buf(),
            None => place.clone(),
        };
        let system = ["/usr", "/bin", "/sbin", "/lib", "/opt"];
        let is_visible = system.iter().any(|one| directory.starts_with(one))
            || binds.iter().any(|bind| directory.starts_with(&bind.target));
        if !is_visible && !home.starts_with(&directory) {
            binds.push(Bind::same(directory));
        }
    }
}

/// Whether the limits on git allow commits.
pub fn commits(policy: &Policy) -> bool {
    let forbids = [GateModule::PolicyNoGitOps, GateModule::PolicyGitReadOnly];
    let mut rules = policy.all().flat_map(|policy| &policy.rules);
    !rules.any(|rule| rule.gate.is_some_and(|gate| forbids.contains(&gate)))
        && !policy.all().any(|policy| policy.read_only)
}

/// The writable and the read-only paths of an agent's worktree.
pub struct Scope {
    pub access: WorktreeAccess,
    pub protected: Vec<PathBuf>,
}

/// The files of a commit.
pub(super) fn tracked(repository: &Repository, commit: &str) -> Result<Vec<Tracked>, GitError> {
    let listed = repository.git().run(["ls-tree", "-r", "-z", "--full-tree", commit])?;
    let entry = |line: &[u8]| {
        let tab = line.iter().position(|byte| *byte == b'\t')?;
        let (what, path) = (line.get(..tab)?, line.get(tab + 1..)?);
        let kind = match what.split(|byte| *byte == b' ').next()? {
            b"120000" => TrackedKind::Link,
            b"160000" => TrackedKind::Submodule,
            _ => TrackedKind::File,
        };
        Some(Tracked { path: PathBuf::from(OsStr::from_bytes(path)), kind })
    };
    let lines = listed.split(|byte| *byte == 0).filter(|line| !line.is_empty());
    // An entry that is left out would not be protected.
    let unread = |line: &[u8]| GitError::UnexpectedOutput {
        command: format!("ls-tree -r -z --full-tree {commit}"),
        output: String::from_utf8_lossy(line).into_owned(),
    };
    lines.map(|line| entry(line).ok_or_else(|| unread(line))).collect()
}

impl Scope {
    /// By the policy and the files of the commit that the agent begins with.
    pub fn of(
        repository: &Repository,
        commit: Option<&str>,
        worktree: &Path,
        policy: &Policy,
    ) -> Result<Self, Failure> {
        let paths = PathPolicy::of(policy);
        if paths.is_unlimited() {
            return Ok(Self { access: WorktreeAccess::Writable, protected: Vec::new() });
        }
        let tracked = commit.map(|commit| tracked(repository, commit)).transpose()?;
        let plan = paths.mounts(&tracked.unwrap_or_default());
        let access = match plan.writable.as_slice() {
            [] => WorktreeAccess::ReadOnly,
            [all] if all.is_empty() => WorktreeAccess::Writable,
            some => WorktreeAccess::WritableBelow(directories(worktree, some)),
        };
        let (protected, odd): (Vec<PathBuf>, Vec<PathBuf>) =
            plan.protected.into_iter().partition(|path| path.to_str().is_some());
        // What is written outside of the scope never lands, so only those within it matter.
        let writable = |path: &&PathBuf| plan.writable.iter().any(|root| path.starts_with(root));
        match odd.iter().find(writable) {
            None => Ok(Self { access, protected }),
            Some(path) => Err(Failure::general(format!(
                "{} cannot be protected from the agent: its name is not UTF-8",
                path.display()
            ))
            .help("rename it, or narrow [scope] files-whitelist so that its directory is outside")),
        }
    }
}

/// Makes directories of a worktree that are not there yet. One that is something else, or is reached through
/// a link, is left out: nothing can be written there.
fn directories(worktree: &Path, paths: &[String]) -> Vec<PathBuf> {
    let is_made = |path: &&String| environment::make_place(worktree, Path::new(path)).is_ok();
    paths.iter().filter(is_made).map(PathBuf::from).collect()
}
