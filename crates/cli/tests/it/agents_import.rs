//! `agents import`: what is found, written, refused and reported.

use bailiwick_testkit::Scratch;
use serde_json::Value;

use crate::BAILIWICK;
use crate::screens::on_terminal;

const REVIEWER: &str = "---\nname: reviewer\ndescription: Use it: often\ntools: Read, Bash(git *)\n\
                        maxTurns: 5\n---\nReview.\n";

fn scene() -> Scratch {
    let scratch = Scratch::repository();
    scratch.write(".claude/agents/team/reviewer.md", REVIEWER);
    scratch.write(".claude/agents/README.md", "Notes.\n");
    scratch.write(
        ".codex/agents/auditor.toml",
        "name = \"auditor\"\ndescription = \"x\"\ndeveloper_instructions = \"Audit.\"\n\
         sandbox_mode = \"read-only\"\n",
    );
    scratch
        .write(".gemini/agents/odd.md", "---\nname: odd\ndescription: x\nlimit: 1\n---\nLook.\n");
    scratch
        .write(".opencode/agents/looker.md", "---\ndescription: x\npermission: deny\n---\nLook.\n");
    scratch.commit("start");
    scratch
}

fn import(scratch: &Scratch, arguments: &[&str], code: i32) -> Value {
    let all = [&["agents", "import", "-o", "json"], arguments].concat();
    serde_json::from_str(&scratch.run(BAILIWICK, &all).expect_code(code).out).unwrap()
}

fn agents(value: &Value) -> Vec<&str> {
    let imported = value["imported"].as_array().unwrap();
    imported.iter().map(|entry| entry["agent"].as_str().unwrap()).collect()
}

#[test]
fn valid_agent_files_are_written_and_refused_ones_have_a_reason() {
    let scratch = scene();
    let dry_run = import(&scratch, &["--dry-run"], 1);
    assert!(!scratch.root().join(".bailiwick").exists(), "a dry run writes nothing");
    let value = import(&scratch, &[], 1);
    assert_eq!(agents(&value), ["reviewer", "auditor", "looker"]);
    assert_eq!(agents(&dry_run), agents(&value));
    assert_eq!(value["passed_over"][0], ".claude/agents/README.md");
    assert_eq!(value["refused"][0]["from"], ".gemini/agents/odd.md");
    assert_eq!(value["refused"][0]["problems"][0]["code"], "unknown-key");
    assert_eq!(value["refused"][0]["problems"][0]["place"], ".gemini/agents/odd.md:4:1");
    assert_eq!(
        scratch.read(".bailiwick/agents/reviewer.md"),
        "---\ndescription: \"Use it: often\"\nallow_list:\n  - Read\nmax_turns: 5\n---\nReview.\n"
    );
    assert!(scratch.read(".bailiwick/agents/auditor.md").contains("\nread_only: true\n"));
    assert!(scratch.read(".bailiwick/agents/looker.md").contains("\nallow_list: []\n"));
    assert!(!scratch.root().join(".bailiwick/agents/odd.md").exists());
}

#[test]
fn lint_and_list_report_files_that_are_not_imported_yet() {
    let scratch = scene();
    let linted = || -> Value {
        let ran = scratch.run(BAILIWICK, &["lint", "-o", "json"]).expect_code(0);
        serde_json::from_str(&ran.out).unwrap()
    };
    let report = linted();
    assert_eq!((&report["importable"], &report["warnings"]), (&3.into(), &1.into()), "{report:#}");
    let problem = &report["problems"][0];
    assert_eq!((&problem["file"], &problem["line"]), (&".gemini/agents/odd.md".into(), &4.into()));
    scratch.run(BAILIWICK, &["lint", "--deny-warnings"]).expect_code(1);
    let hint = "3 agent files of other programs can be imported: bailiwick agents import";
    for command in [["lint"].as_slice(), &["agents", "list"]] {
        let ran = scratch.run(BAILIWICK, command).expect_code(0);
        assert!(ran.err.contains(hint), "{command:?}: {}", ran.err);
    }
    import(&scratch, &[], 1);
    import(&scratch, &[".gemini/agents/odd.md", "--drop", "limit"], 0);
    let report = linted();
    assert_eq!((&report["importable"], &report["warnings"]), (&0.into(), &0.into()), "{report:#}");
    let ran = scratch.run(BAILIWICK, &["agents", "list"]).expect_code(0);
    assert!(!ran.err.contains("can be imported"), "{}", ran.err);
}

