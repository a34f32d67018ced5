//! Finding the cargo workspaces of a tree.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use bailiwick_verify::job::{CommandResult, Crates};

use super::bench::{Bench, Environment, Program};
use super::job_error::JobError;
use super::messages::Metadata;
use super::plain;
use super::tree_settings;
use super::work::Work;
use crate::process::Capture;

const MANIFEST: &str = "Cargo.toml";
/// Larger manifests are refused.
const MAX_SIZE: u64 = 4 * 1024 * 1024;

/// One workspace, and what of it a job is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Chosen {
    /// Its root, relative to the tree.
    pub(super) root: PathBuf,
    /// The crates; all of them where there is none.
    pub(super) crates: Vec<String>,
}

/// The workspaces of a tree.
pub(super) enum Found {
    /// These workspaces.
    Workspaces(Vec<Chosen>),
    /// Cargo failed.
    Failed(CommandResult),
}

impl Chosen {
    /// The options that choose the crates.
    pub(super) fn selection(&self) -> Vec<String> {
        if self.crates.is_empty() {
            return vec!["--workspace".to_owned()];
        }
        self.crates.iter().flat_map(|name| ["-p".to_owned(), name.clone()]).collect()
    }

    /// A cargo command in the root of this workspace: its arguments with `--locked` where there is
    /// something to lock, and as a person would write it.
    pub(super) fn command(&self, tree: &Path, arguments: Vec<String>) -> (String, Vec<String>) {
        let mut argv = vec!["cargo".to_owned()];
        argv.extend(arguments);
        if fs::symlink_metadata(tree.join(&self.root).join("Cargo.lock")).is_ok() {
            argv.insert(2.min(argv.len()), "--locked".to_owned());
        }
        let line = argv.join(" ");
        let line = match self.root.to_str() {
            Some("") => line,
            root => format!("cd {} && {line}", root.unwrap_or_default()),
        };
        (line, argv)
    }
}

/// The workspaces of a job. Fails if the tree configures its own builds.
pub(super) fn choose(bench: &Bench, job: &Work, of: &Crates) -> Result<Found, JobError> {
    let found = find(bench, job, of)?;
    if let Found::Workspaces(all) = &found {
        let roots = all.iter().map(|one| one.root.as_path());
        tree_settings::refuse(bench.tree(), roots.flat_map(Path::ancestors))?;
    }
    Ok(found)
}

fn find(bench: &Bench, job: &Work, of: &Crates) -> Result<Found, JobError> {
    let manifests = manifests(bench.tree());
    if manifests.is_empty() {
        return Err("there is no Cargo.toml in the tree".to_owned().into());
    }
    match of {
        Crates::Containing(paths) => {
            // All above a path, not the nearest alone: one that was put in between hides no other.
            let mut near: BTreeSet<PathBuf> = paths
                .iter()
                .flat_map(|path| manifests_on_path(&manifests, Path::new(path)))
                .collect();
            if near.is_empty() {
                near = outermost(&manifests);
            }
            let mut roots = BTreeSet::new();
            for place in near {
                match root_of(bench, job, &place)? {
                    Ok(root) => roots.insert(root),
                    Err(ran) => return Ok(Found::Failed(ran)),
                };
            }
            for path in paths.iter().map(Path::new) {
                let root = path.parent().unwrap_or(Path::new(""));
                if path.file_name().is_some_and(|name| name == MANIFEST) && roots.contains(root) {
                    match left_out(bench, job, &manifests, root)? {
                        Ok(more) => roots.extend(more),
                        Err(ran) => return Ok(Found::Failed(ran)),
                    }
                }
            }
            let all = roots.into_iter().map(|root| Chosen { root, crates: Vec::new() });
            Ok(Found::Workspaces(all.collect()))
        }
        Crates::Named(names) => named(bench, job, &manifests, names),
    }
}

fn named(
    bench: &Bench,
    job: &Work,
    manifests: &BTreeSet<PathBuf>,
    names: &[String],
) -> Result<Found, JobError> {
    let mut chosen: Vec<Chosen> = Vec::new();
    for name in names {
        let places = manifests
            .iter()
            .filter(|place| package_name(bench.tree(), place).is_some_and(|found| found == *name));
        let mut anywhere = false;
        for place in places {
            anywhere = true;
            let root = match root_of(bench, job, place)? {
                Ok(root) => root,
                Err(ran) => return Ok(Found::Failed(ran)),
            };
            match chosen.iter_mut().find(|other| other.root == root) {
                Some(other) if other.crates.contains(name) => {}
                Some(other) => other.crates.push(name.clone()),
                None => chosen.push(Chosen { root, crates: vec![name.clone()] }),
            }
        }
        if !anywhere {
            return Err(format!("there is no crate `{name}` in the tree").into());
        }
    }
    Ok(Found::Workspaces(chosen))
}

fn package_name(tree: &Path, place: &Path) -> Option<String> {
    let manifest = read_manifest(tree, &place.join(MANIFEST))?;
    Some(manifest.get("package")?.get("name")?.as_str()?.to_owned())
}

/// A manifest of the tree, if it can be read.
pub(super) fn read_manifest(tree: &Path, path: &Path) -> Option<toml::Table> {
    let text = plain::read(tree, path, MAX_SIZE).ok()?;
    std::str::from_utf8(&text).ok()?.parse().ok()
}

