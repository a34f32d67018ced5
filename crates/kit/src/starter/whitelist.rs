//! Where the agent of the example task may write: globs over source files that exist.

use std::collections::{BTreeMap, BTreeSet};

use super::files::{Directory, extension};

/// More globs than these are replaced by wider ones.
const MAX_GLOBS: usize = 12;

/// Directories that contain one project per directory.
const CONTAINERS: [&str; 9] =
    ["packages", "crates", "apps", "libs", "modules", "services", "plugins", "projects", "cmd"];

/// Directories with files that belong to others, are generated, or are prose.
const NOT_SOURCE: [&str; 9] = [
    "node_modules",
    "vendor",
    "third_party",
    "third-party",
    "dist",
    "docs",
    "doc",
    "__pycache__",
    "venv",
];

/// Files at the top that configure a tool.
const CONFIGURATION: [&str; 8] = [
    "setup.py",
    "conftest.py",
    "noxfile.py",
    "build.rs",
    "mix.exs",
    "Gruntfile.js",
    "gulpfile.js",
    "karma.conf.js",
];

/// Globs for the files of these extensions below a directory, outside `except`.
pub(super) fn for_sources(
    directory: Directory<'_>,
    extensions: &[&str],
    except: &[&str],
) -> Vec<String> {
    let wanted = |path: &&str| {
        extension(path).is_some_and(|found| extensions.contains(&found))
            && !path.split('/').any(|part| part.starts_with('.') || NOT_SOURCE.contains(&part))
            && !is_configuration(path)
            && !except.iter().any(|other| is_below(&directory.join(path), other))
    };
    let sources: Vec<&str> = directory.below().filter(wanted).collect();
    let mut globs = grouped(&sources);
    if globs.len() > MAX_GLOBS {
        let found: BTreeSet<&str> = sources.iter().filter_map(|path| extension(path)).collect();
        globs = found.iter().map(|extension| format!("**/*.{extension}")).collect();
    }
    anchored(directory, globs)
}

/// Globs for all files of a directory, for a project without known source files.
pub(super) fn for_anything(directory: Directory<'_>) -> Vec<String> {
    let shown = |path: &&str| !path.starts_with('.') && !path.starts_with("node_modules/");
    let all: Vec<&str> = directory.below().filter(shown).collect();
    let mut globs = BTreeSet::new();
    for path in &all {
        match (path.split_once('/'), extension(path)) {
            (Some((first, _)), _) => globs.insert(format!("{}/**", escape(first))),
            (None, Some(extension)) => globs.insert(format!("/*.{}", escape(extension))),
            (None, None) => globs.insert(format!("/{}", escape(path))),
        };
    }
    if globs.len() > MAX_GLOBS { vec!["**".to_owned()] } else { globs.into_iter().collect() }
}

fn is_configuration(path: &str) -> bool {
    !path.contains('/') && (CONFIGURATION.contains(&path) || path.contains(".config."))
}

fn is_below(path: &str, directory: &str) -> bool {
    path.strip_prefix(directory).is_some_and(|rest| rest.starts_with('/'))
}

fn grouped(sources: &[&str]) -> Vec<String> {
    let mut by_top: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    for path in sources {
        let (top, glob) = one(path);
        by_top.entry(top).or_default().insert(glob);
    }
    let mut globs = Vec::new();
    for (top, found) in by_top {
        if CONTAINERS.contains(&top) && found.len() > MAX_GLOBS / 2 {
            globs.push(format!("{top}/**"));
        } else {
            globs.extend(found);
        }
    }
    globs
}

/// The directory at the top that a file lies in, and the glob for it.
fn one(path: &str) -> (&str, String) {
    let mut parts = path.split('/');
    let (first, second, third) = (parts.next().unwrap_or(path), parts.next(), parts.next());
    let deeper = parts.next().is_some();
    let ending = extension(path).unwrap_or_default();
    let glob = match (second, third) {
        (None, _) => return ("", format!("/*.{ending}")),
        (Some(_), Some(third)) if CONTAINERS.contains(&first) && deeper => {
            format!("{first}/*/{}/**", escape(third))
        }
        (Some(_), Some(_)) if CONTAINERS.contains(&first) => format!("{first}/*/*.{ending}"),
        (Some(_), _) => format!("{}/**", escape(first)),
    };
    (first, glob)
}

fn anchored(directory: Directory<'_>, globs: Vec<String>) -> Vec<String> {
    if directory.path().is_empty() {
        return globs;
    }
    let prefix = escape(directory.path());
    globs.iter().map(|glob| format!("{prefix}/{}", glob.trim_start_matches('/'))).collect()
}

/// A name in which no character is a wildcard.
fn escape(name: &str) -> String {
    let mut escaped = String::with_capacity(name.len());
    for c in name.chars() {
        if matches!(c, '*' | '?' | '[' | ']' | '\\') {
            escaped.push('\\');
        }
        escaped.push(c);
    }
    escaped
}
