//! docs/guides/manifests.md: agent files are assembled from a manifest.

use super::guide::Guide;
use super::place::Place;
use serde_json::Value;

pub(crate) fn follow(guide: &mut Guide) {
    let place = Place::new();
    guide.fill("You review code. …", "You review code.");
    let manifest = guide.later_text("toml").replace("name = \"critic\"", "name = \"my-agent\"");
    place.scratch.write("my-agent.toml", &manifest);
    let mut shell = place.shell();
    let results = guide.run(&mut shell);
    let critic = &results.of("bailiwick agents assemble critic").out;
    assert!(critic.contains("name: critic") && critic.contains("# ROLE"), "{critic}");
    assert!(place.scratch.root().join(".codex/agents/critic.toml").exists());
    let my_agent = &results.of("bailiwick agents assemble ./my-agent.toml").out;
    serde_json::from_str::<Value>(my_agent).unwrap();
    for expected in ["AGENT SUBSTRATE — role read-only", "HOW YOU LOOK", "HANDOFFS"] {
        assert!(my_agent.contains(expected), "{expected} is not in {my_agent}");
    }
}
