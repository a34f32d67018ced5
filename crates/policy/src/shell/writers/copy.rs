//! Programs with a destination: `cp`, `mv`, `install`, `ln`, `rsync`.

use super::super::WriteKind;
use super::super::field::{Field, Piece};
use super::super::walk::Walker;
use super::options::{Grammar, ParsedArguments};

const COPY: Grammar = Grammar {
    flags: "abcdefFgHiknlLpPrRsuvxzZTDC",
    values: "tSmog",
    attached: "",
    long_flags: &[
        "archive",
        "attributes-only",
        "backup",
        "copy-contents",
        "debug",
        "dereference",
        "force",
        "interactive",
        "keep-directory-symlink",
        "link",
        "no-clobber",
        "no-copy",
        "no-dereference",
        "no-preserve",
        "no-target-directory",
        "one-file-system",
        "parents",
        "preserve",
        "recursive",
        "reflink",
        "relative",
        "remove-destination",
        "sparse",
        "strip-trailing-slashes",
        "symbolic",
        "symbolic-link",
        "update",
        "verbose",
        "compare",
        "directory",
        "preserve-timestamps",
        "strip",
        "exchange",
        "physical",
        "logical",
        "help",
        "version",
    ],
    long_values: &["target-directory", "suffix", "mode", "owner", "group", "strip-program"],
};

/// The same letters mean different things to different programs.
fn grammar(name: &str) -> Grammar {
    match name {
        "install" => Grammar { flags: "bcCDdpsTvZ", values: "tSmog", ..COPY },
        "ln" => Grammar { flags: "bdFfiLnPrsTv", values: "tS", ..COPY },
        "mv" => Grammar { flags: "bfinTuvZ", values: "tS", ..COPY },
        _ => Grammar { flags: "abdfiHlLnPpRrsTuvxZ", values: "tS", ..COPY },
    }
}

pub(super) fn note(walker: &mut Walker, name: &str, arguments: &[Field]) {
    if name == "rsync" {
        return rsync(walker, arguments);
    }
    let parsed = grammar(name).read(arguments);
    if parsed.has(&["help", "version"]) {
        return;
    }
    if name == "install" && parsed.has(&["d", "directory"]) {
        return walker.create_directories(&parsed.operands, name);
    }
    // A directory that is moved brings everything with it.
    let tree =
        name == "mv" || (name == "cp" && parsed.has(&["a", "r", "R", "archive", "recursive"]));
    let kind = if tree { WriteKind::WriteBelow } else { WriteKind::Change };
    if parsed.unsure {
        walker.wrote_all(parsed.operands.iter().cloned(), kind, name);
    }
    let parents = name == "cp" && parsed.has(&["parents"]);
    let (sources, targets) = sources_and_targets(name, &parsed, parents);
    if name == "mv" {
        walker.wrote_all(sources.iter().cloned(), WriteKind::DeleteTree, name);
    }
    if name == "install" && parsed.has(&["D"]) {
        walker.create_directories(&targets, name);
    }
    for target in &targets {
        walker.wrote(target.clone(), kind, name);
        if parsed.has(&["b", "backup", "S", "suffix"]) {
            let suffix = parsed.value(&["S", "suffix"]).and_then(|suffix| suffix.known());
            walker.wrote(target.followed_by(suffix.as_deref().unwrap_or("~")), kind, name);
            let numbered = Field::of(vec![Piece::Text(".~".to_owned()), Piece::Name]);
            walker.wrote(target.joined(&numbered), kind, name);
        }
    }
    let symbolic = parsed.has(&["s", "symbolic", "symbolic-link"]);
    match name {
        "ln" => walker.linked(&sources, &targets, symbolic),
        "cp" if symbolic || parsed.has(&["l", "link"]) => {
            walker.linked(&sources, &targets, symbolic);
        }
        "mv" => walker.moved_links(&sources, &targets, true),
        "cp" if tree || parsed.has(&["d", "P", "no-dereference"]) => {
            walker.moved_links(&sources, &targets, false);
            let keeps = ["a", "d", "H", "P", "archive", "no-dereference"];
            if !parsed.has(&["L", "dereference"]) || parsed.has(&keeps) {
                // One source gets the name of the destination, or goes into it.
                let renamed = match (sources.as_slice(), targets.as_slice()) {
                    ([_], [name, inside]) if name != inside => Some(name),
                    _ => None,
                };
                walker.copied_with_links(&sources, &targets, renamed);
            }
        }
        _ => {}
    }
}

/// The sources of a copy, and every possible target.
fn sources_and_targets(
    name: &str,
    parsed: &ParsedArguments,
    parents: bool,
) -> (Vec<Field>, Vec<Field>) {
    let mut sources = parsed.operands.clone();
    if let Some(directory) = parsed.value(&["t", "target-directory"]) {
        let targets = inside(&directory, &sources, parents);
        return (sources, targets);
    }
    if name == "ln" && sources.len() == 1 && !sources.iter().any(Field::may_be_many) {
        let targets = inside(&Field::text("."), &sources, false);
        return (sources, targets);
    }
    let Some(destination) = sources.pop() else { return (Vec::new(), Vec::new()) };
    // `cp a*` copies to whatever comes last, and `cp a b*` the other b to the last one as well.
    if sources.is_empty() || destination.may_be_many() {
        sources.push(destination.clone());
    }
    let plain = parsed.has(&["T", "no-target-directory"]);
    let several = sources.len() > 1 || parents;
    let directory = is_directory(&destination);
    let mut targets = Vec::new();
    if plain || (!directory && !several) {
        targets.push(destination.clone());
    }
    if !plain {
        targets.extend(inside(&destination, &sources, parents));
    }
    (sources, targets)
}

