//! What is written, what is kept, and that it can be taken out again.

use std::os::unix::fs::PermissionsExt as _;

use serde_json::{Value, json};

use super::{Bench, SETTINGS, last_command};

/// Settings as people have them, with hooks of their own.
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
fn the_entry_is_added_behind_and_the_rest_keeps_its_bytes() {
    let bench = Bench::new();
    let (path, before) = FOREIGN[0];
    bench.scratch.write(path, before);
    bench.install("claude", &["--no-sandbox"]).expect_code(0);
    let after = bench.scratch.read(path);
    let command = serde_json::to_string(&last_command(&after)).unwrap();
    let ours = format!(
        "      }},\n      {{\n        \"matcher\": \"*\",\n        \"hooks\": [\n          {{\n            \
         \"type\": \"command\",\n            \"command\": {command},\n            \"timeout\": 86400\n          \
         }}\n        ]\n      }}\n    ],\n    \"Stop\""
    );
    assert_eq!(after, before.replace("      }\n    ],\n    \"Stop\"", &ours));
}

#[test]
fn a_second_install_changes_nothing_and_says_so() {
    let bench = Bench::new();
    bench.trust_folder();
    for (path, text) in FOREIGN {
        bench.scratch.write(path, text);
    }
    bench.install("all", &[]).expect_code(0);
    let before = bench.snapshot();
    let again = bench.install("all", &[]).expect_code(0);
    assert_eq!(again.out.matches("nothing changed").count(), 4, "{}", again.out);
    assert_eq!(bench.snapshot(), before);
    let json: Value =
        serde_json::from_str(&bench.install("all", &["-o", "json"]).expect_code(0).out).unwrap();
    for installed in json.as_array().unwrap() {
        assert_eq!(installed["files"], json!([]));
        assert!(!installed["limits"].as_array().unwrap().is_empty(), "{installed:#}");
    }
}

#[test]
fn another_role_takes_the_place_of_the_first() {
    let bench = Bench::new();
    bench.trust_folder();
    for (path, text) in FOREIGN {
        bench.scratch.write(path, text);
    }
    bench.install("all", &[]).expect_code(0);
    let read = || SETTINGS.map(|(_, path)| bench.scratch.read(path));
    let first = read();
    let more = ["--files", "src/**", "--deny", "src/x/**"];
    let words = ["install", "all", "--role", "developer"];
    bench.run(&[&words[..], &more[..]].concat()).expect_code(0);
    for (before, after) in first.iter().zip(read()) {
        assert_ne!(*before, after, "the digest is another");
        // Codex and Gemini CLI ask before and after a call.
        assert!(matches!(after.matches("--policy").count(), 1 | 2), "{after}");
        assert_eq!(before.lines().count(), after.lines().count(), "nothing was added: {after}");
    }
    for agent in ["claude", "codex", "gemini"] {
        assert_eq!(bench.status(agent), ("intact".to_owned(), vec![]));
    }
    let config = bench.read_home(".codex/config.toml");
    assert_eq!(config.matches("trusted_hash").count(), 2, "no old trust is left: {config}");
    bench.install("all", &[]).expect_code(0);
    assert_eq!(read(), first, "and back");
}

#[test]
fn remove_gives_back_the_bytes_of_before() {
    let bench = Bench::new();
    for (path, text) in FOREIGN {
        bench.scratch.write(path, text);
    }
    let config = "# mine\nmodel = \"m\" # the best\n\n[features]\nhooks = true\n";
    bench.write_home(".codex/config.toml", config);
    let before = bench.snapshot();
    bench.install("all", &[]).expect_code(0);
    bench.run(&["install", "all", "--role", "explorer"]).expect_code(0);
    assert!(bench.read_home(".codex/config.toml").starts_with(config), "comments are kept");
    bench.run(&["remove", "all"]).expect_code(0);
    let mut after = bench.snapshot();
    after.retain(|path, _| !path.ends_with("state/hooks"));
    assert_eq!(after, before);
}

