//! Changes that break an installed gate.

use serde_json::Value;

use super::{Fixture, SETTINGS};

fn drifted(codes: &[&str]) -> (String, Vec<String>) {
    ("drifted".to_owned(), codes.iter().map(ToString::to_string).collect())
}

fn intact() -> (String, Vec<String>) {
    ("intact".to_owned(), Vec::new())
}

fn fixture_with_hooks() -> Fixture {
    let fixture = Fixture::new();
    fixture.trust_folder();
    fixture.install("all", &[]).expect_code(0);
    for (agent, _) in SETTINGS.iter().filter(|(agent, _)| *agent != "opencode") {
        assert_eq!(fixture.status(agent), intact(), "positive control: {agent}");
    }
    fixture
}

#[test]
fn missing_installation_is_not_drift() {
    let fixture = Fixture::new();
    let ran = fixture.run(&["status"]).expect_code(0);
    assert_eq!(ran.out.matches("not installed").count(), 8, "{}", ran.out);
}

#[test]
fn missing_or_changed_entry_is_detected_and_fixed() {
    for (agent, path) in SETTINGS {
        let fixture = fixture_with_hooks();
        let text = fixture.scratch.read(path);
        fixture.scratch.write(path, &text.replace("--digest", "--digits"));
        fixture.scratch.write(path, &text.replace(".json", ".jsn"));
        let (standing, codes) = fixture.status(agent);
        assert_eq!((standing.as_str(), codes[0].as_str()), ("drifted", "changed-entry"), "{agent}");
        fixture.install("all", &[]).expect_code(0);
        assert_eq!(fixture.scratch.read(path), text, "{agent}");

        std::fs::remove_file(fixture.scratch.root().join(path)).unwrap();
        assert_eq!(fixture.status(agent).1[0], "no-entry", "{agent}");
        if agent != "opencode" {
            fixture.scratch.write(path, "{\"hooks\": {}}\n");
            assert_eq!(fixture.status(agent), drifted(&["no-entry"]), "{agent}");
            fixture.scratch.write(path, "{");
            assert_eq!(fixture.status(agent).1[0], "bad-settings", "{agent}");
        }
    }
}

#[test]
fn duplicate_entry_is_detected_and_fixed() {
    let fixture = fixture_with_hooks();
    let path = SETTINGS[0].1;
    let text = fixture.scratch.read(path);
    let mut value: Value = serde_json::from_str(&text).unwrap();
    let groups = value["hooks"]["PreToolUse"].as_array_mut().unwrap();
    groups.push(groups[0].clone());
    fixture.scratch.write(path, &value.to_string());
    assert_eq!(fixture.status("claude"), drifted(&["changed-entry"]));
    fixture.install("claude", &[]).expect_code(0);
    assert_eq!(fixture.status("claude"), intact());
    assert_eq!(fixture.scratch.read(path).matches("--policy").count(), 1);
}

/// A user's hook in the same group as the gate is preserved.
#[test]
fn foreign_hook_in_the_same_group_is_preserved() {
    let fixture = fixture_with_hooks();
    let path = SETTINGS[0].1;
    let mut value: Value = serde_json::from_str(&fixture.scratch.read(path)).unwrap();
    let hooks = value["hooks"]["PreToolUse"][0]["hooks"].as_array_mut().unwrap();
    hooks.insert(0, serde_json::json!({"type": "command", "command": "theirs"}));
    fixture.scratch.write(path, &value.to_string());
    assert_eq!(fixture.status("claude"), drifted(&["changed-entry"]));
    fixture.install("claude", &[]).expect_code(0);
    assert_eq!(fixture.status("claude"), intact());
    fixture.run(&["remove", "claude"]).expect_code(0);
    let remaining: Value = serde_json::from_str(&fixture.scratch.read(path)).unwrap();
    let hooks = &remaining["hooks"]["PreToolUse"][0]["hooks"];
    assert_eq!((hooks.as_array().unwrap().len(), &hooks[0]["command"]), (1, &"theirs".into()));
}

#[test]
fn missing_or_changed_policy_is_detected() {
    let fixture = fixture_with_hooks();
    let policy = fixture.hook_directory("claude").join("policy.json");
    let text = std::fs::read_to_string(&policy).unwrap();
    std::fs::write(&policy, text.clone() + " ").unwrap();
    assert_eq!(fixture.status("claude"), drifted(&["changed-policy"]));
    std::fs::remove_file(&policy).unwrap();
    assert_eq!(fixture.status("claude"), drifted(&["no-policy"]));
    fixture.install("claude", &[]).expect_code(0);
    assert_eq!(fixture.status("claude"), intact());
}

#[test]
fn missing_gate_is_detected() {
    let fixture = fixture_with_hooks();
    std::fs::remove_file(fixture.bin().join("bailiwick-gate")).unwrap();
    assert_eq!(fixture.status("claude"), drifted(&["no-gate"]));
    fixture.install("claude", &[]).expect_code(0);
    assert_eq!(fixture.status("claude"), intact(), "bailiwick itself is the gate");
}

