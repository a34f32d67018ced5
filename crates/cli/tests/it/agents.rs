//! `bailiwick agents list|show|new`, seeding, and templates on disk and in commits.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use bailiwick_engine::context::Context;
use bailiwick_engine::database::Database;
use bailiwick_engine::notices::Notices;
use bailiwick_engine::templates;
use bailiwick_policy::ToolStack;
use bailiwick_source_control::Repository;
use bailiwick_store::Location;
use bailiwick_testkit::Scratch;
use bailiwick_testkit::scratch::Ran;
use serde_json::Value;

use crate::BAILIWICK;

const SHIPPED: [&str; 5] =
    ["architect.md", "explorer.md", "orchestrator.md", "reviewer.md", "worker.md"];

fn template(description: &str) -> String {
    format!("---\ndescription: {description}\n---\nDo {description}.\n")
}

fn put(directory: &Path, name: &str, text: &str) {
    std::fs::create_dir_all(directory).unwrap();
    std::fs::write(directory.join(name), text).unwrap();
}

fn user_templates(scratch: &Scratch) -> PathBuf {
    scratch.place().join("config/bailiwick/agents")
}

fn names(directory: &Path) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(directory) else { return Vec::new() };
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort_unstable();
    names
}

fn json(scratch: &Scratch, arguments: &[&str]) -> Value {
    serde_json::from_str(&scratch.run(BAILIWICK, arguments).expect_code(0).out).unwrap()
}

/// The description of the template `name`, as shown in the directory `from` of the repository.
fn description_of(scratch: &Scratch, from: &str, name: &str) -> String {
    let mut command = scratch.command(BAILIWICK);
    command.args(["agents", "show", name, "-o", "json"]).current_dir(scratch.root().join(from));
    let output = command.output().unwrap();
    let value: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stderr)));
    value["template"]["description"].as_str().unwrap().to_owned()
}

#[test]
fn agents_list_prints_what_the_list_agents_tool_returns() {
    let scratch = Scratch::repository();
    let answer = json(&scratch, &["agents", "list", "-o", "json"]);
    let agents = answer["agents"].as_array().unwrap();
    let types: Vec<&str> =
        agents.iter().map(|agent| agent["agent_type"].as_str().unwrap()).collect();
    assert_eq!(types, ["architect", "explorer", "orchestrator", "reviewer", "worker"]);
    assert_eq!(answer.as_object().unwrap().len(), 1);
    assert!(agents.iter().all(|agent| agent.get("default_prompt").is_none()));
    let expanded = json(&scratch, &["agents", "list", "--expanded", "-o", "json"]);
    let prompt = expanded["agents"][4]["agent_names"][0]["prompt"].as_str().unwrap();
    assert!(prompt.starts_with("You run commands"), "{prompt}");
    let shown = scratch.run(BAILIWICK, &["agents", "list"]).expect_code(0).out;
    assert!(shown.starts_with("AGENT") && shown.contains("explorer"), "{shown}");
    let long = scratch.run(BAILIWICK, &["agents", "list", "--expanded"]).expect_code(0).out;
    assert!(long.contains("You divide work among agents"), "{long}");
}

#[test]
fn user_directory_without_shipped_templates_gets_all_of_them() {
    let scratch = Scratch::repository();
    put(&user_templates(&scratch), "mine.md", &template("mine"));
    let output = serve_root_session(&scratch, &[]);
    assert!(output.contains("wrote 5 templates"), "{output}");
    let mut expected = SHIPPED.map(str::to_owned).to_vec();
    expected.insert(2, "mine.md".to_owned());
    assert_eq!(names(&user_templates(&scratch)), expected, "no temporary files are left");
    assert!(!scratch.place().join("home/.codex").exists());
    assert_eq!(names(&scratch.root()), [".git"]);
    let again = serve_root_session(&scratch, &[]);
    assert!(!again.contains("wrote"), "{again}");
}

/// Starts `bailiwick mcp`, which exits at once because its input is empty. Returns its standard error.
fn serve_root_session(scratch: &Scratch, arguments: &[&str]) -> String {
    let mut command = scratch.command(BAILIWICK);
    let ran = command.arg("mcp").args(arguments).stdin(Stdio::null()).output().unwrap();
    String::from_utf8(ran.stderr).unwrap()
}

