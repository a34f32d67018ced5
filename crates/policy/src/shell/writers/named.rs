//! Programs of which an operand or the value of an option is written: `tee`, `rm`, `dd of=` …

use super::super::WriteKind;
use super::super::field::{Field, Piece};
use super::super::walk::Walker;
use super::options::{Grammar, named_values};
use super::outputs;
use super::table::{G, Operands, PROGRAMS, Program};

pub(super) fn note(walker: &mut Walker, name: &str, arguments: &[Field]) {
    match name {
        "rm" | "rmdir" => return remove(walker, name, arguments),
        "dd" => {
            return walker.wrote_all(named_values(arguments, &["of="]), WriteKind::Change, name);
        }
        "openssl" => {
            let outputs = named_values(arguments, &["-out", "-keyout", "-writerand"]);
            return walker.wrote_all(outputs, WriteKind::Change, name);
        }
        "split" => return split(walker, arguments),
        "mktemp" => return make_temporary(walker, arguments),
        "rename" | "prename" | "file-rename" => return rename(walker, name, arguments),
        "uudecode" => return uudecode(walker, arguments),
        "flock" => return lock(walker, arguments),
        "scp" => return copy_over(walker, arguments),
        "yq" => return yq(walker, arguments),
        "cc" | "gcc" | "g++" | "c++" | "clang" | "clang++" | "rustc" => {
            return compile(walker, name, arguments);
        }
        _ => {}
    }
    match PROGRAMS.iter().find(|program| program.names.contains(&name)) {
        Some(program) => table(walker, name, program, arguments),
        None if arguments.iter().any(|field| field.leading_text().starts_with("--")) => {
            outputs::note(walker, name, arguments);
        }
        None => {}
    }
}

fn table(walker: &mut Walker, name: &str, program: &Program, arguments: &[Field]) {
    let parsed = program.grammar.read(arguments);
    let only_looks = |option: &&str| {
        parsed.has(&[option])
            || arguments.iter().any(|a| a.known().as_deref() == Some(&format!("-{option}")))
    };
    if program.looks.iter().any(only_looks) {
        return;
    }
    let outputs = parsed.all(program.outputs);
    let tree =
        parsed.has(&["R", "recursive"]) && matches!(name, "chmod" | "chown" | "chgrp" | "setfacl");
    let kind = if tree { WriteKind::WriteBelow } else { program.kind };
    // A mode may look like options: `chmod -x file`.
    let behind = match parsed.has(&["reference"]) || (name == "chmod" && has_mode(arguments)) {
        true => Operands::All,
        false => program.operands,
    };
    let operands = &parsed.operands;
    let unsure = parsed.unsure && !matches!(program.operands, Operands::None);
    let written: Vec<Field> = match behind {
        _ if unsure && !matches!(program.operands, Operands::Last | Operands::First) => {
            operands.clone()
        }
        Operands::None => Vec::new(),
        Operands::All => operands.clone(),
        Operands::First => operands.first().cloned().into_iter().collect(),
        Operands::Last => operands.last().cloned().into_iter().collect(),
        Operands::Second => operands.get(1).or(operands.first()).cloned().into_iter().collect(),
        Operands::BehindFirst => operands.iter().skip(1).cloned().collect(),
    };
    let mut written: Vec<Field> =
        written.into_iter().filter(|f| !matches!(f.known().as_deref(), Some("-"))).collect();
    if name == "tee" {
        // To `tee` it is a file like any other.
        written.clone_from(operands);
    }
    if name == "mkdir" {
        return walker.create_directories(&written, name);
    }
    if name == "strip" && !outputs.is_empty() {
        written.clear();
    }
    if name == "script" && written.is_empty() {
        written.push(Field::text("typescript"));
    }
    if name == "shred" && parsed.has(&["u", "remove"]) {
        walker.wrote_all(written.iter().cloned(), WriteKind::Delete, name);
    }
    if name == "csplit" {
        let prefix = parsed.value(&["f", "prefix"]).unwrap_or_else(|| Field::text("xx"));
        written.push(any_ending(&prefix));
    }
    if name == "sqlite3" {
        written.retain(|file| file.known().as_deref() != Some(":memory:"));
        let sides: Vec<Field> = written.iter().map(|file| file.followed_by("-journal")).collect();
        written.extend(sides);
    }
    let outputs = outputs.into_iter().filter(|f| f.known().as_deref() != Some("-"));
    walker.wrote_all(outputs, WriteKind::Change, name);
    walker.wrote_all(written, kind, name);
}

