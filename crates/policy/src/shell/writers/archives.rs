//! Archives: `tar`, `unzip`, `zip`.

use super::super::field::Field;
use super::super::walk::Walker;
use super::super::working_directories::from_place;
use super::super::{HiddenReason, WriteKind};
use super::options::{Grammar, ParsedArguments};

pub(super) fn note(walker: &mut Walker, name: &str, arguments: &[Field]) {
    match name {
        "unzip" => unzip(walker, arguments),
        "zip" => zip(walker, arguments),
        _ => tar(walker, arguments),
    }
}

const TAR: Grammar = Grammar {
    flags: "AcdrtuxBGhijJklmMnOopPRSsUvwWzZaEyq",
    values: "bCfFgHIKLNTVX",
    attached: "",
    long_flags: &[
        "absolute-names",
        "acls",
        "append",
        "auto-compress",
        "bzip2",
        "catenate",
        "concatenate",
        "create",
        "delete",
        "delay-directory-restore",
        "dereference",
        "diff",
        "compare",
        "extract",
        "get",
        "exclude-vcs",
        "exclude-caches",
        "exclude-vcs-ignores",
        "force-local",
        "full-time",
        "gzip",
        "gunzip",
        "ignore-failed-read",
        "ignore-zeros",
        "interactive",
        "keep-newer-files",
        "keep-old-files",
        "list",
        "lzma",
        "lzip",
        "lzop",
        "multi-volume",
        "no-acls",
        "no-same-owner",
        "no-same-permissions",
        "no-overwrite-dir",
        "no-recursion",
        "null",
        "numeric-owner",
        "one-file-system",
        "overwrite",
        "owner-map",
        "preserve-permissions",
        "same-permissions",
        "same-owner",
        "recursion",
        "remove-files",
        "skip-old-files",
        "sparse",
        "to-stdout",
        "touch",
        "totals",
        "unlink-first",
        "update",
        "verbose",
        "verify",
        "wildcards",
        "no-wildcards",
        "xattrs",
        "xz",
        "zstd",
        "compress",
        "ungzip",
        "recursive-unlink",
        "strip",
        "one-top-level",
        "selinux",
        "version",
        "help",
        "posix",
        "warning",
        "checkpoint",
        "anchored",
        "no-anchored",
        "show-transformed-names",
        "keep-directory-symlink",
        "overwrite-dir",
        "preserve-order",
        "quoting-style",
        "sort",
    ],
    long_values: &[
        "add-file",
        "checkpoint-action",
        "directory",
        "exclude",
        "exclude-from",
        "exclude-tag",
        "file",
        "files-from",
        "format",
        "group",
        "index-file",
        "listed-incremental",
        "mode",
        "mtime",
        "newer",
        "new-volume-script",
        "info-script",
        "owner",
        "pax-option",
        "rmt-command",
        "rsh-command",
        "strip-components",
        "suffix",
        "to-command",
        "transform",
        "xform",
        "use-compress-program",
        "volno-file",
        "label",
        "after-date",
        "newer-mtime",
        "blocking-factor",
        "record-size",
        "starting-file",
        "tape-length",
        "backup",
    ],
};

fn tar(walker: &mut Walker, arguments: &[Field]) {
    let dashes = arguments.first().is_some_and(|first| first.to_string().starts_with('-'));
    let arguments = dashed(arguments);
    let parsed = TAR.read(&arguments);
    // Options in words of their own are looked into elsewhere; the letters of `tar xIf` are not.
    let bundled = parsed.has(&["I", "F"]) && !dashes;
    if bundled || parsed.has(&["new-volume-script", "rmt-command"]) {
        walker.hide(HiddenReason::RunsText, "tar");
    }
    let archive = parsed.value(&["f", "file"]);
    if parsed.has(&["x", "extract", "get"]) || parsed.unsure {
        extract(walker, &parsed);
    }
    let makes = ["c", "create", "r", "append", "u", "update", "A", "catenate", "concatenate"];
    if parsed.has(&makes) || parsed.has(&["delete"]) || parsed.unsure {
        let file = archive.filter(|file| file.known().as_deref() != Some("-"));
        walker.wrote_all(file, WriteKind::Change, "tar");
    }
    let lists = parsed.all(&["index-file", "g", "listed-incremental", "volno-file"]);
    walker.wrote_all(lists, WriteKind::Change, "tar");
    if parsed.has(&["remove-files"]) {
        walker.wrote_all(parsed.operands.iter().cloned(), WriteKind::DeleteTree, "tar");
    }
}

