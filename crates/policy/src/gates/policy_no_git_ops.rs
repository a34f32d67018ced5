//! `policy::no-git-ops`: the orchestrator owns git.

use crate::decision::Objection;
use crate::gates::Context;
use crate::gates::{Concern, base_name, is_followed, named_program, names, protected, shown};
use crate::paths::Place;
use crate::shell::{Field, ProgramRun};

const INSTEAD: &str =
    "change files only, and name in your report what should be committed; the orchestrator does it";

/// Programs that are git, or another way to write a repository.
const GIT: [&str; 16] = [
    "git",
    "git-lfs",
    "git-gui",
    "gitk",
    "hub",
    "glab",
    "tea",
    "lazygit",
    "gitui",
    "tig",
    "jj",
    "gix",
    "ein",
    "stg",
    "git-shell",
    "git.exe",
];

pub(crate) fn judge(context: &Context<'_>, rule: &str) -> Option<Objection> {
    for run in context.effects.runs.iter().filter(|run| !run.builtin || is_jobs(run)) {
        if let Some(reason) = objection(context, run) {
            return Some(Objection::new(rule, reason, INSTEAD));
        }
    }
    if let Some(path) = written_git(context) {
        let reason = format!("{} belongs to git", shown(&path));
        return Some(Objection::new(rule, reason, INSTEAD));
    }
    super::hidden_unless_sandboxed(context, rule, Concern::Programs)
}

/// The builtin `jobs -x` starts a program.
fn is_jobs(run: &ProgramRun) -> bool {
    run.program().as_deref() == Some("jobs")
}

/// A file of git's own that would be written.
pub(crate) fn written_git(context: &Context<'_>) -> Option<String> {
    let target = context.write_targets.iter().find(|target| match &target.place {
        Place::Inside { path, .. } | Place::Outside(path) => {
            let below = target.below.iter().flatten();
            protected::in_git(path) || below.into_iter().any(|file| protected::in_git(file))
        }
        Place::Unknown => protected::in_git(&target.shown) || protected::is_via_proc(&target.shown),
    })?;
    Some(target.shown.clone())
}

fn objection(context: &Context<'_>, run: &ProgramRun) -> Option<String> {
    let program = named_program(run)?;
    let named = names(&program, context);
    if named.iter().any(|name| is_git(name)) {
        return Some(format!("`{}` runs git", line(run)));
    }
    if named.iter().any(|name| base_name(name) == "gh") {
        return gh_changes(run, ReadAccess::Forbidden)
            .then(|| format!("`{}` changes a repository", line(run)));
    }
    if hands_git_on(&program, run) {
        return Some(format!("`{}` hands a git command on", line(run)));
    }
    copies_git(context, run).then(|| format!("`{}` makes git runnable by another name", line(run)))
}

/// Whether a program that may start others is given `git` and one of its verbs to start.
pub(crate) fn hands_git_on(program: &str, run: &ProgramRun) -> bool {
    let base = base_name(program);
    if is_followed(base) || matches!(base, "man" | "apt" | "apt-get" | "brew" | "tldr" | "info") {
        return false;
    }
    let verb = |word: &str| super::policy_git_read_only::is_verb(word);
    let words = run.argv.iter().skip(1).map(ToString::to_string);
    // What follows `cargo run --` is for a program of the project.
    let words: Vec<String> = words.take_while(|word| base != "cargo" || word != "--").collect();
    let pair = words.windows(2).any(|pair| match pair {
        [git, next] => base_name(git) == "git" && !git.starts_with('-') && verb(next),
        _ => false,
    });
    let inside = words.iter().any(|word| {
        let mut parts = word.split_whitespace();
        let first = parts.next().is_some_and(|first| base_name(first) == "git");
        first && parts.next().is_some_and(verb)
    });
    pair || inside
}

/// Whether a program of this name is git in one form or another.
pub(crate) fn is_git(name: &str) -> bool {
    let base = base_name(name);
    GIT.contains(&base) || helper_verb(name).is_some()
}

/// `git-push` and its like, from git's own directory.
pub(crate) fn helper_verb(name: &str) -> Option<&str> {
    let verb = base_name(name).strip_prefix("git-")?;
    let verb = verb.strip_suffix(".sh").unwrap_or(verb);
    let own = name.contains("/git-core/")
        || super::policy_git_read_only::is_verb(verb)
        || verb.starts_with("remote-")
        || matches!(verb, "receive-pack" | "upload-pack" | "http-fetch" | "http-push");
    own.then_some(verb)
}

/// Whether git itself is copied or linked.
pub(crate) fn copies_git(context: &Context<'_>, run: &ProgramRun) -> bool {
    let program = named_program(run).unwrap_or_default();
    let copies =
        matches!(base_name(&program), "cp" | "ln" | "install" | "mv" | "cat" | "dd" | "rsync");
    let source = |field: &Field| {
        field.known().is_some_and(|word| {
            let word = word.strip_prefix("if=").unwrap_or(&word);
            let really = context.facts.programs.get(word);
            word.contains('/')
                && (really.is_some_and(|name| is_git(name))
                    || (base_name(word) == "git" && is_program_place(word)))
        })
    };
    copies && run.argv.iter().skip(1).any(source)
}