#[test]
fn what_was_made_is_gone_after_remove_and_a_second_remove_does_nothing() {
    let bench = Bench::new();
    let before = bench.snapshot();
    bench.install("all", &[]).expect_code(0);
    bench.install("all", &["--user"]).expect_code(0);
    for (_, path) in SETTINGS {
        assert!(bench.scratch.root().join(path).is_file(), "the control: {path}");
    }
    bench.run(&["remove", "all", "--user"]).expect_code(0);
    bench.run(&["remove", "all"]).expect_code(0);
    let mut after = bench.snapshot();
    after.retain(|path, _| !path.ends_with("state/hooks"));
    assert_eq!(after, before);
    let again = bench.run(&["remove", "all"]).expect_code(0);
    assert_eq!(again.out.matches("nothing changed").count(), 4, "{}", again.out);
}

#[test]
fn an_empty_list_that_was_there_stays() {
    let bench = Bench::new();
    let text = "{\n  \"hooks\": {\n    \"PreToolUse\": []\n  }\n}\n";
    bench.scratch.write(".claude/settings.local.json", text);
    bench.install("claude", &[]).expect_code(0);
    bench.run(&["remove", "claude"]).expect_code(0);
    assert_eq!(bench.scratch.read(".claude/settings.local.json"), text);
}

#[test]
fn the_log_of_decisions_outlives_the_gate() {
    let bench = Bench::new();
    bench.install("claude", &[]).expect_code(0);
    let log = bench.kept("claude").join("decisions.jsonl");
    std::fs::write(&log, "{}\n").unwrap();
    let removed = bench.run(&["remove", "claude", "-o", "json"]).expect_code(0);
    let removed: Value = serde_json::from_str(&removed.out).unwrap();
    assert_eq!((&removed[0]["log"], &removed[0]["agent"]), (&json!(log), &json!("claude")));
    assert_eq!(std::fs::read_to_string(log).unwrap(), "{}\n");
    assert!(!bench.kept("claude").join("policy.json").exists());
}

#[test]
fn settings_that_cannot_be_read_are_refused_with_their_place_and_never_touched() {
    for (agent, path, text, place) in [
        ("claude", ".claude/settings.local.json", "{\n  \"a\": 1,\n}\n", ":2:9"),
        ("claude", ".claude/settings.local.json", "// c\n{}\n", ":1:1"),
        ("claude", ".claude/settings.local.json", "{\"hooks\": []}\n", ":1:11"),
        ("codex", ".codex/hooks.json", "{\"hooks\":{\"PreToolUse\":{}}}", ":1:24"),
        ("gemini", ".gemini/settings.json", "", ":1:1"),
        ("gemini", ".gemini/settings.json", "{} trailing", ":1:4"),
    ] {
        let bench = Bench::new();
        bench.scratch.write(path, text);
        let before = bench.snapshot();
        for agent in [agent, "all"] {
            let ran = bench.install(agent, &[]).expect_code(1);
            assert!(ran.err.contains(path), "{}", ran.err);
            assert!(ran.err.contains(place), "{place} is missing in {}", ran.err);
            assert!(ran.err.contains("nothing was changed"), "{}", ran.err);
            assert_eq!(bench.snapshot(), before, "{agent}: one broken file stops everything");
        }
    }
    let bench = Bench::new();
    bench.write_home(".codex/config.toml", "a = \n");
    let before = bench.snapshot();
    let ran = bench.install("codex", &[]).expect_code(1);
    assert!(ran.err.contains("config.toml:1:"), "{}", ran.err);
    assert_eq!(bench.snapshot(), before);
}

#[test]
fn a_plugin_of_somebody_else_is_kept() {
    let bench = Bench::new();
    let (_, path) = SETTINGS[3];
    bench.scratch.write(path, "export const Mine = 1;\n");
    bench.install("opencode", &[]).expect_code(2);
    bench.run(&["remove", "opencode"]).expect_code(0);
    assert_eq!(bench.scratch.read(path), "export const Mine = 1;\n");
}