fn has_mode(arguments: &[Field]) -> bool {
    arguments.iter().filter_map(Field::known).any(|text| {
        text.strip_prefix('-').is_some_and(|mode| {
            !mode.is_empty() && mode.chars().all(|c| "rwxXst,+-=ugoa".contains(c))
        })
    })
}

const REMOVE: Grammar = Grammar {
    flags: "dfiIrRvp",
    long_flags: &[
        "recursive",
        "force",
        "dir",
        "verbose",
        "interactive",
        "one-file-system",
        "preserve-root",
        "no-preserve-root",
        "parents",
        "ignore-fail-on-non-empty",
        "help",
        "version",
    ],
    ..G
};

fn remove(walker: &mut Walker, name: &str, arguments: &[Field]) {
    let parsed = REMOVE.read(arguments);
    let tree = name == "rm" && (parsed.unsure || parsed.has(&["r", "R", "recursive"]));
    let kind = if tree { WriteKind::DeleteTree } else { WriteKind::Delete };
    if name == "rmdir" && parsed.has(&["p", "parents"]) {
        for operand in &parsed.operands {
            let mut above = operand.parent();
            while let Some(parent) =
                above.filter(|p| !matches!(p.known().as_deref(), Some("." | "/")))
            {
                above = parent.parent();
                walker.wrote(parent, WriteKind::Delete, name);
            }
        }
    }
    walker.wrote_all(parsed.operands, kind, name);
}

/// A name that begins with this.
fn any_ending(prefix: &Field) -> Field {
    Field::of(prefix.pieces().iter().cloned().chain([Piece::Pattern("*".to_owned())]).collect())
}

const SPLIT: Grammar = Grammar {
    flags: "duxez",
    values: "abClnt",
    long_flags: &[
        "numeric-suffixes",
        "hex-suffixes",
        "verbose",
        "elide-empty-files",
        "unbuffered",
        "help",
        "version",
    ],
    long_values: &[
        "additional-suffix",
        "bytes",
        "lines",
        "line-bytes",
        "number",
        "filter",
        "separator",
        "suffix-length",
    ],
    ..G
};

fn split(walker: &mut Walker, arguments: &[Field]) {
    let parsed = SPLIT.read(arguments);
    let prefix = parsed.operands.get(1).cloned().unwrap_or_else(|| Field::text("x"));
    walker.wrote(any_ending(&prefix), WriteKind::Change, "split");
    if parsed.unsure {
        let all: Vec<Field> = parsed.operands.iter().map(any_ending).collect();
        walker.wrote_all(all, WriteKind::Change, "split");
    }
}

/// `rename from to files`, or `rename code files`: what they are called then stays beside them,
/// unless the code says otherwise.
fn rename(walker: &mut Walker, name: &str, arguments: &[Field]) {
    const RENAME: Grammar = Grammar { flags: "vnosfiald0u", values: "e", ..G };
    let parsed = RENAME.read(arguments);
    let words: Vec<String> = parsed.operands.iter().take(2).map(ToString::to_string).collect();
    let leads = |text: &String| text.contains("..") || text.contains("\\/") || text.contains('…');
    let away = words.iter().any(leads) || parsed.has(&["e"]);
    for file in parsed.operands.iter().skip(1) {
        walker.wrote(file.clone(), WriteKind::Delete, name);
        let parent = file.parent().filter(|_| !away);
        let to = parent.map(|parent| parent.below(&Field::of(vec![Piece::Name])));
        walker.wrote(to.unwrap_or_else(Field::unknown), WriteKind::Change, name);
    }
}

/// The input of `uudecode` names the file that it writes, unless an option does.
fn uudecode(walker: &mut Walker, arguments: &[Field]) {
    const UUDECODE: Grammar = Grammar { values: "o", long_values: &["output-file"], ..G };
    let parsed = UUDECODE.read(arguments);
    let output = parsed.value(&["o", "output-file"]).unwrap_or_else(Field::unknown);
    walker.wrote(output, WriteKind::Change, "uudecode");
}

/// `flock file program`: the file is made if it is missing.
fn lock(walker: &mut Walker, arguments: &[Field]) {
    let mut rest = arguments.iter();
    while let Some(field) = rest.next() {
        let text = field.to_string();
        if matches!(text.as_str(), "-w" | "--timeout" | "-E" | "--conflict-exit-code") {
            rest.next();
        } else if !text.starts_with('-') {
            // Alone, a number is a descriptor.
            if rest.next().is_some() {
                walker.wrote(field.clone(), WriteKind::Change, "flock");
            }
            return;
        }
    }
}

