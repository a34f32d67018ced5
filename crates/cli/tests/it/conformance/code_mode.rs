//! Models that write code instead of calls: each call of the code is decided, and the code cannot write to
//! the input of a program.

use bailiwick_testkit::clis::Cli;
use bailiwick_testkit::scripted_model::{Call, Script, Turn};
use serde_json::json;

use super::stage::{FILES, GIT, PUSH, Stage};

/// A model whose only tool is `exec`.
const MODEL: &str = "gpt-6.1-sol";

/// Code that starts `command`, writes to its input after `wait` milliseconds or when it has ended, and prints
/// both results.
fn typing(command: &str, terminal: bool, wait: u64) -> Call {
    let code = format!(
        "const tried = async (call) => {{ try {{ const r = await call(); text(JSON.stringify(r)); return r; }}
            catch (error) {{ text('refused: ' + error); return {{}}; }} }};
        const begun = await tried(() => tools.exec_command({{cmd: {}, tty: {terminal}, yield_time_ms: {wait}}}));
        await tried(() => tools.write_stdin({{session_id: begun.session_id ?? 1, chars: 'typed\\n\\u0004', yield_time_ms: 500}}));",
        json!(command)
    );
    Call::raw("exec", json!(code))
}

/// The last command is not written to: positive control that the code runs.
#[test]
fn code_cannot_write_to_the_input_of_a_program() {
    let stage = Stage::new(Cli::Codex);
    let agent = stage.agent("typist").model(MODEL);
    let ended = agent.run(Script::new(vec![
        Turn::Calls(vec![typing("cat > src/typed.txt", true, 300)]),
        Turn::Calls(vec![typing("sleep 2; cat > src/typed-later.txt", false, 300)]),
        Turn::Calls(vec![typing("echo written > src/written.txt", false, 10_000)]),
        Turn::say("done"),
    ]));
    let results = ended.model.results();
    for name in ["src/typed.txt", "src/typed-later.txt"] {
        let text = agent.text(name).unwrap_or_default();
        assert_eq!(text, "", "{name}: {results:#?}");
    }
    assert_eq!(agent.text("src/written.txt").as_deref(), Some("written\n"), "{results:#?}");
    ended.expect("completed", 0);
    agent.expect_allowed("echo written");
    agent.expect_no_processes();
}

#[test]
fn each_call_from_code_is_decided() {
    let stage = Stage::new(Cli::Codex);
    let agent = stage.agent("coder").model(MODEL);
    let patch = |name: &str| format!("*** Begin Patch\n*** Add File: {name}\n+x\n*** End Patch");
    let code = format!(
        "const all = await Promise.allSettled([
            tools.apply_patch({}), tools.apply_patch({}), tools.exec_command({{cmd: {}}}),
        ]);
        text(JSON.stringify(all));",
        json!(patch("src/inside.txt")),
        json!(patch("outside.txt")),
        json!(PUSH)
    );
    let ended = agent.run(Script::new(vec![
        Turn::Calls(vec![Call::raw("exec", json!(code))]),
        Turn::say("done"),
    ]));
    ended.expect("completed", 0);
    let results = ended.model.results();
    assert!(agent.text("src/inside.txt").is_some(), "{results:#?}");
    assert!(agent.text("outside.txt").is_none(), "{results:#?}");
    assert_eq!(agent.pushed(), [""; 0], "{results:#?}");
    agent.expect_denied("outside.txt", FILES);
    agent.expect_denied(PUSH, GIT);
    agent.expect_push_possible();
}
