//! The names of tools in other programs, and ours.
//!
//! A tool of ours may cover several of a program's: it is granted only if all of them are.

/// One tool of ours.
#[derive(Debug)]
pub(crate) struct Row {
    /// Its name here.
    pub(crate) here: &'static str,
    /// The program's tools that it covers, each with its older names.
    pub(crate) there: &'static [&'static [&'static str]],
}

pub(crate) const fn row(here: &'static str, there: &'static [&'static [&'static str]]) -> Row {
    Row { here, there }
}

/// The tool of ours that a name of the program leads to.
pub(crate) fn known(table: &'static [Row], native: &str) -> Option<&'static Row> {
    let mut rows = table.iter();
    rows.find(|row| row.there.iter().any(|names| names.contains(&native)))
}

impl Row {
    /// The first of the program's tools that is not among those that are allowed.
    pub(crate) fn missing(&self, allowed: &[String]) -> Option<&'static str> {
        let has = |names: &[&str]| allowed.iter().any(|native| names.contains(&native.as_str()));
        let missing = self.there.iter().find(|names| !has(names));
        missing.and_then(|names| names.first().copied())
    }

    /// The program's names for it, the current ones.
    pub(crate) fn natives(&self) -> impl Iterator<Item = &'static str> {
        self.there.iter().filter_map(|names| names.first().copied())
    }
}

/// A list of allowed tools while it grows: in order, without repeats.
#[derive(Debug, Default)]
pub(crate) struct Allowed(pub(crate) Vec<String>);

impl Allowed {
    pub(crate) fn add(&mut self, name: impl Into<String>) {
        let name = name.into();
        if !self.0.contains(&name) {
            self.0.push(name);
        }
    }
}

/// Tools that are denied together with a tool: an agent without a shell must not type into one either.
pub(crate) fn denied_with(here: &'static str) -> &'static [&'static str] {
    match here {
        "Bash" => &["Bash", "Typing", "CodeMode"],
        _ => &[],
    }
}

/// Whether a glob of `*` and `?` matches a text. It backtracks to the last star only, so matching is fast.
pub(crate) fn matches(glob: &str, text: &str) -> bool {
    let (mut glob, mut text) = (glob.chars(), text.chars());
    let mut star: Option<(std::str::Chars<'_>, std::str::Chars<'_>)> = None;
    loop {
        let mut rest = text.clone();
        match (glob.next(), rest.next()) {
            (Some('*'), _) => star = Some((glob.clone(), text.clone())),
            (Some(wanted), Some(actual)) if wanted == '?' || wanted == actual => text = rest,
            (None, None) => return true,
            (Some(_) | None, _) => {
                let Some((behind, from)) = star.as_mut() else {
                    return false;
                };
                if from.next().is_none() {
                    return false;
                }
                (glob, text) = (behind.clone(), from.clone());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn globs_match_as_expected() {
        for (glob, text, expected) in [
            ("*", "", true),
            ("b*h", "bash", true),
            ("b?sh", "bash", true),
            ("bash", "bash2", false),
            ("*_x", "a_x", true),
            ("a*b*c", "aXbYbZc", true),
            ("a*b*c", "aXbYbZ", false),
            ("*", "anything", true),
            ("a?", "a", false),
            ("", "a", false),
        ] {
            assert_eq!(matches(glob, text), expected, "{glob} {text}");
        }
    }
}
