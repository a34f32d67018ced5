//! Programs that rewrite source files where they are: `prettier --write`, `black`, `gofmt -w` …

use super::super::WriteKind;
use super::super::field::Field;
use super::super::walk::Walker;

/// How such a program is called.
struct Formatter {
    name: &'static str,
    /// The first words after the name, one of which makes it write; empty if it always writes.
    verbs: &'static [&'static str],
    /// Options of which it needs one to write; none if it writes without.
    needs: &'static [&'static str],
    /// Options with which it only looks.
    looks: &'static [&'static str],
    /// Options with a value in the next word.
    values: &'static [&'static str],
    /// The default file.
    default: Option<&'static str>,
}

const PLAIN: Formatter =
    Formatter { name: "", verbs: &[], needs: &[], looks: &[], values: &[], default: None };
const CHECKS: &[&str] =
    &["--check", "--diff", "-d", "-l", "--list-different", "--help", "--version"];

const FORMATTERS: [Formatter; 27] = [
    Formatter {
        name: "prettier",
        needs: &["--write", "-w"],
        values: &["--config", "--parser", "--plugin", "--ignore-path", "--log-level"],
        ..PLAIN
    },
    Formatter {
        name: "eslint",
        needs: &["--fix"],
        values: &["--ext", "-c", "--config", "--rule", "--format", "-f", "--max-warnings"],
        default: Some("."),
        ..PLAIN
    },
    Formatter { name: "stylelint", needs: &["--fix"], values: &["--config"], ..PLAIN },
    Formatter { name: "standard", needs: &["--fix"], default: Some("."), ..PLAIN },
    Formatter {
        name: "biome",
        verbs: &["format", "check", "lint"],
        needs: &["--write", "--apply", "--fix"],
        default: Some("."),
        ..PLAIN
    },
    Formatter {
        name: "black",
        looks: &["--check", "--diff", "--help", "--version"],
        values: &["-l", "--line-length", "-t", "--target-version", "--config", "--exclude"],
        ..PLAIN
    },
    Formatter {
        name: "isort",
        looks: &["--check", "--check-only", "-c", "--diff", "--help", "--version"],
        values: &["--profile", "-l", "--line-length", "--sp"],
        ..PLAIN
    },
    Formatter {
        name: "ruff",
        verbs: &["format"],
        looks: &["--check", "--diff", "--help"],
        values: &["--config", "--line-length", "--target-version", "--exclude"],
        default: Some("."),
        ..PLAIN
    },
    Formatter {
        name: "ruff",
        verbs: &["check", "--fix"],
        needs: &["--fix", "--fix-only", "--unsafe-fixes"],
        looks: &["--diff"],
        values: &["--select", "--ignore", "--config", "--exclude", "--output-format"],
        default: Some("."),
    },
    Formatter { name: "autopep8", needs: &["-i", "--in-place"], ..PLAIN },
    Formatter { name: "autoflake", needs: &["-i", "--in-place"], ..PLAIN },
    Formatter { name: "pyupgrade", ..PLAIN },
    Formatter { name: "yapf", needs: &["-i", "--in-place"], values: &["--style"], ..PLAIN },
    Formatter { name: "gofmt", needs: &["-w"], values: &["-r"], ..PLAIN },
    Formatter { name: "goimports", needs: &["-w"], values: &["-local"], ..PLAIN },
    Formatter { name: "gofumpt", needs: &["-w"], values: &["-lang", "-modpath"], ..PLAIN },
    Formatter {
        name: "rustfmt",
        looks: &["--check", "--help", "--version", "-h", "-V"],
        values: &["--edition", "--config-path", "--config", "--emit", "--color"],
        ..PLAIN
    },
    Formatter { name: "clang-format", needs: &["-i"], values: &["-style", "--style"], ..PLAIN },
    Formatter { name: "dos2unix", ..PLAIN },
    Formatter { name: "unix2dos", ..PLAIN },
    Formatter { name: "shfmt", needs: &["-w"], values: &["-i", "-ln"], ..PLAIN },
    Formatter { name: "terraform", verbs: &["fmt"], looks: CHECKS, default: Some("."), ..PLAIN },
    Formatter {
        name: "taplo",
        verbs: &["fmt", "format"],
        looks: CHECKS,
        default: Some("."),
        ..PLAIN
    },
    Formatter { name: "stylua", looks: CHECKS, ..PLAIN },
    Formatter { name: "google-java-format", needs: &["-i", "-r", "--replace"], ..PLAIN },
    Formatter { name: "ktlint", needs: &["-F", "--format"], default: Some("."), ..PLAIN },
    Formatter { name: "buildifier", looks: &["-mode=check", "--mode=check"], ..PLAIN },
];

/// Notes what such a program writes; whether it is one.
pub(super) fn note(walker: &mut Walker, name: &str, arguments: &[Field]) -> bool {
    let mut known = false;
    for formatter in FORMATTERS.iter().filter(|formatter| formatter.name == name) {
        known = true;
        formatted(walker, formatter, arguments);
    }
    known
}

fn formatted(walker: &mut Walker, formatter: &Formatter, arguments: &[Field]) {
    let words: Vec<String> =
        arguments.iter().map(|field| field.known().unwrap_or_default()).collect();
    let any = |options: &[&str]| words.iter().any(|word| options.contains(&word.as_str()));
    let verb = |word: &String| formatter.verbs.contains(&word.as_str());
    let has_verb = formatter.verbs.is_empty() || words.iter().any(verb);
    let writes = formatter.needs.is_empty() || any(formatter.needs);
    if !has_verb || !writes || any(formatter.looks) {
        return;
    }
    let mut files = Vec::new();
    let mut rest = arguments.iter();
    let mut verbs = formatter.verbs.iter().filter(|verb| !verb.starts_with('-')).count().min(1);
    while let Some(field) = rest.next() {
        match field.known() {
            Some(word) if formatter.values.contains(&word.as_str()) => {
                rest.next();
            }
            Some(word) if word.starts_with('-') => {}
            Some(word) if verbs > 0 && verb(&word) => verbs -= 1,
            _ => files.push(field.clone()),
        }
    }
    if files.is_empty() {
        files.extend(formatter.default.map(Field::text));
    }
    for file in files {
        let alone = matches!(formatter.name, "dos2unix" | "unix2dos" | "clang-format");
        let kind = if alone || is_file(&file) { WriteKind::Change } else { WriteKind::WriteBelow };
        walker.wrote(file, kind, formatter.name);
    }
}

/// Whether a name looks like that of a file: with an ending.
fn is_file(path: &Field) -> bool {
    let name = path.base_name().to_string();
    !matches!(name.as_str(), "" | "." | "..") && name.trim_start_matches('.').contains('.')
}