/// Whether a path can only mean a directory.
fn is_directory(path: &Field) -> bool {
    path.known().is_some_and(|text| {
        let last = text.rsplit('/').next().unwrap_or_default();
        matches!(last, "" | "." | "..")
    })
}

/// The names that sources get inside of a directory.
fn inside(directory: &Field, sources: &[Field], parents: bool) -> Vec<Field> {
    let mut targets = Vec::new();
    for source in sources {
        let name = if parents { source.clone() } else { source.base_name() };
        let target = match name.known().as_deref() {
            // The content of a directory.
            Some("" | "." | "..") => directory.clone(),
            _ => directory.below(&name),
        };
        if !targets.contains(&target) {
            targets.push(target);
        }
    }
    targets
}

const RSYNC: Grammar = Grammar {
    flags: "0468aAbcCdDEgHhiIJkKlLmnNoOpPqrRsStuUvVWxXyzF",
    values: "BefTM",
    attached: "",
    long_flags: &[
        "acls",
        "append",
        "append-verify",
        "archive",
        "backup",
        "checksum",
        "compress",
        "copy-links",
        "delete",
        "delete-after",
        "delete-before",
        "delete-delay",
        "delete-during",
        "delete-excluded",
        "del",
        "devices",
        "dirs",
        "dry-run",
        "existing",
        "force",
        "group",
        "hard-links",
        "human-readable",
        "ignore-errors",
        "ignore-existing",
        "ignore-times",
        "inplace",
        "itemize-changes",
        "links",
        "list-only",
        "mkpath",
        "no-owner",
        "no-group",
        "no-perms",
        "no-times",
        "numeric-ids",
        "omit-dir-times",
        "owner",
        "partial",
        "perms",
        "progress",
        "protect-args",
        "prune-empty-dirs",
        "quiet",
        "recursive",
        "relative",
        "remove-source-files",
        "safe-links",
        "size-only",
        "sparse",
        "specials",
        "stats",
        "times",
        "update",
        "verbose",
        "version",
        "help",
        "whole-file",
        "xattrs",
        "cvs-exclude",
        "copy-unsafe-links",
        "munge-links",
        "fuzzy",
        "executability",
        "no-links",
    ],
    long_values: &[
        "address",
        "backup-dir",
        "block-size",
        "bwlimit",
        "checksum-choice",
        "chmod",
        "chown",
        "compare-dest",
        "compress-level",
        "contimeout",
        "copy-dest",
        "exclude",
        "exclude-from",
        "files-from",
        "filter",
        "group-map",
        "groupmap",
        "info",
        "debug",
        "include",
        "include-from",
        "link-dest",
        "log-file",
        "log-file-format",
        "max-delete",
        "max-size",
        "min-size",
        "modify-window",
        "only-write-batch",
        "out-format",
        "partial-dir",
        "password-file",
        "port",
        "read-batch",
        "rsh",
        "rsync-path",
        "skip-compress",
        "sockopts",
        "suffix",
        "temp-dir",
        "timeout",
        "usermap",
        "write-batch",
        "remote-option",
    ],
};

fn rsync(walker: &mut Walker, arguments: &[Field]) {
    let parsed = RSYNC.read(arguments);
    for option in ["log-file", "write-batch", "only-write-batch"] {
        walker.wrote_all(parsed.all(&[option]), WriteKind::Change, "rsync");
    }
    for option in ["backup-dir", "partial-dir", "temp-dir", "T"] {
        walker.wrote_all(parsed.all(&[option]), WriteKind::WriteBelow, "rsync");
    }
    let mut sources = parsed.operands.clone();
    if parsed.unsure {
        walker.wrote_all(sources.iter().cloned(), WriteKind::DeleteTree, "rsync");
    }
    // One operand alone is listed.
    let Some(destination) = sources.pop().filter(|_| parsed.operands.len() > 1) else { return };
    if parsed.has(&["n", "dry-run", "list-only"]) && !parsed.unsure {
        return;
    }
    if parsed.has(&["remove-source-files"]) {
        walker.wrote_all(sources.iter().cloned(), WriteKind::DeleteTree, "rsync");
    }
    let remote = |text: &str| {
        text.split('/').next().is_some_and(|host| host.contains(':')) || text.starts_with("rsync:")
    };
    if destination.known().is_some_and(|text| remote(&text)) {
        return;
    }
    let here = destination.known().is_some_and(|text| text.is_empty());
    let destination = if here { Field::text(".") } else { destination };
    let deletes = parsed.has(&[
        "del",
        "delete",
        "delete-after",
        "delete-before",
        "delete-delay",
        "delete-during",
        "delete-excluded",
    ]);
    if parsed.unsure || parsed.has(&["a", "archive", "l", "links"]) {
        walker.copied_with_links(&sources, std::slice::from_ref(&destination), None);
    }
    walker.wrote(destination.clone(), WriteKind::WriteBelow, "rsync");
    if deletes {
        walker.wrote(destination, WriteKind::DeleteTree, "rsync");
    }
}
