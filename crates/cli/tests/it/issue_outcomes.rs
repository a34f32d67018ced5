//! What a run records on its issue besides its comment: phase, milestone, and the files for the next agent.

use std::path::Path;
use std::process::Stdio;

use bailiwick_testkit::figure;
use bailiwick_testkit::forge::{Fault, Seen};
use serde_json::json;

use crate::claiming_machines::{Claims, Place};
use crate::run::wait_for;

/// A role that may also write the files which bind agents.
const OPEN_ROLE: &str = r#"
[role]
name = "open"
description = "Anything in its whitelist."
[capabilities]
required = ["scope::files-whitelist", "scope::files-denylist", "quality::commands-green"]
[tools]
allowed = ["Read", "Write", "Edit", "Bash"]
"#;

/// Runs a task, and rejects its work to release its claim. Returns the standard error.
fn run_and_reject(place: &Place, state: &Path, arguments: &[&str], id: &str) -> String {
    let ran = place.on(state, arguments);
    place.on(state, &["reject", id]).expect_code(0);
    ran.err
}

#[test]
fn only_a_passing_run_sets_phase_and_milestone() {
    let place = Place::new(Claims::Reference);
    let header =
        |phase: &str, milestone: u64| format!("phase = \"{phase}\"\nmilestone = {milestone}\n");
    place.task_with("fails", &header("drafting-spec", 4), "false", "");
    place.task_with("passes", &header("gathering-evidence", 3), "test -d src", "");
    place.task_with("again", &header("drafting-spec", 5), "test -d src", "");
    place.scratch.commit("Add tasks");
    let state = place.machine("one");
    let issue = || place.forge.items().remove(0).1;
    run_and_reject(&place, &state, &["run", "fails.toml", "--issue", &place.issue], "fails");
    assert_eq!((labels(&place), issue().milestone), (vec!["quality::failed".to_owned()], None));
    for (id, phase, milestone) in
        [("passes", "phase::gathering-evidence", 3), ("again", "phase::drafting-spec", 5)]
    {
        run_and_reject(
            &place,
            &state,
            &["run", &format!("{id}.toml"), "--issue", &place.issue],
            id,
        );
        assert_eq!(labels(&place), [phase, "quality::passed"]);
        assert_eq!(issue().milestone, Some(milestone));
    }
    let shown = place.on(&state, &["memory", "show", &place.issue]).expect_code(0).out;
    assert!(shown.contains("phase     drafting-spec"), "{shown}");
    place.on(&state, &["memory", "verify", &place.issue]).expect_code(0);
}

/// The labels of the issue, sorted.
fn labels(place: &Place) -> Vec<String> {
    let mut labels = place.forge.items().remove(0).1.labels;
    labels.sort();
    labels
}

/// The comment with the result of a run; empty without one.
fn result_of(place: &Place, run: &str) -> String {
    let text = format!("`{run}` ended: ");
    let mut comments = place.forge.comments(1).into_iter();
    comments.find(|comment| comment.contains(&text)).unwrap_or_default()
}

#[test]
fn run_whose_checks_did_not_end_is_recorded_as_blocked() {
    let place = Place::new(Claims::Reference);
    let header = "phase = \"drafting-spec\"\nmilestone = 4\n";
    let say_step = "[[agent.script]]\ndo = \"say\"\ntext = \"Done.\\n\\nnext_agent: reviewer\"\n";
    for (id, check) in
        [("killed", "sleep 600"), ("broken", "test -d src"), ("passes", "test -d src")]
    {
        place.task_with(id, header, check, say_step);
    }
    place.scratch.commit("Add tasks");
    place.forge.put_label(1, "cascade::depth-2");
    let issue = || place.forge.items().remove(0).1;
    // The checks cannot begin: a file is where the build caches are kept.
    let state = place.machine("broken");
    std::fs::write(state.join("caches"), "").unwrap();
    let ran =
        run_and_reject(&place, &state, &["run", "broken.toml", "--issue", &place.issue], "broken");
    assert!(ran.contains("what a killed check left cannot be removed"), "{ran}");
    assert_eq!(labels(&place), ["cascade::depth-2", "quality::unchecked"]);
    assert_eq!(issue().milestone, None);
    // The supervisor is killed while a check runs.
    let state = place.machine("killed");
    let mut run = place.start(&state, "killed");
    wait_for(|| place.on(&state, &["logs", "killed", "-o", "json"]).out.contains("\"verifying\""));
    run.kill().unwrap();
    run.wait().unwrap();
    assert_eq!(result_of(&place, "killed"), "");
    place.on(&state, &["reject", "killed"]).expect_code(0);
    // The next run leaves the result of the killed one first. It is the control: its own result has all of that.
    run_and_reject(&place, &state, &["run", "passes.toml", "--issue", &place.issue], "passes");
    let parts = ["phase::drafting-spec", "\"milestone\":4", "agent::reviewer"];
    for (run, verdict, has_parts) in
        [("broken", "blocked", false), ("killed", "blocked", false), ("passes", "pass", true)]
    {
        let result = result_of(&place, run);
        assert!(result.contains(&format!("\"verdict\":\"{verdict}\"")), "{run}: {result}");
        assert_eq!(result.contains("Its checks did not end."), !has_parts, "{run}: {result}");
        for part in parts {
            assert_eq!(result.contains(part), has_parts, "{run}: {part}: {result}");
        }
    }
    place.on(&state, &["memory", "verify", &place.issue]).expect_code(0);
}

