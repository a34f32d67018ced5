//! docs/guides/templates.md: existing templates, and a custom one.

use super::guide::Guide;
use super::place::Place;

pub(crate) fn follow(guide: &mut Guide) {
    let place = Place::new();
    let mut shell = place.shell();
    let results = guide.run(&mut shell);
    assert!(results.of("bailiwick agents list").out.contains("orchestrator"));
    assert!(results.of("bailiwick agents show").out.starts_with("worker as runner"));
    let template = ".bailiwick/agents/auditor.md";
    assert!(place.scratch.root().join(template).exists());
    place.scratch.write(template, &guide.text("md"));
    shell.run("bailiwick lint").expect_code(0);
    let shown = shell.run("bailiwick agents show auditor --persona strict").expect_code(0);
    assert!(shown.out.contains("mcp__tickets__read_*"), "{}", shown.out);
}