#[test]
fn narrowed_settings_are_reported() {
    let scratch = scene();
    let ran = scratch
        .run(BAILIWICK, &["agents", "import", ".claude/agents/team/reviewer.md"])
        .expect_code(0);
    assert!(ran.out.contains("narrowed      tools        `Bash(git *)` is dropped"), "{}", ran.out);
    let written = scratch.read(".bailiwick/agents/reviewer.md");
    assert!(written.contains("\nmax_turns: 5\n"), "{written}");
    assert!(ran.err.contains("next: "), "{}", ran.err);
    let import = "$B agents import --force -q --color never .claude/agents/team/reviewer.md";
    let screen = on_terminal(&scratch, 80, import);
    assert!(screen.contains("narrowed"), "{screen}");
    assert!(screen.lines().all(|line| line.chars().count() <= 80), "{screen}");
}

#[test]
fn existing_template_is_overwritten_only_with_force() {
    let scratch = scene();
    scratch.write(".bailiwick/agents/reviewer.md", "mine\n");
    let file = ".claude/agents/team/reviewer.md";
    let value = import(&scratch, &[file], 1);
    assert_eq!(value["refused"][0]["problems"][0]["code"], "exists");
    assert_eq!(scratch.read(".bailiwick/agents/reviewer.md"), "mine\n");
    import(&scratch, &[file, "--force"], 0);
    assert_ne!(scratch.read(".bailiwick/agents/reviewer.md"), "mine\n");
}

#[test]
fn name_in_two_programs_is_refused_until_one_is_selected() {
    let scratch = scene();
    scratch.write(".opencode/agents/reviewer.md", "---\ndescription: x\n---\nLook.\n");
    let value = import(&scratch, &[], 1);
    assert_eq!(agents(&value), ["auditor", "looker"]);
    let codes: Vec<&Value> = value["refused"]
        .as_array()
        .unwrap()
        .iter()
        .map(|refused| &refused["problems"][0]["code"])
        .collect();
    assert_eq!(codes.iter().filter(|code| **code == "same-name").count(), 2, "{codes:?}");
    assert_eq!(agents(&import(&scratch, &["--from", "claude"], 0)), ["reviewer"]);
}

#[test]
fn unsupported_key_is_dropped_only_on_request() {
    let scratch = scene();
    let file = ".gemini/agents/odd.md";
    assert_eq!(agents(&import(&scratch, &[file], 1)), [""; 0]);
    assert_eq!(agents(&import(&scratch, &[file, "--drop", "limit"], 0)), ["odd"]);
}

#[test]
fn skills_and_instructions_are_imported_if_their_format_is_known() {
    let scratch = scene();
    scratch.write("skills/tidy/SKILL.md", "---\nname: tidy\ndescription: x\n---\nTidy up.\n");
    scratch.write("crates/parser/AGENTS.md", "Be brief.\n");
    scratch.write("stranger.md", REVIEWER);
    let named = ["skills/tidy/SKILL.md", "crates/parser/AGENTS.md"];
    assert_eq!(agents(&import(&scratch, &named, 0)), ["tidy", "parser"]);
    let ran = scratch.run(BAILIWICK, &["agents", "import", "stranger.md"]).expect_code(2);
    assert!(ran.err.contains("--from"), "{}", ran.err);
    assert_eq!(agents(&import(&scratch, &["stranger.md", "--from", "claude"], 0)), ["reviewer"]);
}
