//! Programs that put a compressed file in place of another, and back: `gzip`, `xz`, `zstd` …

use super::super::WriteKind;
use super::super::field::Field;
use super::super::walk::Walker;
use super::options::{Grammar, ParsedArguments};

const PLAIN: Grammar = Grammar {
    flags: "0123456789acdfhklLnNqrtvVzeMC",
    values: "SbFToDBm",
    attached: "",
    long_flags: &[
        "best",
        "bytes",
        "compress",
        "decompress",
        "uncompress",
        "extreme",
        "fast",
        "force",
        "help",
        "keep",
        "list",
        "long",
        "name",
        "no-name",
        "progress",
        "quiet",
        "recursive",
        "rm",
        "rsyncable",
        "small",
        "sparse",
        "stdout",
        "to-stdout",
        "synchronous",
        "test",
        "ultra",
        "verbose",
        "version",
        "ascii",
        "license",
        "no-progress",
        "single-stream",
    ],
    long_values: &["suffix", "threads", "format", "output-dir-flat", "memlimit", "check", "bits"],
};

/// Name, extension, and whether it is removed.
const PROGRAMS: [(&str, &str, bool); 18] = [
    ("gzip", ".gz", false),
    ("pigz", ".gz", false),
    ("gunzip", ".gz", true),
    ("unpigz", ".gz", true),
    ("bzip2", ".bz2", false),
    ("bunzip2", ".bz2", true),
    ("xz", ".xz", false),
    ("unxz", ".xz", true),
    ("lzma", ".lzma", false),
    ("unlzma", ".lzma", true),
    ("zstd", ".zst", false),
    ("zstdmt", ".zst", false),
    ("unzstd", ".zst", true),
    ("lz4", ".lz4", false),
    ("unlz4", ".lz4", true),
    ("compress", ".Z", false),
    ("uncompress", ".Z", true),
    ("lzip", ".lz", false),
];

/// Notes what such a program writes; whether it is one.
pub(super) fn note(walker: &mut Walker, name: &str, arguments: &[Field]) -> bool {
    let Some((_, ending, takes)) = PROGRAMS.iter().find(|(known, ..)| *known == name) else {
        return false;
    };
    // These leave the file that they read.
    let keeps = matches!(name, "zstd" | "zstdmt" | "unzstd" | "lz4" | "unlz4");
    let grammar = match keeps {
        true => PLAIN,
        false => Grammar { values: "SbFTm", ..PLAIN },
    };
    let parsed = grammar.read(arguments);
    let looks = ["c", "stdout", "to-stdout", "t", "test", "l", "list", "h", "help", "V", "version"];
    if parsed.has(&looks) && !parsed.unsure && !parsed.has(&["o"]) {
        return true;
    }
    let takes = *takes || parsed.has(&["d", "decompress", "uncompress"]);
    let removes = parsed.has(&["rm"]) || (!keeps && !parsed.has(&["k", "keep"]));
    let mut operands = parsed.operands.clone();
    if name.ends_with("lz4") && operands.len() > 1 {
        // The second one is written.
        walker.wrote_all(operands.drain(1..), WriteKind::Change, name);
    }
    walker.wrote_all(parsed.all(&["o"]), WriteKind::Change, name);
    walker.wrote_all(parsed.all(&["output-dir-flat"]), WriteKind::WriteBelow, name);
    if parsed.has(&["o"]) && !parsed.unsure {
        let deleted = operands.into_iter().filter(|_| removes);
        walker.wrote_all(deleted, WriteKind::Delete, name);
        return true;
    }
    for operand in operands.iter().filter(|operand| operand.known().as_deref() != Some("-")) {
        one(walker, name, operand, &endings(&parsed, ending), takes, removes);
        if parsed.has(&["r", "recursive"]) {
            walker.wrote(operand.clone(), WriteKind::WriteBelow, name);
        }
        if parsed.has(&["N", "name"]) && takes {
            let parent = operand.parent().unwrap_or_else(Field::unknown);
            walker.wrote(parent.below(&Field::unknown()), WriteKind::Change, name);
        }
    }
    true
}

fn endings(parsed: &ParsedArguments, usual: &str) -> Vec<String> {
    let own = parsed.value(&["S", "suffix"]).and_then(|suffix| suffix.known());
    own.into_iter().chain([usual.to_owned()]).collect()
}

fn one(
    walker: &mut Walker,
    name: &str,
    operand: &Field,
    endings: &[String],
    takes: bool,
    removes: bool,
) {
    if removes {
        walker.wrote(operand.clone(), WriteKind::Delete, name);
    }
    if !takes {
        for ending in endings {
            walker.wrote(operand.followed_by(ending), WriteKind::Change, name);
        }
        return;
    }
    let others = [".gz", ".bz2", ".xz", ".lzma", ".zst", ".lz4", ".Z", ".z", "-gz", "-z", "_z"];
    let all = endings.iter().map(String::as_str).chain(others);
    if let Some(shorter) = all.clone().find_map(|ending| operand.without_suffix(ending)) {
        return walker.wrote(shorter, WriteKind::Change, name);
    }
    for (short, long) in [(".tgz", ".tar"), (".taz", ".tar"), (".tbz2", ".tar"), (".txz", ".tar")] {
        if let Some(stem) = operand.without_suffix(short) {
            return walker.wrote(stem.followed_by(long), WriteKind::Change, name);
        }
    }
    // Without an ending, the file with one is meant.
    walker.wrote(operand.clone(), WriteKind::Change, name);
    if removes {
        for ending in endings {
            walker.wrote(operand.followed_by(ending), WriteKind::Delete, name);
        }
    }
    // The name that bzip2 cannot derive.
    walker.wrote(operand.followed_by(".out"), WriteKind::Change, name);
}