/// The root of the workspace that cargo finds from a directory of the tree.
fn root_of(
    bench: &Bench,
    job: &Work,
    place: &Path,
) -> Result<Result<PathBuf, CommandResult>, JobError> {
    let directory = bench.places.tree.join(place);
    let argv = ["cargo", "locate-project", "--workspace", "--message-format", "plain"];
    let (ran, output) = bench.run(
        job,
        &Program {
            line: argv.join(" "),
            argv: argv.map(str::to_owned).into(),
            directory: &directory,
            environment: Environment::With(&[]),
            capture: Capture::Separate,
        },
    )?;
    if !ran.succeeded() {
        return Ok(Err(ran));
    }
    let manifest = PathBuf::from(String::from_utf8_lossy(&output).trim_end());
    let root = manifest.parent().and_then(|root| root.strip_prefix(&bench.places.tree).ok());
    let outside = || format!("cargo takes {} for the workspace", manifest.display());
    root.map(|root| Ok(root.to_owned())).ok_or_else(|| outside().into())
}

/// The directories of the tree that have a manifest.
fn manifests(tree: &Path) -> BTreeSet<PathBuf> {
    let mut found = BTreeSet::new();
    let mut open = vec![PathBuf::new()];
    while let Some(place) = open.pop() {
        let Ok(entries) = fs::read_dir(tree.join(&place)) else { continue };
        for entry in entries.flatten() {
            let Ok(kind) = entry.file_type() else { continue };
            let name = entry.file_name();
            if kind.is_dir() {
                if ![".git", "target", "node_modules"].iter().any(|skip| name == *skip) {
                    open.push(place.join(name));
                }
            } else if name == MANIFEST {
                found.insert(place.clone());
            }
        }
    }
    found
}

/// The manifests above or beside a path of the tree.
fn manifests_on_path(manifests: &BTreeSet<PathBuf>, path: &Path) -> Vec<PathBuf> {
    path.ancestors().filter(|place| manifests.contains(*place)).map(Path::to_owned).collect()
}

/// Crates below a workspace with a changed manifest that are in no workspace but depend on crates of this tree: they
/// may have been members until now, and would not be checked.
fn left_out(
    bench: &Bench,
    job: &Work,
    manifests: &BTreeSet<PathBuf>,
    root: &Path,
) -> Result<Result<Vec<PathBuf>, CommandResult>, JobError> {
    let below = manifests.iter().filter(|place| place.starts_with(root) && *place != root);
    let leaning: Vec<&PathBuf> = below.filter(|place| leans(bench.tree(), place)).collect();
    if leaning.is_empty() {
        return Ok(Ok(Vec::new()));
    }
    let argv = ["cargo", "metadata", "--no-deps", "--format-version", "1"];
    let (ran, output) = bench.run(
        job,
        &Program {
            line: argv.join(" "),
            argv: argv.map(str::to_owned).into(),
            directory: &bench.places.tree.join(root),
            environment: Environment::With(&[]),
            capture: Capture::Separate,
        },
    )?;
    if !ran.succeeded() {
        return Ok(Err(ran));
    }
    let metadata: Metadata = serde_json::from_slice(&output)
        .map_err(|error| format!("cargo's metadata cannot be read: {error}"))?;
    let member = |place: &Path| {
        let manifest = bench.places.tree.join(place).join(MANIFEST);
        metadata.packages.iter().any(|package| package.manifest_path == manifest)
    };
    let mut found = Vec::new();
    for place in leaning.into_iter().filter(|place| !member(place)) {
        match root_of(bench, job, place)? {
            // It is in another workspace, with its own manifest.
            Ok(other) if other != *root && other != **place => {}
            Ok(_) => found.push(place.clone()),
            Err(ran) => return Ok(Err(ran)),
        }
    }
    Ok(Ok(found))
}

/// Whether a package outside all workspaces depends on others of the tree.
fn leans(tree: &Path, place: &Path) -> bool {
    let Some(manifest) = read_manifest(tree, &place.join(MANIFEST)) else { return true };
    manifest.contains_key("package")
        && !manifest.contains_key("workspace")
        && manifest.iter().any(|(section, value)| match section.as_str() {
            "package" => inherits(value),
            "target" => value
                .as_table()
                .is_some_and(|all| all.values().any(|one| inherits(one) || has_path(one))),
            section if section.ends_with("dependencies") => inherits(value) || has_path(value),
            _ => inherits(value),
        })
}

/// Whether `workspace = true` or `name.workspace = true` is anywhere in it.
fn inherits(value: &toml::Value) -> bool {
    value.as_table().is_some_and(|table| {
        table.get("workspace").and_then(toml::Value::as_bool) == Some(true)
            || table.values().any(inherits)
    })
}

/// Whether a dependency in it is named by its path.
fn has_path(value: &toml::Value) -> bool {
    value.as_table().is_some_and(|table| {
        table.get("path").is_some_and(toml::Value::is_str) || table.values().any(has_path)
    })
}

/// Those that no other is above.
fn outermost(manifests: &BTreeSet<PathBuf>) -> BTreeSet<PathBuf> {
    let above = |place: &Path| place.ancestors().skip(1).any(|other| manifests.contains(other));
    manifests.iter().filter(|place| !above(place)).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(all: &[&str]) -> BTreeSet<PathBuf> {
        all.iter().map(PathBuf::from).collect()
    }

    #[test]
    fn manifests_on_the_path_and_the_outermost_ones_are_found() {
        let manifests = places(&["a", "a/b", "c/d"]);
        let found = |path: &str| manifests_on_path(&manifests, Path::new(path));
        assert_eq!(found("a/b/src/lib.rs"), [PathBuf::from("a/b"), PathBuf::from("a")]);
        assert_eq!(found("a/src/lib.rs"), [PathBuf::from("a")]);
        assert_eq!(found("README.md"), Vec::<PathBuf>::new());
        assert_eq!(found("ab/x"), Vec::<PathBuf>::new());
        assert_eq!(outermost(&manifests), places(&["a", "c/d"]));
        assert_eq!(outermost(&places(&["", "a"])), places(&[""]));
    }
}
