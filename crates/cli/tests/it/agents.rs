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

fn template(words: &str) -> String {
    format!("---\ndescription: {words}\n---\nDo {words}.\n")
}

fn put(directory: &Path, name: &str, text: &str) {
    std::fs::create_dir_all(directory).unwrap();
    std::fs::write(directory.join(name), text).unwrap();
}

fn own(scratch: &Scratch) -> PathBuf {
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

/// What the template `name` says of itself, seen from a directory of the repository.
fn described(scratch: &Scratch, from: &str, name: &str) -> String {
    let mut command = scratch.command(BAILIWICK);
    command.args(["agents", "show", name, "-o", "json"]).current_dir(scratch.root().join(from));
    let output = command.output().unwrap();
    let value: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stderr)));
    value["template"]["description"].as_str().unwrap().to_owned()
}

#[test]
fn list_is_the_answer_of_list_agents() {
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
fn if_the_users_directory_has_no_template_of_ours_all_are_copied_there_and_nowhere_else() {
    let scratch = Scratch::repository();
    put(&own(&scratch), "mine.md", &template("mine"));
    let told = serve_root_session(&scratch, &[]);
    assert!(told.contains("wrote 5 templates"), "{told}");
    let mut expected = SHIPPED.map(str::to_owned).to_vec();
    expected.insert(2, "mine.md".to_owned());
    assert_eq!(names(&own(&scratch)), expected, "and no leftovers");
    assert!(!scratch.place().join("home/.codex").exists());
    assert_eq!(names(&scratch.root()), [".git"]);
    let again = serve_root_session(&scratch, &[]);
    assert!(!again.contains("wrote"), "{again}");
}

/// Starts `bailiwick mcp`, which ends at once because nobody speaks to it; what it told.
fn serve_root_session(scratch: &Scratch, arguments: &[&str]) -> String {
    let mut command = scratch.command(BAILIWICK);
    let ran = command.arg("mcp").args(arguments).stdin(Stdio::null()).output().unwrap();
    String::from_utf8(ran.stderr).unwrap()
}

/// Inside of a run nothing of the person's is written.
#[test]
fn when_a_root_session_starts_the_user_gets_the_first_templates() {
    let scratch = Scratch::repository();
    let start = |arguments: &[&str]| serve_root_session(&scratch, arguments);
    let forwards = start(&["--socket", "nowhere.sock"]);
    assert!(!forwards.contains("wrote") && !own(&scratch).exists(), "{forwards}");
    let told = start(&[]);
    assert!(told.contains("wrote 5 templates"), "{told}");
    assert_eq!(names(&own(&scratch)), SHIPPED);
    let again = start(&[]);
    assert!(!again.contains("wrote"), "{again}");
}

/// A copy in the directory that goes first would cover what the user has in the other one.
#[test]
fn a_template_of_the_users_is_never_covered_by_a_copy_of_ours() {
    let scratch = Scratch::repository();
    put(&scratch.place().join("home/.codex/.agents"), "Worker.md", &template("strict"));
    let told = serve_root_session(&scratch, &[]);
    assert!(!told.contains("wrote"), "{told}");
    assert_eq!(names(&own(&scratch)), [""; 0]);
    assert_eq!(described(&scratch, "", "worker"), "strict");
}

#[test]
fn one_that_was_deleted_or_changed_stays_so() {
    let scratch = Scratch::repository();
    serve_root_session(&scratch, &[]);
    std::fs::remove_file(own(&scratch).join("worker.md")).unwrap();
    put(&own(&scratch), "explorer.md", &template("changed"));
    serve_root_session(&scratch, &[]);
    assert_eq!(
        names(&own(&scratch)),
        ["architect.md", "explorer.md", "orchestrator.md", "reviewer.md"]
    );
    assert_eq!(described(&scratch, "", "explorer"), "changed");
    assert_eq!(json(&scratch, &["agents", "show", "worker", "-o", "json"])["origin"], "embedded");
    std::fs::remove_dir_all(own(&scratch)).unwrap();
    serve_root_session(&scratch, &[]);
    assert_eq!(names(&own(&scratch)), SHIPPED);
}

#[test]
fn a_directory_that_cannot_be_written_is_told_and_the_embedded_ones_serve() {
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
fn the_first_source_in_order_of_priority_is_taken() {
    let scratch = Scratch::repository();
    let places = [
        scratch.root().join("a/b/.bailiwick/agents"),
        scratch.root().join("a/b/.codex/.agents"),
        scratch.root().join("a/.bailiwick/agents"),
        scratch.root().join("a/.codex/.agents"),
        scratch.root().join(".bailiwick/agents"),
        scratch.root().join(".codex/.agents"),
        scratch.place().join("home/.codex/.agents"),
        own(&scratch),
    ];
    // Above the repository, nothing counts.
    put(&scratch.place().join(".bailiwick/agents"), "worker.md", &template("above"));
    for (at, place) in places.iter().enumerate() {
        put(place, "worker.md", &template(&format!("place {at}")));
    }
    assert_eq!(described(&scratch, "a", "worker"), "place 2", "nearer ones are not on the way");
    for (at, place) in places.iter().enumerate() {
        assert_eq!(described(&scratch, "a/b", "worker"), format!("place {at}"));
        std::fs::remove_file(place.join("worker.md")).unwrap();
    }
    assert!(described(&scratch, "a/b", "worker").starts_with("Use `worker`"));
}

#[test]
fn outside_of_a_repository_there_is_no_project_scope() {
    let scratch = Scratch::bare();
    scratch.write(".codex/.agents/worker.md", &template("stray"));
    assert!(described(&scratch, "", "worker").starts_with("Use `worker`"));
}

#[test]
fn a_broken_file_is_shown_with_its_place_and_uncovers_nothing() {
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
    let lint = scratch.run(BAILIWICK, &["lint", "-o", "json"]).expect_code(1);
    let report: Value = serde_json::from_str(&lint.out).unwrap();
    assert_eq!(report["problems"][0]["file"], ".bailiwick/agents/worker.md");
    assert_eq!((report["errors"].as_u64(), report["templates"].as_u64()), (Some(1), Some(5)));
    // A link that leads nowhere, a file where a directory belongs, bytes that are no text.
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
    assert_eq!(described(&scratch, "", "worker"), "lower", "the control");
}

#[test]
fn names_that_lead_nowhere_are_told_as_the_contract_says() {
    let scratch = Scratch::repository();
    for (name, told) in [
        ("no_such", "missing agent template: no_such"),
        ("a b", "invalid agent_type \"a b\": expected snake_case or kebab-case"),
    ] {
        let ran = scratch.run(BAILIWICK, &["agents", "show", name]).expect_code(2);
        assert!(ran.err.contains(told), "{}", ran.err);
    }
    let persona = ["agents", "show", "worker", "--persona", "runer"];
    let ran = scratch.run(BAILIWICK, &persona).expect_code(2);
    let told = "unknown agent_name \"runer\" for agent_type \"worker\"";
    assert!(ran.err.contains(told) && ran.err.contains("did you mean `runner`?"), "{}", ran.err);
}

#[test]
fn show_tells_what_a_persona_gets() {
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
fn a_new_template_is_right_and_never_overwrites() {
    let scratch = Scratch::repository();
    scratch.run(BAILIWICK, &["agents", "new", "My-Auditor"]).expect_code(0);
    let text = scratch.read(".bailiwick/agents/my-auditor.md");
    scratch.run(BAILIWICK, &["lint"]).expect_code(0);
    let shown = json(&scratch, &["agents", "show", "my_auditor", "-o", "json"]);
    assert_eq!(shown["template"]["agent_type"], "my-auditor");
    for again in ["my-auditor", "MY-AUDITOR"] {
        let ran = scratch.run(BAILIWICK, &["agents", "new", again]).expect_code(2);
        assert!(ran.err.contains("exists already"), "{}", ran.err);
    }
    scratch.write(".bailiwick/agents/Other.MD", &template("other"));
    scratch.run(BAILIWICK, &["agents", "new", "other"]).expect_code(2);
    assert_eq!(scratch.read(".bailiwick/agents/my-auditor.md"), text);
    assert_eq!(names(&scratch.root().join(".bailiwick/agents")), ["Other.MD", "my-auditor.md"]);
    for bad in ["a b", "../x", "default", ""] {
        scratch.run(BAILIWICK, &["agents", "new", bad]).expect_code(2);
    }
    let over = scratch.run(BAILIWICK, &["agents", "new", "worker"]).expect_code(0);
    assert!(over.err.contains("it goes before"), "{}", over.err);
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

/// What binds an agent comes from its base commit.
#[test]
fn agents_get_their_templates_from_the_commit_and_people_from_the_disk() {
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
    let described = |templates: &bailiwick_kit::templates::Templates| {
        templates.find("worker").unwrap().template().description.clone()
    };
    assert_eq!(described(&committed("")), "committed");
    assert_eq!(described(&committed("a")), "below");
    let missing = committed("").find("sneaky").unwrap_err().to_string();
    assert_eq!(missing, "missing agent template: sneaky");
    let working = templates::working(&context).unwrap();
    assert_eq!(described(&working), "edited");
    assert!(working.find("sneaky").is_ok());
    let lint = scratch.run(BAILIWICK, &["lint"]).expect_code(0);
    assert!(lint.err.contains("an agent is bound by what is committed"), "{}", lint.err);
}

#[test]
fn a_link_in_the_commit_never_uncovers_a_lower_template() {
    let scratch = Scratch::repository();
    scratch.write("elsewhere/agents/worker.md", &template("elsewhere"));
    scratch.write(".codex/.agents/worker.md", &template("lower"));
    let repository = Repository::discover(&scratch.root()).unwrap();
    let context = context(&scratch, "");
    let find = |commit: &str| {
        let templates = templates::committed(&context, &repository, commit, "");
        templates.map(|templates| templates.find("worker").map(|found| found.source.file))
    };
    let before = scratch.commit("before");
    assert_eq!(&*find(&before).unwrap().unwrap(), ".codex/.agents/worker.md", "the control");
    std::os::unix::fs::symlink("elsewhere", scratch.root().join(".bailiwick")).unwrap();
    let linked = scratch.commit("link");
    assert!(find(&linked).is_err(), "the way is a link");
    std::fs::remove_file(scratch.root().join(".bailiwick")).unwrap();
    std::fs::create_dir(scratch.root().join(".bailiwick")).unwrap();
    std::os::unix::fs::symlink("../elsewhere/agents", scratch.root().join(".bailiwick/agents"))
        .unwrap();
    let linked = scratch.commit("another link");
    assert!(find(&linked).unwrap().is_err(), "the directory is a link");
    std::fs::remove_file(scratch.root().join(".bailiwick/agents")).unwrap();
    std::fs::create_dir(scratch.root().join(".bailiwick/agents")).unwrap();
    let file = scratch.root().join(".bailiwick/agents/worker.md");
    std::os::unix::fs::symlink("../../elsewhere/agents/worker.md", file).unwrap();
    let linked = scratch.commit("a link to a file");
    assert!(find(&linked).unwrap().is_err(), "the file is a link");
}

#[test]
fn many_at_once_seed_one_whole_set() {
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
    assert_eq!(names(&own(&scratch)), SHIPPED);
    for (file, text) in bailiwick_kit::embedded::agent_templates() {
        assert_eq!(std::fs::read_to_string(own(&scratch).join(file)).unwrap(), text);
    }
}

/// The shipped lists, as a policy decides by them.
#[test]
fn spawn_agent_is_for_orchestrators_alone() {
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
    // Below an explorer, a worker writes nothing.
    let worker = templates.find("worker").unwrap();
    let below = stack("explorer").narrowed_by("worker", &worker.template().tools);
    assert!(below.objection_to("Write").is_some() && below.objection_to("Read").is_none());
}
