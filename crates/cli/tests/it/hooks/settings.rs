//! What is written, what is preserved, and that it can be removed.

use std::os::unix::fs::PermissionsExt as _;

use serde_json::{Value, json};

use super::{Fixture, SETTINGS, last_command};

/// Settings of users, with their own hooks.
const FOREIGN: [(&str, &str); 3] = [
    (
        ".claude/settings.local.json",
        "{\n  \"permissions\": {\n    \"allow\": [\n      \"Bash(ls:*)\"\n    ]\n  },\n  \"hooks\": \
         {\n    \"PreToolUse\": [\n      {\n        \"matcher\": \"Bash\",\n        \"hooks\": [\n          \
         {\n            \"type\": \"command\",\n            \"command\": \"mine\"\n          }\n        \
         ]\n      }\n    ],\n    \"Stop\": []\n  },\n  \"big\": 12345678901234567890.0\n}\n",
    ),
    (
        ".codex/hooks.json",
        "{\"hooks\":{\"Stop\":[{\"hooks\":[{\"type\":\"command\",\"command\":\"x\"}]}]}}",
    ),
    (
        ".gemini/settings.json",
        "{\n\t// why I like it dark\n\t\"ui\": { \"theme\": \"Dark\" }, /* and so */\n\t\"hooks\": {}\n}",
    ),
];

#[test]
fn entry_is_appended_and_the_rest_is_unchanged() {
    let fixture = Fixture::new();
    let (path, before) = FOREIGN[0];
    fixture.scratch.write(path, before);
    fixture.install("claude", &["--no-sandbox"]).expect_code(0);
    let after = fixture.scratch.read(path);
    let command = serde_json::to_string(&last_command(&after)).unwrap();
    let entry = format!(
        "      }},\n      {{\n        \"matcher\": \"*\",\n        \"hooks\": [\n          {{\n            \
         \"type\": \"command\",\n            \"command\": {command},\n            \"timeout\": 86400\n          \
         }}\n        ]\n      }}\n    ],\n    \"Stop\""
    );
    assert_eq!(after, before.replace("      }\n    ],\n    \"Stop\"", &entry));
}

#[test]
fn second_install_changes_nothing_and_reports_it() {
    let fixture = Fixture::new();
    fixture.trust_folder();
    for (path, text) in FOREIGN {
        fixture.scratch.write(path, text);
    }
    fixture.install("all", &[]).expect_code(0);
    let before = fixture.snapshot();
    let again = fixture.install("all", &[]).expect_code(0);
    assert_eq!(again.out.matches("nothing changed").count(), 4, "{}", again.out);
    assert_eq!(fixture.snapshot(), before);
    let json: Value =
        serde_json::from_str(&fixture.install("all", &["-o", "json"]).expect_code(0).out).unwrap();
    for installed in json.as_array().unwrap() {
        assert_eq!(installed["files"], json!([]));
        assert!(!installed["limits"].as_array().unwrap().is_empty(), "{installed:#}");
    }
}

#[test]
fn install_with_another_role_replaces_the_first() {
    let fixture = Fixture::new();
    fixture.trust_folder();
    for (path, text) in FOREIGN {
        fixture.scratch.write(path, text);
    }
    fixture.install("all", &[]).expect_code(0);
    let read = || SETTINGS.map(|(_, path)| fixture.scratch.read(path));
    let first = read();
    let extra = ["--files", "src/**", "--deny", "src/x/**"];
    let words = ["install", "all", "--role", "developer"];
    fixture.run(&[&words[..], &extra[..]].concat()).expect_code(0);
    for (before, after) in first.iter().zip(read()) {
        assert_ne!(*before, after, "the digest did not change");
        // Codex and Gemini CLI have hooks before and after a call.
        assert!(matches!(after.matches("--policy").count(), 1 | 2), "{after}");
        assert_eq!(before.lines().count(), after.lines().count(), "lines were added: {after}");
    }
    for agent in ["claude", "codex", "gemini"] {
        assert_eq!(fixture.status(agent), ("intact".to_owned(), vec![]));
    }
    let config = fixture.read_home(".codex/config.toml");
    assert_eq!(config.matches("trusted_hash").count(), 2, "no old trust is left: {config}");
    fixture.install("all", &[]).expect_code(0);
    assert_eq!(read(), first, "the first settings are not restored");
}

