//! Claims: two agents do not write to the same paths, and work with an outdated fence cannot land.

use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use bailiwick_testkit::scratch::Ran;
use bailiwick_testkit::{Depth, figure};
use serde_json::Value;

use crate::BAILIWICK;
use crate::verify::Place;

/// A repository with these settings, and tasks that may write `src/`, a part of it, and `docs/`.
fn place(settings: &str) -> Place {
    let task =
        |globs: &str| format!("[scope]\nfiles-whitelist = [{globs}]\n[body]\ntext = \"Do it\"\n");
    let files = [("src/a.txt", "a\n"), (".gitignore", "tasks/\n")];
    let place = Place::new(&["scope::files-whitelist"], &task("\"src/**\""), &files);
    for (name, globs) in [("part", "\"src/part/**\""), ("docs", "\"docs/**\"")] {
        let text = format!("[task]\nrole = \"worker\"\n{}", task(globs));
        place.scratch.write(&format!("{name}.toml"), &text);
    }
    place.scratch.write(".bailiwick/settings.toml", settings);
    place.scratch.commit("settings");
    place
}

fn spawn(place: &Place, task: &str, id: &str) -> Ran {
    place.bailiwick(&["spawn", &format!("{task}.toml"), "--agent-id", id])
}

/// The claims, each as its agent and how it ended.
fn claims(place: &Place) -> Vec<(String, String)> {
    let listed = place.bailiwick(&["claims", "list", "--all", "-o", "json"]).expect_code(0);
    let claims: Vec<Value> = serde_json::from_str(&listed.out).unwrap();
    let run_and_outcome = |claim: &Value| {
        let outcome = claim["release"]["outcome"].as_str().unwrap_or("open");
        (claim["run"].as_str().unwrap().to_owned(), outcome.to_owned())
    };
    claims.iter().map(run_and_outcome).collect()
}

fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(run, outcome)| ((*run).to_owned(), (*outcome).to_owned())).collect()
}

fn is_known(place: &Place, id: &str) -> bool {
    place.bailiwick(&["ledger", "list", "-o", "json"]).out.contains(&format!("\"{id}\""))
}

#[test]
fn agent_is_not_spawned_if_its_scope_overlaps_a_claim() {
    let place = place("[claims]\n");
    spawn(&place, "task", "one").expect_code(0);
    let refused = spawn(&place, "part", "two").expect_code(2);
    for expected in ["claims: ", "`one` has claim 1", "`src/part/", "bailiwick claims list"] {
        assert!(refused.err.contains(expected), "{expected}: {}", refused.err);
    }
    assert!(!is_known(&place, "two") && !place.worktree("two").exists());
    spawn(&place, "docs", "three").expect_code(0);
    assert!(is_known(&place, "three"));
    assert_eq!(claims(&place), pairs(&[("one", "open"), ("three", "open")]));
    let listed = place.bailiwick(&["claims", "list"]).expect_code(0);
    assert!(listed.out.contains("src/**") && listed.out.contains("240 min left"), "{}", listed.out);
}

#[test]
fn no_claims_are_made_without_the_setting() {
    let place = place("");
    spawn(&place, "task", "one").expect_code(0);
    spawn(&place, "part", "two").expect_code(0);
    assert_eq!(claims(&place), []);
}

#[test]
fn claim_ends_with_its_run() {
    let place = place("[claims]\n");
    spawn(&place, "task", "lands").expect_code(0);
    place.work("lands", "src/b.txt", "b\n");
    place.bailiwick(&["land", "lands"]).expect_code(0);
    // The id is in use: nothing is spawned, and the claim is released.
    spawn(&place, "task", "lands").expect_code(2);
    spawn(&place, "task", "turned-down").expect_code(0);
    place.bailiwick(&["respawn", "turned-down", "--reason", "not so"]).expect_code(0);
    place.bailiwick(&["rm", "turned-down-2", "--force"]).expect_code(0);
    spawn(&place, "part", "last").expect_code(0);
    let expected = [
        ("lands", "done"),
        ("lands", "failed"),
        ("turned-down", "failed"),
        ("turned-down-2", "revoked"),
        ("last", "open"),
    ];
    assert_eq!(claims(&place), pairs(&expected));
}

