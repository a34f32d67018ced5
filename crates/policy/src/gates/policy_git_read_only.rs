//! `policy::git-read-only`: git may be read, not written.

use crate::decision::Objection;
use crate::gates::Context;
use crate::gates::policy_no_git_ops::{
    ReadAccess, copies_git, gh_changes, helper_verb, is_git, written_git,
};
use crate::gates::{Concern, base_name, named_program, names, shown};
use crate::shell::variables::steers_git;
use crate::shell::{Field, ProgramRun, VariableSet};
use crate::word_list::words;

const INSTEAD: &str = "read with git status, diff, log, show, blame or grep; what should be \
                       committed belongs in your report";

/// Verbs that only read with any arguments, except for the options below.
const READS: &[&str] = words!(
    "annotate blame cat-file check-attr check-ignore check-mailmap check-ref-format cherry column \
    count-objects describe diff diff-files diff-index diff-tree for-each-ref fsck \
    get-tar-commit-id grep help log ls-files ls-remote ls-tree merge-base merge-tree name-rev patch-id \
    range-diff rev-list rev-parse shortlog show show-branch show-index show-ref status \
    stripspace unpack-file var verify-commit verify-pack verify-tag version whatchanged \
    --version"
);

/// Verbs that write or reach out, or that can.
const WRITES: &[&str] = words!(
    "add am apply archive bisect branch bundle checkout checkout-index cherry-pick clean clone \
    commit commit-graph commit-tree config credential daemon difftool fast-export fast-import \
    fetch fetch-pack filter-branch format-patch gc hash-object init instaweb lfs maintenance \
    merge merge-file merge-index mergetool mktag mktree mv notes pack-objects pack-refs prune \
    pull push read-tree rebase reflog remote repack replace rerere reset restore revert rm \
    send-email send-pack sparse-checkout stage stash submodule switch symbolic-ref tag update-ref \
    worktree"
);

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
    let steers = |set: &&VariableSet| steers_git(&set.name, set.value.as_deref());
    if let Some(set) = context.effects.sets.iter().find(steers) {
        let reason = format!("{} makes git read or run something else", set.name);
        return Some(Objection::new(rule, reason, "leave the variable out"));
    }
    if let Some(path) = written_git(context) {
        let reason = format!("{} belongs to git", shown(&path));
        return Some(Objection::new(rule, reason, INSTEAD));
    }
    super::hidden_unless_sandboxed(context, rule, Concern::Programs)
}