/// `tar xzf a b` is `tar -xz -f a b`: values follow in the order of their letters.
fn dashed(arguments: &[Field]) -> Vec<Field> {
    let Some((first, rest)) = arguments.split_first() else { return Vec::new() };
    let Some(letters) = first.known().filter(|text| !text.starts_with('-')) else {
        return arguments.to_vec();
    };
    let mut rest = rest.iter();
    let mut words = Vec::new();
    for letter in letters.chars() {
        words.push(Field::text(format!("-{letter}")));
        if TAR.values.contains(letter) {
            words.extend(rest.next().cloned());
        }
    }
    words.extend(rest.cloned());
    words
}

fn extract(walker: &mut Walker, parsed: &ParsedArguments) {
    if parsed.has(&["O", "to-stdout"]) && !parsed.unsure {
        return;
    }
    // Names may then lead anywhere.
    if parsed.has(&["P", "absolute-names", "transform", "xform"]) {
        return walker.wrote(Field::unknown(), WriteKind::WriteBelow, "tar");
    }
    walker.wrote_all(parsed.all(&["one-top-level"]), WriteKind::WriteBelow, "tar");
    // Each is seen from the one before; what is named in front of the first is left here.
    let mut here = Field::text("");
    let directories = parsed.all(&["C", "directory"]);
    if directories.is_empty() || !parsed.operands.is_empty() {
        walker.wrote(Field::text("."), WriteKind::WriteBelow, "tar");
    }
    for directory in directories {
        here = from_place(Some(&here), &directory).unwrap_or_else(Field::unknown);
        let path = if directory.is_absolute() { directory } else { here.clone() };
        walker.wrote(path, WriteKind::WriteBelow, "tar");
    }
}

const UNZIP: Grammar = Grammar {
    flags: "ablcfhjlnopqtuvzACDKLMTUVWXZ:^/x",
    values: "dPOI",
    attached: "",
    long_flags: &["help"],
    long_values: &[],
};

fn unzip(walker: &mut Walker, arguments: &[Field]) {
    let parsed = UNZIP.read(arguments);
    let looks = parsed.has(&["l", "p", "t", "v", "z", "Z", "c", "h", "help"]);
    if looks && !parsed.unsure {
        return;
    }
    if parsed.has(&[":"]) {
        walker.wrote(Field::unknown(), WriteKind::WriteBelow, "unzip");
    }
    let directory = parsed.value(&["d"]).unwrap_or_else(|| Field::text("."));
    walker.wrote(directory, WriteKind::WriteBelow, "unzip");
}

const ZIP: Grammar = Grammar {
    flags: "0123456789@AcdDeEfFghijJklLmoqrRSTuUvVwxXyzZ!$-",
    values: "bntPsOi",
    attached: "",
    long_flags: &[
        "recurse-paths",
        "quiet",
        "move",
        "junk-paths",
        "symlinks",
        "update",
        "freshen",
        "delete",
        "test",
        "encrypt",
        "verbose",
        "help",
        "version",
        "no-extra",
        "no-dir-entries",
        "grow",
    ],
    long_values: &[
        "out",
        "temp-path",
        "exclude",
        "include",
        "password",
        "split-size",
        "output-file",
        "compression-method",
        "suffixes",
        "from-date",
        "before-date",
        "unzip-command",
    ],
};

fn zip(walker: &mut Walker, arguments: &[Field]) {
    let parsed = ZIP.read(arguments);
    let outputs = parsed.all(&["O", "out", "output-file"]);
    let (archive, files) = match parsed.operands.split_first() {
        Some((archive, files)) => (Some(archive.clone()), files.to_vec()),
        None => (None, Vec::new()),
    };
    for archive in outputs.into_iter().chain(archive) {
        let name = archive.known();
        if name.as_deref() == Some("-") {
            continue;
        }
        // A name without an ending gets one.
        let base = name.as_deref().and_then(|name| name.rsplit('/').next());
        if base.is_none_or(|base| !base.contains('.')) {
            walker.wrote(archive.followed_by(".zip"), WriteKind::Change, "zip");
        }
        walker.wrote(archive, WriteKind::Change, "zip");
    }
    if parsed.has(&["m", "move"]) {
        walker.wrote_all(files, WriteKind::DeleteTree, "zip");
    }
    walker.wrote_all(parsed.all(&["b", "temp-path"]), WriteKind::WriteBelow, "zip");
}
