//! docs/guides/workers.md: a server and two workers, each with its own directory.

use serde_json::Value;

use super::fleet::Fleet;
use super::guide::Guide;

pub(crate) fn follow(guide: &mut Guide) {
    let script = r#"[{ do: write, path: "src/hello.txt", text: "hello\n" }]"#;
    let fleet = Fleet::declare_with_script(script);
    let place = &fleet.place;
    let mut shell = place.shell();
    let address = fleet.serve(&mut shell);
    let pool = guide.text("yaml");
    place.scratch.write("pool.yaml", &pool);
    guide.run(&mut shell);
    guide.fill("https://fleet.example", format!("http://{address}"));
    guide.background("bailiwick worker ");
    let mut names = Vec::new();
    for _ in ["worker-1", "worker-2"] {
        guide.run(&mut shell);
        names.push(shell.wait_for_background("worker "));
    }
    let listed = guide.run(&mut shell);
    let listed = &listed.of("bailiwick workers list").out;
    assert!(names.iter().all(|name| listed.contains(name)) && listed.contains("zone=a"), "{listed}");
    let started = guide.run_before("bailiwick get runs", &mut shell);
    assert!(started.of("bailiwick runs start").out.contains("adr-"));
    let run = place.wait_for("the end of the run", || {
        let runs = place.json(&["get", "runs"]);
        let run = runs.as_array().unwrap().first().cloned()?;
        let phase = run["status"]["phase"].as_str().unwrap_or_default().to_owned();
        assert_ne!(phase, "failed", "{run:#}");
        // The results of this fleet wait for a person.
        let has_ended = |run: &Value| !run["status"]["artifacts"].as_array().unwrap().is_empty();
        (phase == "succeeded" || has_ended(&run)).then_some(run)
    });
    guide.run(&mut shell);
    let agent = run["status"]["attempts"][0].as_str().unwrap();
    let hello = place.scratch.state().join("worktrees").join(agent).join("src/hello.txt");
    assert_eq!(std::fs::read_to_string(hello).unwrap(), "hello\n");
    let last = names.pop().unwrap();
    guide.fill("NAME", &last);
    guide.run(&mut shell);
    // Its process ends, and its directory is unlocked.
    place.wait_for("a drained worker", || {
        let lock = std::fs::File::open(place.scratch.root().join("worker-2/lock")).unwrap();
        lock.try_lock().is_ok().then_some(())
    });
}
