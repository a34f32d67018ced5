//! Interpreters by name: how they are called, and what language they speak.

use super::calls::Language;
use super::generic::OTHER;
use super::javascript::JAVASCRIPT;
use super::options::{BARE, Options};
use super::perl::PERL;
use super::python::PYTHON;
use super::scripting::{LUA, PHP, R, RUBY};

/// How a code is read.
#[derive(Clone, Copy)]
pub(super) enum Reader {
    Tokens(&'static Language),
    Awk,
    Sed,
    Tcl,
    Lisp,
    Shell,
}

/// An interpreter.
pub(in crate::shell) struct Interpreter {
    pub(super) names: &'static [&'static str],
    pub(super) reader: Reader,
    pub(super) options: Options,
    /// The first argument is code, not a file, unless an option gives some.
    pub(super) first_is_code: bool,
    /// What it reads from its input is code when it is given no other.
    pub(super) reads_input: bool,
}

const SCRIPTS: Interpreter = Interpreter {
    names: &[],
    reader: Reader::Tokens(&OTHER),
    options: BARE,
    first_is_code: false,
    reads_input: true,
};

const INTERPRETERS: [Interpreter; 20] = [
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
        names: &["php", "php-cli"],
        reader: Reader::Tokens(&PHP),
        options: Options {
            text: "rBRE",
            file: "fF",
            value: "dctz",
            quiet: "imvhlSs",
            prompt: "a",
            long_text: &["--run"],
            long_file: &["--file"],
            long_value: &["--define", "--php-ini"],
            ..BARE
        },
        ..SCRIPTS
    },
    Interpreter {
        names: &["lua", "luajit", "texlua"],
        reader: Reader::Tokens(&LUA),
        options: Options { text: "e", value: "l", prompt: "i", quiet: "v", ..BARE },
        ..SCRIPTS
    },
    Interpreter {
        names: &["Rscript", "R", "littler"],
        reader: Reader::Tokens(&R),
        options: Options {
            text: "e",
            file: "f",
            long_file: &["--file"],
            long_value: &["--package"],
            ..BARE
        },
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
    Interpreter {
        names: &["tclsh", "wish", "jimsh"],
        reader: Reader::Tcl,
        options: BARE,
        ..SCRIPTS
    },
    Interpreter {
        names: &["expect"],
        reader: Reader::Tcl,
        options: Options { text: "c", file: "fb", prompt: "i", quiet: "v", ..BARE },
        ..SCRIPTS
    },
    Interpreter {
        names: &["julia"],
        options: Options {
            text: "eE",
            value: "Lptg",
            prompt: "i",
            quiet: "hv",
            long_text: &["--eval", "--print"],
            long_value: &["--load", "--project", "--threads"],
            ..BARE
        },
        ..SCRIPTS
    },
    Interpreter {
        names: &[
            "groovy", "scala", "elixir", "raku", "rakudo", "clojure", "clj", "crystal", "kotlin",
        ],
        options: Options {
            text: "e",
            value: "rS",
            long_text: &["--eval", "-eval", "--rpc-eval"],
            long_value: &["-cp", "-classpath", "--classpath", "-pa"],
            ..BARE
        },
        ..SCRIPTS
    },
    Interpreter {
        names: &["ghc", "runghc", "runhaskell", "ocaml", "swift", "erl", "nim"],
        options: Options { long_text: &["-e", "-eval", "--eval"], ..BARE },
        reads_input: false,
        ..SCRIPTS
    },
    Interpreter {
        names: &["ghci", "jshell", "utop", "iex", "groovysh", "sbt-console"],
        options: Options { long_text: &["-e", "--eval"], ..BARE },
        ..SCRIPTS
    },
    Interpreter {
        names: &["osascript"],
        options: Options { text: "e", value: "ls", prompt: "i", ..BARE },
        ..SCRIPTS
    },
    Interpreter {
        names: &["pwsh", "powershell"],
        reader: Reader::Shell,
        options: Options {
            long_text: &["-c", "-Command", "-command", "--command"],
            long_file: &["-File", "-f", "-file"],
            long_value: &["-ExecutionPolicy", "-ep", "-WorkingDirectory", "-wd"],
            ..BARE
        },
        ..SCRIPTS
    },
    Interpreter {
        names: &["guile", "sbcl", "clisp", "racket", "csi", "chez", "scheme"],
        reader: Reader::Lisp,
        options: Options {
            text: "ce",
            file: "ls",
            long_text: &["--eval", "-eval", "-x"],
            long_file: &["--load", "--script", "-f"],
            ..BARE
        },
        ..SCRIPTS
    },
    Interpreter {
        names: &["fish", "nu", "xonsh", "elvish"],
        reader: Reader::Shell,
        options: Options {
            text: "c",
            prompt: "i",
            quiet: "v",
            long_text: &["--command", "--commands"],
            ..BARE
        },
        ..SCRIPTS
    },
];

/// The interpreter of this name, whatever its version.
pub(super) fn find(name: &str) -> Option<&'static Interpreter> {
    let plain = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.' || c == '-');
    let named =
        |wanted: &str| INTERPRETERS.iter().find(|interpreter| interpreter.names.contains(&wanted));
    named(name).or_else(|| named(plain)).or_else(|| named(name.trim_end_matches(".exe")))
}
