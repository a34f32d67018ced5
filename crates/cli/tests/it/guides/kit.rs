//! docs/guides/kit.md: a custom capability and role, which are enforced.

use super::guide::Guide;
use super::place::Place;

pub(crate) fn follow(guide: &mut Guide) {
    let place = Place::new();
    let capability = ".bailiwick/capabilities/policy/no-publish";
    place.scratch.write(&format!("{capability}/capability.toml"), &guide.text("toml"));
    let text = "You MUST NOT publish anything. Releases are made by people.\n";
    place.scratch.write(&format!("{capability}/text.md"), text);
    let mut shell = place.shell();
    guide.run(&mut shell);
    let copy = place.scratch.read(".bailiwick/capabilities/policy/no-git-ops-lax/capability.toml");
    assert!(copy.contains("policy::no-git-ops-lax"), "{copy}");
    place.scratch.write(".bailiwick/roles/contributor.toml", &guide.text("toml"));
    shell.run("bailiwick lint").expect_code(0);
    shell.run("bailiwick roles show contributor").expect_code(0);
    let explained = shell.run("bailiwick explain --role contributor -- 'npm publish'").expect_code(0);
    assert!(explained.out.contains("✗ policy::no-publish"), "{}", explained.out);
    let control = shell.run("bailiwick explain --role developer -- 'npm publish'").expect_code(0);
    assert!(!control.out.contains("policy::no-publish"), "{}", control.out);
}