fn is_program_place(path: &str) -> bool {
    ["/bin/", "/sbin/", "/libexec/", "/git-core/"].iter().any(|place| path.contains(place))
}

/// Whether `gh` may read repositories of a forge.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReadAccess {
    Allowed,
    Forbidden,
}

/// Whether a `gh` command changes a repository, reveals its keys, or reads one where that is forbidden.
pub(crate) fn gh_changes(run: &ProgramRun, looking: ReadAccess) -> bool {
    let words: Vec<Option<String>> = run.argv.iter().skip(1).map(Field::known).collect();
    if words.iter().any(Option::is_none) && words.iter().take(2).any(Option::is_none) {
        return true;
    }
    let mut plain: Vec<String> = Vec::new();
    // An option in front of the verb may take the next word for its value.
    let mut unsure = false;
    let mut rest = words.iter().flatten();
    while let Some(word) = rest.next() {
        if matches!(word.as_str(), "-R" | "--repo" | "--hostname") {
            rest.next();
        } else if !word.starts_with('-') {
            plain.push(word.clone());
        } else {
            unsure |= plain.len() == 1 && !word.contains('=');
        }
    }
    let options: Vec<&String> =
        words.iter().flatten().filter(|word| word.starts_with('-')).collect();
    let helps = options.iter().any(|word| matches!(word.as_str(), "--help" | "--version" | "-h"));
    let (topic, verb) = (plain.first().map(String::as_str), plain.get(1).map(String::as_str));
    if helps && verb.is_none() {
        return false;
    }
    match (topic, verb) {
        (None | Some("help" | "version" | "completion" | "search" | "status"), _) => false,
        (Some("browse"), _) => false,
        (Some("repo"), Some("view" | "list")) => unsure || looking == ReadAccess::Forbidden,
        (Some("repo"), _) => true,
        (Some("api"), path) => {
            let path = path.unwrap_or_default().trim_start_matches('/');
            let repositories = path.starts_with("repos") || path.contains("/repos");
            let writes = options.iter().any(|option| {
                option.starts_with("-X")
                    || option.starts_with("--method")
                    || option.starts_with("-f")
                    || option.starts_with("-F")
                    || option.starts_with("--field")
                    || option.starts_with("--raw-field")
                    || option.starts_with("--input")
            });
            let looks = repositories && looking == ReadAccess::Forbidden;
            looks || writes || path == "graphql" || path.is_empty() || path.contains('{')
        }
        (Some("auth"), verb) => unsure || !matches!(verb, None | Some("status")),
        (Some("config"), verb) => !matches!(verb, None | Some("get" | "list")),
        (
            Some(
                "pr" | "issue" | "release" | "run" | "workflow" | "label" | "secret" | "variable"
                | "cache" | "gist" | "ruleset" | "org" | "project" | "ssh-key" | "gpg-key",
            ),
            verb,
        ) => {
            unsure
                || !matches!(
                    verb,
                    None | Some(
                        "view"
                            | "list"
                            | "ls"
                            | "status"
                            | "diff"
                            | "checks"
                            | "watch"
                            | "download"
                            | "get"
                            | "check"
                            | "field-list"
                            | "item-list"
                    )
                )
        }
        // Extensions, aliases and what is not known here.
        (Some(_), _) => true,
    }
}

fn line(run: &ProgramRun) -> String {
    let words: Vec<String> = run.argv.iter().map(ToString::to_string).collect();
    shown(&words.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn value_of_an_option_is_not_a_verb() {
        let changes = |text: &str| {
            let runs = crate::shell::read(text).runs;
            runs.iter().any(|run| gh_changes(run, ReadAccess::Allowed))
        };
        for text in ["gh pr --label list create", "gh issue -l view close 3", "gh pr merge 1"] {
            assert!(changes(text), "{text}");
        }
        for text in ["gh pr list --label create", "gh -R a/b pr view 1", "gh pr --repo a/b list"] {
            assert!(!changes(text), "{text}");
        }
    }

    #[test]
    fn reading_a_repository_counts_only_if_reading_is_forbidden() {
        for (text, writes) in [
            ("gh repo view a/b", false),
            ("gh api repos/a/b/pulls --paginate", false),
            ("gh api repos/a/b -X DELETE", true),
            ("gh api graphql -f query=x", true),
            ("gh repo delete a/b", true),
            ("gh repo -x view delete", true),
        ] {
            let runs = crate::shell::read(text).runs;
            let any = |looking| runs.iter().any(|run| gh_changes(run, looking));
            assert_eq!(any(ReadAccess::Allowed), writes, "{text}");
            assert!(any(ReadAccess::Forbidden), "{text}");
        }
    }
}
