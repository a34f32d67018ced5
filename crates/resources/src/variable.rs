//! Names under which values arrive: variables of a program, and headers of a request.

/// Variables by which a program finds its code, its files, its logins or its way to the network. A value
/// under one of these names would change the supervisor too, not only the agent.
const RESERVED: [&str; 26] = [
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "PWD",
    "OLDPWD",
    "IFS",
    "ENV",
    "BASH_ENV",
    "PROMPT_COMMAND",
    "TMPDIR",
    "TMP",
    "TEMP",
    "HOSTNAME",
    "NODE_OPTIONS",
    "NODE_PATH",
    "NODE_EXTRA_CA_CERTS",
    "NODE_TLS_REJECT_UNAUTHORIZED",
    "JAVA_TOOL_OPTIONS",
    "_JAVA_OPTIONS",
    "RUBYOPT",
    "RUBYLIB",
    "RUSTC_WRAPPER",
    "RUSTFLAGS",
    "DOCKER_HOST",
];

/// Prefixes of reserved names.
const BEGINNINGS: [&str; 11] = [
    "LD_",
    "DYLD_",
    "GIT_",
    "SSH_",
    "XDG_",
    "BAILIWICK_",
    "PYTHON",
    "PERL5",
    "SSL_CERT_",
    "DBUS_",
    "LC_",
];

/// Suffixes of reserved names: addresses that a key would be sent to, and paths of settings.
const ENDINGS: [&str; 8] = [
    "_BASE_URL",
    "_API_BASE",
    "_ENDPOINT",
    "_PROXY",
    "_HOME",
    "_CONFIG_DIR",
    "_CA_BUNDLE",
    "_PRELOAD",
];

/// Whether a text is a valid variable name: capitals, digits and `_`, not starting with a digit.
pub fn is_variable_name(name: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_';
    let starts = name.bytes().next().is_some_and(|first| !first.is_ascii_digit());
    starts && name.len() <= 128 && name.bytes().all(fits)
}

/// Whether a name is reserved for the programs around an agent. Case is ignored.
pub fn is_reserved_variable(name: &str) -> bool {
    let upper = name.to_ascii_uppercase().replace('-', "_");
    RESERVED.contains(&upper.as_str())
        || BEGINNINGS.iter().any(|beginning| upper.starts_with(beginning))
        || ENDINGS.iter().any(|ending| upper.ends_with(ending))
}

/// A regular expression of the reserved names. It needs no escapes, and other programs read it the same way.
pub fn reserved_variable_pattern() -> String {
    let join = |names: &[&str]| names.join("|").replace('_', "[_-]");
    let (names, beginnings, endings) = (join(&RESERVED), join(&BEGINNINGS), join(&ENDINGS));
    format!("(?i)^({names})$|^({beginnings})|({endings})$")
}

/// Why a variable name is not allowed.
pub fn variable_fault(name: &str) -> Option<String> {
    if !is_variable_name(name) {
        return Some(format!("`{name}` is not the name of a variable; write it as in API_TOKEN"));
    }
    is_reserved_variable(name)
        .then(|| format!("`{name}` means something to the programs around the agent"))
}

/// Why a header name is not allowed.
pub fn header_fault(name: &str) -> Option<String> {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
    if name.is_empty() || name.len() > 128 || !name.bytes().all(fits) {
        return Some(format!("`{name}` is no name of a header; write it as in X-Api-Key"));
    }
    is_reserved_variable(name)
        .then(|| format!("`{name}` means something to the programs around the agent"))
}

#[cfg(test)]
mod tests {
    use super::{header_fault, is_variable_name, variable_fault};

    #[test]
    fn service_keys_are_allowed_and_variables_that_change_programs_are_not() {
        for good in
            ["TOKEN", "ANTHROPIC_API_KEY", "_X", "A1", "OPENAI_API_KEY", "CLAUDE_CODE_OAUTH_TOKEN"]
        {
            assert_eq!(variable_fault(good), None);
        }
        for bad in [
            "",
            "1A",
            "token",
            "A B",
            "A=B",
            "A\0",
            "Ä",
            "PATH",
            "HOME",
            "LD_PRELOAD",
            "GIT_DIR",
            "ANTHROPIC_BASE_URL",
            "HTTPS_PROXY",
            "BAILIWICK_STATE",
            "BASH_ENV",
            "NODE_OPTIONS",
            "XDG_CONFIG_HOME",
            "CODEX_HOME",
            "CLAUDE_CONFIG_DIR",
            "PYTHONPATH",
        ] {
            assert!(variable_fault(bad).is_some(), "{bad}");
        }
    }

    #[test]
    fn header_names_follow_the_same_rules() {
        for good in ["Authorization", "X-Api-Key", "Cookie"] {
            assert_eq!(header_fault(good), None);
        }
        for bad in ["", "A: b", "A\r\nB", "Path", "ld_preload", "Anthropic-Base-Url"] {
            assert!(header_fault(bad).is_some(), "{bad}");
        }
    }

    #[test]
    fn only_shell_variable_characters_are_valid_in_a_name() {
        for byte in 0..=255_u8 {
            let name: String = ['A', char::from(byte)].into_iter().collect();
            let valid = byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_';
            assert_eq!(is_variable_name(&name), valid, "{name:?}");
        }
    }
}
