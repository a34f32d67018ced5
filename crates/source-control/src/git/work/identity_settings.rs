//! The settings of a person's git that say who makes commits.

use std::process::{Command, Stdio};

use super::worktree_paths::WorktreePaths;
use crate::git::command::remove_git_variables;

/// Whose commits they are. Git takes `author` or `committer` before `user`.
const SECTIONS: [&str; 3] = ["user", "author", "committer"];

/// The settings with their keys, in the order in which git reads them.
#[derive(Debug, Default)]
pub(super) struct IdentitySettings(Vec<(String, String)>);

impl IdentitySettings {
    /// Those of a repository, and of the person.
    pub(super) fn observe(paths: &WorktreePaths) -> Self {
        let mut command = Command::new("git");
        remove_git_variables(&mut command);
        let pattern = format!(r"^({})\.(name|email)$", SECTIONS.join("|"));
        let output = command
            .arg("-C")
            .arg(&paths.common_dir)
            .args(["config", "-z", "--get-regexp", &pattern])
            .stdin(Stdio::null())
            .output();
        let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
        Self::parse(&text.unwrap_or_default())
    }

    pub(super) fn parse(text: &str) -> Self {
        let settings = text.split('\0').filter_map(|setting| setting.split_once('\n'));
        let set = settings.filter(|(_, value)| !value.trim().is_empty());
        Self(set.map(|(key, value)| (key.to_owned(), value.to_owned())).collect())
    }

    /// The last one counts.
    pub(super) fn last(&self, key: &str) -> Option<&str> {
        let found = self.0.iter().rev().find(|(name, _)| name == key);
        found.map(|(_, value)| value.as_str())
    }

    /// A file of git's configuration with the settings that count.
    pub(super) fn file(&self) -> String {
        let mut text = String::new();
        for section in SECTIONS {
            for name in ["name", "email"] {
                if let Some(value) = self.last(&format!("{section}.{name}")) {
                    text.push_str(&format!("[{section}]\n\t{name} = {}\n", quoted(value)));
                }
            }
        }
        text
    }
}

fn quoted(value: &str) -> String {
    let value = value.replace('\\', r"\\").replace('"', "\\\"");
    format!("\"{}\"", value.replace('\n', r"\n").replace('\t', r"\t"))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn git_reads_the_persons_settings_from_the_file() {
        let place = tempfile::tempdir().unwrap();
        let odd = "Ada \"A\" \\ #1; x";
        let text = format!(
            "user.name\nOld\0user.email\nada@example.org\0author.name\n{odd}\0user.name\nNew\0\
             committer.email\n \0"
        );
        let file = place.path().join("config");
        fs::write(&file, IdentitySettings::parse(&text).file()).unwrap();
        let mut git = Command::new("git");
        git.args(["config", "--null", "--list", "--file"]).arg(&file);
        let listed = String::from_utf8(git.output().unwrap().stdout).unwrap();
        let expected = format!("user.name\nNew\0user.email\nada@example.org\0author.name\n{odd}\0");
        assert_eq!(listed, expected);
        assert_eq!(IdentitySettings::parse("").file(), "");
    }
}
