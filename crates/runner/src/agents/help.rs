//! Reading a program's help: which of the flags that we use are there.

/// Those of `flags` that the help does not name.
pub(super) fn missing(help: &str, flags: &[&str]) -> Vec<String> {
    flags.iter().filter(|flag| !names(help, flag)).map(|flag| (*flag).to_owned()).collect()
}

/// Whether the help mentions a flag, as a separate word.
pub(super) fn names(help: &str, flag: &str) -> bool {
    let ends = |rest: &str| !rest.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '-');
    help.match_indices(flag).any(|(at, _)| help.get(at + flag.len()..).is_some_and(ends))
}

/// The words in the first brackets behind a flag: `--effort LEVEL  … (low, medium, high)`.
pub(super) fn choices(help: &str, flag: &str) -> Option<Vec<String>> {
    let (_, rest) = help.split_once(flag)?;
    // The next flag's choices are not this one's.
    let own = rest.split("\n  -").next()?;
    let (_, list) = own.rsplit_once('(')?;
    let (list, _) = list.split_once(')')?;
    let words = list.split(',').map(|word| word.split_whitespace().collect::<String>());
    Some(words.filter(|word| !word.is_empty()).collect())
}

/// The numbers of a version: `codex-cli 0.166.0` is `0.166.0`.
pub(super) fn number(version: &str) -> Option<&str> {
    let digits = |part: &str| !part.is_empty() && part.chars().all(|c| c.is_ascii_digit());
    let numeric = |word: &&str| word.split('.').take(2).filter(|part| digits(part)).count() == 2;
    version.split_whitespace().find(numeric)
}

/// Words of ours as texts.
pub(super) fn list(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_and_choices_are_parsed() {
        let help = "  --effort <level>   Effort level for the\n          session (low, medium,\n       high)\n  --tools-x   X (a, b)\n";
        assert_eq!(choices(help, "--effort").unwrap(), ["low", "medium", "high"]);
        assert_eq!(missing(help, &["--effort", "--tools"]), ["--tools"]);
        assert_eq!(number("2.1.197 (Claude Code)"), Some("2.1.197"));
        assert_eq!(number("codex-cli 0.166.0"), Some("0.166.0"));
        assert_eq!(number("none"), None);
    }
}