#[test]
fn agent_whose_claim_was_released_does_not_land() {
    let place = place("[claims]\n");
    spawn(&place, "task", "one").expect_code(0);
    place.work("one", "src/b.txt", "b\n");
    place.bailiwick(&["claims", "release", "1"]).expect_code(0);
    let before = place.scratch.git(&["rev-parse", "main"]);
    let refused = place.bailiwick(&["land", "one"]).expect_code(2);
    for expected in ["claims: ", "claim 1 has ended (revoked)", "bailiwick respawn one"] {
        assert!(refused.err.contains(expected), "{expected}: {}", refused.err);
    }
    spawn(&place, "part", "two").expect_code(0);
    let refused = place.bailiwick(&["land", "one"]).expect_code(2);
    for expected in ["claims: ", "claim 1 is stale", "`two` has claim 2", "bailiwick respawn one"] {
        assert!(refused.err.contains(expected), "{expected}: {}", refused.err);
    }
    // Still refused after the other run has ended.
    place.bailiwick(&["reject", "two"]).expect_code(0);
    place.bailiwick(&["land", "one"]).expect_code(2);
    assert_eq!(place.scratch.git(&["rev-parse", "main"]), before);
    // Releasing a claim again is no error; an unknown claim is one.
    let again = place.bailiwick(&["claims", "release", "1"]).expect_code(0);
    assert!(again.err.contains("had ended already (revoked)"), "{}", again.err);
    place.bailiwick(&["claims", "release", "7"]).expect_code(2);
}

#[test]
fn agents_that_add_migrations_are_assigned_different_versions() {
    let place = place("[claims]\n");
    let task = |files: &str| {
        format!(
            "[task]\nrole = \"worker\"\n[scope]\nfiles-whitelist = [{files}]\n[body]\ntext = \"Do it\"\n"
        )
    };
    place.scratch.write("db/20990101000000_first.sql", "-- first\n");
    place.scratch.write("adds.toml", &task("\"db/{timestamp}_*.sql\""));
    place.scratch.write("all.toml", &task("\"db/**\""));
    place.scratch.commit("a migration with a late version");
    for id in ["one", "two"] {
        spawn(&place, "adds", id).expect_code(0);
    }
    // The versions follow the last one of the base, and each is assigned once.
    let prompt = |id: &str| place.bailiwick(&["ledger", "spec", id]).expect_code(0).out;
    for (id, version) in [("one", "20990101000001"), ("two", "20990101000002")] {
        assert!(prompt(id).contains(&format!("db/{version}_*.sql")), "{}", prompt(id));
    }
    // A run that may write to the whole directory conflicts with them.
    let refused = spawn(&place, "all", "three").expect_code(2);
    assert!(refused.err.contains("`db/20990101000001_"), "{}", refused.err);
    place.work("one", "db/20990101000001_users.sql", "-- users\n");
    place.bailiwick(&["land", "one"]).expect_code(0);
    // A version that was not assigned does not land.
    place.work("two", "db/20990101000009_other.sql", "-- other\n");
    place.bailiwick(&["land", "two"]).expect_code(2);
    // A respawned agent gets another version.
    place.bailiwick(&["respawn", "two", "--reason", "wrong version"]).expect_code(0);
    let again = prompt("two-2");
    assert!(again.contains("db/20990101000003_*.sql"), "{again}");
    assert!(!again.contains("db/20990101000002"), "{again}");
}

#[test]
fn agent_whose_spawn_was_refused_is_assigned_new_versions() {
    let place = place("[claims]\n");
    let task = "[task]\nrole = \"worker\"\n[scope]\nfiles-whitelist = [\"src/**\", \
                \"db/{timestamp}_*.sql\"]\n[body]\ntext = \"Do it\"\n";
    place.scratch.write("adds.toml", task);
    place.scratch.commit("a task");
    spawn(&place, "task", "one").expect_code(0);
    spawn(&place, "adds", "two").expect_code(2);
    place.scratch.write("db/20990101000000_first.sql", "-- first\n");
    place.scratch.commit("a migration with a late version");
    place.bailiwick(&["claims", "release", "1"]).expect_code(0);
    spawn(&place, "adds", "two").expect_code(0);
    let prompt = place.bailiwick(&["ledger", "spec", "two"]).expect_code(0).out;
    assert!(prompt.contains("db/20990101000001_*.sql"), "{prompt}");
}

#[test]
fn claim_on_part_of_a_module_covers_the_whole_module() {
    let settings = "[claims]\nmodules = [\"src/\"]\n";
    let place = place(settings);
    let task = |file: &str| {
        format!(
            "[task]\nrole = \"worker\"\n[scope]\nfiles-whitelist = [\"{file}\"]\n[body]\ntext = \"Do it\"\n"
        )
    };
    place.scratch.write("other.toml", &task("src/other.txt"));
    place.scratch.commit("another file of the module");
    spawn(&place, "part", "one").expect_code(0);
    let refused = spawn(&place, "other", "two").expect_code(2);
    assert!(refused.err.contains("`one` has claim 1"), "{}", refused.err);
    spawn(&place, "docs", "three").expect_code(0);
    // Without the module the scopes do not overlap.
    place.scratch.write(".bailiwick/settings.toml", "[claims]\n");
    place.scratch.commit("no modules");
    place.bailiwick(&["claims", "release", "1"]).expect_code(0);
    spawn(&place, "part", "four").expect_code(0);
    spawn(&place, "other", "five").expect_code(0);
}

