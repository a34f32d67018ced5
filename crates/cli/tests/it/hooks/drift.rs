//! Everything that can go wrong with a gate that was installed.

use serde_json::Value;

use super::{Bench, SETTINGS};

fn drifted(codes: &[&str]) -> (String, Vec<String>) {
    ("drifted".to_owned(), codes.iter().map(ToString::to_string).collect())
}

fn intact() -> (String, Vec<String>) {
    ("intact".to_owned(), Vec::new())
}

fn installed() -> Bench {
    let bench = Bench::new();
    bench.trust_folder();
    bench.install("all", &[]).expect_code(0);
    for (agent, _) in SETTINGS.iter().filter(|(agent, _)| *agent != "opencode") {
        assert_eq!(bench.status(agent), intact(), "the control: {agent}");
    }
    bench
}

#[test]
fn nothing_installed_is_no_drift() {
    let bench = Bench::new();
    let ran = bench.run(&["status"]).expect_code(0);
    assert_eq!(ran.out.matches("not installed").count(), 8, "{}", ran.out);
}

#[test]
fn an_entry_that_is_missing_or_changed_is_seen_and_mended() {
    for (agent, path) in SETTINGS {
        let bench = installed();
        let text = bench.scratch.read(path);
        bench.scratch.write(path, &text.replace("--digest", "--digits"));
        bench.scratch.write(path, &text.replace(".json", ".jsn"));
        let (standing, codes) = bench.status(agent);
        assert_eq!((standing.as_str(), codes[0].as_str()), ("drifted", "changed-entry"), "{agent}");
        bench.install("all", &[]).expect_code(0);
        assert_eq!(bench.scratch.read(path), text, "{agent}");

        std::fs::remove_file(bench.scratch.root().join(path)).unwrap();
        assert_eq!(bench.status(agent).1[0], "no-entry", "{agent}");
        if agent != "opencode" {
            bench.scratch.write(path, "{\"hooks\": {}}\n");
            assert_eq!(bench.status(agent), drifted(&["no-entry"]), "{agent}");
            bench.scratch.write(path, "{");
            assert_eq!(bench.status(agent).1[0], "bad-settings", "{agent}");
        }
    }
}

#[test]
fn an_entry_that_stands_there_twice_is_seen_and_mended() {
    let bench = installed();
    let path = SETTINGS[0].1;
    let text = bench.scratch.read(path);
    let mut value: Value = serde_json::from_str(&text).unwrap();
    let groups = value["hooks"]["PreToolUse"].as_array_mut().unwrap();
    groups.push(groups[0].clone());
    bench.scratch.write(path, &value.to_string());
    assert_eq!(bench.status("claude"), drifted(&["changed-entry"]));
    bench.install("claude", &[]).expect_code(0);
    assert_eq!(bench.status("claude"), intact());
    assert_eq!(bench.scratch.read(path).matches("--policy").count(), 1);
}

/// Somebody put a hook of theirs into our group: it stays.
#[test]
fn a_hook_that_shares_our_group_stays() {
    let bench = installed();
    let path = SETTINGS[0].1;
    let mut value: Value = serde_json::from_str(&bench.scratch.read(path)).unwrap();
    let hooks = value["hooks"]["PreToolUse"][0]["hooks"].as_array_mut().unwrap();
    hooks.insert(0, serde_json::json!({"type": "command", "command": "theirs"}));
    bench.scratch.write(path, &value.to_string());
    assert_eq!(bench.status("claude"), drifted(&["changed-entry"]));
    bench.install("claude", &[]).expect_code(0);
    assert_eq!(bench.status("claude"), intact());
    bench.run(&["remove", "claude"]).expect_code(0);
    let left: Value = serde_json::from_str(&bench.scratch.read(path)).unwrap();
    let hooks = &left["hooks"]["PreToolUse"][0]["hooks"];
    assert_eq!((hooks.as_array().unwrap().len(), &hooks[0]["command"]), (1, &"theirs".into()));
}

#[test]
fn a_policy_that_is_missing_or_changed_is_seen() {
    let bench = installed();
    let policy = bench.kept("claude").join("policy.json");
    let text = std::fs::read_to_string(&policy).unwrap();
    std::fs::write(&policy, text.clone() + " ").unwrap();
    assert_eq!(bench.status("claude"), drifted(&["changed-policy"]));
    std::fs::remove_file(&policy).unwrap();
    assert_eq!(bench.status("claude"), drifted(&["no-policy"]));
    bench.install("claude", &[]).expect_code(0);
    assert_eq!(bench.status("claude"), intact());
}

