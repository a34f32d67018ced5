//! What a run records on its issue besides its comment: phase, milestone, and the files for the next agent.

use serde_json::json;

use crate::claiming_machines::{Claims, Place};

/// Runs a task, and rejects its work to release its claim. Returns the standard error.
fn run_and_reject(place: &Place, state: &std::path::Path, arguments: &[&str], id: &str) -> String {
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
    assert_eq!((issue().labels, issue().milestone), (Vec::<String>::new(), None));
    for (id, phase, milestone) in
        [("passes", "phase::gathering-evidence", 3), ("again", "phase::drafting-spec", 5)]
    {
        run_and_reject(
            &place,
            &state,
            &["run", &format!("{id}.toml"), "--issue", &place.issue],
            id,
        );
        assert_eq!((issue().labels, issue().milestone), (vec![phase.to_owned()], Some(milestone)));
    }
    let shown = place.on(&state, &["memory", "show", &place.issue]).expect_code(0).out;
    assert!(shown.contains("phase     drafting-spec"), "{shown}");
    place.on(&state, &["memory", "verify", &place.issue]).expect_code(0);
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