#[test]
fn changed_role_is_detected() {
    let fixture = Fixture::new();
    let role =
        |extends| format!("[role]\nname = \"mine\"\n[capabilities]\nextends = \"{extends}\"\n");
    fixture.scratch.write(".bailiwick/roles/mine.toml", &role("read-only"));
    fixture.scratch.commit("kit");
    fixture.run(&["install", "claude", "--role", "mine"]).expect_code(0);
    assert_eq!(fixture.status("claude"), intact());
    fixture.scratch.write(".bailiwick/roles/mine.toml", &role("explorer"));
    fixture.scratch.commit("other kit");
    assert_eq!(fixture.status("claude"), drifted(&["stale-policy"]));
    std::fs::remove_file(fixture.scratch.root().join(".bailiwick/roles/mine.toml")).unwrap();
    fixture.scratch.commit("no kit");
    assert_eq!(fixture.status("claude"), drifted(&["stale-policy"]));
}

#[test]
fn missing_or_invalid_record_is_detected_and_hooks_can_be_removed() {
    for (agent, path) in SETTINGS {
        let fixture = fixture_with_hooks();
        let record = fixture.hook_directory(agent).join("install.json");
        std::fs::write(&record, "{}").unwrap();
        assert_eq!(fixture.status(agent), drifted(&["bad-record"]), "{agent}");
        std::fs::remove_file(&record).unwrap();
        assert_eq!(fixture.status(agent), drifted(&["no-record"]), "{agent}");
        fixture.run(&["remove", agent]).expect_code(0);
        assert_eq!(fixture.status(agent).0, "absent", "{agent}");
        let remaining =
            std::fs::read_to_string(fixture.scratch.root().join(path)).unwrap_or_default();
        assert!(!remaining.contains("bailiwick"), "{agent}: {remaining}");
    }
    let fixture = fixture_with_hooks();
    std::fs::remove_file(fixture.hook_directory("codex").join("install.json")).unwrap();
    fixture.run(&["remove", "codex"]).expect_code(0);
    assert!(!fixture.read_home(".codex/config.toml").contains("trusted_hash"));
}

#[test]
fn missing_or_stale_trust_is_detected_and_fixed() {
    let fixture = fixture_with_hooks();
    let config = fixture.read_home(".codex/config.toml");
    fixture.write_home(".codex/config.toml", &config.replace("sha256:", "sha256:0"));
    assert_eq!(
        fixture.status("codex"),
        drifted(&["no-trust", "no-trust"]),
        "one for each hook, before and after a call"
    );
    let (before, _) = config.split_once("\n[hooks.state").unwrap();
    fixture.write_home(".codex/config.toml", before);
    let (standing, codes) = fixture.status("codex");
    assert_eq!(standing, "drifted");
    assert_eq!(codes.iter().filter(|code| *code == "no-trust").count(), 2, "{codes:?}");
    fixture.install("codex", &[]).expect_code(0);
    assert_eq!(fixture.status("codex"), intact());

    // A hook before the gate's hook changes its number, so that Codex would skip it.
    let path = SETTINGS[1].1;
    let mut value: Value = serde_json::from_str(&fixture.scratch.read(path)).unwrap();
    let groups = value["hooks"]["PreToolUse"].as_array_mut().unwrap();
    groups.insert(0, serde_json::json!({"matcher": "x", "hooks": []}));
    fixture.scratch.write(path, &value.to_string());
    assert_eq!(fixture.status("codex"), drifted(&["no-trust"]));
    fixture.install("codex", &[]).expect_code(0);
    assert_eq!(fixture.status("codex"), intact());
    let config = fixture.read_home(".codex/config.toml");
    assert!(config.contains(":pre_tool_use:1:0"), "{config}");
    assert!(!config.contains(":pre_tool_use:0:0"), "the old trust is still there: {config}");
}

#[test]
fn gate_is_unproven_in_an_untrusted_folder() {
    let fixture = Fixture::new();
    fixture.install("all", &[]).expect_code(0);
    let unproven = ("unproven".to_owned(), vec!["not-trusted".to_owned()]);
    for agent in ["codex", "gemini"] {
        assert_eq!(fixture.status(agent), unproven, "{agent}");
    }
    let folder = |path: &std::path::Path, rule: &str| {
        fixture.write_home(
            ".gemini/trustedFolders.json",
            &format!("{{\"{}\": \"{rule}\"}}", path.display()),
        );
        fixture.status("gemini").0
    };
    let root = fixture.scratch.root();
    assert_eq!(folder(&root, "TRUST_FOLDER"), "intact");
    assert_eq!(folder(&root, "DO_NOT_TRUST"), "unproven");
    assert_eq!(folder(&root.parent().unwrap().join("other"), "TRUST_PARENT"), "intact");
    assert_eq!(folder(&root.join("below"), "TRUST_FOLDER"), "unproven");
    fixture.write_home(
        ".gemini/settings.json",
        "{\"security\": {\"folderTrust\": {\"enabled\": false}}}",
    );
    assert_eq!(fixture.status("gemini"), intact());
}

