//! Whether code that runs while cargo builds is what the base had.
//!
//! A build script or a procedural macro can write anything into the build cache. If the agent changed none of them,
//! only the compiler and accepted code write there, and the cache may be kept for later builds.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Component, Path, PathBuf};

use toml::{Table, Value};

/// Files that steer a build, by name or by a directory on the way.
const STEERING: [&str; 6] =
    ["Cargo.toml", "Cargo.lock", "build.rs", "rust-toolchain", "rust-toolchain.toml", ".cargo"];

/// Whether none of these paths can have a part in what runs while the tree is built. What cannot be
/// read counts as having one.
pub(super) fn is_untouched(tree: &Path, changed: &[String]) -> bool {
    let steers = |path: &String| path.split('/').any(|part| STEERING.contains(&part));
    if changed.iter().any(steers) {
        return false;
    }
    let Some(packages) = packages(tree) else { return false };
    let run: BTreeSet<&Path> = running(&packages);
    changed.iter().all(|path| {
        let holder = Path::new(path).ancestors().skip(1).find(|directory| {
            packages.iter().any(|package| package.directory.as_path() == *directory)
        });
        holder.is_none_or(|directory| !run.contains(directory))
    })
}

/// The build-time parts of a package's manifest.
struct Package {
    /// From the root of the tree.
    directory: PathBuf,
    /// Whether its own code runs while something is built.
    runs: bool,
    /// Packages that are built for its build script.
    for_build: Vec<PathBuf>,
    /// Packages that it is built from.
    uses: Vec<PathBuf>,
}

/// The packages whose code runs while something is built, with all that they are built from.
fn running(packages: &[Package]) -> BTreeSet<&Path> {
    let start = packages.iter().filter(|package| package.runs).map(|package| &package.directory);
    let built = packages.iter().flat_map(|package| &package.for_build);
    let mut found: BTreeSet<&Path> = BTreeSet::new();
    let mut pending: Vec<&Path> = start.chain(built).map(PathBuf::as_path).collect();
    while let Some(directory) = pending.pop() {
        if found.insert(directory) {
            let package = packages.iter().find(|package| package.directory == directory);
            pending.extend(package.iter().flat_map(|package| &package.uses).map(PathBuf::as_path));
        }
    }
    found
}

/// Every package of the tree; `None` if a manifest cannot be read.
fn packages(tree: &Path) -> Option<Vec<Package>> {
    let mut packages = Vec::new();
    let mut pending = vec![PathBuf::new()];
    while let Some(directory) = pending.pop() {
        for entry in fs::read_dir(tree.join(&directory)).ok()? {
            let entry = entry.ok()?;
            let kind = entry.file_type().ok()?;
            let name = entry.file_name();
            if kind.is_dir() && name != ".git" && name != "target" && name != "node_modules" {
                pending.push(directory.join(name));
            } else if name == "Cargo.toml" {
                let text = fs::read_to_string(entry.path()).ok()?;
                let manifest: Table = text.parse().ok()?;
                packages.push(package(tree, &directory, &manifest)?);
            }
        }
    }
    Some(packages)
}

fn package(tree: &Path, directory: &Path, manifest: &Table) -> Option<Package> {
    let table = |name: &str| manifest.get(name).and_then(Value::as_table);
    let lib = table("lib");
    let is_macro = ["proc-macro", "proc_macro"]
        .iter()
        .any(|key| lib.and_then(|lib| lib.get(*key)).and_then(Value::as_bool).unwrap_or(false));
    let script = tree.join(directory).join("build.rs").exists()
        || table("package").is_some_and(|package| package.contains_key("build"));
    let (mut uses, mut for_build) = (Vec::new(), Vec::new());
    let mut sections = vec![manifest];
    let targets = table("target").into_iter().flat_map(Table::values);
    sections.extend(targets.filter_map(Value::as_table));
    for section in sections {
        for (name, list) in [("dependencies", &mut uses), ("build-dependencies", &mut for_build)] {
            let entries = section.get(name).and_then(Value::as_table);
            for entry in entries.into_iter().flat_map(Table::values) {
                list.extend(path_of(directory, entry)?);
            }
        }
    }
    // An inherited path is in the manifest of the workspace: any of those may be meant.
    if let Some(shared) = table("workspace").and_then(|table| table.get("dependencies")) {
        for entry in shared.as_table().into_iter().flat_map(Table::values) {
            uses.extend(path_of(directory, entry)?);
        }
    }
    let inherits = format!("{manifest:?}").contains("\"workspace\"");
    let runs = is_macro || script || (inherits && !for_build.is_empty());
    Some(Package { directory: directory.to_path_buf(), runs, for_build, uses })
}

/// The path of a dependency in the tree, if it is there; `None` if it is outside.
fn path_of(directory: &Path, entry: &Value) -> Option<Option<PathBuf>> {
    let path = entry.as_table().and_then(|entry| entry.get("path")).and_then(Value::as_str);
    let Some(path) = path else { return Some(None) };
    let mut place = PathBuf::new();
    for part in directory.join(path).components() {
        match part {
            Component::Normal(name) => place.push(name),
            Component::CurDir => {}
            Component::ParentDir => {
                if !place.pop() {
                    return None;
                }
            }
            Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    Some(Some(place))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(files: &[(&str, &str)]) -> tempfile::TempDir {
        let place = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let file = place.path().join(path);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        }
        place
    }

    #[test]
    fn code_that_runs_during_the_build_is_recognised() {
        let place = tree(&[
            ("Cargo.toml", "[workspace]\nmembers = [\"*\"]\n"),
            (
                "plain/Cargo.toml",
                "[package]\nname = \"plain\"\n[dependencies]\nm = { path = \"../macros\" }\n",
            ),
            (
                "macros/Cargo.toml",
                "[package]\nname = \"m\"\n[lib]\nproc-macro = true\n[dependencies]\nd = { path = \"../deep\" }\n",
            ),
            ("deep/Cargo.toml", "[package]\nname = \"d\"\n"),
            (
                "scripted/Cargo.toml",
                "[package]\nname = \"s\"\n[build-dependencies]\ng = { path = \"../gen\" }\n",
            ),
            ("scripted/build.rs", "fn main() {}\n"),
            ("gen/Cargo.toml", "[package]\nname = \"g\"\n"),
        ]);
        let untouched = |path: &str| is_untouched(place.path(), &[path.to_owned()]);
        for path in ["plain/src/lib.rs", "README.md", "docs/x.md"] {
            assert!(untouched(path), "{path}");
        }
        for path in [
            "macros/src/lib.rs",
            "deep/src/lib.rs",
            "gen/src/lib.rs",
            "scripted/src/lib.rs",
            "scripted/build.rs",
            "plain/Cargo.toml",
            "Cargo.lock",
            ".cargo/config.toml",
            "rust-toolchain.toml",
        ] {
            assert!(!untouched(path), "{path}");
        }
        assert!(is_untouched(place.path(), &[]));
    }

    #[test]
    fn unreadable_manifest_is_not_trusted() {
        let broken = tree(&[("Cargo.toml", "[package\n"), ("src/lib.rs", "")]);
        assert!(!is_untouched(broken.path(), &["src/lib.rs".to_owned()]));
        let outside = tree(&[("Cargo.toml", "[dependencies]\nx = { path = \"../../x\" }\n")]);
        assert!(!is_untouched(outside.path(), &["src/lib.rs".to_owned()]));
    }
}