/// With `--socket`, as inside a run, no file of the user is written.
#[test]
fn root_session_copies_templates_to_the_user_directory_once() {
    let scratch = Scratch::repository();
    let start = |arguments: &[&str]| serve_root_session(&scratch, arguments);
    let forwards = start(&["--socket", "nowhere.sock"]);
    assert!(!forwards.contains("wrote") && !user_templates(&scratch).exists(), "{forwards}");
    let output = start(&[]);
    assert!(output.contains("wrote 5 templates"), "{output}");
    assert_eq!(names(&user_templates(&scratch)), SHIPPED);
    let again = start(&[]);
    assert!(!again.contains("wrote"), "{again}");
}

/// A copy in the directory with the higher priority would override the user's template in the other one.
#[test]
fn shipped_template_never_overrides_a_user_template() {
    let scratch = Scratch::repository();
    put(&scratch.place().join("home/.codex/.agents"), "Worker.md", &template("strict"));
    let output = serve_root_session(&scratch, &[]);
    assert!(!output.contains("wrote"), "{output}");
    assert_eq!(names(&user_templates(&scratch)), [""; 0]);
    assert_eq!(description_of(&scratch, "", "worker"), "strict");
}

#[test]
fn deleted_or_changed_template_is_not_restored() {
    let scratch = Scratch::repository();
    serve_root_session(&scratch, &[]);
    std::fs::remove_file(user_templates(&scratch).join("worker.md")).unwrap();
    put(&user_templates(&scratch), "explorer.md", &template("changed"));
    serve_root_session(&scratch, &[]);
    assert_eq!(
        names(&user_templates(&scratch)),
        ["architect.md", "explorer.md", "orchestrator.md", "reviewer.md"]
    );
    assert_eq!(description_of(&scratch, "", "explorer"), "changed");
    assert_eq!(json(&scratch, &["agents", "show", "worker", "-o", "json"])["origin"], "embedded");
    std::fs::remove_dir_all(user_templates(&scratch)).unwrap();
    serve_root_session(&scratch, &[]);
    assert_eq!(names(&user_templates(&scratch)), SHIPPED);
}

#[test]
fn unwritable_user_directory_is_reported_and_embedded_templates_are_used() {
    let scratch = Scratch::repository();
    let mut command = scratch.command(BAILIWICK);
    command.arg("mcp").stdin(Stdio::null()).env("XDG_CONFIG_HOME", "/proc");
    let ran = Ran::from(command.output().unwrap());
    assert!(ran.err.contains("cannot be written to /proc/bailiwick/agents"), "{}", ran.err);
    let mut command = scratch.command(BAILIWICK);
    command.args(["agents", "list", "-o", "json"]).env("XDG_CONFIG_HOME", "/proc");
    let ran = Ran::from(command.output().unwrap()).expect_code(0);
    assert!(ran.out.contains("\"worker\""), "{}", ran.out);
}

#[test]
fn template_source_with_the_highest_priority_is_used() {
    let scratch = Scratch::repository();
    let directories = [
        scratch.root().join("a/b/.bailiwick/agents"),
        scratch.root().join("a/b/.codex/.agents"),
        scratch.root().join("a/.bailiwick/agents"),
        scratch.root().join("a/.codex/.agents"),
        scratch.root().join(".bailiwick/agents"),
        scratch.root().join(".codex/.agents"),
        scratch.place().join("home/.codex/.agents"),
        user_templates(&scratch),
    ];
    // Directories above the repository are ignored.
    put(&scratch.place().join(".bailiwick/agents"), "worker.md", &template("above"));
    for (index, directory) in directories.iter().enumerate() {
        put(directory, "worker.md", &template(&format!("place {index}")));
    }
    assert_eq!(
        description_of(&scratch, "a", "worker"),
        "place 2",
        "directories below the current one are ignored"
    );
    for (index, directory) in directories.iter().enumerate() {
        assert_eq!(description_of(&scratch, "a/b", "worker"), format!("place {index}"));
        std::fs::remove_file(directory.join("worker.md")).unwrap();
    }
    assert!(description_of(&scratch, "a/b", "worker").starts_with("Use `worker`"));
}

