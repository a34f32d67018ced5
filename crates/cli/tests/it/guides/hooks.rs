//! docs/guides/hooks.md: the gate goes into the settings of agent programs, and out of them.

use super::guide::Guide;
use super::place::Place;

pub(crate) fn follow(guide: &mut Guide) {
    let place = Place::new();
    let mut shell = place.shell();
    shell.run("bailiwick init").expect_code(0);
    place.scratch.commit("Add a kit");
    // Codex and Gemini CLI have not been told to trust this folder, as the guide says of status.
    guide.exits("bailiwick hooks status", 1);
    let before = guide.run_before("bailiwick hooks status", &mut shell);
    assert!(before.of("bailiwick hooks install claude").out.contains("role read-only"));
    let files = [
        ".claude/settings.local.json",
        ".codex/hooks.json",
        ".gemini/settings.json",
        ".opencode/plugin/bailiwick-gate.js",
    ];
    let there = |file: &&str| place.scratch.root().join(file).exists();
    assert!(files.iter().all(there));
    let after = guide.run(&mut shell);
    let status = &after.of("bailiwick hooks status").out;
    for line in ["intact         claude    repository", "unproven       codex     repository"] {
        assert!(status.contains(line), "{status}");
    }
    assert!(!files.iter().any(there));
}
