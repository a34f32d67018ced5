//! The payloads that each CLI sends to its gate, stored as test cases for the readers of
//! calls: `crates/policy/tests/payloads/<cli>/<name>.json`. With `UPDATE=1` they are rewritten.

use std::path::{Path, PathBuf};

use bailiwick_testkit::clis::Cli;
use bailiwick_testkit::scripted_model::{Call, Script, ScriptedModel, Turn};
use serde_json::{Value, json};

use crate::stage::Stage;

/// An image of one pixel.
const PICTURE: &[u8] =
    b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\x06\0\0\0\x1f\x15\xc4\x89\
\0\0\0\rIDATx\xdac\xfc\xff\xff?\x03\0\x08\xfc\x02\xfe\xa7\x9a\xa0\xa0\0\0\0\0IEND\xaeB`\x82";

/// Requests the calls one after the other, and compares the gate's input with the files.
fn payloads(cli: Cli, calls: &dyn Fn(&Stage) -> Vec<(&'static str, Call)>) {
    let stage = Stage::new();
    std::fs::create_dir(stage.worktree().join("sub")).unwrap();
    std::fs::write(stage.worktree().join("dot.png"), PICTURE).unwrap();
    std::fs::write(stage.worktree().join("book.ipynb"), NOTEBOOK).unwrap();
    let (names, calls): (Vec<_>, Vec<_>) = calls(&stage).into_iter().unzip();
    let turns = calls.into_iter().map(|call| Turn::Calls(vec![call]));
    let part = vec![Turn::Calls(vec![Call::shell("touch done.txt")]), Turn::say("done")];
    let script = Script::new(turns.chain([Turn::say("finished")]).collect());
    let model = ScriptedModel::start(script.when("PART-TWO", part));
    let run = stage.run(cli, &model).gate(stage.gate());
    let home = run.home().display().to_string();
    run.run("Do the work.").expect_code(0);
    let mut gate_calls = stage.gate_calls();
    // The sub-agent's calls have no fixed position among the others.
    let parts: Vec<_> = PARTS
        .into_iter()
        .filter_map(|(name, words)| {
            let position = gate_calls.iter().position(|call| call.to_string().contains(words))?;
            Some((name, gate_calls.remove(position)))
        })
        .collect();
    let extra_calls = usize::from(cli == Cli::Gemini);
    assert_eq!(parts.len(), 1 + extra_calls, "the sub-agent's calls: {parts:#?}");
    assert_eq!(gate_calls.len(), names.len(), "{names:?} were requested: {gate_calls:#?}");
    let home = PathBuf::from(home);
    let position = Path::new(env!("CARGO_MANIFEST_DIR")).join("../policy/tests/payloads");
    let position = position.join(cli.name());
    let mut stored: Vec<String> = Vec::new();
    for (name, mut payload) in names.into_iter().zip(gate_calls).chain(parts) {
        make_plain(&mut payload, &stage.worktree(), &home);
        compare(&position.join(format!("{name}.json")), &payload);
        stored.push(format!("{name}.json"));
    }
    stored.sort();
    let files = std::fs::read_dir(&position).unwrap();
    let mut files: Vec<_> =
        files.map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
    files.sort();
    assert_eq!(files, stored, "delete payloads that no test writes");
}

/// The calls that a sub-agent requests, and words to identify them; only Gemini's ask to finish.
const PARTS: [(&str, &str); 2] =
    [("shell_of_a_sub_agent", "touch done.txt"), ("end_of_a_sub_agent", "complete_task")];

const NOTEBOOK: &str = r#"{"cells":[{"cell_type":"code","id":"one","metadata":{},"outputs":[],"execution_count":null,"source":["1"]}],"metadata":{},"nbformat":4,"nbformat_minor":5}"#;

/// Replaces values that differ in every run with fixed words.
fn make_plain(value: &mut Value, worktree: &Path, home: &Path) {
    let (worktree, home) = (worktree.display().to_string(), home.display().to_string());
    let fixed = [
        ("session_id", "session-1"),
        ("sessionID", "session-1"),
        ("prompt_id", "prompt-1"),
        ("turn_id", "turn-1"),
        ("agent_id", "agent-1"),
        ("timestamp", "2026-01-01T00:00:00.000Z"),
        ("transcript_path", "/home/agent/transcript.jsonl"),
    ];
    if let Value::Object(fields) = value {
        for (name, word) in fixed {
            if let Some(field) = fields.get_mut(name) {
                *field = json!(word);
            }
        }
    }
    let text = value.to_string().replace(&worktree, "/work/repo").replace(&home, "/home/agent");
    *value = serde_json::from_str(&text).unwrap();
}

fn compare(file: &Path, payload: &Value) {
    let text = format!("{payload:#}\n");
    if std::env::var_os("UPDATE").is_some_and(|value| value == "1") {
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, &text).unwrap();
    }
    let stored = std::fs::read_to_string(file).unwrap_or_default();
    let name = file.display();
    assert_eq!(stored, text, "{name} differs from the CLI's current payload; UPDATE=1 rewrites it");
}

/// Waits for the sub-agent; ten seconds at most.
const WAIT: &str =
    "n=0; while [ ! -e done.txt ] && [ $n -lt 100 ]; do sleep 0.1; n=$((n + 1)); done";

fn common(stage: &Stage) -> Vec<(&'static str, Call)> {
    let notes = stage.path("notes.txt");
    vec![
        ("shell", Call::shell("git push origin HEAD:main")),
        ("write", Call::write(&notes, "one\ntwo\n")),
        ("read", Call::read(&notes)),
        ("edit", Call::edit(&notes, "two\n", "three\n")),
        ("delegate", Call::delegate("This is PART-TWO: make done.txt.")),
    ]
}

#[test]
fn claude_payloads() {
    payloads(Cli::Claude, &|stage| {
        let book = stage.path("book.ipynb");
        let mut calls = common(stage);
        let background = json!({"command": "true", "run_in_background": true, "timeout": 5000});
        let cell = json!({"notebook_path": book, "cell_id": "one", "new_source": "2"});
        calls.extend([
            ("shell_in_background", Call::raw("Bash", background)),
            ("read_notebook", Call::read(&book)),
            ("notebook_edit", Call::raw("NotebookEdit", cell)),
        ]);
        calls
    });
}

#[test]
fn codex_payloads() {
    payloads(Cli::Codex, &|stage| {
        let patch = "*** Begin Patch\n*** Add File: sub/new.txt\n+new\n*** Update File: notes.txt\n\
             *** Move to: sub/moved.txt\n@@\n-three\n+four\n*** Delete File: README.md\n*** End Patch\n";
        let other_directory = json!({"cmd": "pwd", "workdir": stage.path("sub"), "tty": true});
        let mut calls = common(stage);
        calls.extend([
            ("wait", Call::shell(WAIT)),
            ("shell_elsewhere", Call::raw("exec_command", other_directory)),
            ("patch_of_many_files", Call::raw("apply_patch", json!(patch))),
            ("view_image", Call::raw("view_image", json!({"path": stage.path("dot.png")}))),
        ]);
        calls
    });
}

#[test]
fn gemini_payloads() {
    payloads(Cli::Gemini, &|stage| {
        let mut calls = common(stage);
        let other_directory = json!({"command": "pwd", "description": "Where", "dir_path": "sub"});
        calls.extend([
            ("shell_elsewhere", Call::raw("run_shell_command", other_directory)),
            ("list_directory", Call::raw("list_directory", json!({"dir_path": stage.path("")}))),
            ("glob", Call::raw("glob", json!({"pattern": "*.txt"}))),
            ("grep_search", Call::raw("grep_search", json!({"pattern": "one"}))),
        ]);
        calls
    });
}

#[test]
fn opencode_payloads() {
    payloads(Cli::OpenCode, &|stage| {
        let mut calls = common(stage);
        let other_directory =
            json!({"command": "pwd", "description": "Where", "workdir": stage.path("sub")});
        calls.extend([
            ("shell_elsewhere", Call::raw("bash", other_directory)),
            ("glob", Call::raw("glob", json!({"pattern": "*.txt"}))),
            ("grep", Call::raw("grep", json!({"pattern": "one"}))),
        ]);
        calls
    });
}
