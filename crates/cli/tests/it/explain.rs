//! `explain` and `replay`: what a call would do, and how other limits would decide it.

use bailiwick_testkit::Scratch;
use serde_json::Value;

use crate::BAILIWICK;

fn scene() -> Scratch {
    let scratch = Scratch::repository();
    scratch.write("src/lib.rs", "//! x\n");
    scratch.write("Cargo.toml", "[package]\nname = \"x\"\nversion = \"0.1.0\"\n");
    scratch.commit("start");
    scratch
}

fn explain(scratch: &Scratch, arguments: &[&str]) -> Value {
    let all = [&["explain", "-o", "json"], arguments].concat();
    serde_json::from_str(&scratch.run(BAILIWICK, &all).expect_code(0).out).unwrap()
}

fn verdict<'a>(value: &'a Value, rule: &str) -> &'a Value {
    let verdicts = value["verdicts"].as_array().unwrap();
    &verdicts.iter().find(|verdict| verdict["rule"] == rule).unwrap()["verdict"]
}

#[test]
fn command_is_parsed_and_every_capability_has_a_reason() {
    let scratch = scene();
    let command = "cargo test && g''it push; echo x | tee src/a.txt > /etc/motd; ./make.sh";
    let value = explain(&scratch, &["--role", "edit-local", "--files", "src/**", "--", command]);
    let runs: Vec<String> = value["runs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|run| run["argv"].as_array().unwrap()[0].as_str().unwrap().to_owned())
        .collect();
    for program in ["cargo", "git", "tee", "echo", "./make.sh"] {
        assert!(runs.iter().any(|run| run == program), "{program} is not in {runs:?}");
    }
    let places: Vec<(&str, &str)> = value["writes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|write| (write["place"].as_str().unwrap(), write["path"].as_str().unwrap()))
        .collect();
    assert!(places.contains(&("inside", "src/a.txt")), "{places:?}");
    assert!(places.contains(&("outside", "/etc/motd")), "{places:?}");
    assert_eq!(value["decision"]["outcome"], "deny");
    assert_eq!(verdict(&value, "policy::no-git-ops"), "deny");
    assert_eq!(verdict(&value, "scope::files-whitelist"), "deny");
    assert_eq!(verdict(&value, "safety::no-dep-bump"), "allow");
    let left_to_sandbox = value["left_to_sandbox"].as_array().unwrap();
    assert!(
        left_to_sandbox.contains(&Value::from("cargo"))
            && left_to_sandbox.contains(&Value::from("./make.sh"))
    );
}

#[test]
fn tree_fits_80_columns_and_exit_code_is_optional() {
    let scratch = scene();
    let ran = scratch.run(BAILIWICK, &["explain", "--", "git status && rm -rf src"]).expect_code(0);
    assert!(ran.out.starts_with("git status && rm -rf src\n├─ runs\n"), "{}", ran.out);
    assert!(ran.out.lines().all(|line| line.chars().count() <= 80), "{}", ran.out);
    scratch.run(BAILIWICK, &["explain", "--exit-code", "--", "git push"]).expect_code(2);
    scratch.run(BAILIWICK, &["explain", "--exit-code", "--", "git log"]).expect_code(0);
    let role = ["explain", "--role", "nobody", "--", "ls"];
    let unknown = scratch.run(BAILIWICK, &role).expect_code(2);
    assert!(unknown.err.contains("nobody"), "{}", unknown.err);
}

#[test]
fn decision_that_depends_on_the_sandbox_is_shown_for_both_levels() {
    let scratch = scene();
    let command = "echo x > \"src/$NAME.txt\"";
    let limits = ["--role", "edit-local", "--files", "src/**", "--", command];
    let value = explain(&scratch, &limits);
    assert_eq!(value["decision"]["outcome"], "deny", "{value}");
    assert_eq!(value["decision_in_full_sandbox"]["outcome"], "allow", "{value}");
    let ran = scratch.run(BAILIWICK, &[&["explain"], &limits[..]].concat()).expect_code(0);
    assert!(ran.out.contains("role edit-local in a full sandbox: allowed\n"), "{}", ran.out);
    assert!(ran.out.contains("role edit-local without one: denied\n"), "{}", ran.out);
    let computed = ["--", "bash -c \"$CODE\""];
    let value = explain(&scratch, &computed);
    assert_eq!(value["hidden"][0]["why"], "computed-text", "{value}");
    let ran = scratch.run(BAILIWICK, &[&["explain"], &computed[..]].concat()).expect_code(0);
    assert!(ran.out.contains("what would run is only known when it runs"), "{}", ran.out);
    assert!(!ran.out.contains("ComputedText"), "{}", ran.out);
    let ran = scratch.run(BAILIWICK, &["explain", "--", "git push"]).expect_code(0);
    assert!(ran.out.contains("role developer: denied\n"), "the same for both: {}", ran.out);
}

#[test]
fn payload_is_explained_in_the_dialect_of_its_cli() {
    let scratch = scene();
    let patch =
        "*** Begin Patch\n*** Add File: src/new.rs\n+x\n*** Delete File: Cargo.toml\n*** End Patch";
    let payload = serde_json::json!({
        "tool_name": "apply_patch", "tool_input": {"command": patch}, "cwd": scratch.root(),
    });
    scratch.write("payload.json", &payload.to_string());
    let arguments = ["--role", "developer", "--files", "src/**", "--payload", "payload.json"];
    let value = explain(&scratch, &[&arguments[..], &["--dialect", "codex"]].concat());
    assert_eq!(verdict(&value, "scope::files-whitelist"), "deny");
    assert_eq!(verdict(&value, "safety::no-dep-bump"), "deny");
    assert_eq!(value["writes"].as_array().unwrap().len(), 2);
    scratch.write("payload.json", "{}");
    scratch.run(BAILIWICK, &["explain", "--payload", "payload.json"]).expect_code(2);
}

#[test]
fn role_with_approvals_asks() {
    let scratch = scene();
    scratch.write(
        ".bailiwick/roles/careful.toml",
        "[role]\nname = \"careful\"\n[capabilities]\nrequired = [\"policy::no-git-ops\"]\n[tools]\n\
         allowed = [\"Bash\", \"Read\", \"Write\"]\nask = [\"run_shell_command\"]\n",
    );
    let value = explain(&scratch, &["--role", "careful", "--", "ls"]);
    assert_eq!(value["decision"]["outcome"], "ask");
    let value = explain(&scratch, &["--role", "careful", "--", "git push"]);
    assert_eq!(
        value["decision"]["outcome"], "deny",
        "a forbidden call is denied without an approval"
    );
}

#[test]
fn explain_shows_whether_text_or_kernel_enforces_a_limit() {
    let scratch = scene();
    let value = explain(&scratch, &["--role", "developer", "--", "ls"]);
    let enforced_by = |rule: &str| {
        let verdicts = value["verdicts"].as_array().unwrap();
        verdicts.iter().find(|one| one["rule"] == rule).unwrap()["enforced_by"].clone()
    };
    assert_eq!(enforced_by("scope::files-whitelist"), "kernel");
    assert_eq!(enforced_by("safety::no-dep-bump"), "kernel");
    let verdicts: Vec<_> = value["verdicts"].as_array().unwrap().iter().collect();
    assert!(verdicts.iter().any(|one| one["enforced_by"] == "text"), "{value:#}");
}

#[test]
fn replay_decides_recorded_calls_under_other_limits() {
    let scratch = scene();
    let install =
        ["hooks", "install", "claude", "--role", "developer", "--files", "src/**", "--no-sandbox"];
    scratch.run(BAILIWICK, &install).expect_code(0);
    let settings: Value =
        serde_json::from_str(&scratch.read(".claude/settings.local.json")).unwrap();
    let hook = settings["hooks"]["PreToolUse"][0]["hooks"][0]["command"].as_str().unwrap();
    for (command, code) in [("ls", 0), ("git push", 2), ("echo x > src/a.rs", 0)] {
        let payload = serde_json::json!({
            "tool_name": "Bash", "tool_input": {"command": command}, "cwd": scratch.root(),
        });
        scratch.write("payload.json", &payload.to_string());
        let line = format!("{{ {hook}\n}} < payload.json");
        scratch.run("sh", &["-c", &line]).expect_code(code);
    }
    let replay = |arguments: &[&str]| -> Value {
        let all = [&["replay", "-o", "json"], arguments].concat();
        serde_json::from_str(&scratch.run(BAILIWICK, &all).expect_code(0).out).unwrap()
    };
    let unchanged = replay(&[]);
    assert_eq!(
        (&unchanged["decisions"], &unchanged["changed"]),
        (&Value::from(3), &Value::from(0))
    );
    // Under a role without a shell, all three are denied.
    let other = replay(&["--role", "read-only"]);
    assert_eq!((&other["flipped"], &other["changed"]), (&Value::from(2), &Value::from(3)));
    let ran = scratch.run(BAILIWICK, &["replay", "--role", "read-only"]).expect_code(0);
    assert!(ran.out.contains("3 decisions: 2 would be answered otherwise"), "{}", ran.out);
    // An invalid line is reported, and does not count as allowed.
    let broken = scratch.place().join("broken.jsonl");
    std::fs::write(&broken, "{}\n").unwrap();
    let broken = broken.display().to_string();
    let ran = scratch.run(BAILIWICK, &["replay", &broken, "--role", "developer"]).expect_code(1);
    assert!(ran.err.contains("broken.jsonl:1"), "{}", ran.err);
}

/// The repositories of these tests are in `/tmp`.
#[test]
fn temporary_files_may_be_written_beside_but_not_in_a_repository() {
    let scratch = scene();
    assert!(scratch.root().starts_with("/tmp"), "{}", scratch.root().display());
    let above = scratch.root().parent().unwrap().display().to_string();
    for (command, outcome) in [
        ("echo x > /tmp/bailiwick-other-file".to_owned(), "allow"),
        ("mkdir -p /tmp/bailiwick-other/a && rm -rf /tmp/bailiwick-other".to_owned(), "allow"),
        (format!("echo x > {}/Cargo.toml", scratch.root().display()), "deny"),
        (format!("rm -rf {above}"), "deny"),
        (format!("mv {above} /tmp/bailiwick-other"), "deny"),
        ("tar -xf a.tar -C /tmp".to_owned(), "deny"),
    ] {
        let value =
            explain(&scratch, &["--role", "developer", "--files", "src/**", "--", &command]);
        assert_eq!(value["decision"]["outcome"], outcome, "{command}: {value}");
    }
}

#[test]
fn explain_shows_the_budget_even_if_it_is_the_default() {
    let scratch = scene();
    let value = explain(&scratch, &["--role", "developer", "--", "ls"]);
    assert_eq!(value["budget"]["allowance"]["tokens"], 20_000_000);
    assert_eq!(value["budget"]["default"], true);
    let ran = scratch.run(BAILIWICK, &["explain", "--", "ls"]).expect_code(0);
    let line = "budget of a run: 20000000 tokens, 500 turns (default)";
    assert!(ran.out.ends_with(&format!("{line}\n")), "{}", ran.out);
    scratch.write("task.toml", "[task]\nrole = \"developer\"\n[budget]\nturns = 7\n");
    let value = explain(&scratch, &["--task", "task.toml", "--", "ls"]);
    assert_eq!(
        (&value["budget"]["allowance"]["turns"], &value["budget"]["default"]),
        (&7.into(), &false.into())
    );
}
