//! docs/guides/claims.md: of two agents with overlapping scopes, one is refused.

use super::guide::Guide;
use super::place::Place;

pub(crate) fn follow(guide: &mut Guide) {
    let place = Place::new();
    place.scratch.write(".bailiwick/settings.toml", &guide.text("toml"));
    for (id, files) in [("one", "src/**"), ("two", "src/part/**")] {
        let task = format!(
            "[task]\nrole = \"developer\"\nagent-id = \"{id}\"\n[scope]\nfiles-whitelist = [\"{files}\"]\n\
             [verification]\ncommands = [\"true\"]\n[body]\ntext = \"Do it.\"\n"
        );
        place.scratch.write(&format!("{id}.toml"), &task);
    }
    place.scratch.commit("Add two tasks");
    let mut shell = place.shell();
    shell.run("bailiwick spawn one.toml").expect_code(0);
    let refused = shell.run("bailiwick spawn two.toml").expect_code(2);
    guide.has_shown("error: claims: `two` may not write", &refused);
    guide.fill("claims release 17", "claims release 1");
    let shown = guide.run(&mut shell);
    assert!(shown.of("bailiwick claims list ").out.contains("src/**"));
    shell.run("bailiwick spawn two.toml").expect_code(0);
    let stale = shell.run("bailiwick land one").expect_code(2);
    guide.has_shown("error: claims: `one` may not land", &stale);
}