#[test]
fn remove_restores_the_original_bytes() {
    let fixture = Fixture::new();
    for (path, text) in FOREIGN {
        fixture.scratch.write(path, text);
    }
    let config = "# mine\nmodel = \"m\" # the best\n\n[features]\nhooks = true\n";
    fixture.write_home(".codex/config.toml", config);
    let before = fixture.snapshot();
    fixture.install("all", &[]).expect_code(0);
    fixture.run(&["install", "all", "--role", "explorer"]).expect_code(0);
    assert!(fixture.read_home(".codex/config.toml").starts_with(config), "comments were lost");
    fixture.run(&["remove", "all"]).expect_code(0);
    let mut after = fixture.snapshot();
    after.retain(|path, _| !path.ends_with("state/hooks"));
    assert_eq!(after, before);
}

#[test]
fn remove_deletes_created_files_and_a_second_remove_does_nothing() {
    let fixture = Fixture::new();
    let before = fixture.snapshot();
    fixture.install("all", &[]).expect_code(0);
    fixture.install("all", &["--user"]).expect_code(0);
    for (_, path) in SETTINGS {
        assert!(fixture.scratch.root().join(path).is_file(), "positive control: {path}");
    }
    fixture.run(&["remove", "all", "--user"]).expect_code(0);
    fixture.run(&["remove", "all"]).expect_code(0);
    let mut after = fixture.snapshot();
    after.retain(|path, _| !path.ends_with("state/hooks"));
    assert_eq!(after, before);
    let again = fixture.run(&["remove", "all"]).expect_code(0);
    assert_eq!(again.out.matches("nothing changed").count(), 4, "{}", again.out);
}

#[test]
fn existing_empty_list_is_preserved() {
    let fixture = Fixture::new();
    let text = "{\n  \"hooks\": {\n    \"PreToolUse\": []\n  }\n}\n";
    fixture.scratch.write(".claude/settings.local.json", text);
    fixture.install("claude", &[]).expect_code(0);
    fixture.run(&["remove", "claude"]).expect_code(0);
    assert_eq!(fixture.scratch.read(".claude/settings.local.json"), text);
}

#[test]
fn decision_log_is_preserved_after_remove() {
    let fixture = Fixture::new();
    fixture.install("claude", &[]).expect_code(0);
    let log = fixture.hook_directory("claude").join("decisions.jsonl");
    std::fs::write(&log, "{}\n").unwrap();
    let removed = fixture.run(&["remove", "claude", "-o", "json"]).expect_code(0);
    let removed: Value = serde_json::from_str(&removed.out).unwrap();
    assert_eq!((&removed[0]["log"], &removed[0]["agent"]), (&json!(log), &json!("claude")));
    assert_eq!(std::fs::read_to_string(log).unwrap(), "{}\n");
    assert!(!fixture.hook_directory("claude").join("policy.json").exists());
}

#[test]
fn invalid_settings_are_refused_with_their_position_and_unchanged() {
    for (agent, path, text, position) in [
        ("claude", ".claude/settings.local.json", "{\n  \"a\": 1,\n}\n", ":2:9"),
        ("claude", ".claude/settings.local.json", "// c\n{}\n", ":1:1"),
        ("claude", ".claude/settings.local.json", "{\"hooks\": []}\n", ":1:11"),
        ("codex", ".codex/hooks.json", "{\"hooks\":{\"PreToolUse\":{}}}", ":1:24"),
        ("gemini", ".gemini/settings.json", "", ":1:1"),
        ("gemini", ".gemini/settings.json", "{} trailing", ":1:4"),
    ] {
        let fixture = Fixture::new();
        fixture.scratch.write(path, text);
        let before = fixture.snapshot();
        for agent in [agent, "all"] {
            let ran = fixture.install(agent, &[]).expect_code(1);
            assert!(ran.err.contains(path), "{}", ran.err);
            assert!(ran.err.contains(position), "{position} is missing in {}", ran.err);
            assert!(ran.err.contains("nothing was changed"), "{}", ran.err);
            assert_eq!(
                fixture.snapshot(),
                before,
                "{agent}: one invalid file must prevent all changes"
            );
        }
    }
    let fixture = Fixture::new();
    fixture.write_home(".codex/config.toml", "a = \n");
    let before = fixture.snapshot();
    let ran = fixture.install("codex", &[]).expect_code(1);
    assert!(ran.err.contains("config.toml:1:"), "{}", ran.err);
    assert_eq!(fixture.snapshot(), before);
}

