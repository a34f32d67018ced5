//! docs/guides/run.md: agents in the foreground and in the background, from start to removal.

use super::guide::Guide;
use super::place::Place;

/// Writes a file. The first attempt then sleeps until it is stopped; the second one continues.
pub(crate) const STOPPED_ONCE: &str = r#"
[[agent.script]]
do = "write"
path = "src/hello.txt"
text = "hello\n"
[[agent.script]]
do = "shell"
command = "test ! -e src/first.txt || touch src/second.txt; touch src/first.txt"
[[agent.script]]
do = "shell"
command = "test -e src/second.txt || sleep 600"
"#;
/// The command that the log shows when the agent sleeps.
pub(crate) const SLEEP_COMMAND: &str = "sleep 600";

pub(crate) fn follow(guide: &mut Guide) {
    let place = Place::new();
    let mut shell = place.shell();
    let commands = guide.lines();
    place.scratch.write(".bailiwick/settings.toml", &guide.text("toml"));
    let script = guide.text("toml");
    let steps = script.split_once("[[agent.script]]").map(|(_, steps)| steps).unwrap();
    let steps = format!("[[agent.script]]{steps}");
    place.add_script_task(".bailiwick/tasks/example.toml", "example", &steps);
    place.add_script_task("task.toml", "fix-42", STOPPED_ONCE);
    for line in &commands {
        let ran = match line.starts_with("bailiwick logs -f") {
            true => shell.run_until(line, SLEEP_COMMAND),
            false => shell.run(line).expect_code(0),
        };
        if line.starts_with("bailiwick ps") {
            assert!(ran.out.contains("fix-42"), "{}", ran.out);
        }
        if line.starts_with("bailiwick run ") && !line.contains("-d ") {
            assert!(ran.out.contains("completed"), "{}", ran.out);
        }
        if line.starts_with("bailiwick diff") {
            assert!(ran.out.contains("+hello"), "{}", ran.out);
        }
    }
    assert!(!place.scratch.state().join("worktrees/fix-42").exists());
    assert_eq!(place.scratch.git(&["show", "main:src/hello.txt"]), "hello\n");
}
