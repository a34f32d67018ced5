//! `policy::git-read-only`: git may be read, not written.

use crate::decide::Context;
use crate::decision::Objection;
use crate::gates::policy_no_git_ops::{copies_git, gh_changes, helper_verb, is_git, written_git};
use crate::gates::{Care, base_name, named_program, names, shown};
use crate::shell::{Field, Run};

const INSTEAD: &str = "read with git status, diff, log, show, blame or grep; what should be \
                       committed belongs into your report";

/// Verbs that only read, whatever stands behind them, but for the options below.
const READS: [&str; 45] = [
    "annotate",
    "blame",
    "cat-file",
    "check-attr",
    "check-ignore",
    "check-mailmap",
    "check-ref-format",
    "cherry",
    "column",
    "count-objects",
    "describe",
    "diff",
    "diff-files",
    "diff-index",
    "diff-tree",
    "for-each-ref",
    "fsck",
    "get-tar-commit-id",
    "grep",
    "help",
    "log",
    "ls-files",
    "ls-tree",
    "merge-base",
    "merge-tree",
    "name-rev",
    "patch-id",
    "range-diff",
    "rev-list",
    "rev-parse",
    "shortlog",
    "show",
    "show-branch",
    "show-index",
    "show-ref",
    "status",
    "stripspace",
    "unpack-file",
    "var",
    "verify-commit",
    "verify-pack",
    "verify-tag",
    "version",
    "whatchanged",
    "--version",
];

/// Verbs that write or reach out, or that can.
const WRITES: [&str; 67] = [
    "add",
    "am",
    "apply",
    "archive",
    "bisect",
    "branch",
    "bundle",
    "checkout",
    "checkout-index",
    "cherry-pick",
    "clean",
    "clone",
    "commit",
    "commit-graph",
    "commit-tree",
    "config",
    "credential",
    "daemon",
    "difftool",
    "fast-export",
    "fast-import",
    "fetch",
    "fetch-pack",
    "filter-branch",
    "format-patch",
    "gc",
    "hash-object",
    "init",
    "instaweb",
    "lfs",
    "ls-remote",
    "maintenance",
    "merge",
    "merge-file",
    "merge-index",
    "mergetool",
    "mktag",
    "mktree",
    "mv",
    "notes",
    "pack-objects",
    "pack-refs",
    "prune",
    "pull",
    "push",
    "read-tree",
    "rebase",
    "reflog",
    "remote",
    "repack",
    "replace",
    "rerere",
    "reset",
    "restore",
    "revert",
    "rm",
    "send-email",
    "send-pack",
    "sparse-checkout",
    "stage",
    "stash",
    "submodule",
    "switch",
    "symbolic-ref",
    "tag",
    "update-ref",
    "worktree",
];

/// Whether git has a verb of this name.
pub(crate) fn is_verb(verb: &str) -> bool {
    READS.contains(&verb)
        || WRITES.contains(&verb)
        || matches!(verb, "update-index" | "write-tree" | "update-server-info" | "svn" | "p4")
}

pub(crate) fn judge(context: &Context<'_>, rule: &str) -> Option<Objection> {
    for run in context.effects.runs.iter().filter(|run| !run.builtin) {
        if let Some(reason) = objection(context, run) {
            return Some(Objection::new(rule, reason, INSTEAD));
        }
    }
    if let Some(path) = written_git(context) {
        let reason = format!("{} belongs to git", shown(&path));
        return Some(Objection::new(rule, reason, INSTEAD));
    }
    super::hidden(context, rule, Care::Programs)
}

fn objection(context: &Context<'_>, run: &Run) -> Option<String> {
    let program = named_program(run)?;
    let named = names(&program, context);
    let line = || {
        let words: Vec<String> = run.argv.iter().map(ToString::to_string).collect();
        shown(&words.join(" "))
    };
    if named.iter().any(|name| base_name(name) == "gh") {
        return gh_changes(run).then(|| format!("`{}` changes a repository", line()));
    }
    if let Some(verb) = named.iter().find_map(|name| helper_verb(name)) {
        let reads = READS.contains(&verb);
        return (!reads).then(|| format!("`{}` writes with git", line()));
    }
    if named.iter().any(|name| is_git(name)) {
        let git = named.iter().any(|name| base_name(name) == "git");
        return match reads(run.argv.get(1..).unwrap_or_default()) {
            Ok(()) if git => None,
            Ok(()) => Some(format!("`{}` is another way to write with git", line())),
            Err(why) => Some(format!("`{}` {why}", line())),
        };
    }
    copies_git(context, run).then(|| format!("`{}` makes git runnable by another name", line()))
}