#[test]
fn a_gate_that_is_gone_is_seen() {
    let bench = installed();
    std::fs::remove_file(bench.bin().join("bailiwick-gate")).unwrap();
    assert_eq!(bench.status("claude"), drifted(&["no-gate"]));
    bench.install("claude", &[]).expect_code(0);
    assert_eq!(bench.status("claude"), intact(), "now the program itself is the gate");
}

#[test]
fn a_role_that_says_something_else_now_is_seen() {
    let bench = Bench::new();
    let role =
        |extends| format!("[role]\nname = \"mine\"\n[capabilities]\nextends = \"{extends}\"\n");
    bench.scratch.write(".bailiwick/roles/mine.toml", &role("read-only"));
    bench.scratch.commit("kit");
    bench.run(&["install", "claude", "--role", "mine"]).expect_code(0);
    assert_eq!(bench.status("claude"), intact());
    bench.scratch.write(".bailiwick/roles/mine.toml", &role("explorer"));
    bench.scratch.commit("other kit");
    assert_eq!(bench.status("claude"), drifted(&["stale-policy"]));
    std::fs::remove_file(bench.scratch.root().join(".bailiwick/roles/mine.toml")).unwrap();
    bench.scratch.commit("no kit");
    assert_eq!(bench.status("claude"), drifted(&["stale-policy"]));
}

#[test]
fn a_record_that_is_lost_or_broken_is_seen_and_all_of_ours_can_still_be_removed() {
    for (agent, path) in SETTINGS {
        let bench = installed();
        let record = bench.kept(agent).join("install.json");
        std::fs::write(&record, "{}").unwrap();
        assert_eq!(bench.status(agent), drifted(&["bad-record"]), "{agent}");
        std::fs::remove_file(&record).unwrap();
        assert_eq!(bench.status(agent), drifted(&["no-record"]), "{agent}");
        bench.run(&["remove", agent]).expect_code(0);
        assert_eq!(bench.status(agent).0, "absent", "{agent}");
        let left = std::fs::read_to_string(bench.scratch.root().join(path)).unwrap_or_default();
        assert!(!left.contains("bailiwick"), "{agent}: {left}");
    }
    let bench = installed();
    std::fs::remove_file(bench.kept("codex").join("install.json")).unwrap();
    bench.run(&["remove", "codex"]).expect_code(0);
    assert!(!bench.read_home(".codex/config.toml").contains("trusted_hash"));
}

#[test]
fn a_trust_that_is_missing_or_stale_is_seen_and_mended() {
    let bench = installed();
    let config = bench.read_home(".codex/config.toml");
    bench.write_home(".codex/config.toml", &config.replace("sha256:", "sha256:0"));
    assert_eq!(
        bench.status("codex"),
        drifted(&["no-trust", "no-trust"]),
        "before and after a call"
    );
    let (before, _) = config.split_once("\n[hooks.state").unwrap();
    bench.write_home(".codex/config.toml", before);
    let (standing, codes) = bench.status("codex");
    assert_eq!(standing, "drifted");
    assert_eq!(codes.iter().filter(|code| *code == "no-trust").count(), 2, "{codes:?}");
    bench.install("codex", &[]).expect_code(0);
    assert_eq!(bench.status("codex"), intact());

    // A hook in front of ours moves it, and Codex would skip it.
    let path = SETTINGS[1].1;
    let mut value: Value = serde_json::from_str(&bench.scratch.read(path)).unwrap();
    let groups = value["hooks"]["PreToolUse"].as_array_mut().unwrap();
    groups.insert(0, serde_json::json!({"matcher": "x", "hooks": []}));
    bench.scratch.write(path, &value.to_string());
    assert_eq!(bench.status("codex"), drifted(&["no-trust"]));
    bench.install("codex", &[]).expect_code(0);
    assert_eq!(bench.status("codex"), intact());
    let config = bench.read_home(".codex/config.toml");
    assert!(config.contains(":pre_tool_use:1:0"), "{config}");
    assert!(!config.contains(":pre_tool_use:0:0"), "the old trust is gone: {config}");
}

#[test]
fn a_folder_that_is_not_trusted_leaves_the_gate_unproven() {
    let bench = Bench::new();
    bench.install("all", &[]).expect_code(0);
    let unproven = ("unproven".to_owned(), vec!["not-trusted".to_owned()]);
    for agent in ["codex", "gemini"] {
        assert_eq!(bench.status(agent), unproven, "{agent}");
    }
    let folder = |path: &std::path::Path, rule: &str| {
        bench.write_home(
            ".gemini/trustedFolders.json",
            &format!("{{\"{}\": \"{rule}\"}}", path.display()),
        );
        bench.status("gemini").0
    };
    let root = bench.scratch.root();
    assert_eq!(folder(&root, "TRUST_FOLDER"), "intact");
    assert_eq!(folder(&root, "DO_NOT_TRUST"), "unproven");
    assert_eq!(folder(&root.parent().unwrap().join("other"), "TRUST_PARENT"), "intact");
    assert_eq!(folder(&root.join("below"), "TRUST_FOLDER"), "unproven");
    bench.write_home(
        ".gemini/settings.json",
        "{\"security\": {\"folderTrust\": {\"enabled\": false}}}",
    );
    assert_eq!(bench.status("gemini"), intact());
}

