//! Programs that write, with their options: one row a program.

use super::super::WriteKind;
use super::options::Grammar;

/// Which operands are written.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Operands {
    None,
    All,
    First,
    /// The second, or the first if it is the only one.
    Second,
    Last,
    /// All but the first, which is the mode.
    BehindFirst,
}

/// How a program that writes is called.
pub(super) struct Program {
    pub(super) names: &'static [&'static str],
    pub(super) grammar: Grammar,
    pub(super) operands: Operands,
    pub(super) kind: WriteKind,
    /// Options whose values are written.
    pub(super) outputs: &'static [&'static str],
    /// Options with which nothing is written.
    pub(super) looks: &'static [&'static str],
}

pub(super) const G: Grammar = Grammar {
    flags: "",
    values: "",
    attached: "",
    long_flags: &["help", "version"],
    long_values: &[],
};
const P: Program = Program {
    names: &[],
    grammar: G,
    operands: Operands::All,
    kind: WriteKind::Change,
    outputs: &[],
    looks: &["help", "version"],
};

pub(super) const PROGRAMS: [Program; 29] = [
    Program {
        names: &["tee"],
        grammar: Grammar { flags: "aip", long_flags: &["append", "output-error"], ..G },
        ..P
    },
    Program { names: &["sponge"], grammar: Grammar { flags: "a", ..G }, ..P },
    Program { names: &["unlink"], kind: WriteKind::Delete, ..P },
    Program {
        names: &["fallocate"],
        grammar: Grammar {
            flags: "cdinpvxz",
            values: "lo",
            long_flags: &[
                "collapse-range",
                "dig-holes",
                "insert-range",
                "keep-size",
                "punch-hole",
                "posix",
                "zero-range",
                "verbose",
            ],
            long_values: &["length", "offset"],
            ..G
        },
        ..P
    },
    Program {
        names: &["setfacl"],
        grammar: Grammar {
            flags: "bdknLPRtv",
            values: "mMxX",
            long_flags: &[
                "remove-all",
                "remove-default",
                "default",
                "no-mask",
                "recursive",
                "logical",
                "physical",
                "test",
            ],
            long_values: &["modify", "modify-file", "remove", "remove-file", "set", "set-file"],
            ..G
        },
        looks: &["help", "version", "test"],
        ..P
    },
    Program {
        names: &["shred"],
        grammar: Grammar {
            flags: "fuvxz",
            values: "ns",
            long_flags: &["remove", "force", "zero", "exact", "verbose"],
            long_values: &["iterations", "size", "random-source"],
            ..G
        },
        ..P
    },
    Program {
        names: &["touch"],
        grammar: Grammar {
            flags: "acfhm",
            values: "drt",
            long_flags: &["no-create", "no-dereference"],
            long_values: &["date", "reference", "time"],
            ..G
        },
        ..P
    },
    Program {
        names: &["truncate"],
        grammar: Grammar {
            flags: "co",
            values: "rs",
            long_flags: &["no-create", "io-blocks"],
            long_values: &["reference", "size"],
            ..G
        },
        ..P
    },
    Program {
        names: &["mkdir"],
        grammar: Grammar {
            flags: "pvZ",
            values: "m",
            long_flags: &["parents", "verbose", "context"],
            long_values: &["mode"],
            ..G
        },
        ..P
    },
    Program {
        names: &["mkfifo"],
        grammar: Grammar { flags: "Z", values: "m", long_values: &["mode"], ..G },
        ..P
    },
    Program {
        names: &["mknod"],
        grammar: Grammar { flags: "Z", values: "m", long_values: &["mode"], ..G },
        operands: Operands::First,
        ..P
    },
    Program {
        names: &["sort"],
        grammar: Grammar {
            flags: "bcCdfghimMnrRsuVz",
            values: "koStT",
            long_values: &[
                "output",
                "key",
                "field-separator",
                "buffer-size",
                "parallel",
                "temporary-directory",
                "compress-program",
                "files0-from",
                "batch-size",
                "random-source",
            ],
            ..G
        },
        operands: Operands::None,
        outputs: &["o", "output"],
        ..P
    },
    Program {
        names: &["shuf"],
        grammar: Grammar { flags: "erz", values: "ion", long_values: &["output"], ..G },
        operands: Operands::None,
        outputs: &["o", "output"],
        ..P
    },
    Program {
        names: &["iconv"],
        grammar: Grammar { flags: "cls", values: "fto", long_values: &["output"], ..G },
        operands: Operands::None,
        outputs: &["o", "output"],
        ..P
    },
    Program {
        names: &["xmllint"],
        grammar: Grammar { values: "o", long_values: &["output"], ..G },
        operands: Operands::None,
        outputs: &["o", "output"],
        ..P
    },
    Program {
        names: &["pandoc"],
        grammar: Grammar {
            flags: "spNShv",
            values: "oftrwVMHBAcTFL",
            long_values: &["output", "log", "extract-media"],
            ..G
        },
        operands: Operands::None,
        outputs: &["o", "output", "log", "extract-media"],
        ..P
    },
    Program {
        names: &["ld"],
        grammar: Grammar { values: "oLlTem", ..G },
        operands: Operands::None,
        outputs: &["o"],
        ..P
    },
    Program {
        names: &["objcopy"],
        grammar: Grammar {
            flags: "SgdxXpDUvw",
            values: "OIBFjRKNLWGb",
            long_values: &["output-target", "input-target", "only-section", "remove-section"],
            ..G
        },
        operands: Operands::Second,
        ..P
    },
    Program {
        names: &["strip"],
        grammar: Grammar {
            flags: "sgSdxXpDUvw",
            values: "oOIFRKN",
            long_flags: &["strip-all", "strip-debug", "strip-unneeded", "preserve-dates"],
            ..G
        },
        outputs: &["o"],
        ..P
    },
    Program {
        names: &["uniq"],
        grammar: Grammar {
            flags: "cdDiuz",
            values: "fsw",
            long_flags: &[
                "count",
                "repeated",
                "all-repeated",
                "group",
                "ignore-case",
                "unique",
                "zero-terminated",
            ],
            long_values: &["skip-fields", "skip-chars", "check-chars"],
            ..G
        },
        operands: Operands::BehindFirst,
        ..P
    },
    Program {
        names: &["xxd"],
        grammar: Grammar { flags: "abCdEehipruv", values: "cglnosR", ..G },
        operands: Operands::BehindFirst,
        ..P
    },
    Program {
        names: &["time"],
        grammar: Grammar { flags: "pvaq", values: "fo", long_values: &["format", "output"], ..G },
        operands: Operands::None,
        outputs: &["o", "output"],
        ..P
    },
    Program {
        names: &["strace", "ltrace"],
        grammar: Grammar { flags: "fFqtrTyvcCdhiknwxzZ", values: "oesuEPOSabIpX", ..G },
        operands: Operands::None,
        outputs: &["o"],
        ..P
    },
    Program {
        names: &["sqlite3", "sqlite"],
        operands: Operands::First,
        looks: &["readonly", "version", "help"],
        ..P
    },
    Program {
        names: &["convert", "magick", "ffmpeg"],
        operands: Operands::Last,
        looks: &["version"],
        ..P
    },
    Program {
        names: &["chmod"],
        grammar: Grammar {
            flags: "cfvRrwxXstugoa,+=01234567-",
            long_flags: &[
                "recursive",
                "verbose",
                "silent",
                "quiet",
                "changes",
                "preserve-root",
                "no-preserve-root",
            ],
            long_values: &["reference"],
            ..G
        },
        operands: Operands::BehindFirst,
        ..P
    },
    Program {
        names: &["chown", "chgrp"],
        grammar: Grammar {
            flags: "cfvRhHLP",
            long_flags: &[
                "recursive",
                "verbose",
                "silent",
                "quiet",
                "changes",
                "dereference",
                "no-dereference",
                "preserve-root",
                "no-preserve-root",
            ],
            long_values: &["reference", "from"],
            ..G
        },
        operands: Operands::BehindFirst,
        ..P
    },
    Program {
        names: &["script"],
        grammar: Grammar {
            flags: "aefq",
            values: "cBEImOoT",
            attached: "t",
            long_flags: &["append", "return", "flush", "force", "quiet"],
            long_values: &[
                "command",
                "log-in",
                "log-io",
                "log-out",
                "log-timing",
                "echo",
                "logging-format",
                "output-limit",
            ],
        },
        operands: Operands::First,
        outputs: &["B", "I", "O", "T", "t", "log-in", "log-io", "log-out", "log-timing"],
        ..P
    },
    Program {
        names: &["csplit"],
        grammar: Grammar { flags: "kqsz", values: "bfn", long_values: &["prefix"], ..G },
        operands: Operands::None,
        ..P
    },
];