#[test]
fn project_templates_are_ignored_outside_a_repository() {
    let scratch = Scratch::bare();
    scratch.write(".codex/.agents/worker.md", &template("stray"));
    assert!(description_of(&scratch, "", "worker").starts_with("Use `worker`"));
}

#[test]
fn invalid_template_is_reported_with_its_position_and_hides_lower_ones() {
    let scratch = Scratch::repository();
    scratch.write(
        ".bailiwick/agents/worker.md",
        "---\ndescription: x\nread_onIy: true\n---\nDo it.\n",
    );
    scratch.write(".codex/.agents/worker.md", &template("lower"));
    let ran = scratch.run(BAILIWICK, &["agents", "show", "worker"]).expect_code(1);
    assert!(ran.err.contains(".bailiwick/agents/worker.md:3:1"), "{}", ran.err);
    assert!(ran.err.contains("did you mean `read_only`?") && ran.out.is_empty(), "{}", ran.err);
    let ran = scratch.run(BAILIWICK, &["agents", "list", "-o", "json"]).expect_code(1);
    assert!(ran.out.contains("\"explorer\"") && !ran.out.contains("\"worker\""), "{}", ran.out);
    assert!(ran.err.contains("worker.md:3:1"), "{}", ran.err);
    let linted = scratch.run(BAILIWICK, &["lint", "-o", "json"]).expect_code(1);
    let report: Value = serde_json::from_str(&linted.out).unwrap();
    assert_eq!(report["problems"][0]["file"], ".bailiwick/agents/worker.md");
    assert_eq!((report["errors"].as_u64(), report["templates"].as_u64()), (Some(1), Some(5)));
    // A dangling symlink, bytes that are not UTF-8, and a dangling symlink instead of a directory.
    for text in [None, Some(&b"\xff"[..])] {
        let file = scratch.root().join(".bailiwick/agents/worker.md");
        std::fs::remove_file(&file).unwrap();
        match text {
            None => std::os::unix::fs::symlink("nowhere", &file).unwrap(),
            Some(bytes) => std::fs::write(&file, bytes).unwrap(),
        }
        let ran = scratch.run(BAILIWICK, &["agents", "show", "worker"]).expect_code(1);
        assert!(ran.err.contains("cannot be read"), "{}", ran.err);
    }
    std::fs::remove_dir_all(scratch.root().join(".bailiwick")).unwrap();
    std::os::unix::fs::symlink("nowhere", scratch.root().join(".bailiwick")).unwrap();
    scratch.run(BAILIWICK, &["agents", "show", "worker"]).expect_code(1);
    std::fs::remove_file(scratch.root().join(".bailiwick")).unwrap();
    assert_eq!(description_of(&scratch, "", "worker"), "lower", "positive control");
}

#[test]
fn unknown_template_names_are_reported_as_the_contract_specifies() {
    let scratch = Scratch::repository();
    for (name, expected) in [
        ("no_such", "missing agent template: no_such"),
        ("a b", "invalid agent_type \"a b\": expected snake_case or kebab-case"),
    ] {
        let ran = scratch.run(BAILIWICK, &["agents", "show", name]).expect_code(2);
        assert!(ran.err.contains(expected), "{}", ran.err);
    }
    let persona = ["agents", "show", "worker", "--persona", "runer"];
    let ran = scratch.run(BAILIWICK, &persona).expect_code(2);
    let expected = "unknown agent_name \"runer\" for agent_type \"worker\"";
    assert!(
        ran.err.contains(expected) && ran.err.contains("did you mean `runner`?"),
        "{}",
        ran.err
    );
}