/// Settings that keep hooks from running: refused, mended with --fix, seen when they come later.
#[test]
fn what_disarms_a_gate_is_refused_or_mended_and_seen() {
    let off = "{\n  \"disableAllHooks\": true\n}\n";
    let bare = "{\"env\": {\"A\": \"1\", \"CLAUDE_CODE_SIMPLE\": \"1\"}}\n";
    let disabled = "{\"hooksConfig\": {\"disabled\": [\"x\", \"bailiwick-gate\"]}}\n";
    let enabled = "{\"hooksConfig\": {\"enabled\": false}} // c\n";
    let features = "[features]\nhooks = false # why\n";
    for (agent, path, text, mended) in [
        ("claude", "repo/.claude/settings.json", off, off.replace("true", "false")),
        ("claude", "home/.claude/settings.json", off, off.replace("true", "false")),
        (
            "claude",
            "repo/.claude/settings.json",
            bare,
            bare.replace(", \"CLAUDE_CODE_SIMPLE\": \"1\"", ""),
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
        let bench = Bench::new();
        bench.trust_folder();
        let file = bench.scratch.place().join(path);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(&file, text).unwrap();
        let before = bench.snapshot();
        let ran = bench.install(agent, &[]).expect_code(2);
        assert!(ran.err.contains(path) && ran.err.contains("--fix"), "{}", ran.err);
        assert_eq!(bench.snapshot(), before);

        let ran = bench.install(agent, &["--fix"]).expect_code(0);
        assert!(ran.out.contains("taken back"), "{}", ran.out);
        assert_eq!(std::fs::read_to_string(&file).unwrap(), mended, "{path}");
        assert_eq!(bench.status(agent), intact(), "{path}");

        std::fs::write(&file, text).unwrap();
        assert_eq!(bench.status(agent), drifted(&["disarmed"]), "{path}");
    }
}

#[test]
fn settings_nearer_to_the_work_decide() {
    let bench = Bench::new();
    bench.write_home(".claude/settings.json", "{\"disableAllHooks\": true}");
    bench.scratch.write(".claude/settings.json", "{\"disableAllHooks\": false}");
    bench.install("claude", &[]).expect_code(0);
    assert_eq!(bench.status("claude"), intact());
}

#[test]
fn a_hook_that_codex_was_told_to_leave_out_is_seen() {
    let bench = installed();
    let config = bench.read_home(".codex/config.toml");
    bench.write_home(
        ".codex/config.toml",
        &config.replacen("trusted_hash", "enabled = false\ntrusted_hash", 1),
    );
    assert_eq!(bench.status("codex"), drifted(&["disarmed"]));
    bench.install("codex", &[]).expect_code(2);
    bench.install("codex", &["--fix"]).expect_code(0);
    assert_eq!(bench.read_home(".codex/config.toml"), config);
    assert_eq!(bench.status("codex"), intact());
}

#[test]
fn settings_that_are_read_elsewhere_now_are_seen_and_followed() {
    let bench = Bench::new();
    let run = |home: &str, arguments: &[&str]| {
        let mut command = bench.scratch.command(bench.bailiwick());
        command.arg("hooks").args(arguments).env("CODEX_HOME", bench.home().join(home));
        bailiwick_testkit::scratch::Ran::from(command.output().unwrap())
    };
    let install = ["install", "codex", "--role", "read-only", "--user"];
    run("one", &install).expect_code(0);
    run("one", &["status", "codex"]).expect_code(0);
    let ran = run("two", &["status", "codex", "-o", "json"]).expect_code(1);
    assert!(ran.out.contains("moved-settings"), "{}", ran.out);
    run("two", &install).expect_code(0);
    run("two", &["status", "codex"]).expect_code(0);
    assert!(!bench.home().join("one/hooks.json").exists());
    assert!(!bench.home().join("one/config.toml").exists(), "its trust went with it");
    assert!(bench.read_home("two/config.toml").contains("trusted_hash"));
}

#[test]
fn a_trust_is_taken_back_also_when_its_hook_is_gone_already() {
    let bench = installed();
    std::fs::remove_file(bench.scratch.root().join(SETTINGS[1].1)).unwrap();
    assert!(bench.read_home(".codex/config.toml").contains("trusted_hash"), "the control");
    bench.run(&["remove", "codex"]).expect_code(0);
    assert!(!bench.read_home(".codex/config.toml").contains("trusted_hash"));
}