#[test]
fn links_stay_links_and_what_they_lead_to_is_changed() {
    let bench = Bench::new();
    let dotfiles = bench.home().join("dotfiles");
    std::fs::create_dir(&dotfiles).unwrap();
    std::fs::write(dotfiles.join("claude.json"), "{}\n").unwrap();
    std::fs::create_dir(bench.home().join(".claude")).unwrap();
    let link = bench.home().join(".claude/settings.json");
    std::os::unix::fs::symlink("../dotfiles/claude.json", &link).unwrap();
    let before = bench.snapshot();
    bench.install("claude", &["--user"]).expect_code(0);
    assert!(link.is_symlink());
    assert!(bench.read_home("dotfiles/claude.json").contains("--dialect claude"));
    bench.run(&["remove", "claude", "--user"]).expect_code(0);
    let mut after = bench.snapshot();
    after.retain(|path, _| !path.ends_with("state/hooks"));
    assert_eq!(after, before);
}

#[test]
fn our_files_are_private_and_the_persons_keep_their_mode() {
    let bench = Bench::new();
    bench.scratch.write(".claude/settings.local.json", "{}\n");
    let settings = bench.scratch.root().join(".claude/settings.local.json");
    std::fs::set_permissions(&settings, std::fs::Permissions::from_mode(0o640)).unwrap();
    bench.install("claude", &[]).expect_code(0);
    let mode = |path: &std::path::Path| path.metadata().unwrap().permissions().mode() & 0o777;
    let kept = bench.kept("claude");
    assert_eq!(mode(&kept), 0o700);
    assert_eq!(mode(&kept.join("policy.json")), 0o600);
    assert_eq!(mode(&kept.join("install.json")), 0o600);
    assert_eq!(mode(&settings), 0o640);
}

#[test]
fn a_dry_run_writes_nothing() {
    let bench = Bench::new();
    let before = bench.snapshot();
    let ran = bench.install("all", &["--dry-run"]).expect_code(0);
    assert!(ran.out.contains("would create"), "{}", ran.out);
    assert_eq!(bench.snapshot(), before);
    bench.install("all", &[]).expect_code(0);
    let before = bench.snapshot();
    let ran = bench.run(&["remove", "all", "--dry-run"]).expect_code(0);
    assert!(ran.out.contains("would delete"), "{}", ran.out);
    assert_eq!(bench.snapshot(), before);
}

#[test]
fn for_a_user_the_repository_stays_as_it_is_and_variables_are_followed() {
    let bench = Bench::new();
    let mut command = bench.scratch.command(bench.bailiwick());
    command.args(["hooks", "install", "all", "--role", "read-only", "--user"]);
    for name in ["CODEX_HOME", "CLAUDE_CONFIG_DIR", "GEMINI_CLI_HOME"] {
        command.env(name, bench.home().join(name));
    }
    assert!(command.output().unwrap().status.success());
    assert_eq!(bench.scratch.git(&["status", "--porcelain=v1"]), "");
    for path in [
        "CODEX_HOME/hooks.json",
        "CLAUDE_CONFIG_DIR/settings.json",
        "GEMINI_CLI_HOME/.gemini/settings.json",
    ] {
        let command = last_command(&bench.read_home(path));
        assert!(command.contains("--root auto"), "{command}");
    }
    let config = bench.read_home("CODEX_HOME/config.toml");
    assert!(config.contains("CODEX_HOME/hooks.json:pre_tool_use:0:0"), "{config}");
    let plugin = bench.scratch.place().join("config/opencode/plugin/bailiwick-gate.js");
    assert!(std::fs::read_to_string(plugin).unwrap().contains("\"--root\",\"auto\""));
}

/// What binds a user everywhere does not come from the repository that happens to be around.
#[test]
fn a_user_is_bound_by_no_repositorys_kit() {
    let bench = Bench::new();
    let role = "[role]\nname = \"mine\"\n[capabilities]\nextends = \"read-only\"\n";
    bench.scratch.write(".bailiwick/roles/mine.toml", role);
    bench.scratch.commit("kit");
    bench.run(&["install", "claude", "--role", "mine"]).expect_code(0);
    let ran = bench.run(&["install", "claude", "--role", "mine", "--user"]).expect_code(1);
    assert!(ran.err.contains("there is no role `mine`"), "{}", ran.err);
    assert!(ran.err.contains("--user cannot use this repository's kit"), "{}", ran.err);
    assert!(ran.err.contains("leave --user out"), "{}", ran.err);
}

