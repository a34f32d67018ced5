//! `bailiwick hooks`: what it writes, preserves, detects and removes.

mod changed_commands;
mod command;
mod drift;
mod plugin;
mod sandboxed;
mod settings;

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use bailiwick_testkit::Scratch;
use bailiwick_testkit::scratch::Ran;
use serde_json::Value;

use crate::BAILIWICK;

/// A repository, `bailiwick`, and a gate that does what the test sets.
struct Fixture {
    scratch: Scratch,
}

impl Fixture {
    fn new() -> Self {
        let fixture = Self { scratch: Scratch::repository() };
        fixture.scratch.commit("start");
        fixture.add_programs();
        fixture
    }

    fn add_programs(&self) {
        std::fs::create_dir(self.bin()).unwrap();
        if std::fs::hard_link(BAILIWICK, self.bailiwick()).is_err() {
            std::fs::copy(BAILIWICK, self.bailiwick()).unwrap();
        }
        // Stores its arguments and its input, and then runs the file `end`.
        self.gate(
            "#!/bin/sh\nhere=$(dirname \"$0\")\nprintf '%s\\n' \"$@\" > \"$here/arguments\"\n\
             cat > \"$here/input\"\n. \"$here/end\"\n",
        );
        self.set_gate_script("exit 0");
    }

    fn gate(&self, text: &str) {
        let gate = self.bin().join("bailiwick-gate");
        std::fs::write(&gate, text).unwrap();
        std::fs::set_permissions(&gate, std::fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn set_gate_script(&self, script: &str) {
        std::fs::write(self.bin().join("end"), script).unwrap();
    }

    fn bin(&self) -> PathBuf {
        self.scratch.place().join("bin")
    }

    fn home(&self) -> PathBuf {
        self.scratch.place().join("home")
    }

    fn bailiwick(&self) -> PathBuf {
        self.bin().join("bailiwick")
    }

    fn run(&self, arguments: &[&str]) -> Ran {
        let mut all_arguments = vec!["hooks"];
        all_arguments.extend(arguments);
        self.scratch.run(self.bailiwick(), &all_arguments)
    }

    fn install(&self, agent: &str, extra: &[&str]) -> Ran {
        let mut all_arguments = vec!["install", agent, "--role", "read-only"];
        all_arguments.extend(extra);
        self.run(&all_arguments)
    }

    /// The state of the hook of an agent in the repository, and the codes of all findings.
    fn status(&self, agent: &str) -> (String, Vec<String>) {
        let ran = self.run(&["status", agent, "-o", "json"]);
        let value: Value = serde_json::from_str(&ran.out).unwrap();
        let report = value.pointer("/hooks/0").unwrap();
        let standing = text_at(report, "/standing");
        let is_good = matches!(standing.as_str(), "intact" | "absent");
        let is_intact = value.pointer("/intact").and_then(Value::as_bool);
        assert_eq!((ran.code == 0, is_intact), (is_good, Some(is_good)), "{value:#}");
        let findings = report.pointer("/findings").and_then(Value::as_array).unwrap();
        (standing, findings.iter().map(|finding| text_at(finding, "/code")).collect())
    }

    /// Codex and Gemini CLI read the settings of a repository only if they trust it.
    fn trust_folder(&self) {
        let root = self.scratch.root();
        let codex = format!("[projects.\"{}\"]\ntrust_level = \"trusted\"\n", root.display());
        self.write_home(".codex/config.toml", &codex);
        let gemini = format!("{{\"{}\": \"TRUST_FOLDER\"}}\n", root.display());
        self.write_home(".gemini/trustedFolders.json", &gemini);
    }

    fn write_home(&self, path: &str, text: &str) {
        let file = self.home().join(path);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, text).unwrap();
    }

    fn read_home(&self, path: &str) -> String {
        std::fs::read_to_string(self.home().join(path)).unwrap()
    }

    /// All files, symlinks and directories, except those of git and of the fixture.
    fn snapshot(&self) -> BTreeMap<PathBuf, String> {
        let mut entries = BTreeMap::new();
        for name in ["repo", "home", "config", "state"] {
            read_entries(&self.scratch.place().join(name), &mut entries);
        }
        entries
    }

    /// The directory of bailiwick in the state whose name starts with this agent.
    fn hook_directory(&self, agent: &str) -> PathBuf {
        let entries = std::fs::read_dir(self.scratch.state().join("hooks")).unwrap();
        let mut found = entries.map(|entry| entry.unwrap().path()).filter(|path| {
            path.file_name().unwrap().to_str().unwrap().starts_with(&format!("{agent}-"))
        });
        found.next().unwrap()
    }
}

fn read_entries(path: &Path, entries: &mut BTreeMap<PathBuf, String>) {
    let found = std::fs::symlink_metadata(path).unwrap();
    if found.is_symlink() {
        let target = std::fs::read_link(path).unwrap();
        entries.insert(path.to_owned(), format!("-> {}", target.display()));
    } else if found.is_dir() {
        entries.insert(path.to_owned(), String::new());
        for entry in std::fs::read_dir(path).unwrap() {
            let path = entry.unwrap().path();
            if !path.ends_with(".git") {
                read_entries(&path, entries);
            }
        }
    } else {
        entries.insert(path.to_owned(), std::fs::read_to_string(path).unwrap());
    }
}

/// The settings file of each agent in a repository.
const SETTINGS: [(&str, &str); 4] = [
    ("claude", ".claude/settings.local.json"),
    ("codex", ".codex/hooks.json"),
    ("gemini", ".gemini/settings.json"),
    ("opencode", ".opencode/plugin/bailiwick-gate.js"),
];

/// The command of the last hook in a settings file.
fn last_command(text: &str) -> String {
    let value: Value = serde_json::from_str(text).unwrap();
    let mut groups = ["/hooks/PreToolUse", "/hooks/BeforeTool"].into_iter();
    let groups = groups.find_map(|event| value.pointer(event)?.as_array()).unwrap();
    let group = groups.last().unwrap();
    match group.pointer("/hooks/0/args/1") {
        Some(command) => command.as_str().unwrap().to_owned(),
        None => text_at(group, "/hooks/0/command"),
    }
}

fn text_at(value: &Value, pointer: &str) -> String {
    value.pointer(pointer).and_then(Value::as_str).unwrap().to_owned()
}