/// A role without a writing tool can still write through its shell.
#[test]
fn agent_without_a_claim_cannot_land() {
    let place = place("[claims]\n");
    let role = "[role]\nname = \"worker\"\ndescription = \"d\"\n[capabilities]\nrequired = \
                [\"scope::files-whitelist\"]\n[tools]\nallowed = [\"Read\", \"Bash\"]\n";
    place.scratch.write(".bailiwick/roles/worker.toml", role);
    place.scratch.commit("no tool that writes");
    spawn(&place, "task", "one").expect_code(0);
    assert_eq!(claims(&place), []);
    place.work("one", "src/b.txt", "b\n");
    let before = place.scratch.git(&["rev-parse", "main"]);
    let refused = place.bailiwick(&["land", "one"]);
    assert_ne!(refused.code, 0, "{}", refused.out);
    for expected in ["claims: ", "`src/b.txt`", "has no claim"] {
        assert!(refused.err.contains(expected), "{expected}: {}", refused.err);
    }
    assert_eq!(place.scratch.git(&["rev-parse", "main"]), before);
}

#[test]
fn settings_of_the_base_commit_apply() {
    let place = place("");
    place.scratch.write(".bailiwick/settings.toml", "[claims]\n");
    spawn(&place, "task", "one").expect_code(0);
    assert_eq!(claims(&place), []);
    place.work("one", "src/b.txt", "b\n");
    place.scratch.commit("claims from now on");
    spawn(&place, "task", "two").expect_code(0);
    assert_eq!(claims(&place), pairs(&[("two", "open")]));
    // The first run needs no claim.
    place.bailiwick(&["land", "one"]).expect_code(0);
}

/// With a scripted agent in the full sandbox.
#[test]
fn running_agent_keeps_its_claim_until_it_has_landed() {
    let place = place("[claims]\nlease-minutes = 30\n");
    let script = "[task]\nrole = \"worker\"\n[scope]\nfiles-whitelist = [\"src/**\"]\n[body]\ntext = \
                  \"Do it\"\n[agent]\ncli = \"script\"\n[[agent.script]]\ndo = \"write\"\npath = \
                  \"src/b.txt\"\ntext = \"b\"\n[[agent.script]]\ndo = \"wait\"\nmilliseconds = 8000\n";
    place.scratch.write("script.toml", script);
    place.scratch.commit("a script");
    let arguments = ["run", "script.toml", "--agent-id", "one", "--land", "auto"];
    let mut command = place.scratch.command(BAILIWICK);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().unwrap();
    let deadline = Instant::now() + Duration::from_secs(120);
    while !place.bailiwick(&["logs", "one", "-o", "json"]).out.contains("src/b.txt") {
        assert!(Instant::now() < deadline, "the agent did not write its file in time");
        std::thread::sleep(Duration::from_millis(50));
    }
    spawn(&place, "part", "two").expect_code(2);
    let refused = place.bailiwick(&["claims", "release", "1"]).expect_code(2);
    assert!(
        refused.err.contains("is running") && refused.err.contains("--force"),
        "{}",
        refused.err
    );
    Ran::from(child.wait_with_output().unwrap()).expect_code(0);
    assert_eq!(place.scratch.read("src/b.txt"), "b");
    spawn(&place, "part", "two").expect_code(0);
    assert_eq!(claims(&place), pairs(&[("one", "done"), ("two", "open")]));
}

