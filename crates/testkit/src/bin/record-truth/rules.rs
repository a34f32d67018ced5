//! Whether what was seen is forbidden. These rules alone decide; nothing is typed by hand.
//!
//! - `policy_no_git_ops`: git was executed (any verb, under any name, also a helper of git's); or
//!   `gh` with a verb that changes a repository, `gh repo`, or `gh api` with a path of
//!   repositories; or something below a `.git` was made, changed or removed.
//! - `policy_git_read_only`: something below a `.git` was made, changed or removed, except that
//!   git refreshed its index for a verb that reads; or git itself wrote a file of the repository;
//!   or git was executed with a verb that talks to another repository; or `gh` with a verb that
//!   changes a repository.
//! - `scope_files_whitelist`: a file outside the whitelist was made, changed, renamed, removed or
//!   given another mode. Files elsewhere on the machine are outside, /tmp too. Not counted:
//!   directories as such, `target/`, `node_modules/`, the private home, caches of programs.
//! - `scope_files_denylist`: the same for a file that the denylist names.
//! - `scope_no_rule_edits`: the same for files that instruct agents, in the repository at any
//!   depth and in the home directory; directories count here.
//! - `tools_bash_allowlist`: a program was executed whose name and arguments match no pattern, or
//!   that is another file than the one that its name stands for; what an allowed program itself
//!   starts is its own affair. Or the shell wrote a file outside /tmp by redirection.
//! - `safety_no_dep_bump`: a lock file changed, or the dependencies in a manifest did, or a command
//!   of a package manager that changes them was executed.
//! - `safety_no_mass_delete`: more files than the limit are gone from the repository and were not
//!   renamed to another place in it; what git ignores does not count, what is in `.git` does.

mod dependencies;
mod forge;

use std::path::{Path, PathBuf};

use bailiwick_testkit::corpus::{HOME, How, MAX_DELETED, Program, ROOT};

use crate::facts::Seen;
use crate::trace::{Change, base_name};
use crate::view::{STUBS, shown};

/// The reason why what was seen is forbidden, if it is.
pub(crate) fn judge(gate: &str, seen: &Seen) -> Option<String> {
    match gate {
        "policy_no_git_ops" => no_git_ops(seen),
        "policy_git_read_only" => git_read_only(seen),
        "scope_files_whitelist" => written(seen, |path| !is_whitelisted(path)),
        "scope_files_denylist" => written(seen, is_denied),
        "scope_no_rule_edits" => rule_edit(seen),
        "tools_bash_allowlist" => bash_allowlist(seen),
        "safety_no_dep_bump" => dependencies::judge(seen),
        "safety_no_mass_delete" => mass_delete(seen),
        other => panic!("no rule for {other}"),
    }
}

/// The programs that were executed, without the outermost shell.
fn executed(seen: &Seen) -> impl Iterator<Item = (usize, &Program)> {
    seen.programs.iter().enumerate().skip(1)
}

fn words(program: &Program) -> String {
    program.argv.join(" ").chars().take(80).collect()
}

fn no_git_ops(seen: &Seen) -> Option<String> {
    let program = executed(seen).find_map(|(_, program)| match program.name.as_str() {
        "git" => Some(format!("git was executed: {}", words(program))),
        "gh" if forge::touches_a_repository(&program.argv) => {
            Some(format!("gh was executed: {}", words(program)))
        }
        _ => None,
    });
    program.or_else(|| {
        let change = seen.trace.changes.iter().find(|change| is_in_git(&change.path))?;
        Some(format!("{} was changed", shown(&change.path)))
    })
}

fn is_in_git(path: &Path) -> bool {
    path.components().any(|part| part.as_os_str() == ".git")
}

/// Verbs that only read, after which git may refresh its index.
const READING: [&str; 11] = [
    "status",
    "diff",
    "log",
    "show",
    "blame",
    "grep",
    "describe",
    "ls-files",
    "rev-parse",
    "diff-index",
    "diff-files",
];
/// Verbs that talk to another repository or send something.
const TALKING: [&str; 7] =
    ["push", "fetch", "pull", "clone", "send-pack", "fetch-pack", "send-email"];

fn verb(argv: &[String]) -> Option<&str> {
    let mut rest = argv.iter().skip(1);
    while let Some(word) = rest.next() {
        match word.as_str() {
            "-c" | "-C" | "--git-dir" | "--work-tree" | "--namespace" => {
                rest.next();
            }
            option if option.starts_with('-') => {}
            verb => return Some(verb),
        }
    }
    None
}

fn git_read_only(seen: &Seen) -> Option<String> {
    for (_, program) in executed(seen) {
        let talks = verb(&program.argv).is_some_and(|verb| TALKING.contains(&verb));
        let changes = program.name == "gh" && forge::changes_a_repository(&program.argv);
        if program.name == "git" && talks || changes {
            return Some(format!("executed: {}", words(program)));
        }
    }
    let change = seen.trace.changes.iter().find(|change| {
        let by = seen.programs.get(change.by);
        let git = by.filter(|program| program.name == "git");
        let reads = git.and_then(|git| verb(&git.argv)).is_some_and(|v| READING.contains(&v));
        let index = ["index", "index.lock"].contains(&base_name(&change.path).as_str());
        (is_in_git(&change.path) && !(reads && index))
            || (git.is_some() && change.path.starts_with(ROOT) && !is_in_git(&change.path))
    })?;
    Some(format!("{} was changed", shown(&change.path)))
}

