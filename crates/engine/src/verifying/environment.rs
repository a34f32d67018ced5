//! What the project of an agent needs besides tracked files: the result of its setup, or what the
//! person's checkout has installed.

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use bailiwick_lifecycle::ports::{CheckEnvironment as _, Preparation, Work as _};
use bailiwick_model::TreeId;
use bailiwick_runner::environment::{ProjectEnvironment, is_installed_packages};
use bailiwick_runner::process::{Cancellation, Limits};
use bailiwick_runner::sandbox::Level;
use bailiwick_runner::toolchain::Host;

use super::AgentWork;
use crate::failure::Failure;

impl AgentWork {
    /// Directories of installed packages in the checkout that git ignores; none where the task has a
    /// setup of its own.
    pub fn installed(&self) -> Vec<String> {
        if !self.bound.task.workspace.setup.is_empty() {
            return Vec::new();
        }
        let arguments =
            ["ls-files", "-z", "--others", "--ignored", "--exclude-standard", "--directory"];
        let listed = self.repository.git().run(arguments).unwrap_or_default();
        let listed = String::from_utf8_lossy(&listed).into_owned();
        let directories = listed.split_terminator('\0').filter_map(|path| path.strip_suffix('/'));
        directories.filter(|path| is_installed_packages(path)).map(str::to_owned).collect()
    }

    /// What the agent is given besides its worktree. Runs the setup of its task on the base commit if
    /// that was not done yet for the same dependencies.
    pub fn environment(&self, level: Level) -> Result<ProjectEnvironment, Failure> {
        if level == Level::Off {
            // Nothing can be shown without a sandbox.
            return Ok(ProjectEnvironment::default());
        }
        let host = Host::observe();
        let root = self.repository.root();
        let preparation = Preparation::of(&self.bound.task);
        if preparation.setup.is_empty() {
            let root = std::fs::canonicalize(root).unwrap_or_else(|_| root.to_path_buf());
            return Ok(ProjectEnvironment::of_person(&host.home, &root, &self.installed()));
        }
        let failed = |error: &dyn std::fmt::Display| Failure::general(error.to_string());
        let limits = Limits { time: self.time_of_a_check(), ..Limits::default() };
        let mut workshop = self
            .workshop(level, limits, Cancellation::default(), host, &[])
            .map_err(|error| failed(&error))?;
        let tree = self.repository.git().run(["rev-parse", &format!("{}^{{tree}}", self.base)])?;
        let tree = TreeId::new(String::from_utf8_lossy(&tree).trim());
        let directory = workshop.clear().map_err(|error| failed(&error))?;
        let work = self.git_work()?;
        work.materialise(&tree, &[&self.base], directory).map_err(|error| failed(&error))?;
        let result = workshop.set_up(&preparation, &mut |line| {
            self.context.notices.progress(format_args!("setting up: {line} …"))
        });
        result.map_err(|error| {
            failed(&error).help(
                "the setup runs on the base commit in a sandbox that reaches package registries \
                 only; other hosts: `hosts` under [workspace] of the task",
            )
        })?;
        Ok(workshop.environment().clone())
    }

    /// Copies single files that the setup made into the worktree, if git ignores them: others would be
    /// taken for the agent's work.
    pub fn place_files(&self, environment: &ProjectEnvironment) -> Result<(), Failure> {
        for share in &environment.files {
            let target = self.worktree.join(&share.place);
            let parent = target.parent().and_then(|parent| std::fs::canonicalize(parent).ok());
            let inside = std::fs::canonicalize(&self.worktree).ok().zip(parent);
            let inside = inside.is_some_and(|(worktree, parent)| parent.starts_with(worktree));
            let Some(path) = share.place.to_str().filter(|_| inside) else { continue };
            let ignored =
                self.repository.git().succeeds(["check-ignore", "--quiet", "--", path])?;
            if ignored && share.source.is_file() {
                copy_new(&share.source, &target).map_err(|error| {
                    Failure::general(format!("{} cannot be written: {error}", target.display()))
                })?;
            }
        }
        Ok(())
    }
}

/// Copies a file to a place where nothing is. Whatever is there stays: the agent of an earlier attempt may
/// have put a link there, which must not be followed out of the worktree.
fn copy_new(source: &Path, target: &Path) -> io::Result<()> {
    let mut from = File::open(source)?;
    let mut to = match File::create_new(target) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(()),
        Err(error) => return Err(error),
    };
    io::copy(&mut from, &mut to)?;
    to.set_permissions(from.metadata()?.permissions())
}

/// A text that differs when what the person has installed may differ.
pub(super) fn installed_key(root: &Path, installed: &[String], host: &Host) -> String {
    let mut all: Vec<String> = Vec::new();
    let markers = [".package-lock.json", ".yarn-integrity", ".modules.yaml", "pyvenv.cfg", ""];
    let active = host.virtual_env.iter().cloned();
    for place in installed.iter().map(|path| root.join(path)).chain(active) {
        for marker in markers {
            let Ok(found) = std::fs::metadata(place.join(marker)) else { continue };
            all.push(format!(
                "{}/{marker} {}.{}",
                place.display(),
                found.mtime(),
                found.mtime_nsec()
            ));
        }
    }
    all.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn link_left_by_an_agent_is_not_followed() {
        let directory = tempfile::tempdir().unwrap();
        let path_of = |name: &str| directory.path().join(name);
        std::fs::write(path_of("made"), "made by the setup").unwrap();
        std::os::unix::fs::symlink(path_of("outside"), path_of("link")).unwrap();
        copy_new(&path_of("made"), &path_of("link")).unwrap();
        assert!(!path_of("outside").exists(), "the link was followed");
        copy_new(&path_of("made"), &path_of("new")).unwrap();
        assert_eq!(std::fs::read_to_string(path_of("new")).unwrap(), "made by the setup");
    }
}