#[test]
fn a_task_binds_as_well_as_a_role() {
    let bench = Bench::new();
    bench.scratch.run(bench.bailiwick(), &["init"]).expect_code(0);
    bench.scratch.commit("kit");
    let task = ".bailiwick/tasks/example.toml";
    bench.run(&["install", "claude", "--task", task]).expect_code(0);
    assert_eq!(bench.status("claude").0, "intact");
    for wrong in [
        &["install", "claude"][..],
        &["install", "claude", "--task", task, "--role", "developer"],
        &["install", "claude", "--task", task, "--files", "x"],
        &["install", "cursor", "--role", "developer"],
    ] {
        bench.run(wrong).expect_code(2);
    }
}

#[test]
fn outside_a_repository_people_are_told_of_user() {
    let bench = Bench { scratch: bailiwick_testkit::Scratch::bare() };
    bench.fill();
    let ran = bench.install("claude", &[]).expect_code(1);
    assert!(
        ran.err.contains("not in a git repository") && ran.err.contains("--user"),
        "{}",
        ran.err
    );
    bench.install("claude", &["--user"]).expect_code(0);
    let ran = bench.run(&["status", "claude"]).expect_code(0);
    assert!(ran.out.starts_with("intact") && ran.out.contains("user"), "{}", ran.out);
}

/// Codex looks into the main repository instead, and only sometimes.
#[test]
fn codex_is_refused_in_a_linked_worktree() {
    let bench = Bench::new();
    bench.scratch.git(&["worktree", "add", "--quiet", "../linked"]);
    let mut command = bench.scratch.command(bench.bailiwick());
    command.current_dir(bench.scratch.place().join("linked"));
    command.args(["hooks", "install", "codex", "--role", "read-only"]);
    let output = command.output().unwrap();
    let err = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{err}");
    assert!(err.contains("linked worktree") && err.contains("--user"), "{err}");
}

/// Codex knows hooks by their number: those behind ours move when it goes.
#[test]
fn the_trust_of_hooks_behind_ours_moves_with_them() {
    let bench = Bench::new();
    let foreign =
        |name: &str| json!({"matcher": name, "hooks": [{"type": "command", "command": name}]});
    let path = bench.scratch.root().join(".codex/hooks.json");
    let key = |number: usize| format!("{}:pre_tool_use:{number}:0", path.display());
    let state = |number: usize, hash: &str| {
        format!("[hooks.state.\"{}\"]\ntrusted_hash = \"sha256:{hash}\"\n", key(number))
    };
    bench
        .scratch
        .write(".codex/hooks.json", &json!({"hooks": {"PreToolUse": [foreign("a")]}}).to_string());
    bench.write_home(".codex/config.toml", &state(0, "aa"));
    bench.install("codex", &[]).expect_code(0);
    let mut hooks: Value = serde_json::from_str(&bench.scratch.read(".codex/hooks.json")).unwrap();
    hooks["hooks"]["PreToolUse"].as_array_mut().unwrap().push(foreign("b"));
    bench.scratch.write(".codex/hooks.json", &hooks.to_string());
    let config = bench.read_home(".codex/config.toml") + &state(2, "bb");
    bench.write_home(".codex/config.toml", &config);
    bench.run(&["remove", "codex"]).expect_code(0);
    let config: toml::Table = toml::from_str(&bench.read_home(".codex/config.toml")).unwrap();
    let states = config["hooks"]["state"].as_table().unwrap();
    let hash = |number: usize| states[&key(number)]["trusted_hash"].as_str().unwrap().to_owned();
    assert_eq!(
        (states.len(), hash(0), hash(1)),
        (2, "sha256:aa".to_owned(), "sha256:bb".to_owned())
    );
}