#[test]
fn agents_show_prints_the_settings_of_a_persona() {
    let scratch = Scratch::repository();
    let text = "---\ndescription: All.\nmodel: big\nreasoning_effort: low\nread_only: true\nallow_list: []\nagent_names:\n  - name: fast\n    description: Quick.\n    model: small\n---\nDo it.\n<!-- agent_name: fast -->\nHurry.\n";
    scratch.write(".bailiwick/agents/two-words.md", text);
    let shown = json(&scratch, &["agents", "show", "two_words", "--persona", "Fast", "-o", "json"]);
    assert_eq!(shown["prompt"], "Hurry.");
    assert_eq!(shown["settings"]["model"]["value"], "small");
    assert_eq!(shown["settings"]["model"]["set_by"], "persona");
    assert_eq!(shown["settings"]["reasoning_effort"]["set_by"], "template");
    let shown = json(&scratch, &["agents", "show", "two-words", "-o", "json"]);
    assert_eq!((&shown["prompt"], &shown["agent_name"]), (&"Do it.".into(), &Value::Null));
    let human = scratch.run(BAILIWICK, &["agents", "show", "two-words"]).expect_code(0).out;
    for part in
        ["model      big", "may        read only", "tools      none", "fast: Quick.", "Do it."]
    {
        assert!(human.contains(part), "{part} in {human}");
    }
}

#[test]
fn new_template_is_valid_and_never_overwrites_a_file() {
    let scratch = Scratch::repository();
    scratch.run(BAILIWICK, &["agents", "new", "My-Auditor"]).expect_code(0);
    let text = scratch.read(".bailiwick/agents/my-auditor.md");
    scratch.run(BAILIWICK, &["lint"]).expect_code(0);
    let shown = json(&scratch, &["agents", "show", "my_auditor", "-o", "json"]);
    assert_eq!(shown["template"]["agent_type"], "my-auditor");
    for name in ["my-auditor", "MY-AUDITOR"] {
        let ran = scratch.run(BAILIWICK, &["agents", "new", name]).expect_code(2);
        assert!(ran.err.contains("exists already"), "{}", ran.err);
    }
    scratch.write(".bailiwick/agents/Other.MD", &template("other"));
    scratch.run(BAILIWICK, &["agents", "new", "other"]).expect_code(2);
    assert_eq!(scratch.read(".bailiwick/agents/my-auditor.md"), text);
    assert_eq!(names(&scratch.root().join(".bailiwick/agents")), ["Other.MD", "my-auditor.md"]);
    for invalid in ["a b", "../x", "default", ""] {
        scratch.run(BAILIWICK, &["agents", "new", invalid]).expect_code(2);
    }
    let overriding = scratch.run(BAILIWICK, &["agents", "new", "worker"]).expect_code(0);
    assert!(overriding.err.contains("it goes before"), "{}", overriding.err);
}

fn context(scratch: &Scratch, inside: &str) -> Context {
    Context {
        directory: scratch.root().join(inside),
        state: scratch.state(),
        user_kit: scratch.place().join("config/bailiwick"),
        kit_root: None,
        database: Database::at(Location::file(scratch.state().join("bailiwick.db"))),
        global_options: String::new(),
        notices: Notices::default(),
    }
}

/// The limits of an agent come from its base commit.
#[test]
fn agents_use_committed_templates_and_people_use_files_on_disk() {
    let scratch = Scratch::repository();
    scratch.write(".bailiwick/agents/worker.md", &template("committed"));
    scratch.write("a/.codex/.agents/worker.md", &template("below"));
    let commit = scratch.commit("templates");
    scratch.write(".bailiwick/agents/worker.md", &template("edited"));
    scratch.write(".bailiwick/agents/sneaky.md", &template("sneaky"));
    let context = context(&scratch, "");
    let repository = Repository::discover(&scratch.root()).unwrap();
    let committed =
        |inside: &str| templates::committed(&context, &repository, &commit, inside).unwrap();
    let description = |templates: &bailiwick_kit::templates::Templates| {
        templates.find("worker").unwrap().template().description.clone()
    };
    assert_eq!(description(&committed("")), "committed");
    assert_eq!(description(&committed("a")), "below");
    let missing = committed("").find("sneaky").unwrap_err().to_string();
    assert_eq!(missing, "missing agent template: sneaky");
    let working = templates::working(&context).unwrap();
    assert_eq!(description(&working), "edited");
    assert!(working.find("sneaky").is_ok());
    let lint = scratch.run(BAILIWICK, &["lint"]).expect_code(0);
    assert!(lint.err.contains("an agent is bound by what is committed"), "{}", lint.err);
}

