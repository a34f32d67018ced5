//! Real payloads of each CLI before it runs a tool: `tests/payloads/<cli>/*.json`. And the same
//! payloads with a field missing or of another type, which must never be read as harmless.

use std::path::{Path, PathBuf};

use bailiwick_policy::call::{Action, Call, Target, Touch};
use bailiwick_policy::dialects::Dialect;
use serde_json::{Value, json};

/// The expected reading of a payload.
struct Expected {
    dialect: Dialect,
    name: &'static str,
    native: &'static str,
    tools: &'static [&'static str],
    /// The field of the tool's input that names the action, and the action.
    subject: Option<(&'static str, Does)>,
    directory: &'static str,
    id: Option<&'static str>,
    agent: Option<&'static str>,
}

#[derive(Clone, Copy)]
enum Does {
    Runs(&'static str),
    Touches(Touch, &'static str),
    Patches(&'static [(&'static str, Touch)]),
}

use Does::{Patches, Runs, Touches};
use Touch::{Change, Delete, Read};

type Subject = Option<(&'static str, Does)>;

const PUSH: Subject = Some(("command", Runs("git push origin HEAD:main")));
const TOUCH: Subject = Some(("command", Runs("touch done.txt")));
const PWD: Subject = Some(("command", Runs("pwd")));
const WAIT: &str =
    "n=0; while [ ! -e done.txt ] && [ $n -lt 100 ]; do sleep 0.1; n=$((n + 1)); done";
const NOTES: &str = "/work/repo/notes.txt";
const MANY: &[(&str, Touch)] = &[
    ("sub/new.txt", Change),
    ("notes.txt", Delete),
    ("notes.txt", Change),
    ("sub/moved.txt", Change),
    ("README.md", Delete),
];

fn expected() -> Vec<Expected> {
    let row = |dialect, name, native, tools, subject| {
        let (directory, agent) = ("/work/repo", None);
        Expected { dialect, name, native, tools, subject, directory, id: None, agent }
    };
    let claude = |name, native, tools, subject, id| Expected {
        id: Some(id),
        ..row(Dialect::Claude, name, native, tools, subject)
    };
    let codex = |name, native, tools, subject, id| Expected {
        id: Some(id),
        ..row(Dialect::Codex, name, native, tools, subject)
    };
    let gemini = |name, native, tools, subject| row(Dialect::Gemini, name, native, tools, subject);
    let opencode = |name, native, tools, subject, id| Expected {
        id: Some(id),
        ..row(Dialect::OpenCode, name, native, tools, subject)
    };
    let part = |expected| Expected { agent: Some("agent-1"), ..expected };
    let below = |expected| Expected { directory: "/work/repo/sub", ..expected };
    let file = |key, touch, path| Some((key, Touches(touch, path)));
    let book = "/work/repo/book.ipynb";
    vec![
        claude("delegate", "Agent", &["Agent"], None, "call_0_4_0"),
        claude("edit", "Edit", &["Edit"], file("file_path", Change, NOTES), "call_0_3_0"),
        claude(
            "notebook_edit",
            "NotebookEdit",
            &["NotebookEdit"],
            file("notebook_path", Change, book),
            "call_0_7_0",
        ),
        claude("read", "Read", &["Read"], file("file_path", Read, NOTES), "call_0_2_0"),
        claude("read_notebook", "Read", &["Read"], file("file_path", Read, book), "call_0_6_0"),
        claude("shell", "Bash", &["Bash"], PUSH, "call_0_0_0"),
        claude(
            "shell_in_background",
            "Bash",
            &["Bash"],
            Some(("command", Runs("true"))),
            "call_0_5_0",
        ),
        part(claude("shell_of_a_sub_agent", "Bash", &["Bash"], TOUCH, "call_1_0_0")),
        claude("write", "Write", &["Write"], file("file_path", Change, NOTES), "call_0_1_0"),
        codex("delegate", "spawn_agent", &["Agent"], None, "call_0_4_0"),
        codex(
            "edit",
            "apply_patch",
            &["Edit"],
            Some(("command", Patches(&[(NOTES, Change)]))),
            "call_0_3_0",
        ),
        codex(
            "patch_of_many_files",
            "apply_patch",
            &["Write", "Edit"],
            Some(("command", Patches(MANY))),
            "call_0_7_0",
        ),
        codex(
            "read",
            "Bash",
            &["Bash"],
            Some(("command", Runs("cat '/work/repo/notes.txt'"))),
            "call_0_2_0",
        ),
        codex("shell", "Bash", &["Bash"], PUSH, "call_0_0_0"),
        below(codex("shell_elsewhere", "Bash", &["Bash"], PWD, "call_0_6_0")),
        part(codex("shell_of_a_sub_agent", "Bash", &["Bash"], TOUCH, "call_1_0_0")),
        codex(
            "view_image",
            "view_image",
            &["Read"],
            file("path", Read, "/work/repo/dot.png"),
            "call_0_8_0",
        ),
        codex("wait", "Bash", &["Bash"], Some(("command", Runs(WAIT))), "call_0_5_0"),
        codex(
            "write",
            "apply_patch",
            &["Write"],
            Some(("command", Patches(&[(NOTES, Change)]))),
            "call_0_1_0",
        ),
        gemini("delegate", "invoke_agent", &["Agent"], None),
        gemini("edit", "replace", &["Edit"], file("file_path", Change, NOTES)),
        gemini("end_of_a_sub_agent", "complete_task", &["CompleteTask"], None),
        gemini("glob", "glob", &["Glob"], None),
        gemini("grep_search", "grep_search", &["Grep"], None),
        gemini(
            "list_directory",
            "list_directory",
            &["Glob"],
            file("dir_path", Read, "/work/repo/"),
        ),
        gemini("read", "read_file", &["Read"], file("file_path", Read, NOTES)),
        gemini("shell", "run_shell_command", &["Bash"], PUSH),
        below(gemini("shell_elsewhere", "run_shell_command", &["Bash"], PWD)),
        gemini("shell_of_a_sub_agent", "run_shell_command", &["Bash"], TOUCH),
        gemini("write", "write_file", &["Write"], file("file_path", Change, NOTES)),
        opencode("delegate", "task", &["Agent"], None, "call_0_4_0"),
        opencode("edit", "edit", &["Edit"], file("filePath", Change, NOTES), "call_0_3_0"),
        opencode("glob", "glob", &["Glob"], None, "call_0_6_0"),
        opencode("grep", "grep", &["Grep"], None, "call_0_7_0"),
        opencode("read", "read", &["Read"], file("filePath", Read, NOTES), "call_0_2_0"),
        opencode("shell", "bash", &["Bash"], PUSH, "call_0_0_0"),
        below(opencode("shell_elsewhere", "bash", &["Bash"], PWD, "call_0_5_0")),
        opencode("shell_of_a_sub_agent", "bash", &["Bash"], TOUCH, "call_1_0_0"),
        opencode("write", "write", &["Write"], file("filePath", Change, NOTES), "call_0_1_0"),
    ]
}

impl Expected {
    fn shown(&self) -> String {
        format!("{}/{}", self.dialect.as_str(), self.name)
    }

    fn payload(&self) -> Value {
        let file = payloads().join(format!("{}.json", self.shown()));
        serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap()
    }

    fn action(&self) -> Action {
        match self.subject {
            None => Action::NoKnownEffect,
            Some((_, Runs(command))) => Action::Shell(command.to_owned()),
            Some((_, Touches(touch, path))) => files(&[(path, touch)]),
            Some((_, Patches(patched))) => files(patched),
        }
    }

    fn input(&self) -> &'static str {
        match self.dialect {
            Dialect::Claude | Dialect::Codex | Dialect::Gemini => "/tool_input",
            Dialect::OpenCode => "/args",
        }
    }

    /// Whether the tool may be called without further fields: a search then covers everything.
    fn has_default(&self) -> bool {
        self.subject.is_none() || self.tools == ["Glob"]
    }

    /// The fields without which the call is unknown: the tool's name, its input, and the field
    /// of the input that names the action.
    fn required(&self) -> Vec<String> {
        let name = match self.dialect {
            Dialect::Claude | Dialect::Codex | Dialect::Gemini => "/tool_name",
            Dialect::OpenCode => "/tool",
        };
        let subject = self.subject.filter(|_| !self.has_default());
        let subject = subject.map(|(key, _)| format!("{}/{key}", self.input()));
        [name.to_owned(), self.input().to_owned()].into_iter().chain(subject).collect()
    }
}

