//! `bailiwick lint` reports what `run` would refuse in the working copy.

use bailiwick_testkit::Scratch;

use crate::BAILIWICK;

const TASK: &str = ".bailiwick/tasks/example.toml";

fn task(more: &str) -> String {
    format!("[task]\nrole = \"read-only\"\n[body]\ntext = \"look\"\n{more}")
}

#[test]
fn lint_reports_what_run_refuses_with_its_line() {
    let scratch = Scratch::repository();
    scratch.commit("start");
    for (more, line, message, help) in [
        (
            "[agent]\ncli = \"claude\"\n",
            6,
            "no agent program `claude`",
            "did you mean `claude-code`?",
        ),
        ("[budget]\nusd = 2.0\n", 6, "needs [agent] model", "limit tokens or turns"),
        (
            "[budget]\nusd = 2.0\n[agent]\nmodel = \"sonnet\"\n",
            6,
            "what the model sonnet costs",
            ".bailiwick/settings.toml",
        ),
        (
            "[agent]\ncli = \"codex\"\nlogin = \"vertex\"\n",
            7,
            "cannot be run with the login `vertex`",
            "logins of codex in a run: api-key",
        ),
        ("[agent]\nmcp-servers = [\"x\"]\n", 6, "there is no .mcp.json", "commit it"),
        ("[agent]\nhand-over = [\"gone.md\"]\n", 6, "gone.md is not in the commit", ""),
        ("[agent]\nconfigs = [\"A\", \"A\"]\n", 0, "grants A twice", ""),
        ("[agent]\ncli = \"script\"\n", 0, "[[agent.script]]", ""),
        ("[agent]\neffort = \"wild\"\n", 0, "think with the effort wild", ""),
    ] {
        scratch.write("task.toml", &task(more));
        let lint = scratch.run(BAILIWICK, &["lint", "task.toml", "-o", "json"]).expect_code(1);
        let found: serde_json::Value = serde_json::from_str(&lint.out).unwrap();
        let problem = &found["problems"][0];
        assert_eq!(found["errors"], 1, "{found:#}");
        assert_eq!(problem["line"].as_u64().unwrap_or(0), line, "{problem:#}");
        assert!(problem["message"].as_str().unwrap().contains(message), "{problem:#}");
        assert!(problem["help"].as_str().unwrap_or_default().contains(help), "{problem:#}");
        let run = scratch.run(BAILIWICK, &["run", "task.toml"]).expect_code(2);
        assert!(run.err.contains(message) && run.err.contains(help), "{}", run.err);
        assert!(!scratch.root().join("tasks").exists(), "nothing is created: {}", run.err);
    }
    scratch.write("task.toml", &task("[agent]\ncli = \"codex\"\n"));
    scratch.run(BAILIWICK, &["lint", "task.toml"]).expect_code(0);
}

#[test]
fn unknown_program_in_settings_is_reported_at_its_line() {
    let scratch = Scratch::repository();
    scratch.write(".bailiwick/settings.toml", "[run]\ncli = \"gemini-cli\"\n");
    scratch.write("one.toml", &task(""));
    scratch.write("two.toml", &task(""));
    scratch.commit("start");
    let lint = scratch.run(BAILIWICK, &["lint", "one.toml", "two.toml"]).expect_code(1);
    assert!(lint.out.contains(".bailiwick/settings.toml:2:7"), "{}", lint.out);
    assert!(lint.out.contains("did you mean `gemini`?"), "{}", lint.out);
    assert!(lint.out.contains("2 tasks: 1 error"), "reported once: {}", lint.out);
    scratch.run(BAILIWICK, &["lint", "one.toml"]).expect_code(1);
}

#[test]
fn run_refuses_settings_that_are_not_committed() {
    let scratch = Scratch::repository();
    scratch.commit("start");
    let priced = "[prices.\"sonnet\"]\ninput = 1.0\noutput = 2.0\n";
    scratch.write(".bailiwick/settings.toml", priced);
    scratch.write("task.toml", &task("[budget]\nusd = 2.0\n[agent]\nmodel = \"sonnet\"\n"));
    scratch.run(BAILIWICK, &["lint", "task.toml"]).expect_code(0);
    let run = scratch.run(BAILIWICK, &["run", "task.toml"]).expect_code(1);
    assert!(run.err.contains("is not committed at HEAD (1 file of .bailiwick)"), "{}", run.err);
    assert!(run.err.contains("git add .bailiwick && git commit"), "{}", run.err);
}

#[test]
fn commented_examples_of_the_starter_kit_are_valid() {
    let scratch = Scratch::repository();
    scratch.run(BAILIWICK, &["init"]).expect_code(0);
    let kit = scratch.read(TASK);
    let (before, after) = kit.split_once("# [agent]").unwrap();
    let (comments, after) = after.split_once("[body]").unwrap();
    let uncommented = comments.replace("\n# ", "\n");
    let (without_money, money) = uncommented.split_once("usd =").unwrap();
    let with = |agent: &str| format!("{before}[agent]{agent}\n[body]{after}");
    scratch.write(TASK, &with(without_money));
    scratch.run(BAILIWICK, &["lint"]).expect_code(0);
    scratch.write(TASK, &with(&uncommented));
    assert!(money.contains("[prices] in .bailiwick/settings.toml"), "{money}");
    scratch.run(BAILIWICK, &["lint"]).expect_code(1);
    let priced = "[prices.\"sonnet\"]\ninput = 1.0\noutput = 2.0\n";
    scratch.write(".bailiwick/settings.toml", priced);
    scratch.run(BAILIWICK, &["lint"]).expect_code(0);
}