#[test]
fn foreign_plugin_is_preserved() {
    let fixture = Fixture::new();
    let (_, path) = SETTINGS[3];
    fixture.scratch.write(path, "export const Mine = 1;\n");
    fixture.install("opencode", &[]).expect_code(2);
    fixture.run(&["remove", "opencode"]).expect_code(0);
    assert_eq!(fixture.scratch.read(path), "export const Mine = 1;\n");
}

#[test]
fn symlinks_are_preserved_and_their_targets_are_changed() {
    let fixture = Fixture::new();
    let dotfiles = fixture.home().join("dotfiles");
    std::fs::create_dir(&dotfiles).unwrap();
    std::fs::write(dotfiles.join("claude.json"), "{}\n").unwrap();
    std::fs::create_dir(fixture.home().join(".claude")).unwrap();
    let link = fixture.home().join(".claude/settings.json");
    std::os::unix::fs::symlink("../dotfiles/claude.json", &link).unwrap();
    let before = fixture.snapshot();
    fixture.install("claude", &["--user"]).expect_code(0);
    assert!(link.is_symlink());
    assert!(fixture.read_home("dotfiles/claude.json").contains("--dialect claude"));
    fixture.run(&["remove", "claude", "--user"]).expect_code(0);
    let mut after = fixture.snapshot();
    after.retain(|path, _| !path.ends_with("state/hooks"));
    assert_eq!(after, before);
}

#[test]
fn new_files_are_private_and_existing_files_keep_their_mode() {
    let fixture = Fixture::new();
    fixture.scratch.write(".claude/settings.local.json", "{}\n");
    let settings = fixture.scratch.root().join(".claude/settings.local.json");
    std::fs::set_permissions(&settings, std::fs::Permissions::from_mode(0o640)).unwrap();
    fixture.install("claude", &[]).expect_code(0);
    let mode = |path: &std::path::Path| path.metadata().unwrap().permissions().mode() & 0o777;
    let directory = fixture.hook_directory("claude");
    assert_eq!(mode(&directory), 0o700);
    assert_eq!(mode(&directory.join("policy.json")), 0o600);
    assert_eq!(mode(&directory.join("install.json")), 0o600);
    assert_eq!(mode(&settings), 0o640);
}

#[test]
fn dry_run_writes_nothing() {
    let fixture = Fixture::new();
    let before = fixture.snapshot();
    let ran = fixture.install("all", &["--dry-run"]).expect_code(0);
    assert!(ran.out.contains("would create"), "{}", ran.out);
    assert_eq!(fixture.snapshot(), before);
    fixture.install("all", &[]).expect_code(0);
    let before = fixture.snapshot();
    let ran = fixture.run(&["remove", "all", "--dry-run"]).expect_code(0);
    assert!(ran.out.contains("would delete"), "{}", ran.out);
    assert_eq!(fixture.snapshot(), before);
}

#[test]
fn user_install_respects_variables_and_keeps_the_repository_unchanged() {
    let fixture = Fixture::new();
    let mut command = fixture.scratch.command(fixture.bailiwick());
    command.args(["hooks", "install", "all", "--role", "read-only", "--user"]);
    for name in ["CODEX_HOME", "CLAUDE_CONFIG_DIR", "GEMINI_CLI_HOME"] {
        command.env(name, fixture.home().join(name));
    }
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert_eq!(fixture.scratch.git(&["status", "--porcelain=v1"]), "");
    for path in [
        "CODEX_HOME/hooks.json",
        "CLAUDE_CONFIG_DIR/settings.json",
        "GEMINI_CLI_HOME/.gemini/settings.json",
    ] {
        let command = last_command(&fixture.read_home(path));
        assert!(command.contains("--root auto"), "{command}");
    }
    let config = fixture.read_home("CODEX_HOME/config.toml");
    assert!(config.contains("CODEX_HOME/hooks.json:pre_tool_use:0:0"), "{config}");
    let plugin = fixture.scratch.place().join("config/opencode/plugin/bailiwick-gate.js");
    assert!(std::fs::read_to_string(plugin).unwrap().contains("\"--root\",\"auto\""));
}

