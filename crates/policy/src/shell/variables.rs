//! One table of variables that make programs run something, or change the meaning of a name.

use crate::word_list::words;

/// The effect of a variable on the programs that receive it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Meaning {
    /// The shell itself runs its value.
    Shell,
    /// Its value is a command, or the name of a program, that other programs start.
    Command,
    /// It names code or settings that a program loads, or options with which it does.
    Code,
    /// It changes which program or file a name means.
    Names,
}

use Meaning::{Code, Command, Names, Shell};

/// A star matches any characters.
const TABLE: [(Meaning, &[&str]); 4] = [
    (
        Shell,
        words!(
            "BASH_ALIASES BASH_CMDS BASH_ENV BASH_FUNC_* BASHOPTS ENV PROMPT_COMMAND PS0 PS1 PS2 PS4 \
        SHELLOPTS"
        ),
    ),
    (
        Command,
        words!(
            "BROWSER CARGO_BUILD_RUSTC* CARGO_BUILD_RUSTDOC CARGO_TARGET_*_LINKER \
        CARGO_TARGET_*_RUNNER CC CMAKE_*_COMPILER CMAKE_*_LAUNCHER CXX EDITOR FCEDIT GIT_ASKPASS \
        GIT_EDITOR GIT_EXTERNAL_DIFF GIT_PAGER GIT_PROXY_COMMAND GIT_SEQUENCE_EDITOR GIT_SSH \
        GIT_SSH_COMMAND LESSCLOSE LESSOPEN MANPAGER NPM_CONFIG_SCRIPT_SHELL PAGER RSYNC_RSH \
        RUSTC RUSTC_WORKSPACE_WRAPPER RUSTC_WRAPPER RUSTDOC RUSTFMT SSH_ASKPASS SUDO_EDITOR \
        VISUAL npm_config_script_shell"
        ),
    ),
    (
        Code,
        words!(
            "DYLD_INSERT_LIBRARIES EXINIT GCONV_PATH GIT_ALLOW_PROTOCOL \
        GIT_ALTERNATE_OBJECT_DIRECTORIES GIT_COMMON_DIR GIT_CONFIG GIT_CONFIG_COUNT \
        GIT_CONFIG_GLOBAL GIT_CONFIG_KEY_* GIT_CONFIG_PARAMETERS GIT_CONFIG_SYSTEM \
        GIT_CONFIG_VALUE_* GIT_DIR GIT_EXEC_PATH GIT_INDEX_FILE GIT_OBJECT_DIRECTORY \
        GIT_TEMPLATE_DIR GIT_TRACE* GIT_WORK_TREE GNUMAKEFLAGS JAVA_TOOL_OPTIONS \
        JDK_JAVA_OPTIONS LD_AUDIT LD_PRELOAD LUA_INIT* MAKEFILES MAKEFLAGS NODE_OPTIONS PERL5DB \
        PERL5OPT PYTHONSTARTUP RUBYOPT VIMINIT ZDOTDIR _JAVA_OPTIONS"
        ),
    ),
    (
        Names,
        words!(
            "AR CARGO* CDPATH DYLD_* GIT_* GLIBC_* HOME IFS JAVA* LD LD_* MAKE* NODE_* PATH PERL5* \
        PYTHON* RUBY* RUST* SHELL npm_config_* NPM_CONFIG_*"
        ),
    ),
];

/// The effect of a variable with this name; the first matching row counts.
pub(crate) fn meaning(name: &str) -> Option<Meaning> {
    let is = |pattern: &str| match pattern.split_once('*') {
        Some((start, end)) => name.strip_prefix(start).is_some_and(|rest| rest.ends_with(end)),
        None => name == pattern,
    };
    TABLE
        .iter()
        .find(|(_, names)| names.iter().any(|pattern| is(pattern)))
        .map(|(meaning, _)| *meaning)
}

/// Whether the value of such a variable makes a program load or run something.
pub(crate) fn loads_code(name: &str, value: Option<&str>) -> bool {
    if meaning(name) != Some(Code) {
        return false;
    }
    let Some(value) = value else { return true };
    let has = |signs: &[&str]| signs.iter().any(|sign| value.contains(sign));
    match name {
        "NODE_OPTIONS" => {
            has(&["-r", "--import", "--loader", "--experimental-loader", "--eval", "-e "])
        }
        "RUBYOPT" => has(&["-r", "-I", "-e"]),
        "JAVA_TOOL_OPTIONS" | "JDK_JAVA_OPTIONS" | "_JAVA_OPTIONS" => {
            has(&["agent", "OnOut", "OnError", "@"])
        }
        "MAKEFLAGS" | "GNUMAKEFLAGS" => has(&["eval", "-f", "=", "-I", "--include"]),
        "GIT_CONFIG_GLOBAL" | "GIT_CONFIG_SYSTEM" => !matches!(value, "/dev/null" | ""),
        // A number or a word switches it on, a path is a file that is written.
        _ if name.starts_with("GIT_TRACE") => value.contains('/'),
        _ => !value.is_empty(),
    }
}

/// Whether a variable makes git use another repository, or run a program of the caller.
pub(crate) fn steers_git(name: &str, value: Option<&str>) -> bool {
    const QUIET: [&str; 8] = ["", "cat", "less", "more", "true", ":", "echo", "less -R"];
    name.starts_with("GIT_")
        && match meaning(name) {
            Some(Command) => !value.is_some_and(|value| QUIET.contains(&value)),
            Some(Code) => loads_code(name, value),
            Some(Shell | Names) | None => false,
        }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_row_with_a_matching_name_counts() {
        for (name, expected) in [
            ("BASH_ENV", Some(Shell)),
            ("BASH_FUNC_f%%", Some(Shell)),
            ("RUSTFMT", Some(Command)),
            ("CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER", Some(Command)),
            ("PERL5OPT", Some(Code)),
            ("GIT_CONFIG_KEY_0", Some(Code)),
            ("GIT_AUTHOR_NAME", Some(Names)),
            ("PATH", Some(Names)),
            ("RUST_LOG", Some(Names)),
            ("DEBUG", None),
        ] {
            assert_eq!(meaning(name), expected, "{name}");
        }
    }

    #[test]
    fn value_that_loads_nothing_is_harmless() {
        for (name, value, expected) in [
            ("NODE_OPTIONS", "--max-old-space-size=4096", false),
            ("NODE_OPTIONS", "--require ./x.js", true),
            ("MAKEFLAGS", "-j4", false),
            ("GIT_TRACE", "1", false),
            ("GIT_TRACE", "/tmp/x", true),
            ("GIT_CONFIG_GLOBAL", "/dev/null", false),
            ("LD_PRELOAD", "", false),
            ("LD_PRELOAD", "/tmp/x.so", true),
        ] {
            assert_eq!(loads_code(name, Some(value)), expected, "{name}={value}");
        }
        assert!(loads_code("MAKEFILES", None));
        assert!(!steers_git("GIT_PAGER", Some("cat")));
        assert!(steers_git("GIT_EXTERNAL_DIFF", Some("/tmp/x")));
    }
}