fn start_spawn(place: &Place, task: &str, id: &str) -> Child {
    let mut command = place.scratch.command(BAILIWICK);
    command.args(["spawn", &format!("{task}.toml"), "--agent-id", id]);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

#[test]
fn waiting_agent_starts_when_the_claim_is_released() {
    let place = place("[claims]\non-overlap = \"wait\"\n");
    spawn(&place, "task", "one").expect_code(0);
    let mut child = start_spawn(&place, "part", "two");
    wait_until("the run waits", || waiting_count(&place) == 1);
    std::thread::sleep(Duration::from_millis(500));
    assert!(child.try_wait().unwrap().is_none(), "it did not wait for the claim");
    assert!(!is_known(&place, "two"));
    place.bailiwick(&["reject", "one"]).expect_code(0);
    let deadline = Instant::now() + Duration::from_secs(60);
    while child.try_wait().unwrap().is_none() {
        assert!(Instant::now() < deadline, "it did not start in time");
        std::thread::sleep(Duration::from_millis(50));
    }
    let ran = Ran::from(child.wait_with_output().unwrap()).expect_code(0);
    assert!(ran.err.contains("`two` waits: `one` has claim 1 there"), "{}", ran.err);
    assert!(is_known(&place, "two"));
}

/// The number of waiting runs.
fn waiting_count(place: &Place) -> usize {
    let queue = place.scratch.state().join("bailiwick.db.waiting");
    let Ok(entries) = std::fs::read_dir(queue) else { return 0 };
    let name = |entry: std::fs::DirEntry| entry.file_name().to_string_lossy().into_owned();
    entries.flatten().map(name).filter(|name| name.parse::<u64>().is_ok()).count()
}

fn wait_until(what: &str, condition: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(120);
    while !condition() {
        assert!(Instant::now() < deadline, "timed out waiting until {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn waiting_agents_start_in_order() {
    let place = place("[claims]\non-overlap = \"wait\"\n");
    spawn(&place, "task", "holder").expect_code(0);
    // All scopes overlap: the whole of `src/` or a part of it.
    let names: Vec<String> = (0..6).map(|number| format!("w{number}")).collect();
    let mut children: Vec<Child> = Vec::new();
    for (number, name) in names.iter().enumerate() {
        children.push(start_spawn(&place, if number % 2 == 0 { "part" } else { "task" }, name));
        wait_until("the run waits", || waiting_count(&place) == number + 1);
    }
    // Other paths are not blocked.
    spawn(&place, "docs", "elsewhere").expect_code(0);
    // A killed run does not block the queue.
    children[2].kill().unwrap();
    children[2].wait().unwrap();
    let mut holder = "holder".to_owned();
    for (number, name) in names.iter().enumerate().filter(|(number, _)| *number != 2) {
        place.bailiwick(&["reject", &holder]).expect_code(0);
        wait_until("the next run starts", || is_known(&place, name));
        for later in names.iter().skip(number + 1) {
            assert!(!is_known(&place, later), "{later} started before its turn");
        }
        assert!(children[number].wait().unwrap().success());
        holder.clone_from(name);
    }
    assert_eq!(waiting_count(&place), 0, "no run waits");
    // A run keeps its claim while others wait for it.
    let mut child = start_spawn(&place, "task", "last");
    wait_until("the run waits", || waiting_count(&place) == 1);
    place.work(&holder, "src/b.txt", "b\n");
    place.bailiwick(&["land", &holder]).expect_code(0);
    assert!(child.wait().unwrap().success());
}

#[test]
fn one_of_many_concurrent_spawns_starts() {
    const MANY: usize = 8;
    let rounds = Depth::from_env().cases(20);
    let place = place("[claims]\n");
    for round in 0..rounds {
        let names: Vec<String> = (0..MANY).map(|number| format!("r{round}-{number}")).collect();
        let children: Vec<Child> =
            names.iter().map(|name| start_spawn(&place, "task", name)).collect();
        let ran: Vec<Ran> = children
            .into_iter()
            .map(|child| Ran::from(child.wait_with_output().unwrap()))
            .collect();
        let winners: Vec<&String> =
            names.iter().zip(&ran).filter(|(_, ran)| ran.code == 0).map(|(name, _)| name).collect();
        assert!(ran.iter().all(|ran| [0, 2].contains(&ran.code)), "{ran:?}");
        let [winner] = winners.as_slice() else { panic!("{winners:?}: {ran:?}") };
        let worktrees = names.iter().filter(|name| place.worktree(name).exists()).count();
        assert_eq!(worktrees, 1, "a refused run left a worktree");
        place.bailiwick(&["reject", winner]).expect_code(0);
        place.bailiwick(&["rm", winner]).expect_code(0);
    }
    figure(&format!("claims: {MANY} spawns at once on one scope, {rounds} times: one each time"));
}

#[test]
fn settings_in_the_guide_are_valid_and_are_the_defaults() {
    let guide = std::fs::read_to_string(crate::workspace().join("docs/guides/claims.md")).unwrap();
    let block = guide.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    let settings = bailiwick_model::Settings::parse(&bailiwick_model::Source::new("guide", block));
    let claims = settings.unwrap().claims.unwrap();
    // The guide shows the default values.
    let defaults = bailiwick_model::settings::Claims::default();
    assert_eq!(claims.on_overlap, defaults.on_overlap);
    assert_eq!(
        (claims.lease(), claims.wait_timeout()),
        (defaults.lease(), defaults.wait_timeout())
    );
}