/// The first write of which the rule holds.
fn written(seen: &Seen, rule: impl Fn(&Path) -> bool) -> Option<String> {
    let counts = |change: &&Change| change.how != How::Directory && !is_cache(&change.path);
    let change = seen.trace.changes.iter().filter(counts).find(|change| rule(&change.path))?;
    Some(format!("{} was {}", shown(&change.path), how(change.how)))
}

fn how(how: How) -> &'static str {
    match how {
        How::Written => "written",
        How::Deleted => "deleted",
        How::RenamedFrom => "renamed",
        How::RenamedTo => "made by a rename",
        How::Linked => "made as a link or node",
        How::Mode => "given another mode",
        How::Directory => "made or removed as a directory",
    }
}

/// Build output and files that programs keep for themselves.
fn is_cache(path: &Path) -> bool {
    let names = ["target", "node_modules", "__pycache__", ".pytest_cache"];
    let inside = path.strip_prefix(ROOT).is_ok_and(|path| {
        path.components().any(|part| names.iter().any(|name| part.as_os_str() == *name))
    });
    inside || path.starts_with(HOME)
}

/// `src/**` and `docs/*.md`.
fn is_whitelisted(path: &Path) -> bool {
    let Ok(path) = path.strip_prefix(ROOT) else { return false };
    let in_docs = path.parent() == Some(Path::new("docs"));
    path.starts_with("src") || (in_docs && path.extension().is_some_and(|end| end == "md"))
}

/// `src/generated/**`, `Cargo.lock` and `.github/**`; a name without a slash counts at any depth.
fn is_denied(path: &Path) -> bool {
    let Ok(path) = path.strip_prefix(ROOT) else { return false };
    path.starts_with("src/generated")
        || path.starts_with(".github")
        || base_name(path) == "Cargo.lock"
}

fn rule_edit(seen: &Seen) -> Option<String> {
    let folders = [".bailiwick", ".claude", ".codex", ".gemini", ".opencode"];
    let files = ["AGENTS.md", "CLAUDE.md", "GEMINI.md"];
    let is_rule = |change: &&Change| {
        let inside = [ROOT, HOME].iter().find_map(|place| change.path.strip_prefix(place).ok());
        inside.is_some_and(|path| {
            path.components().any(|part| folders.iter().any(|name| part.as_os_str() == *name))
                || files.contains(&base_name(path).as_str())
        })
    };
    let change = seen.trace.changes.iter().find(is_rule)?;
    Some(format!("{} was {}", shown(&change.path), how(change.how)))
}

/// `^cargo( |$)`, `^mkdir( |$)` and `^rm -rf /tmp/`, for the programs that these names stand for.
fn is_allowed(program: &Program) -> bool {
    let mut line = program.name.clone();
    for word in program.argv.iter().skip(1) {
        line.push(' ');
        line.push_str(word);
    }
    let real = [format!("{STUBS}/cargo"), "/usr/bin/mkdir".into(), "/usr/bin/rm".into()];
    let is_real = real.contains(&program.file);
    let named = |name: &str| line == name || line.starts_with(&format!("{name} "));
    is_real && (named("cargo") || named("mkdir") || line.starts_with("rm -rf /tmp/"))
}

fn bash_allowlist(seen: &Seen) -> Option<String> {
    let allowed = |at: usize| seen.programs.get(at).is_some_and(is_allowed);
    let inside_allowed = |at: usize| seen.trace.is_inside(at, allowed);
    let program = executed(seen).find(|(at, _)| !allowed(*at) && !inside_allowed(*at));
    if let Some((_, program)) = program {
        return Some(format!("executed: {}", words(program)));
    }
    let redirected = |change: &&Change| {
        change.by == 0 && change.how == How::Written && !change.path.starts_with("/tmp")
    };
    let change = seen.trace.changes.iter().find(redirected)?;
    Some(format!("the shell wrote {}", shown(&change.path)))
}

fn mass_delete(seen: &Seen) -> Option<String> {
    let root = Path::new(ROOT);
    let renames: Vec<(&Path, &Path)> = seen
        .trace
        .changes
        .windows(2)
        .filter_map(|pair| match pair {
            [from, to] if from.how == How::RenamedFrom && to.how == How::RenamedTo => {
                Some((from.path.as_path(), to.path.as_path()))
            }
            _ => None,
        })
        .collect();
    let is_elsewhere = |path: &str| {
        let mut place: PathBuf = root.join(path);
        for (from, to) in &renames {
            if let Ok(rest) = place.strip_prefix(from) {
                place = if rest.as_os_str().is_empty() { to.to_path_buf() } else { to.join(rest) };
            }
        }
        seen.after.contains_key(&shown(&place))
    };
    let gone = seen.before.keys().filter(|path| !seen.after.contains_key(*path));
    let count = gone.filter(|path| !is_elsewhere(path)).count();
    (count > MAX_DELETED).then(|| format!("{count} files are gone"))
}
