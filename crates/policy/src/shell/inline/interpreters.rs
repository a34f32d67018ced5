//! Interpreters by name: their options and languages.

use super::languages::{JAVASCRIPT, Language, PERL, PYTHON, RUBY};
use super::options::{BARE, Options};

/// How a code is read.
#[derive(Clone, Copy)]
pub(super) enum Reader {
    Tokens(&'static Language),
    Awk,
    Sed,
}

pub(in crate::shell) struct Interpreter {
    pub(super) names: &'static [&'static str],
    pub(super) reader: Reader,
    pub(super) options: Options,
    /// The first argument is code, not a file, unless an option gives some.
    pub(super) first_is_code: bool,
    /// Without other code, it reads code from its input.
    pub(super) reads_input: bool,
}

const SCRIPTS: Interpreter = Interpreter {
    names: &[],
    reader: Reader::Tokens(&PYTHON),
    options: BARE,
    first_is_code: false,
    reads_input: true,
};

const INTERPRETERS: [Interpreter; 7] = [
    Interpreter {
        names: &["python", "pypy", "ipython", "bpython", "micropython", "pythonw", "jython"],
        reader: Reader::Tokens(&PYTHON),
        options: Options {
            text: "c",
            value: "WX",
            module: "m",
            prompt: "i",
            quiet: "hV?",
            long_value: &["--check-hash-based-pycs"],
            ..BARE
        },
        ..SCRIPTS
    },
    Interpreter {
        names: &["node", "nodejs", "tsx", "ts-node", "electron", "babel-node"],
        reader: Reader::Tokens(&JAVASCRIPT),
        options: Options {
            text: "ep",
            value: "rC",
            prompt: "i",
            quiet: "hv",
            long_text: &["--eval", "--print", "-pe"],
            long_value: &["--require", "--import", "--loader", "--conditions", "--input-type"],
            long_quiet: &["--version", "--help", "--check", "-c", "--test", "--run"],
            ..BARE
        },
        ..SCRIPTS
    },
    Interpreter {
        names: &["perl"],
        reader: Reader::Tokens(&PERL),
        options: Options {
            text: "eE",
            value: "I",
            rest: "0lFiMmDxCV",
            quiet: "hv?",
            prompt: "d",
            in_place: "i",
            ..BARE
        },
        ..SCRIPTS
    },
    Interpreter {
        names: &["ruby", "jruby", "truffleruby"],
        reader: Reader::Tokens(&RUBY),
        options: Options {
            text: "e",
            value: "rICEF",
            rest: "0iKTWx",
            quiet: "hv",
            in_place: "i",
            ..BARE
        },
        ..SCRIPTS
    },
    Interpreter {
        names: &["irb", "pry"],
        reader: Reader::Tokens(&RUBY),
        options: Options { text: "e", value: "rI", quiet: "hv", ..BARE },
        ..SCRIPTS
    },
    Interpreter {
        names: &["awk", "gawk", "mawk", "nawk", "original-awk", "goawk"],
        reader: Reader::Awk,
        options: Options {
            text: "e",
            file: "fE",
            value: "Fvi",
            rest: "W",
            long_text: &["--source"],
            long_file: &["--file", "--exec"],
            long_value: &["--field-separator", "--assign", "--include"],
            ..BARE
        },
        first_is_code: true,
        reads_input: false,
    },
    Interpreter {
        names: &["sed", "gsed", "ssed"],
        reader: Reader::Sed,
        options: Options {
            text: "e",
            file: "f",
            value: "l",
            rest: "i",
            long_text: &["--expression"],
            long_file: &["--file"],
            long_value: &["--line-length"],
            ..BARE
        },
        first_is_code: true,
        reads_input: false,
    },
];

/// The interpreter of this name, in any version.
pub(super) fn find(name: &str) -> Option<&'static Interpreter> {
    let plain = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.' || c == '-');
    let named =
        |wanted: &str| INTERPRETERS.iter().find(|interpreter| interpreter.names.contains(&wanted));
    named(name).or_else(|| named(plain)).or_else(|| named(name.trim_end_matches(".exe")))
}