/// `scp`, where it copies to here.
fn copy_over(walker: &mut Walker, arguments: &[Field]) {
    const SCP: Grammar = Grammar { flags: "346ABCOpqRrsTv", values: "cDFiJloPSX", ..G };
    let parsed = SCP.read(arguments);
    let Some((target, sources)) = parsed.operands.split_last() else { return };
    let text = target.to_string();
    let host = text.split('/').next().unwrap_or_default();
    if host.contains(':') || text.starts_with("scp://") {
        return;
    }
    let kind = if parsed.has(&["r"]) { WriteKind::WriteBelow } else { WriteKind::Change };
    walker.wrote(target.clone(), kind, "scp");
    for source in sources {
        walker.wrote(target.below(&source.base_name()), kind, "scp");
    }
}

const MKTEMP: Grammar = Grammar {
    flags: "dqut",
    values: "p",
    long_flags: &["directory", "dry-run", "quiet", "tmpdir", "help", "version"],
    long_values: &["suffix"],
    ..G
};

fn make_temporary(walker: &mut Walker, arguments: &[Field]) {
    let parsed = MKTEMP.read(arguments);
    let temporary = match walker.environment.is_untouched("TMPDIR") {
        true => Field::of(vec![Piece::Temporary]),
        false => Field::unknown(),
    };
    let directory = parsed.value(&["p", "tmpdir"]);
    let named = parsed.operands.first().map(|template| {
        let parent = template.parent().unwrap_or_else(Field::unknown);
        parent.below(&Field::of(vec![Piece::Name]))
    });
    let path = match (directory, named) {
        (Some(directory), Some(template)) if !template.is_absolute() => directory.below(&template),
        (Some(directory), _) => directory.below(&Field::of(vec![Piece::Name])),
        (None, Some(_)) if parsed.has(&["t", "tmpdir"]) => temporary,
        (None, Some(template)) => template,
        (None, None) => temporary,
    };
    walker.wrote(path, WriteKind::Change, "mktemp");
}

fn yq(walker: &mut Walker, arguments: &[Field]) {
    let edits = |field: &Field| {
        field.known().is_some_and(|text| {
            let short = text.starts_with('-') && !text.starts_with("--") && text.contains('i');
            text == "--inplace" || text == "--in-place" || short
        })
    };
    if !arguments.iter().any(edits) {
        return;
    }
    let verbs = ["eval", "e", "eval-all", "ea"];
    let operand = |field: &&Field| {
        field.known().is_none_or(|text| !text.starts_with('-') && !verbs.contains(&text.as_str()))
    };
    let operands: Vec<Field> = arguments.iter().filter(operand).cloned().collect();
    let skip = usize::from(operands.len() > 1);
    walker.wrote_all(operands.into_iter().skip(skip), WriteKind::Change, "yq");
}

fn compile(walker: &mut Walker, name: &str, arguments: &[Field]) {
    let words: Vec<String> =
        arguments.iter().map(|field| field.known().unwrap_or_default()).collect();
    let has = |options: &[&str]| words.iter().any(|word| options.contains(&word.as_str()));
    let mut outputs = named_values(arguments, &["-o", "-MF", "--output", "--output="]);
    outputs.extend(
        words
            .iter()
            .filter_map(|word| word.strip_prefix("-o"))
            .filter(|o| !o.is_empty())
            .map(Field::text),
    );
    let directories = named_values(arguments, &["--out-dir", "--out-dir="]);
    let looks = [
        "-E",
        "-fsyntax-only",
        "--version",
        "-v",
        "-M",
        "-MM",
        "-dumpversion",
        "--help",
        "-dumpmachine",
        "-V",
        "--print",
        "--explain",
        "-vV",
    ];
    if outputs.is_empty() && directories.is_empty() && !has(&looks) && !arguments.is_empty() {
        // Named after the sources, or `a.out`.
        let name_of = |source: &Field| source.base_name();
        if has(&["-c", "-S"]) || name == "rustc" {
            let sources = arguments.iter().zip(&words).filter(|(_, word)| !word.starts_with('-'));
            outputs.extend(sources.map(|(field, _)| {
                let stem = name_of(field).to_string();
                let stem = stem.rsplit_once('.').map_or(stem.as_str(), |(stem, _)| stem).to_owned();
                any_ending(&Field::text(stem))
            }));
        } else {
            outputs.push(Field::text("a.out"));
        }
    }
    walker.wrote_all(
        outputs.into_iter().filter(|o| o.known().as_deref() != Some("-")),
        WriteKind::Change,
        name,
    );
    walker.wrote_all(directories, WriteKind::WriteBelow, name);
}