#[test]
fn symlink_in_the_commit_never_exposes_a_lower_template() {
    let scratch = Scratch::repository();
    scratch.write("elsewhere/agents/worker.md", &template("elsewhere"));
    scratch.write(".codex/.agents/worker.md", &template("lower"));
    let repository = Repository::discover(&scratch.root()).unwrap();
    let context = context(&scratch, "");
    let find = |commit: &str| {
        let templates = templates::committed(&context, &repository, commit, "");
        templates.map(|templates| templates.find("worker").map(|found| found.source.file))
    };
    let commit = scratch.commit("before");
    assert_eq!(&*find(&commit).unwrap().unwrap(), ".codex/.agents/worker.md", "positive control");
    std::os::unix::fs::symlink("elsewhere", scratch.root().join(".bailiwick")).unwrap();
    let linked = scratch.commit("link");
    assert!(find(&linked).is_err(), "the parent directory is a symlink");
    std::fs::remove_file(scratch.root().join(".bailiwick")).unwrap();
    std::fs::create_dir(scratch.root().join(".bailiwick")).unwrap();
    std::os::unix::fs::symlink("../elsewhere/agents", scratch.root().join(".bailiwick/agents"))
        .unwrap();
    let linked = scratch.commit("another link");
    assert!(find(&linked).unwrap().is_err(), "the directory is a symlink");
    std::fs::remove_file(scratch.root().join(".bailiwick/agents")).unwrap();
    std::fs::create_dir(scratch.root().join(".bailiwick/agents")).unwrap();
    let file = scratch.root().join(".bailiwick/agents/worker.md");
    std::os::unix::fs::symlink("../../elsewhere/agents/worker.md", file).unwrap();
    let linked = scratch.commit("a link to a file");
    assert!(find(&linked).unwrap().is_err(), "the file is a symlink");
}

#[test]
fn concurrent_processes_write_one_complete_set_of_templates() {
    let scratch = Scratch::repository();
    let start = |_| {
        let mut command = scratch.command(BAILIWICK);
        command.arg("mcp").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command.spawn().unwrap()
    };
    let started: Vec<_> = (0..8).map(start).collect();
    for mut child in started {
        child.wait().unwrap();
    }
    assert_eq!(names(&user_templates(&scratch)), SHIPPED);
    for (file, text) in bailiwick_kit::embedded::agent_templates() {
        assert_eq!(std::fs::read_to_string(user_templates(&scratch).join(file)).unwrap(), text);
    }
}

/// The decisions of a policy by the tool lists of the shipped templates.
#[test]
fn only_orchestrators_may_call_spawn_agent() {
    let templates = bailiwick_kit::templates::Templates::over_embedded(Vec::new());
    let stack = |name: &str| {
        let found = templates.find(name).unwrap();
        ToolStack::unlimited().narrowed_by(name, &found.template().tools)
    };
    let may = |name: &str, tool: &str| stack(name).objection_to(tool).is_none();
    for tool in ["spawn_agent", "Task", "mcp__bailiwick__spawn_agent"] {
        assert!(may("orchestrator", tool), "{tool}");
        for name in ["worker", "explorer", "architect"] {
            assert!(!may(name, tool), "{name} {tool}");
        }
    }
    for name in ["worker", "explorer", "architect", "orchestrator"] {
        for tool in
            ["update_plan", "TodoWrite", "mcp__bailiwick__list_agents", "list_active_agents"]
        {
            assert!(may(name, tool), "{name} {tool}");
        }
    }
    for tool in ["Write", "Edit", "apply_patch", "write_file"] {
        assert!(
            !may("explorer", tool) && !may("architect", tool) && may("orchestrator", tool),
            "{tool}"
        );
    }
    // A worker that an explorer starts cannot write.
    let worker = templates.find("worker").unwrap();
    let below = stack("explorer").narrowed_by("worker", &worker.template().tools);
    assert!(below.objection_to("Write").is_some() && below.objection_to("Read").is_none());
}