#[test]
fn result_that_the_forge_did_not_take_is_left_when_it_is_back() {
    let place = Place::new(Claims::Reference);
    let say_step = "[[agent.script]]\ndo = \"say\"\ntext = \"Done.\\n\\nnext_agent: reviewer\"\n";
    for id in ["first", "second"] {
        place.task_with(id, "phase = \"review\"\n", "test -d src", say_step);
    }
    place.task_with("unbound", "", "test -d src", "");
    place.scratch.commit("Add tasks");
    place.forge.put_label(1, "cascade::depth-2");
    let waits = |state: &Path, run: &str| state.join("runs").join(run).join("issue-exit.json");
    let run_without_forge = |state: &Path, run: &str| {
        // One more than the result is tried.
        for _ in 0..9 {
            let part = "POST /api/v1/repos/acme/app/issues/1/comments";
            place.forge.fail_next(part, Fault::Status(503, "down".to_owned()));
        }
        let task = format!("{run}.toml");
        let errors = run_and_reject(&place, state, &["run", &task, "--issue", &place.issue], run);
        assert!(errors.contains("was not updated"), "{errors}");
        // Lists ask no forge.
        place.on(state, &["ps", "--all"]).expect_code(0);
        assert!(waits(state, run).exists());
        assert_eq!(result_of(&place, run), "");
    };
    // The next run leaves it, even one that is bound to no issue.
    let state = place.machine("one");
    run_without_forge(&state, "first");
    assert_eq!(labels(&place), ["cascade::depth-2"]);
    run_and_reject(&place, &state, &["run", "unbound.toml"], "unbound");
    assert!(result_of(&place, "first").contains("\"verdict\":\"pass\""));
    let expected = ["agent::reviewer", "cascade::depth-2", "phase::review", "quality::passed"];
    assert_eq!(labels(&place), expected);
    assert!(!waits(&state, "first").exists());
    // The server leaves it without any run.
    let state = place.machine("two");
    run_without_forge(&state, "second");
    place.forge.take_label(1, "agent::reviewer", "a-person");
    let mut server = place.command(&state, &["serve", "--listen", "127.0.0.1:0"]);
    let mut server = server.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    wait_for(|| !waits(&state, "second").exists());
    server.kill().unwrap();
    server.wait().unwrap();
    assert!(result_of(&place, "second").contains("\"verdict\":\"pass\""));
    assert_eq!(labels(&place), expected);
    place.on(&state, &["memory", "verify", &place.issue]).expect_code(0);
}

