//! docs/guides/delegation.md: a task whose agent may spawn others, and the same tools for other programs.

use bailiwick_testkit::clis::Cli;

use super::guide::Guide;
use super::place::Place;

pub(crate) fn follow(guide: &mut Guide) {
    let place = Place::new().with_cli(Cli::Claude).with_cli(Cli::Codex);
    let task = "[task]\nrole = \"developer\"\n[scope]\nfiles-whitelist = [\"src/**\"]\n[verification]\n\
                commands = [\"true\"]\n[body]\ntext = \"Do it.\"\n";
    place.scratch.write("task.toml", &format!("{task}{}", guide.text("toml")));
    let mut shell = place.shell();
    let prepared = shell.run("bailiwick prepare task.toml -o json").expect_code(0);
    assert!(prepared.out.contains("400000 tokens"), "{}", prepared.out);
    guide.run(&mut shell);
    // Claude Code has started the server and connected to it.
    let registered = shell.run("claude mcp get bailiwick").expect_code(0);
    assert!(registered.out.contains("Connected"), "{}", registered.out);
    let registered = shell.run("codex mcp get bailiwick").expect_code(0);
    assert!(registered.out.contains("enabled: true"), "{}", registered.out);
    place.scratch.write(".bailiwick/settings.toml", &guide.text("toml"));
    shell.run("bailiwick lint").expect_code(0);
}
