//! Parsing of task.toml: the example of the kei tools is accepted, and every error has its place.

use bailiwick_model::{Problem, Source, Task};

fn read(text: &str) -> Result<Task, Problem> {
    Task::parse(&Source::new("tasks/a.toml", text))
}

/// The example of the kei tools; its agent id is abbreviated there with an ellipsis.
const KEI_EXAMPLE: &str = r#"[task]
role = "edit-local"
agent-id = "abc123"                  # allocated by kei-ledger fork
parent-agent = null                    # or parent ID for nested

[scope]
# Parameterizes scope::files-whitelist + scope::files-denylist
files-whitelist = [
  "_primitives/_rust/kei-forge/**",
]
files-denylist = [
  "_primitives/_rust/Cargo.toml",
  "_primitives/_rust/Cargo.lock",
  "scripts/**",
  ".github/**",
]

[verification]
# Parameterizes quality/* caps
cargo-check-crates = ["kei-forge"]
cargo-test-crates = ["kei-forge"]
test-count-min = 44

[output]
# Parameterizes output/report-format
report-fields-required = ["files-touched", "cargo-check", "cargo-test", "loc-delta"]

[body]
# Free-text task instructions, concatenated AFTER role capability fragments
text = """
Replace shell-out with pure-Rust templating. …
"""
"#;

