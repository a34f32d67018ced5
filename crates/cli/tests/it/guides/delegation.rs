//! docs/guides/delegation.md: a task whose agent may start others, and the same tools for other programs.

use bailiwick_testkit::clis::Cli;

use super::guide::Guide;
use super::place::Place;

pub(crate) fn follow(guide: &mut Guide) {
    let place = Place::new().with_cli(Cli::Claude).with_cli(Cli::Codex);
    let task = "[task]\nrole = \"developer\"\n[scope]\nfiles-whitelist = [\"src/**\"]\n[verification]\n\
                commands = [\"true\"]\n[body]\ntext = \"Do it.\"\n";
    place.scratch.write("task.toml", &format!("{task}{}", guide.text("toml")));
    let mut shell = place.shell();
    let told = shell.run("bailiwick prepare task.toml -o json").expect_code(0);
    assert!(told.out.contains("400000 tokens"), "{}", told.out);
    guide.run(&mut shell);
    for program in ["claude", "codex"] {
        let got = shell.run(&format!("{program} mcp get bailiwick")).expect_code(0);
        assert!(got.out.contains("bailiwick mcp") || got.out.contains("command: bailiwick"), "{}", got.out);eprintln!("{}", got.out);
    }
    place.scratch.write(".bailiwick/settings.toml", &guide.text("toml"));
    shell.run("bailiwick lint").expect_code(0);
}
