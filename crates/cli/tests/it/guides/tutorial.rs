//! docs/tutorial.md: a project from nothing to two landed changes, by a scripted agent and by Claude Code.

use bailiwick_testkit::clis::Cli;
use bailiwick_testkit::scripted_model::{Call, Script, ScriptedModel, Turn};

use super::guide::Guide;
use super::place::{KEY, Place};

const ADD_A_TEST: &str = r#"cat >> tests/test_greet.py <<'EOF'

    def test_greets_a_stranger(self):
        self.assertEqual(greet(), "Hello, stranger")
EOF"#;

pub(crate) fn follow(guide: &mut Guide) {
    let model = ScriptedModel::start(Script::new(vec![
        Turn::Calls(vec![Call::shell(ADD_A_TEST)]),
        Turn::say("The test is there."),
    ]));
    let place = Place::new().with_cli(Cli::Claude).with_model(&model);
    let project = place.scratch.place().join("greeter");
    let write = |path: &str, text: String| std::fs::write(project.join(path), text).unwrap();
    let mut shell = place.shell();
    shell.run(&format!("cd {}", place.scratch.place().display())).expect_code(0);
    guide.run(&mut shell);
    write("tests/test_greet.py", guide.text("python"));
    guide.run(&mut shell);

    let checked = guide.run(&mut shell);
    assert!(checked.of("bailiwick doctor").out.contains("git"));
    let initialised = guide.run(&mut shell);
    assert!(initialised.of("bailiwick init").out.contains("recognised Python"));
    write(".bailiwick/tasks/greet.toml", guide.text("toml"));
    let prepared = guide.run(&mut shell);
    assert!(prepared.of("bailiwick lint").out.contains("no problems"));

    let ran = guide.run(&mut shell);
    guide.has_shown("allows Bash", ran.of("bailiwick run"));
    let landed = guide.run(&mut shell);
    guide.has_shown("Hello, stranger", landed.of("python3 -c"));
    assert!(landed.of("git log").out.contains("Greet people who give no name"));
    let explained = guide.run(&mut shell);
    let explanation = &explained.of("bailiwick explain").out;
    assert!(explanation.contains("✗ policy::git-read-only"), "{explanation}");

    write(".bailiwick/tasks/real.toml", guide.text("toml"));
    guide.fill("ANTHROPIC_API_KEY=…", format!("ANTHROPIC_API_KEY={KEY}"));
    guide.run(&mut shell);
    let subscription = "bailiwick run .bailiwick/tasks/real.toml --login subscription";
    guide.elsewhere(subscription, "the scene of README.md runs a task with a subscription");
    guide.run(&mut shell);
    let real = guide.run(&mut shell);
    let subject = &real.of("git log").out;
    assert!(subject.contains("Add a test for a greeting without a name"), "{subject}");
    let test = std::fs::read_to_string(project.join("tests/test_greet.py")).unwrap();
    assert!(test.contains("test_greets_a_stranger"), "the change is not in the checkout: {test}");
}
