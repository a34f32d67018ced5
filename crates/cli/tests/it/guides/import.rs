//! docs/guides/import.md: agent files of other programs become templates.

use super::guide::Guide;
use super::place::Place;

const AGENT: &str = "---\nname: reviewer\ndescription: Looks over changes.\ntools: Read, Grep\n---\n\
                     You look over changes.\n";
const SKILL: &str = "---\nname: notes\ndescription: Writes notes of a release.\n---\nWrite notes.\n";

pub(crate) fn follow(guide: &mut Guide) {
    let place = Place::new();
    place.scratch.write(".claude/agents/reviewer.md", AGENT);
    place.scratch.write("path/to/SKILL.md", SKILL);
    let mut shell = place.shell();
    let template = place.scratch.root().join(".bailiwick/agents/reviewer.md");
    guide.run_before("bailiwick agents import   ", &mut shell);
    assert!(!template.exists(), "a dry run writes nothing");
    guide.run_before("bailiwick agents import --from", &mut shell);
    assert!(template.exists());
    // The four commands are alternatives, not steps: an existing template would be refused.
    std::fs::remove_file(&template).unwrap();
    guide.run(&mut shell);
    assert!(template.exists());
    let shown = shell.run("bailiwick agents show reviewer").expect_code(0);
    assert!(shown.out.contains("Grep, Read"), "{}", shown.out);
    shell.run("bailiwick agents show notes").expect_code(0);
}