/// Whether a git command only reads.
fn reads(arguments: &[Field]) -> Result<(), String> {
    let mut rest = arguments;
    let verb = loop {
        let Some((first, more)) = rest.split_first() else { return Ok(()) };
        let Some(word) = first.known() else {
            return Err("has a verb that is only known when it runs".to_owned());
        };
        rest = more;
        match word.as_str() {
            "-C" | "--git-dir" | "--work-tree" | "--namespace" => {
                rest = rest.get(1..).unwrap_or_default();
            }
            "-c" => {
                let setting = rest.first().and_then(Field::known).unwrap_or_default();
                harmless_setting(&setting)?;
                rest = rest.get(1..).unwrap_or_default();
            }
            "-p"
            | "-P"
            | "--paginate"
            | "--no-pager"
            | "--bare"
            | "--no-replace-objects"
            | "--literal-pathspecs"
            | "--glob-pathspecs"
            | "--noglob-pathspecs"
            | "--icase-pathspecs"
            | "--no-optional-locks"
            | "--no-lazy-fetch"
            | "--no-advice" => {}
            "-v" | "--version" | "-h" | "--help" | "--html-path" | "--man-path" | "--info-path"
            | "--exec-path" => return Ok(()),
            _ if word.starts_with("--git-dir=") || word.starts_with("--work-tree=") => {}
            _ if word.starts_with('-') => return Err(format!("has the option {word}")),
            _ => break word,
        }
    };
    let known: Vec<Option<String>> = rest.iter().map(Field::known).collect();
    let words: Vec<String> = known.iter().flatten().cloned().collect();
    let writes_file = |word: &String| {
        word.starts_with("--output") && !word.starts_with("--output-indicator")
            || word == "-O"
            || word.starts_with("--open-files-in-pager")
            || word.starts_with("--upload-pack")
            || word.starts_with("--exec")
    };
    if let Some(option) = words.iter().find(|word| writes_file(word)) {
        return Err(format!("writes or runs something by {option}"));
    }
    if READS.contains(&verb.as_str()) {
        return Ok(());
    }
    if known.iter().any(Option::is_none) {
        return Err("has arguments that are only known when it runs".to_owned());
    }
    match lists(&verb, &words) {
        true => Ok(()),
        false => Err("writes with git".to_owned()),
    }
}

/// Settings that run nothing.
fn harmless_setting(setting: &str) -> Result<(), String> {
    let name = setting.split('=').next().unwrap_or_default().to_ascii_lowercase();
    let harmless = ["color.", "core.quotepath", "log.", "diff.renames", "diff.context", "advice."];
    let no_pager = setting == "core.pager=cat" || setting == "core.pager=";
    match no_pager || harmless.iter().any(|prefix| name.starts_with(prefix)) {
        true => Ok(()),
        false => Err(format!("sets {name}, which may run something")),
    }
}

/// Verbs that list when used one way and write when used another.
fn lists(verb: &str, words: &[String]) -> bool {
    let first = words.first().map(String::as_str);
    let plain = words.iter().filter(|word| !word.starts_with('-')).count();
    let has = |options: &[&str]| words.iter().any(|word| options.contains(&word.as_str()));
    let only = |options: &[&str]| {
        words.iter().filter(|word| word.starts_with('-')).all(|word| {
            let name = word.split('=').next().unwrap_or_default();
            options.contains(&name)
        })
    };
    const BRANCH: [&str; 22] = [
        "-a",
        "-r",
        "-v",
        "-vv",
        "-l",
        "--all",
        "--remotes",
        "--verbose",
        "--list",
        "--contains",
        "--no-contains",
        "--merged",
        "--no-merged",
        "--points-at",
        "--sort",
        "--format",
        "--show-current",
        "--column",
        "--no-column",
        "--color",
        "--no-color",
        "-i",
    ];
    const TAG: [&str; 12] = [
        "-l",
        "-n",
        "--list",
        "--contains",
        "--no-contains",
        "--merged",
        "--no-merged",
        "--points-at",
        "--sort",
        "--format",
        "--column",
        "-i",
    ];
    match verb {
        "branch" => {
            let listing = has(&["-l", "--list", "--contains", "--merged", "--no-merged"])
                || words.iter().any(|word| word.starts_with("--contains"))
                || has(&["--points-at", "--no-contains"]);
            only(&BRANCH) && (plain == 0 || listing)
        }
        "tag" => {
            let listing = has(&["-l", "--list", "--contains", "--merged", "--points-at"]);
            only(&TAG) && (plain == 0 || listing)
        }
        "remote" => matches!(first, None | Some("-v" | "--verbose" | "show" | "get-url")),
        "config" => {
            let asks = ["--get", "--get-all", "--get-regexp", "--list", "-l", "get", "list"];
            words.iter().take(3).any(|word| asks.contains(&word.as_str()))
                || (plain == 1
                    && only(&["--global", "--local", "--system", "--worktree"])
                    && !matches!(first, Some("edit" | "set" | "unset")))
        }
        "stash" => matches!(first, Some("list" | "show")),
        "worktree" | "sparse-checkout" => matches!(first, Some("list")),
        "submodule" => matches!(first, None | Some("status" | "summary")),
        "notes" => matches!(first, None | Some("list" | "show")),
        "reflog" => {
            matches!(first, None | Some("show" | "list" | "exists"))
                || first.is_some_and(|word| word.starts_with('-') || word.starts_with("HEAD"))
        }
        "bisect" => matches!(first, Some("log" | "view" | "visualize")),
        "symbolic-ref" => plain == 1 && only(&["--short", "-q", "--quiet", "--no-recurse"]),
        "hash-object" => !words.iter().any(|word| word == "-w" || word.starts_with("-w")),
        "archive" => !has(&["-o"]) && !words.iter().any(|word| word.starts_with("-o")),
        "format-patch" => has(&["--stdout"]),
        "rerere" => matches!(first, Some("status" | "diff" | "remaining")),
        "lfs" => matches!(first, None | Some("ls-files" | "status" | "env" | "version" | "logs")),
        "apply" => has(&["--stat", "--numstat", "--summary"]) && !has(&["--apply"]),
        _ => false,
    }
}