fn files(named: &[(&str, Touch)]) -> Action {
    let target = |(path, touch): &(&str, Touch)| Target { path: (*path).to_owned(), touch: *touch };
    Action::Files(named.iter().map(target).collect())
}

fn payloads() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/payloads")
}

fn read(dialect: Dialect, payload: &Value) -> Option<Call> {
    dialect.read(payload.to_string().as_bytes(), &[]).ok()
}

#[test]
fn every_payload_is_read_correctly() {
    for expected in expected() {
        let call = read(expected.dialect, &expected.payload());
        let call = call.unwrap_or_else(|| panic!("{} is refused", expected.shown()));
        let tools: Vec<&str> = call.tools.iter().map(|tool| tool.as_str()).collect();
        let shown = expected.shown();
        assert_eq!(call.cli_tool_name, expected.native, "{shown}");
        assert_eq!(tools, expected.tools, "{shown}");
        assert_eq!(call.action, expected.action(), "{shown}");
        assert_eq!(call.directory.as_deref(), Some(expected.directory), "{shown}");
        assert_eq!(call.id.as_deref(), expected.id, "{shown}");
        assert_eq!(call.agent.as_deref(), expected.agent, "{shown}");
        assert_eq!(call.ungated_terminal_input, expected.dialect == Dialect::Codex, "{shown}");
    }
}

