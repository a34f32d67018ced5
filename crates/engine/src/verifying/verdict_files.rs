//! Verdicts that were reached before, a file each, where no agent writes.

use std::path::PathBuf;

use bailiwick_lifecycle::verification::Verdicts;
use bailiwick_verify::{ExecutedTests, Verdict};

use crate::system;

/// Verdicts of one repository.
#[derive(Debug)]
pub(super) struct VerdictFiles {
    directory: PathBuf,
    /// Whether verdicts that others stored are ignored. What this one reached always counts.
    ignore_stored: bool,
    reached: Vec<String>,
}

impl VerdictFiles {
    /// Verdicts below `directory`; with `ignore_stored`, none but those reached from now on.
    pub(super) fn new(directory: PathBuf, ignore_stored: bool) -> Self {
        Self { directory, ignore_stored, reached: Vec::new() }
    }
}

impl Verdicts for VerdictFiles {
    fn find(&self, key: &str) -> Option<Verdict> {
        if self.ignore_stored && !self.reached.iter().any(|reached| reached == key) {
            return None;
        }
        let text = std::fs::read(self.directory.join(key)).ok()?;
        let verdict: Verdict = serde_json::from_slice(&text).ok()?;
        verdict.is_pass().then_some(verdict)
    }

    fn keep(&mut self, key: &str, verdict: &Verdict) {
        let Ok(text) = serde_json::to_string(verdict) else { return };
        let created = std::fs::create_dir_all(&self.directory);
        if created.is_ok() && system::write_whole(&self.directory.join(key), &text).is_ok() {
            self.reached.push(key.to_owned());
        }
    }

    fn find_executed_tests(&self, key: &str) -> Option<ExecutedTests> {
        if self.ignore_stored && !self.reached.iter().any(|reached| reached == key) {
            return None;
        }
        serde_json::from_slice(&std::fs::read(self.directory.join(key)).ok()?).ok()
    }

    fn keep_executed_tests(&mut self, key: &str, tests: &ExecutedTests) {
        let Ok(text) = serde_json::to_string(tests) else { return };
        let created = std::fs::create_dir_all(&self.directory);
        if created.is_ok() && system::write_whole(&self.directory.join(key), &text).is_ok() {
            self.reached.push(key.to_owned());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stored_pass_is_found_and_damaged_files_are_ignored() {
        let directory = tempfile::tempdir().unwrap();
        let mut files = VerdictFiles::new(directory.path().join("v"), false);
        let passed = Verdict::pass("seen");
        files.keep("a", &passed);
        assert_eq!(files.find("a"), Some(passed.clone()));
        assert_eq!(files.find("b"), None);
        std::fs::write(directory.path().join("v/b"), "{").unwrap();
        std::fs::write(
            directory.path().join("v/c"),
            r#"{"verdict":"fail","reason":"x","detail":null}"#,
        )
        .unwrap();
        assert_eq!((files.find("b"), files.find("c")), (None, None));
        let mut fresh = VerdictFiles::new(directory.path().join("v"), true);
        assert_eq!(fresh.find("a"), None);
        fresh.keep("a", &passed);
        assert_eq!(fresh.find("a"), Some(passed));
    }

    #[test]
    fn stored_executed_tests_are_found_and_are_not_a_verdict() {
        let directory = tempfile::tempdir().unwrap();
        let mut files = VerdictFiles::new(directory.path().join("v"), false);
        assert_eq!(files.find_executed_tests("a"), None);
        files.keep_executed_tests("a", &ExecutedTests::default());
        assert_eq!(files.find_executed_tests("a"), Some(ExecutedTests::default()));
        assert_eq!(files.find("a"), None);
        let fresh = VerdictFiles::new(directory.path().join("v"), true);
        assert_eq!(fresh.find_executed_tests("a"), None);
    }
}
