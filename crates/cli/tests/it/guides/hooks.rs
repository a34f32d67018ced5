//! docs/guides/hooks.md: the gate is added to the settings of agent programs, and removed.

use super::guide::Guide;
use super::place::Place;

pub(crate) fn follow(guide: &mut Guide) {
    let place = Place::new();
    let mut shell = place.shell();
    shell.run("bailiwick init").expect_code(0);
    place.scratch.commit("Add a kit");
    // Codex and Gemini CLI do not trust this folder, which `status` reports, as the guide says.
    guide.exits("bailiwick hooks status", 1);
    let before = guide.run_before("bailiwick hooks status", &mut shell);
    assert!(before.of("bailiwick hooks install claude").out.contains("role read-only"));
    let files = [
        ".claude/settings.local.json",
        ".codex/hooks.json",
        ".gemini/settings.json",
        ".opencode/plugin/bailiwick-gate.js",
    ];
    let exists = |file: &&str| place.scratch.root().join(file).exists();
    assert!(files.iter().all(exists));
    let after = guide.run(&mut shell);
    let status = &after.of("bailiwick hooks status").out;
    for line in ["intact         claude    repository", "unproven       codex     repository"] {
        assert!(status.contains(line), "{status}");
    }
    assert!(!files.iter().any(exists));
}