/// Limits for all repositories of a user cannot come from one of them.
#[test]
fn user_install_cannot_use_the_kit_of_a_repository() {
    let fixture = Fixture::new();
    let role = "[role]\nname = \"mine\"\n[capabilities]\nextends = \"read-only\"\n";
    fixture.scratch.write(".bailiwick/roles/mine.toml", role);
    fixture.scratch.commit("kit");
    fixture.run(&["install", "claude", "--role", "mine"]).expect_code(0);
    let ran = fixture.run(&["install", "claude", "--role", "mine", "--user"]).expect_code(1);
    assert!(ran.err.contains("there is no role `mine`"), "{}", ran.err);
    assert!(ran.err.contains("--user cannot use this repository's kit"), "{}", ran.err);
    assert!(ran.err.contains("leave --user out"), "{}", ran.err);
}

#[test]
fn task_can_be_installed_instead_of_a_role() {
    let fixture = Fixture::new();
    fixture.scratch.run(fixture.bailiwick(), &["init"]).expect_code(0);
    fixture.scratch.commit("kit");
    let task = ".bailiwick/tasks/example.toml";
    fixture.run(&["install", "claude", "--task", task]).expect_code(0);
    assert_eq!(fixture.status("claude").0, "intact");
    for invalid in [
        &["install", "claude"][..],
        &["install", "claude", "--task", task, "--role", "developer"],
        &["install", "claude", "--task", task, "--files", "x"],
        &["install", "cursor", "--role", "developer"],
    ] {
        fixture.run(invalid).expect_code(2);
    }
}

#[test]
fn outside_a_repository_the_user_option_is_suggested() {
    let fixture = Fixture { scratch: bailiwick_testkit::Scratch::bare() };
    fixture.add_programs();
    let ran = fixture.install("claude", &[]).expect_code(1);
    assert!(
        ran.err.contains("not in a git repository") && ran.err.contains("--user"),
        "{}",
        ran.err
    );
    fixture.install("claude", &["--user"]).expect_code(0);
    let ran = fixture.run(&["status", "claude"]).expect_code(0);
    assert!(ran.out.starts_with("intact") && ran.out.contains("user"), "{}", ran.out);
}

/// In a linked worktree, Codex reads the main repository instead, and only sometimes.
#[test]
fn codex_is_refused_in_a_linked_worktree() {
    let fixture = Fixture::new();
    fixture.scratch.git(&["worktree", "add", "--quiet", "../linked"]);
    let mut command = fixture.scratch.command(fixture.bailiwick());
    command.current_dir(fixture.scratch.place().join("linked"));
    command.args(["hooks", "install", "codex", "--role", "read-only"]);
    let output = command.output().unwrap();
    let err = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{err}");
    assert!(err.contains("linked worktree") && err.contains("--user"), "{err}");
}

/// Codex identifies hooks by their number, which changes for later hooks when the gate's hook is removed.
#[test]
fn trust_of_later_hooks_follows_their_new_number() {
    let fixture = Fixture::new();
    let foreign =
        |name: &str| json!({"matcher": name, "hooks": [{"type": "command", "command": name}]});
    let path = fixture.scratch.root().join(".codex/hooks.json");
    let key = |number: usize| format!("{}:pre_tool_use:{number}:0", path.display());
    let state = |number: usize, hash: &str| {
        format!("[hooks.state.\"{}\"]\ntrusted_hash = \"sha256:{hash}\"\n", key(number))
    };
    fixture
        .scratch
        .write(".codex/hooks.json", &json!({"hooks": {"PreToolUse": [foreign("a")]}}).to_string());
    fixture.write_home(".codex/config.toml", &state(0, "aa"));
    fixture.install("codex", &[]).expect_code(0);
    let mut hooks: Value =
        serde_json::from_str(&fixture.scratch.read(".codex/hooks.json")).unwrap();
    hooks["hooks"]["PreToolUse"].as_array_mut().unwrap().push(foreign("b"));
    fixture.scratch.write(".codex/hooks.json", &hooks.to_string());
    let config = fixture.read_home(".codex/config.toml") + &state(2, "bb");
    fixture.write_home(".codex/config.toml", &config);
    fixture.run(&["remove", "codex"]).expect_code(0);
    let config: toml::Table = toml::from_str(&fixture.read_home(".codex/config.toml")).unwrap();
    let states = config["hooks"]["state"].as_table().unwrap();
    let hash = |number: usize| states[&key(number)]["trusted_hash"].as_str().unwrap().to_owned();
    assert_eq!(
        (states.len(), hash(0), hash(1)),
        (2, "sha256:aa".to_owned(), "sha256:bb".to_owned())
    );
}
