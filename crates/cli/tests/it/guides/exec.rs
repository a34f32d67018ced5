//! docs/guides/exec.md: interactive Claude Code with the gate.

use bailiwick_testkit::clis::Cli;
use bailiwick_testkit::scripted_model::{Call, Script, ScriptedModel, Turn};

use super::guide::Guide;
use super::place::{KEY, Place};
use crate::exec::{Console, say_to_model};

pub(crate) fn follow(guide: &mut Guide) {
    let place = Place::new().with_cli(Cli::Claude);
    let root = place.scratch.root().canonicalize().unwrap();
    let model = ScriptedModel::start(Script::new(vec![
        Turn::Calls(vec![Call::read(root.join("src/kept.txt").display().to_string())]),
        Turn::Calls(vec![Call::shell("git push origin HEAD:main")]),
        Turn::say("All is finished."),
    ]));
    let path = place.path();
    let url = model.base_url();
    let variables =
        [("PATH", path.as_str()), ("ANTHROPIC_BASE_URL", &url), ("ANTHROPIC_API_KEY", KEY)];
    for line in guide.lines() {
        let program = ["bash", "-c", &line];
        let mut console = Console::start_program(&place.scratch, &program, &variables);
        console.wait_for("for agents");
        say_to_model(&mut console, &model, "Do the work.");
        console.wait_for("finished.");
        assert_eq!(console.leave("/exit"), 0, "{}", console.output());
        let output = console.output();
        assert!(output.contains("1 of 2 tool calls were denied"), "{output}");
    }
    assert!(model.result("call_0_0_0").contains("kept"));
    assert!(model.result("call_0_1_0").contains("policy::git-read-only"));
}