#[test]
fn every_payload_file_is_tested() {
    let mut found: Vec<String> = Vec::new();
    for dialect in Dialect::ALL {
        for entry in std::fs::read_dir(payloads().join(dialect.as_str())).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            found.push(format!("{}/{}", dialect.as_str(), name.trim_end_matches(".json")));
        }
    }
    let mut listed: Vec<String> = expected().iter().map(Expected::shown).collect();
    found.sort();
    listed.sort();
    assert_eq!(found, listed);
}

/// Every position in a payload, as a JSON pointer.
fn places(value: &Value, pointer: &str, found: &mut Vec<String>) {
    let Value::Object(fields) = value else { return };
    for (name, inner) in fields {
        let place = format!("{pointer}/{name}");
        places(inner, &place, found);
        found.push(place);
    }
}

fn without(payload: &Value, place: &str) -> Value {
    let (parent, name) = place.rsplit_once('/').unwrap();
    let mut payload = payload.clone();
    payload.pointer_mut(parent).unwrap().as_object_mut().unwrap().remove(name);
    payload
}

fn with(payload: &Value, place: &str, value: Value) -> Value {
    let mut payload = payload.clone();
    *payload.pointer_mut(place).unwrap() = value;
    payload
}

/// Values of every type, none of which is a path, a command or a tool.
fn strange() -> [Value; 6] {
    [Value::Null, json!(true), json!(7), json!([]), json!([7]), json!({"strange": "x"})]
}

#[test]
fn payload_without_a_required_field_is_refused() {
    let mut tried = 0;
    for expected in expected() {
        let payload = expected.payload();
        for place in expected.required() {
            let changed = strange().map(|value| with(&payload, &place, value));
            for changed in changed.into_iter().chain([without(&payload, &place)]) {
                let call = read(expected.dialect, &changed);
                let input = changed.pointer(&place).is_some_and(Value::is_object);
                let enough = input && place == expected.input() && expected.has_default();
                let fits =
                    call.as_ref().is_none_or(|call| enough && call.action == Action::NoKnownEffect);
                assert!(fits, "{}: {changed} is read as {call:?}", expected.shown());
                tried += 1;
            }
        }
    }
    assert!(tried > 700, "{tried}");
}

#[test]
fn other_missing_or_invalid_fields_do_not_change_the_reading() {
    let mut unchanged = 0;
    for expected in expected() {
        let payload = expected.payload();
        let mut all_places = Vec::new();
        places(&payload, "", &mut all_places);
        let required = expected.required();
        for place in all_places.into_iter().filter(|place| !required.contains(place)) {
            let changed = strange().map(|value| with(&payload, &place, value));
            for changed in changed.into_iter().chain([without(&payload, &place)]) {
                let Some(call) = read(expected.dialect, &changed) else { continue };
                let shown = expected.shown();
                let tools: Vec<&str> = call.tools.iter().map(|tool| tool.as_str()).collect();
                assert_eq!(tools, expected.tools, "{shown}: {changed}");
                let covers_everything =
                    call.action == Action::NoKnownEffect && place.ends_with("dir_path");
                assert!(
                    covers_everything || call.action == expected.action(),
                    "{shown}: {changed}: {call:?}"
                );
                let directory = call.directory.as_deref();
                let fits = directory.is_none_or(|found| expected.directory.ends_with(found))
                    || place.ends_with("dir_path")
                    || place.ends_with("workdir");
                assert!(fits, "{shown}: {changed}: {directory:?}");
                unchanged += 1;
            }
        }
    }
    assert!(unchanged > 700, "{unchanged}");
}
