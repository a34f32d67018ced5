//! docs/guides/team.md: a user logs in to a server, works there, and returns to the local database.

use super::fleet::Fleet;
use super::guide::Guide;

const OLD: &str = r#"{"apiVersion":"bailiwick.dev/v1alpha1","kind":"ConfigMap","metadata":{"name":"old"},"spec":{"data":{}}}"#;

pub(crate) fn follow(guide: &mut Guide) {
    let fleet = Fleet::declare();
    let mut shell = fleet.place.shell();
    let address = fleet.serve(&mut shell);
    guide.run(&mut shell);
    guide.fill("https://fleet.example", format!("http://{address}"));
    let results = guide.run_before("bailiwick runs logs", &mut shell);
    let in_use = &results.of("bailiwick login").out;
    assert!(in_use.contains("as ada (operator); context team is in use"), "{in_use}");
    let listed = &results.of("bailiwick get stacks").out;
    assert!(listed.contains("fixer") && listed.contains("inside"), "{listed}");
    let run = fleet.place.json(&["get", "runs"])[0]["metadata"]["name"].as_str().unwrap().to_owned();
    guide.fill("adr-…", &run);
    fleet.place.wait_for("a running agent", || {
        let found = fleet.place.json(&["get", "runs", &run]);
        (found["status"]["phase"] == "running").then_some(())
    });
    guide.interrupted("bailiwick runs logs", "attempt 1");
    guide.run(&mut shell);
    let results = guide.run(&mut shell);
    assert!(results.of("bailiwick contexts list").out.contains("team"));
    assert_eq!(results.of("bailiwick contexts current").out, "team\n");
    let results = guide.run(&mut shell);
    assert!(results.of("bailiwick api-resources stack.spec").out.contains("filesWhitelist"));
    assert_eq!(results.of("bailiwick get runs -o jsonpath").out.trim(), run);
    shell.run(&format!("bailiwick runs cancel {run}")).expect_code(0);
    fleet.place.scratch.write("old.yaml", OLD);
    shell.run("bailiwick apply -f old.yaml").expect_code(0);
    shell.run("export EDITOR='sed -i s/capacity:.*/capacity:\\ 3/'").expect_code(0);
    let results = guide.run(&mut shell);
    assert_eq!(results.of("bailiwick edit").out, "pool/inside edited\n");
    assert!(results.of("bailiwick audit").out.contains("TokenCreated"));
    assert_eq!(results.of("bailiwick delete").out, "cm/old deleted\n");
}