/// Settings that disable hooks are refused, fixed with --fix, and detected when they are added later.
#[test]
fn settings_that_disable_the_gate_are_refused_fixed_or_detected() {
    let hooks_off = "{\n  \"disableAllHooks\": true\n}\n";
    let simple_mode = "{\"env\": {\"A\": \"1\", \"CLAUDE_CODE_SIMPLE\": \"1\"}}\n";
    let disabled = "{\"hooksConfig\": {\"disabled\": [\"x\", \"bailiwick-gate\"]}}\n";
    let enabled = "{\"hooksConfig\": {\"enabled\": false}} // c\n";
    let features = "[features]\nhooks = false # why\n";
    for (agent, path, text, fixed) in [
        ("claude", "repo/.claude/settings.json", hooks_off, hooks_off.replace("true", "false")),
        ("claude", "home/.claude/settings.json", hooks_off, hooks_off.replace("true", "false")),
        (
            "claude",
            "repo/.claude/settings.json",
            simple_mode,
            simple_mode.replace(", \"CLAUDE_CODE_SIMPLE\": \"1\"", ""),
        ),
        ("gemini", "home/.gemini/settings.json", enabled, enabled.replace("false", "true")),
        (
            "gemini",
            "home/.gemini/settings.json",
            disabled,
            disabled.replace(", \"bailiwick-gate\"", ""),
        ),
        ("codex", "repo/.codex/config.toml", features, features.replace("false", "true")),
        (
            "codex",
            "repo/.codex/config.toml",
            "features.codex_hooks = false\n",
            "features.codex_hooks = true\n".to_owned(),
        ),
    ] {
        let fixture = Fixture::new();
        fixture.trust_folder();
        let file = fixture.scratch.place().join(path);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(&file, text).unwrap();
        let before = fixture.snapshot();
        let ran = fixture.install(agent, &[]).expect_code(2);
        assert!(ran.err.contains(path) && ran.err.contains("--fix"), "{}", ran.err);
        assert_eq!(fixture.snapshot(), before);

        let ran = fixture.install(agent, &["--fix"]).expect_code(0);
        assert!(ran.out.contains("taken back"), "{}", ran.out);
        assert_eq!(std::fs::read_to_string(&file).unwrap(), fixed, "{path}");
        assert_eq!(fixture.status(agent), intact(), "{path}");

        std::fs::write(&file, text).unwrap();
        assert_eq!(fixture.status(agent), drifted(&["disarmed"]), "{path}");
    }
}

#[test]
fn nearer_settings_take_precedence() {
    let fixture = Fixture::new();
    fixture.write_home(".claude/settings.json", "{\"disableAllHooks\": true}");
    fixture.scratch.write(".claude/settings.json", "{\"disableAllHooks\": false}");
    fixture.install("claude", &[]).expect_code(0);
    assert_eq!(fixture.status("claude"), intact());
}

#[test]
fn disabled_codex_hook_is_detected() {
    let fixture = fixture_with_hooks();
    let config = fixture.read_home(".codex/config.toml");
    fixture.write_home(
        ".codex/config.toml",
        &config.replacen("trusted_hash", "enabled = false\ntrusted_hash", 1),
    );
    assert_eq!(fixture.status("codex"), drifted(&["disarmed"]));
    fixture.install("codex", &[]).expect_code(2);
    fixture.install("codex", &["--fix"]).expect_code(0);
    assert_eq!(fixture.read_home(".codex/config.toml"), config);
    assert_eq!(fixture.status("codex"), intact());
}

#[test]
fn moved_settings_are_detected_and_followed() {
    let fixture = Fixture::new();
    let run = |home: &str, arguments: &[&str]| {
        let mut command = fixture.scratch.command(fixture.bailiwick());
        command.arg("hooks").args(arguments).env("CODEX_HOME", fixture.home().join(home));
        bailiwick_testkit::scratch::Ran::from(command.output().unwrap())
    };
    let install = ["install", "codex", "--role", "read-only", "--user"];
    run("one", &install).expect_code(0);
    run("one", &["status", "codex"]).expect_code(0);
    let ran = run("two", &["status", "codex", "-o", "json"]).expect_code(1);
    assert!(ran.out.contains("moved-settings"), "{}", ran.out);
    run("two", &install).expect_code(0);
    run("two", &["status", "codex"]).expect_code(0);
    assert!(!fixture.home().join("one/hooks.json").exists());
    assert!(!fixture.home().join("one/config.toml").exists(), "the old trust was not removed");
    assert!(fixture.read_home("two/config.toml").contains("trusted_hash"));
}

#[test]
fn trust_is_removed_even_if_its_hook_is_missing() {
    let fixture = fixture_with_hooks();
    std::fs::remove_file(fixture.scratch.root().join(SETTINGS[1].1)).unwrap();
    assert!(fixture.read_home(".codex/config.toml").contains("trusted_hash"), "positive control");
    fixture.run(&["remove", "codex"]).expect_code(0);
    assert!(!fixture.read_home(".codex/config.toml").contains("trusted_hash"));
}