#[test]
fn result_has_the_answer_and_the_reason_for_the_next_agent() {
    let place = Place::new(Claims::Reference);
    let token = format!("ghp_{}", "a1B2".repeat(9));
    let template = "---\ndescription: Reviews changes.\nestimated_tokens: 3000\n---\nReview it.\n";
    place.scratch.write(".bailiwick/agents/reviewer.md", template);
    for (id, check, answer) in [
        ("fails", "false", "Done.\n\nnext_agent: reviewer".to_owned()),
        (
            "hands",
            "test -d src",
            format!("It reads {token}.\n\n@ada must look at it.\n\nnext_agent: reviewer"),
        ),
        ("last", "test -d src", "All good. <!-- no footer -->".to_owned()),
        ("refused", "test -d src", "Done.\n\nnext_agent: deployer".to_owned()),
    ] {
        let answer = json!(answer);
        let say_step = format!("[[agent.script]]\ndo = \"say\"\ntext = {answer}\n");
        place.task_with(id, "", check, &say_step);
    }
    place.scratch.commit("Add tasks");
    place.forge.put_label(1, "cascade::depth-2");
    let state = place.machine("one");
    let results = ["fails", "hands", "last", "refused"].map(|id| {
        let task = format!("{id}.toml");
        run_and_reject(&place, &state, &["run", &task, "--issue", &place.issue], id);
        result_of(&place, id)
    });
    let [fails, hands, last, refused] = &results;
    let none = "### Next Decision\nRecommended next: none\n";
    let why = "Rationale: It named `deployer` as the next agent, which was refused: its \
               allowed-subagents are: reviewer.\n";
    assert!(refused.contains(none) && refused.contains(why), "{refused}");
    assert!(refused.contains("\"message\": \"Done.\\n\\nnext_agent: deployer\""), "{refused}");
    let why = "Rationale: It named `reviewer` as the next agent, but did not pass: fail.\n";
    assert!(fails.contains(none) && fails.contains(why), "{fails}");
    // Its secret is removed, and nobody is mentioned outside of the JSON.
    let next = "### Next Decision\nRecommended next: @reviewer\nEstimated tokens: 3000\n";
    assert!(hands.contains(next) && !hands.contains(&token), "{hands}");
    assert!(hands.contains("@\u{200b}ada must look at it.\n"), "{hands}");
    assert!(hands.contains("\"estimated_next_tokens\":3000"), "{hands}");
    assert!(hands.contains("\"timestamp\":\"") && !hands.contains("\"parent_id\""), "{hands}");
    assert!(last.contains("\"parent_id\":\"hands/1-"), "{last}");
    assert!(last.contains("All good. \\u003c!-- no footer"), "{last}");
    assert!(!last.contains("### Next Decision"), "{last}");
    // It named an agent against a limit: nothing runs until a person has looked.
    let issue = place.forge.items().remove(0).1;
    assert!(issue.locked && issue.labels.contains(&"permission::violation".to_owned()));
    let alert = "`refused` named `deployer` as the next agent, which it may not name.";
    assert!(place.forge.comments(1).iter().any(|comment| comment.starts_with(alert)));
    let shown = place.on(&state, &["memory", "show", &place.issue]).expect_code(0).out;
    assert!(!shown.contains("problem "), "{shown}");
}

#[test]
fn run_that_may_write_files_which_bind_agents_stops_its_issue() {
    let place = Place::new(Claims::Reference);
    place.task_with("one", "", "test -d src", "");
    let task = place.scratch.read("one.toml").replace("\"src/**\"", "\"**\"");
    place.scratch.write("one.toml", &task.replace("\"developer\"", "\"open\""));
    place.scratch.write(".bailiwick/roles/open.toml", OPEN_ROLE);
    place.scratch.commit("Add a task");
    let state = place.machine("one");
    let issue = || place.forge.items().remove(0).1;
    let label = |change: &str, label: &str| {
        place.on(&state, &["memory", "label", &place.issue, change, label]).expect_code(0);
    };
    let why = "the issue needs the label `permission::evolve-system`";
    for _ in 0..2 {
        let arguments: &[&str] = if state.join("runs/one").exists() {
            &["run", "one"]
        } else {
            &["run", "one.toml", "--issue", &place.issue]
        };
        let refused = place.on(&state, arguments).expect_code(2);
        assert!(refused.err.contains(why), "{}", refused.err);
        assert!(issue().locked && labels(&place) == ["permission::violation"]);
        label("--remove", "permission::violation");
        place.on(&state, &["memory", "reopen", &place.issue]).expect_code(0);
    }
    let comments = place.forge.comments(1);
    assert_eq!(comments.iter().filter(|comment| comment.contains(why)).count(), 1, "{comments:?}");
    // A person permits it, and the same run begins.
    place.forge.put_labels(1, &["permission::evolve-system"], "a-person");
    place.on(&state, &["run", "one"]).expect_code(0);
    assert!(!issue().locked);
    assert_eq!(labels(&place), ["permission::evolve-system", "quality::passed"]);
}

#[test]
fn run_that_is_too_deep_stops_its_issue_on_a_forge_without_locks() {
    let place = Place::new(Claims::Reference);
    place.forge.set_version("1.23.8");
    let say_step = "[[agent.script]]\ndo = \"say\"\ntext = \"Done.\\n\\nnext_agent: reviewer\"\n";
    place.task_with("first", "", "test -d src", say_step);
    place.task_with("second", "", "test -d src", "");
    place.scratch.commit("Add tasks");
    let state = place.machine("one");
    run_and_reject(&place, &state, &["run", "first.toml", "--issue", &place.issue], "first");
    let issue = || place.forge.items().remove(0).1;
    let alerts = || {
        let comments = place.forge.comments(1);
        comments.iter().filter(|text| text.contains("\"type\":\"security_alert\"")).count()
    };
    let label = |change: &str, label: &str| {
        place.on(&state, &["memory", "label", &place.issue, change, label]).expect_code(0);
    };
    let stop = "cascade::depth-exceeded";
    let why = "depth 1 is deeper than 0";
    let refused = place.on(&state, &["run", "second.toml", "--issue", &place.issue]).expect_code(2);
    assert!(refused.err.contains(why), "{}", refused.err);
    assert!(issue().labels.contains(&stop.to_owned()) && !issue().locked);
    let refused = place.on(&state, &["run", "second"]).expect_code(2);
    assert!(refused.err.contains(&format!("the label `{stop}`")), "{}", refused.err);
    // Another try of the same run stops the issue again, and adds no comment.
    label("--remove", stop);
    let refused = place.on(&state, &["run", "second"]).expect_code(2);
    assert!(refused.err.contains(why), "{}", refused.err);
    assert!(issue().labels.contains(&stop.to_owned()));
    assert_eq!(alerts(), 1);
    label("--add", "cascade::depth-1");
    label("--remove", stop);
    place.on(&state, &["run", "second"]).expect_code(0);
    assert!(result_of(&place, "second").contains("\"depth\":1"));
}