fn objection(context: &Context<'_>, run: &ProgramRun) -> Option<String> {
    let program = named_program(run)?;
    let named = names(&program, context);
    let line = || {
        let words: Vec<String> = run.argv.iter().map(ToString::to_string).collect();
        shown(&words.join(" "))
    };
    if named.iter().any(|name| base_name(name) == "gh") {
        return gh_changes(run, ReadAccess::Allowed)
            .then(|| format!("`{}` changes a repository", line()));
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

/// Why a git command does more than read.
#[derive(Debug, thiserror::Error)]
enum WriteReason {
    #[error("has a verb that is only known when it runs")]
    UnknownVerb,
    #[error("has arguments that are only known when it runs")]
    UnknownArguments,
    #[error("has the option {0}")]
    Option(String),
    #[error("sets {0}, which may run something")]
    Setting(String),
    #[error("writes or runs something by {0}")]
    WritesOrRuns(String),
    #[error("reaches out by {0}")]
    ReachesOut(String),
    #[error("writes with git")]
    Writes,
}

/// Whether a git command only reads.
fn reads(arguments: &[Field]) -> Result<(), WriteReason> {
    let mut rest = arguments;
    let verb = loop {
        let Some((first, more)) = rest.split_first() else { return Ok(()) };
        let Some(word) = first.known() else {
            return Err(WriteReason::UnknownVerb);
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
            _ if word.starts_with('-') => return Err(WriteReason::Option(word)),
            _ => break word,
        }
    };
    let known: Vec<Option<String>> = rest.iter().map(Field::known).collect();
    let words: Vec<String> = known.iter().flatten().cloned().collect();
    let options = words.iter().take_while(|word| *word != "--");
    if let Some(option) = options.into_iter().find(|word| writes_or_runs(word)) {
        return Err(WriteReason::WritesOrRuns(option.clone()));
    }
    // `ext::program` is an address.
    if let Some(address) = words.iter().find(|word| verb == "ls-remote" && word.contains("::")) {
        return Err(WriteReason::ReachesOut(address.clone()));
    }
    if READS.contains(&verb.as_str()) {
        return Ok(());
    }
    if known.iter().any(Option::is_none) {
        return Err(WriteReason::UnknownArguments);
    }
    match lists(&verb, &words) {
        true => Ok(()),
        false => Err(WriteReason::Writes),
    }
}

/// Settings that run nothing.
fn harmless_setting(setting: &str) -> Result<(), WriteReason> {
    let name = setting.split('=').next().unwrap_or_default().to_ascii_lowercase();
    let harmless = ["color.", "core.quotepath", "log.", "diff.renames", "diff.context", "advice."];
    let no_pager = setting == "core.pager=cat" || setting == "core.pager=";
    match no_pager || harmless.iter().any(|prefix| name.starts_with(prefix)) {
        true => Ok(()),
        false => Err(WriteReason::Setting(name)),
    }
}

/// Options of git with which it writes a file or starts a program; a beginning of their names will do.
fn writes_or_runs(word: &str) -> bool {
    const LONG: [&str; 5] =
        ["--output", "--open-files-in-pager", "--upload-pack", "--exec", "--output-directory"];
    let name = word.split('=').next().unwrap_or_default();
    let begins = |long: &&str| long.starts_with(name) && name.len() >= 4;
    name == "-O" || LONG.iter().any(begins)
}

/// The options and the other words of a verb. Options in `valued` have their value in the next word.
struct Words<'a> {
    options: Vec<&'a str>,
    plain: Vec<&'a str>,
}

impl<'a> Words<'a> {
    fn of(words: &'a [String], valued: &[&str]) -> Self {
        let (mut options, mut plain) = (Vec::new(), Vec::new());
        let mut rest = words.iter().map(String::as_str);
        while let Some(word) = rest.next() {
            match word {
                "--" => plain.extend(rest.by_ref()),
                _ if word.starts_with('-') && word.len() > 1 => {
                    options.push(word.split('=').next().unwrap_or(word));
                    if valued.contains(&word) {
                        rest.next();
                    }
                }
                _ => plain.push(word),
            }
        }
        Self { options, plain }
    }

    /// Whether one of these options is there.
    fn has(&self, options: &[&str]) -> bool {
        self.options.iter().any(|option| options.contains(option))
    }

    /// Whether all options are among these.
    fn only(&self, options: &[&str]) -> bool {
        self.options.iter().all(|option| options.contains(option))
    }
}

/// Verbs that list when used one way and write when used another: by their sub-command, or by their options.
fn lists(verb: &str, words: &[String]) -> bool {
    let first = words.first().map(String::as_str);
    match verb {
        "branch" => lists_names(&Words::of(words, &LISTING_VALUES), &BRANCH),
        "tag" => lists_names(&Words::of(words, &LISTING_VALUES), &TAG),
        "remote" => {
            let words = Words::of(words, &[]);
            words.only(&["-v", "--verbose", "-n", "--all", "--push"])
                && matches!(words.plain.first(), None | Some(&("show" | "get-url")))
        }
        "config" => reads_config(words),
        "stash" => matches!(first, Some("list" | "show")),
        "worktree" | "sparse-checkout" => matches!(first, Some("list")),
        "submodule" => matches!(first, None | Some("status" | "summary")),
        "notes" => matches!(first, None | Some("list" | "show")),
        "reflog" => {
            let words = Words::of(words, &["-n"]);
            !words.plain.iter().any(|word| matches!(*word, "expire" | "delete" | "drop" | "write"))
        }
        "bisect" => matches!(first, Some("log")),
        "symbolic-ref" => {
            let words = Words::of(words, &[]);
            words.plain.len() == 1 && words.only(&["--short", "-q", "--quiet", "--no-recurse"])
        }
        "hash-object" => !words
            .iter()
            .any(|word| word.starts_with('-') && !word.starts_with("--") && word.contains('w')),
        "archive" => !words.iter().any(|word| word.starts_with("-o")),
        "format-patch" => words.iter().any(|word| word == "--stdout"),
        "rerere" => matches!(first, Some("status" | "diff" | "remaining")),
        "lfs" => matches!(first, None | Some("ls-files" | "status" | "env" | "version" | "logs")),
        "apply" => {
            const LOOKS: [&str; 4] = ["--check", "--stat", "--numstat", "--summary"];
            const HOW: [&str; 13] = [
                "-v",
                "--verbose",
                "-q",
                "--quiet",
                "-R",
                "--reverse",
                "-p",
                "-p0",
                "-p1",
                "-p2",
                "-C",
                "--directory",
                "--ignore-whitespace",
            ];
            let words = Words::of(words, &["-p", "-C", "--directory"]);
            words.has(&LOOKS) && words.only(&[LOOKS.as_slice(), HOW.as_slice()].concat())
        }
        _ => false,
    }
}

const LISTING_VALUES: [&str; 7] =
    ["--contains", "--no-contains", "--merged", "--no-merged", "--points-at", "--sort", "--format"];
const BRANCH: [&str; 13] = [
    "-a",
    "-r",
    "-v",
    "-vv",
    "--all",
    "--remotes",
    "--verbose",
    "--show-current",
    "--column",
    "--no-column",
    "--color",
    "--no-color",
    "-i",
];
const TAG: [&str; 3] = ["-n", "--column", "-i"];

/// They list names if there are none to create, or if an option says so.
fn lists_names(words: &Words<'_>, others: &[&str]) -> bool {
    const LISTS: [&str; 2] = ["-l", "--list"];
    const FILTERS: [&str; 5] =
        ["--contains", "--no-contains", "--merged", "--no-merged", "--points-at"];
    let known = [LISTS.as_slice(), LISTING_VALUES.as_slice(), others].concat();
    words.only(&known) && (words.plain.is_empty() || words.has(&LISTS) || words.has(&FILTERS))
}

/// `git config` reads by an option, by a sub-command in front of everything else, or by a single key.
fn reads_config(words: &[String]) -> bool {
    const ASKS: [&str; 8] = [
        "--get",
        "--get-all",
        "--get-regexp",
        "--get-urlmatch",
        "--list",
        "-l",
        "--get-color",
        "--get-colorbool",
    ];
    const VALUED: [&str; 8] =
        ["-f", "--file", "--blob", "--type", "--default", "--value", "--url", "--comment"];
    const HOW: [&str; 20] = [
        "--global",
        "--local",
        "--system",
        "--worktree",
        "--show-origin",
        "--show-scope",
        "-z",
        "--null",
        "--name-only",
        "--show-names",
        "--no-show-names",
        "--includes",
        "--no-includes",
        "--bool",
        "--int",
        "--bool-or-int",
        "--path",
        "--all",
        "--regexp",
        "--fixed-value",
    ];
    let words = Words::of(words, &VALUED);
    let known = [ASKS.as_slice(), VALUED.as_slice(), HOW.as_slice()].concat();
    if !words.only(&known) {
        return false;
    }
    match words.plain.as_slice() {
        _ if words.has(&ASKS) => true,
        [] => false,
        ["get" | "list", ..] => true,
        [key] => !matches!(*key, "edit" | "set" | "unset"),
        [_, _, ..] => false,
    }
}