#[test]
fn example_of_the_kei_tools_is_parsed_completely() {
    let task = read(KEI_EXAMPLE).unwrap();
    assert_eq!(task.task.role.get_ref().as_str(), "edit-local");
    assert_eq!(task.task.agent_id.unwrap().as_str(), "abc123");
    assert_eq!(task.task.parent_agent, None);
    let patterns = |list: &[bailiwick_model::task::PathPattern]| {
        list.iter().map(|pattern| pattern.as_str().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(patterns(task.scope.files_whitelist.get()), ["_primitives/_rust/kei-forge/**"]);
    assert_eq!(
        patterns(task.scope.files_denylist.get()),
        [
            "_primitives/_rust/Cargo.toml",
            "_primitives/_rust/Cargo.lock",
            "scripts/**",
            ".github/**"
        ]
    );
    assert_eq!(task.verification.cargo_check_crates.get(), ["kei-forge"]);
    assert_eq!(task.verification.cargo_test_crates.get(), ["kei-forge"]);
    assert_eq!(task.verification.test_count_min.unwrap().into_inner(), 44);
    assert_eq!(
        task.output.report_fields_required.get(),
        ["files-touched", "cargo-check", "cargo-test", "loc-delta"]
    );
    assert_eq!(task.body.text, "Replace shell-out with pure-Rust templating. …\n");
}

#[test]
fn abbreviated_id_of_the_example_is_refused_with_its_place() {
    let problem = read(&KEI_EXAMPLE.replace("abc123", "abc123…")).unwrap_err();
    assert_eq!(problem.place.to_string(), "tasks/a.toml:3:12");
    assert_eq!(problem.place.text(), Some("\"abc123…\""));
}

/// A valid task, followed by `rest` from line 3 on.
fn task_with(rest: &str) -> String {
    format!("[task]\nrole = \"x\"\n{rest}")
}

struct Fault {
    /// The text after `[task]` and its role, from line 3 on.
    rest: &'static str,
    code: &'static str,
    /// Line and column.
    at: &'static str,
    offending: &'static str,
    /// Expected part of the help, or of the message if there is no help.
    advice: &'static str,
}

fn fault(
    rest: &'static str,
    code: &'static str,
    at: &'static str,
    offending: &'static str,
    advice: &'static str,
) -> Fault {
    Fault { rest, code, at, offending, advice }
}

fn assert_faults(faults: &[Fault]) {
    for Fault { rest, code, at, offending, advice } in faults {
        let problem = match read(&task_with(rest)) {
            Ok(_) => panic!("{rest:?} was accepted"),
            Err(problem) => problem,
        };
        let place = problem.place.to_string();
        assert_eq!(
            (problem.code, place.as_str(), problem.place.text()),
            (*code, format!("tasks/a.toml:{at}").as_str(), Some(*offending)),
            "{rest:?}: {problem}"
        );
        let actual = problem.help.as_ref().unwrap_or(&problem.message);
        assert!(actual.contains(advice), "{rest:?}: {actual:?} does not contain {advice:?}");
    }
}

#[test]
fn valid_task_is_accepted() {
    assert!(read(&task_with("")).is_ok());
}

#[test]
fn error_for_an_unknown_key_suggests_the_nearest_known_key() {
    let key = |rest, at, offending, advice| fault(rest, "unknown-key", at, offending, advice);
    assert_faults(&[
        key("[scop]\n", "3:2", "scop", "did you mean `scope`?"),
        key("[parameter]\n", "3:2", "parameter", "did you mean `parameters`?"),
        key("agent_id = \"a\"\n", "3:1", "agent_id", "did you mean `agent-id`?"),
        key("parent = \"a\"\n", "3:1", "parent", "did you mean `parent-agent`?"),
        key(
            "claude-subagent = \"a\"\n",
            "3:1",
            "claude-subagent",
            "did you mean `claude-subagent-type`?",
        ),
        key(
            "[scope]\nfiles_whitelist = []\n",
            "4:1",
            "files_whitelist",
            "did you mean `files-whitelist`?",
        ),
        key(
            "[scope]\nfiles-blacklist = []\n",
            "4:1",
            "files-blacklist",
            "did you mean `files-denylist`?",
        ),
        key(
            "[verification]\n\ntest-count-mn = 1\n",
            "5:1",
            "test-count-mn",
            "did you mean `test-count-min`?",
        ),
        key("[verification]\ncommand = []\n", "4:1", "command", "did you mean `commands`?"),
        key(
            "[output]\nreport-fields = []\n",
            "4:1",
            "report-fields",
            "did you mean `report-fields-required`?",
        ),
        key("[agent]\nmodl = \"m\"\n", "4:1", "modl", "did you mean `model`?"),
        key("[budget]\ntool_calls = 3\n", "4:1", "tool_calls", "did you mean `tool-calls`?"),
        key("[workspace]\nsetups = []\n", "4:1", "setups", "did you mean `setup`?"),
        key("[body]\ntxt = \"\"\n", "4:1", "txt", "did you mean `text`?"),
        key("[body]\nzzzzzz = \"\"\n", "4:1", "zzzzzz", "known here: `text`"),
    ]);
}

#[test]
fn unknown_table_is_reported_before_a_missing_table() {
    let problem = read("[taks]\nrole = \"x\"\n").unwrap_err();
    assert_eq!(
        (problem.code, problem.place.to_string().as_str()),
        ("unknown-key", "tasks/a.toml:1:2")
    );
    assert!(problem.help.unwrap().contains("did you mean `task`?"));
}

#[test]
fn error_for_a_missing_key_names_it() {
    for (text, key) in [("", "task"), ("[scope]\n", "task"), ("[task]\nagent-id = \"a\"\n", "role")]
    {
        let problem = read(text).unwrap_err();
        assert_eq!(problem.code, "missing-key", "{text:?}");
        assert!(problem.message.contains(&format!("`{key}`")), "{text:?}: {problem}");
    }
}

#[test]
fn error_for_a_wrong_type_names_the_expected_type() {
    let wrong = |rest, at, offending, advice| fault(rest, "bad-toml", at, offending, advice);
    assert_faults(&[
        wrong("agent-id = 3\n", "3:12", "3", "expected a string"),
        wrong("parent-agent = true\n", "3:16", "true", "expected a string"),
        wrong("claude-subagent-type = []\n", "3:24", "[]", "expected a string"),
        wrong("[scope]\nfiles-whitelist = \"a\"\n", "4:19", "\"a\"", "expected a list"),
        wrong("[scope]\nfiles-whitelist = [\n  \"a\",\n  3,\n]\n", "6:3", "3", "expected a string"),
        wrong("[scope]\nfiles-denylist = { a = 1 }\n", "4:18", "{ a = 1 }", "expected a list"),
        wrong(
            "[verification]\ntest-count-min = \"44\"\n",
            "4:18",
            "\"44\"",
            "expected a whole number",
        ),
        wrong("[verification]\ntest-count-min = -1\n", "4:18", "-1", "expected a whole number"),
        wrong(
            "[verification]\ntest-count-min = 4294967296\n",
            "4:18",
            "4294967296",
            "from 0 to 4294967295",
        ),
        wrong("[verification]\nmax-file-lines = 1.5\n", "4:18", "1.5", "expected a whole number"),
        wrong(
            "[verification]\nallow-dependency-changes = \"yes\"\n",
            "4:28",
            "\"yes\"",
            "expected true or false",
        ),
        wrong("[verification]\ntest-changes = true\n", "4:16", "true", "expected a string"),
        wrong("[output]\nreport-fields-required = 1\n", "4:26", "1", "expected a list"),
        wrong("[agent]\nmodel = 4\n", "4:9", "4", "expected a string"),
        wrong("[budget]\nusd = \"two\"\n", "4:7", "\"two\"", "expected a number"),
        wrong("[workspace]\nsetup = \"make\"\n", "4:9", "\"make\"", "expected a list"),
        wrong("[body]\ntext = [\"a\"]\n", "4:8", "[\"a\"]", "expected a string"),
    ]);
}

#[test]
fn error_for_an_invalid_value_gives_the_reason() {
    let bad = |rest, at, offending, advice| fault(rest, "bad-toml", at, offending, advice);
    assert_faults(&[
        bad("agent-id = \"../x\"\n", "3:12", "\"../x\"", "`../x` is not an agent id"),
        bad("agent-id = \"a..b\"\n", "3:12", "\"a..b\"", "`..` could leave its directory"),
        bad("agent-id = \"-a\"\n", "3:12", "\"-a\"", "must begin with a letter or a digit"),
        bad("parent-agent = \"a b\"\n", "3:16", "\"a b\"", "`a b` is not an agent id"),
        bad("agent-id = null\n", "3:12", "null", ""),
        bad("[parameters]\nBad_Name = 1\n", "4:1", "Bad_Name", "is not a parameter name"),
        bad("[budget]\ntokens = 0\n", "4:10", "0", "leave the key out"),
        bad("[budget]\nusd = nan\n", "4:7", "nan", "more than 0"),
        bad("[budget]\nusd = -0.5\n", "4:7", "-0.5", "more than 0"),
        bad("role = \"y\"\n", "3:1", "role", "duplicate key"),
        bad("[task]\n", "3:2", "task", "duplicate key"),
    ]);
    let role = read("[task]\nrole = \"Edit Local\"\n").unwrap_err();
    assert_eq!(role.place.to_string(), "tasks/a.toml:2:8");
    assert_eq!(role.place.text(), Some("\"Edit Local\""));
    assert!(role.message.contains("`Edit Local` is not a role name"), "{role}");
}

#[test]
fn invalid_list_entry_is_reported_at_its_own_line() {
    let bad = |rest, at, offending, advice| fault(rest, "bad-toml", at, offending, advice);
    assert_faults(&[
        bad(
            "[scope]\nfiles-whitelist = [\n  \"a\",\n  \"b/../../c\",\n]\n",
            "6:3",
            "\"b/../../c\"",
            "cannot leave the repository",
        ),
        bad("[scope]\nfiles-denylist = [\"a\", \"!b\"]\n", "4:24", "\"!b\"", "cannot be negated"),
        bad("[scope]\nfiles-denylist = [\"\"]\n", "4:19", "\"\"", "is an empty pattern"),
        bad("[verification]\ncommands = [\"make\", \" \"]\n", "4:21", "\" \"", "is empty"),
        bad("[workspace]\ncopy = [\"a\", \"/etc\"]\n", "4:14", "\"/etc\"", "not a path relative"),
        bad("[workspace]\ncopy = [\".git/config\"]\n", "4:9", "\".git/config\"", "`.git` in it"),
        bad("[workspace]\nsetup = [\"a\", \"\"]\n", "4:15", "\"\"", "is empty"),
    ]);
}

#[test]
fn list_in_place_of_a_table_is_refused() {
    let valid = "[task]\nrole = \"x\"\n";
    assert!(read(valid).is_ok());
    for list in ["scope = [[\"**\"]]", "budget = [5]", "body = [\"go\"]", "output = []", "[[body]]"]
    {
        let result = read(&format!("{list}\n{valid}"));
        assert!(result.is_err(), "{list:?} was accepted");
    }
    assert!(read("task = [\"x\", \"ag-1\"]\n").is_err());
}

#[test]
fn key_with_a_backquote_is_shown_unchanged() {
    let problem = read(&task_with("\"ro`le\" = 1\n")).unwrap_err();
    assert_eq!((problem.code, problem.place.text()), ("unknown-key", Some("\"ro`le\"")));
    assert!(problem.message.contains("ro`le"), "{problem}");
    assert!(problem.help.unwrap().contains("`claude-subagent-type`"));
}

#[test]
fn every_spelling_of_no_parent_preserves_later_line_numbers() {
    for none in ["null", "null # none", "\"\"", "null\r"] {
        let text = format!("[task]\nrole = \"x\"\nparent-agent = {none}\nagent = 3\n");
        let problem = read(&text).unwrap_err();
        assert_eq!(problem.place.to_string(), "tasks/a.toml:4:1", "{none:?}");
        let without = read(&text.replace("agent = 3\n", "")).unwrap();
        assert_eq!(without.task.parent_agent, None, "{none:?}");
    }
}