#[test]
fn hand_off_files_are_pushed_to_the_forge_only_if_the_policy_allows_it() {
    let place = Place::new(Claims::Reference);
    let say_step = "[[agent.script]]\ndo = \"say\"\ntext = \"Done.\\n\\nnext_agent: reviewer\"\n";
    for id in ["kept", "sent"] {
        place.task_with(id, "", "test -d src", say_step);
    }
    place.scratch.commit("Add tasks");
    place.forge.put_label(1, "cascade::depth-2");
    let state = place.machine("one");
    let url = place.forge.repository().display().to_string();
    let on_forge = || place.scratch.git(&["ls-remote", &url, "refs/bailiwick/work/*"]);
    // A run whose stack may not write the reference, as the control plane starts it.
    place.on(&state, &["spawn", "kept.toml"]).expect_code(0);
    let binding = json!({ "issue": place.issue, "handed_work": "on-machine" });
    std::fs::write(state.join("runs/kept/issue.json"), binding.to_string()).unwrap();
    let errors = run_and_reject(&place, &state, &["run", "kept"], "kept");
    assert!(errors.contains("does not allow `work-reference`"), "{errors}");
    assert_eq!(on_forge(), "");
    run_and_reject(&place, &state, &["run", "sent.toml", "--issue", &place.issue], "sent");
    assert!(on_forge().contains("refs/bailiwick/work/1"), "{}", on_forge());
    // In both cases the next agent is named.
    let comments = place.forge.comments(1);
    let named = comments.iter().filter(|text| text.contains("\"next_agent\":\"reviewer\""));
    assert_eq!(named.count(), 2, "{comments:?}");
}

#[test]
fn issue_is_shown_even_if_the_claims_cannot_be_read() {
    let place = Place::new(Claims::Reference);
    let state = place.machine("one");
    place.on(&state, &["memory", "verify", &place.issue]).expect_code(0);
    let url = place.forge.repository().display().to_string();
    // The message of this commit is not a table of claims.
    place.scratch.git(&["push", "--quiet", &url, "HEAD:refs/bailiwick/claims"]);
    let problem = "problem   the claims of the repository cannot be read: ";
    let shown = place.on(&state, &["memory", "show", &place.issue]).expect_code(0).out;
    assert!(shown.contains(problem), "{shown}");
    let verified = place.on(&state, &["memory", "verify", &place.issue]).expect_code(2).out;
    assert!(verified.contains(problem) && verified.contains("1 problem"), "{verified}");
}

#[test]
fn whole_run_asks_once_for_its_account() {
    let place = Place::new(Claims::Reference);
    place.scratch.write(".bailiwick/settings.toml", "");
    place.task_with("one", "", "test -d src", "");
    place.scratch.commit("Add a task");
    let state = place.machine("one");
    let earlier = place.forge.requests().len();
    place.on(&state, &["run", "one.toml", "--issue", &place.issue]).expect_code(0);
    let requests = place.forge.requests().split_off(earlier);
    let is_git = |one: &Seen| one.path.contains(".git/");
    let result = |one: &Seen| one.method == "POST" && one.path.ends_with("/issues/1/comments");
    let result = requests.iter().position(result).unwrap();
    // The tokens are reserved last before the agent works, and given back last of all.
    let reserved = requests[..result].iter().rposition(is_git).unwrap();
    let (before, after) = requests.split_at(reserved + 1);
    let count =
        |part: &[Seen], of_git: bool| part.iter().filter(|one| is_git(one) == of_git).count();
    let accounts = requests.iter().filter(|one| one.path.ends_with("/user")).count();
    assert_eq!(accounts, 2, "one before it is spawned, and one of the run: {requests:#?}");
    figure(&format!(
        "memory: a whole `run --issue` on the stand-in for Gitea makes {} API requests before its agent works, where the \
         protocol needs at least 3, and {} after it, where it needs at least 6; {} of them ask for the account; and {} \
         requests of git, to read and write the reserved tokens twice",
        count(before, false),
        count(after, false),
        accounts,
        count(&requests, true)
    ));
    assert_eq!(place.forge.breaches(), [] as [String; 0]);
}
