//! Tests of the call tracker.

use super::*;
use serde_json::json;

const NAMED: CliBehaviour = CliBehaviour {
    hooks_have_call_ids: true,
    tools_without_hook: &["update_plan"],
    own_refusal_prefixes: &["No such tool"],
    denial_marker: "",
    truncates_old_results: true,
    unfinished: IncompleteCalls::Runs,
    reports_commands: false,
    code_mode: None,
};

#[test]
fn result_without_a_decision_is_a_breach() {
    let mut tracker = CallTracker::new(NAMED);
    let input = json!({"command": "ls"});
    tracker.on_tool_call("a", "Bash", &input);
    tracker.on_tool_call("b", "Bash", &input);
    tracker.on_decision(Some("a"), "Bash", &input);
    assert_eq!(tracker.on_result("a", None, "ok", None), Ok(true));
    assert_eq!(tracker.on_result("a", None, "ok", None), Ok(false), "a repeated result is known");
    let breach = tracker.on_result("b", None, "ok", None).unwrap_err();
    assert_eq!((breach.id.as_str(), breach.tool.as_str()), ("b", "Bash"));
    assert!(
        tracker.on_result("c", Some("Bash"), "ok", None).is_err(),
        "the model did not request it"
    );
}

#[test]
fn refusal_by_the_program_and_unhooked_tools_are_no_breach() {
    let mut tracker = CallTracker::new(NAMED);
    tracker.on_tool_call("a", "MultiEdit", &json!({}));
    tracker.on_tool_call("b", "update_plan", &json!({}));
    assert_eq!(tracker.on_result("a", None, "No such tool available: MultiEdit", None), Ok(true));
    assert_eq!(tracker.on_result("b", None, "done", None), Ok(true));
    tracker.on_tool_call("c", "Bash", &json!({}));
    let result = tracker.on_result("c", None, "No such tool available: x", Some(false));
    assert!(result.is_err(), "the call ran and printed text that looks like a refusal");
    tracker.add_known_result("old");
    assert_eq!(tracker.on_result("old", Some("Bash"), "from before", None), Ok(false));
}

#[test]
fn undecided_call_that_the_program_reports_as_run_is_remembered() {
    let mut tracker = CallTracker::new(NAMED);
    for (id, tool) in [("a", "Bash"), ("b", "Bash"), ("c", "update_plan"), ("d", "Bash")] {
        tracker.on_tool_call(id, tool, &json!({"command": id}));
    }
    tracker.on_decision(Some("a"), "Bash", &json!({"command": "a"}));
    tracker.on_reported_result("a", "it ran", false);
    tracker.on_reported_result("c", "it ran", false);
    tracker.on_reported_result("d", "No such tool available", true);
    tracker.on_reported_result("item_0", "a name of the program's own", false);
    assert_eq!(tracker.ran_without_permission(), None);
    tracker.on_reported_result("b", "No such tool, it printed", false);
    tracker.clear_unresolved();
    let breach = tracker.ran_without_permission().unwrap();
    assert_eq!(
        (breach.id.as_str(), breach.denied),
        ("b", false),
        "the end of an attempt does not clear a breach"
    );
}

/// A process in the sandbox reports the denial to the model before the program does. The tracker then takes that
/// report as the result of the call.
#[test]
fn denied_call_reported_as_run_is_a_breach_despite_an_earlier_denial() {
    let input = json!({"command": "git push"});
    for (output, failed, accepted) in [
        ("hook: policy::git: no", true, true),
        ("No such tool, says the program", true, true),
        ("pushed", false, false),
        ("policy::git", false, false),
        ("Exit code 1", true, false),
    ] {
        let mut tracker = CallTracker::new(NAMED);
        tracker.on_tool_call("a", "Bash", &input);
        tracker.on_decision(Some("a"), "Bash", &input);
        tracker.on_denial(Some("a"), "Bash", &input, "policy::git");
        assert_eq!(tracker.on_result("a", None, "policy::git: no", Some(true)), Ok(true));
        assert_eq!(
            tracker.on_result("a", None, output, Some(failed)),
            Ok(false),
            "the result is known"
        );
        tracker.on_reported_result("a", output, failed);
        assert_eq!(tracker.ran_without_permission().is_none(), accepted, "{output}");
        assert!(tracker.ran_without_permission().is_none_or(|breach| breach.denied), "{output}");
    }
}

/// Some calls reach no hook and no stream of the program: only their results are visible.
#[test]
fn result_that_contradicts_an_earlier_result_is_a_breach() {
    let input = json!({"command": "git push"});
    for (truncates_old_results, first, second, accepted) in [
        (false, "No such tool: x", "No such tool: x", true),
        (false, "No such tool: x", "pushed", false),
        (false, "hook: policy::git: no", "pushed", false),
        (true, "No such tool: x", "[cleared]", true),
    ] {
        let mut tracker = CallTracker::new(CliBehaviour { truncates_old_results, ..NAMED });
        tracker.on_tool_call("a", "Typing", &input);
        if first.contains("policy") {
            tracker.on_decision(Some("a"), "Typing", &input);
            tracker.on_denial(Some("a"), "Typing", &input, "policy::git");
        }
        assert_eq!(tracker.on_result("a", None, first, None), Ok(true));
        assert_eq!(tracker.on_result("a", None, first, None), Ok(false));
        assert_eq!(tracker.on_result("a", None, second, None).is_ok(), accepted, "{second}");
    }
    // The result of a call that ran may be shortened later.
    let mut tracker = CallTracker::new(CliBehaviour { truncates_old_results: false, ..NAMED });
    tracker.on_tool_call("a", "Bash", &input);
    tracker.on_decision(Some("a"), "Bash", &input);
    assert_eq!(tracker.on_result("a", None, "pushed, and much more", None), Ok(true));
    assert_eq!(tracker.on_result("a", None, "pushed …", None), Ok(false));
}

#[test]
fn undecided_command_is_a_breach_if_the_program_reports_all_commands() {
    let input = json!({"command": "git push"});
    for (reports_commands, breach) in [(true, true), (false, false)] {
        let mut tracker = CallTracker::new(CliBehaviour { reports_commands, ..NAMED });
        assert!(tracker.on_decision(Some("inner"), "Bash", &input));
        tracker.on_reported_command("git push\n");
        assert_eq!(tracker.ran_without_permission(), None, "the command was decided");
        tracker.on_reported_command("git push --force");
        assert_eq!(tracker.ran_without_permission().is_some_and(|breach| !breach.denied), breach);
    }
}

#[test]
fn file_change_without_an_allowed_patch_is_a_breach() {
    let patch = |name: &str| json!({"command": format!("*** Begin Patch\n*** Add File: {name}\n+x\n*** End Patch")});
    let changes = |path: &str| json!({"changes": [{"path": path, "kind": "add"}]});
    for (decided, denied, path, accepted) in [
        (Some("src/a.txt"), false, "/work/src/a.txt", true),
        (Some("./src/a.txt"), false, "/work/src/a.txt", true),
        (Some("../b/src/a.txt"), false, "/b/src/a.txt", true),
        (Some("/work/src/a.txt"), false, "/work/src/a.txt", true),
        (Some("src/a.txt"), true, "/work/src/a.txt", false),
        (Some("src/a.txt"), false, "/work/src/b.txt", false),
        (Some(".."), false, "/work/src/b.txt", false),
        (None, false, "/work/src/a.txt", false),
    ] {
        let mut tracker = CallTracker::new(CliBehaviour { reports_commands: true, ..NAMED });
        if let Some(name) = decided {
            tracker.on_decision(Some("exec-1"), "apply_patch", &patch(name));
        }
        if denied {
            tracker.on_denial(Some("exec-1"), "apply_patch", &patch("src/a.txt"), "scope");
        }
        tracker.on_reported_call("apply_patch", &changes(path));
        assert_eq!(tracker.ran_without_permission().is_none(), accepted, "{decided:?} {path}");
        tracker.on_reported_call("apply_patch", &changes(path));
        assert!(tracker.ran_without_permission().is_some(), "a patch is applied only once");
    }
    // The allowed patch with the fewest files is used first.
    let both = "*** Begin Patch\n*** Add File: a\n+x\n*** Add File: b\n+x\n*** End Patch";
    let mut tracker = CallTracker::new(CliBehaviour { reports_commands: true, ..NAMED });
    tracker.on_decision(Some("exec-1"), "apply_patch", &json!({"command": both}));
    tracker.on_decision(Some("exec-2"), "apply_patch", &patch("a"));
    tracker.on_reported_call("apply_patch", &changes("/work/a"));
    let all = json!({"changes": [{"path": "/work/a"}, {"path": "/work/b"}]});
    tracker.on_reported_call("apply_patch", &all);
    assert_eq!(tracker.ran_without_permission(), None, "both patches were allowed");
    let mut tracker = CallTracker::new(NAMED);
    tracker.on_reported_call("apply_patch", &changes("/work/a"));
    assert_eq!(tracker.ran_without_permission(), None, "this program does not report all calls");
}

#[test]
fn server_tool_can_be_called_as_often_as_it_was_allowed() {
    for (input, reported) in
        [(json!({"text": "hi", "to": 1}), json!({"to": 1, "text": "hi"})), (json!({}), Value::Null)]
    {
        let mut tracker = CallTracker::new(CliBehaviour { reports_commands: true, ..NAMED });
        tracker.on_decision(Some("exec-1"), "mcp__notes__say", &input);
        tracker.on_decision(Some("exec-2"), "mcp__notes__say", &input);
        tracker.on_denial(Some("exec-2"), "mcp__notes__say", &input, "tools");
        tracker.on_reported_call("mcp__notes__say", &reported);
        assert_eq!(tracker.ran_without_permission(), None, "one call was allowed");
        tracker.on_reported_call("mcp__notes__say", &reported);
        assert!(tracker.ran_without_permission().unwrap().denied);
    }
    let mut tracker = CallTracker::new(CliBehaviour { reports_commands: true, ..NAMED });
    tracker.on_reported_call("mcp__notes__say", &json!({"text": "hi"}));
    assert!(!tracker.ran_without_permission().unwrap().denied, "the gate did not decide the call");
}

#[test]
fn decision_for_one_server_tool_is_not_for_another_tool() {
    let input = json!({"id": 1});
    let long = format!("mcp__notes__{}", "x".repeat(60));
    for (decided, reported, accepted) in [
        ("mcp__notes__read", "mcp__notes__read", true),
        ("mcp__notes__read", "mcp__notes__delete", false),
        ("mcp__notes__read", "mcp__other__read", false),
        // The hook uses another name for the tool.
        ("mcp__my_notes__read", "mcp__my-notes__read", true),
        ("mcp__notes__xxx_0123abcd", long.as_str(), true),
    ] {
        let mut tracker = CallTracker::new(CliBehaviour { reports_commands: true, ..NAMED });
        tracker.on_decision(Some("exec-1"), decided, &input);
        tracker.on_reported_call(reported, &input);
        assert_eq!(tracker.ran_without_permission().is_none(), accepted, "{decided} {reported}");
        tracker.on_reported_call(reported, &input);
        assert!(tracker.ran_without_permission().is_some(), "{reported}: one call was allowed");
    }
    // If the hook uses the same name, that decision applies.
    let mut tracker = CallTracker::new(CliBehaviour { reports_commands: true, ..NAMED });
    tracker.on_decision(Some("exec-1"), "mcp__my-notes__read", &input);
    tracker.on_denial(Some("exec-1"), "mcp__my-notes__read", &input, "tools");
    tracker.on_decision(Some("exec-2"), "mcp__notes__read", &input);
    tracker.on_reported_call("mcp__my-notes__read", &input);
    assert!(tracker.ran_without_permission().unwrap().denied);
}

#[test]
fn undecided_command_is_a_breach_before_it_ends() {
    let mut tracker = CallTracker::new(CliBehaviour { reports_commands: true, ..NAMED });
    tracker.on_decision(Some("exec-1"), "Bash", &json!({"command": "ls"}));
    tracker.on_reported_call("exec_command", &json!({"command": "ls"}));
    assert_eq!(tracker.ran_without_permission(), None);
    tracker.on_reported_call("exec_command", &json!({"command": "sleep 1000"}));
    assert!(tracker.ran_without_permission().is_some());
}

#[test]
fn denied_command_can_run_only_as_often_as_it_was_allowed() {
    let input = json!({"cmd": "git push "});
    for hooks_have_call_ids in [true, false] {
        let mut tracker = CallTracker::new(CliBehaviour { hooks_have_call_ids, ..NAMED });
        tracker.on_reported_command("git push");
        assert_eq!(tracker.ran_without_permission(), None, "no call was requested");
        let mut request = |number: u32, denied: bool| {
            let request = format!("call-{number}");
            let id = hooks_have_call_ids.then_some(request.as_str());
            tracker.on_tool_call(&request, "shell", &input);
            assert!(tracker.on_decision(id, "shell", &input));
            if denied {
                tracker.on_denial(id, "shell", &input, "policy::git");
            }
        };
        request(0, true);
        request(1, false);
        request(2, true);
        tracker.on_reported_command("git push");
        tracker.on_reported_command("git status");
        assert_eq!(tracker.ran_without_permission(), None, "one call was allowed");
        tracker.on_reported_command("git push");
        assert!(tracker.ran_without_permission().unwrap().denied);
    }
}

#[test]
fn decision_is_not_for_another_call_with_the_same_id() {
    let mut tracker = CallTracker::new(NAMED);
    let (list, remove) = (json!({"command": "ls"}), json!({"command": "rm"}));
    tracker.on_tool_call("a", "Bash", &list);
    tracker.on_decision(Some("a"), "Bash", &list);
    tracker.on_tool_call("a", "Bash", &list);
    assert_eq!(tracker.on_result("a", None, "ok", None), Ok(true), "the same call was repeated");
    tracker.on_tool_call("a", "Bash", &remove);
    assert_eq!(tracker.unaccounted().unwrap().id, "a");
    assert!(tracker.on_result("a", None, "ok", None).is_err(), "rm was never decided");
    tracker.on_tool_call("b", "Write", &json!({"file_path": "x"}));
    tracker.on_decision(Some("b"), "Write", &json!({"file_path": "x"}));
    tracker.on_tool_call("b", "Write", &json!({"file_path": "y"}));
    assert!(tracker.on_result("b", None, "ok", None).is_err(), "y was never decided");
}

#[test]
fn calls_without_ids_are_matched_one_to_one_by_tool_and_input() {
    let behaviour = CliBehaviour { hooks_have_call_ids: false, ..NAMED };
    let mut tracker = CallTracker::new(behaviour);
    let input = json!({"command": "ls", "dir": 1});
    tracker.on_tool_call("a", "shell", &input);
    tracker.on_tool_call("b", "shell", &input);
    tracker.on_decision(None, "shell", &json!({"dir": 1, "command": "ls"}));
    assert_eq!(tracker.on_result("a", None, "ok", None), Ok(true));
    assert!(tracker.on_result("b", None, "ok", None).is_err(), "a decision is for one call");
    tracker.on_tool_call("c", "shell", &json!({"command": "rm"}));
    tracker.on_decision(None, "shell", &input);
    assert!(tracker.on_result("c", None, "ok", None).is_err(), "another command was decided");
}

#[test]
fn calls_without_an_id_from_the_model_are_matched_by_tool() {
    let mut tracker = CallTracker::new(CliBehaviour { hooks_have_call_ids: false, ..NAMED });
    let (list, remove) = (json!({"command": "ls"}), json!({"command": "rm"}));
    tracker.on_tool_call("", "shell", &list);
    tracker.on_tool_call("", "shell", &remove);
    tracker.on_decision(None, "shell", &list);
    assert_eq!(tracker.on_result("shell-1", Some("shell"), "ok", None), Ok(true));
    assert!(
        tracker.on_result("shell-2", Some("shell"), "ok", None).is_err(),
        "rm was never decided"
    );
}

#[test]
fn denial_that_does_not_reach_the_model_is_a_breach() {
    let mut tracker = CallTracker::new(NAMED);
    let input = json!({"command": "git push"});
    for id in ["a", "b", "c"] {
        tracker.on_tool_call(id, "Bash", &input);
        tracker.on_decision(Some(id), "Bash", &input);
        tracker.on_denial(Some(id), "Bash", &input, "policy::git");
    }
    assert_eq!(tracker.on_result("a", None, "hook: policy::git: no.", None), Ok(true));
    assert!(tracker.on_result("b", None, "pushed", None).unwrap_err().denied);
    let result = tracker.on_result("c", None, "policy::git", Some(false));
    assert!(result.is_err(), "the call ran and printed text that looks like a denial");
    let mut tracker = CallTracker::new(CliBehaviour { hooks_have_call_ids: false, ..NAMED });
    for id in ["a", "b"] {
        tracker.on_tool_call(id, "shell", &input);
        tracker.on_decision(None, "shell", &input);
    }
    tracker.on_denial(None, "shell", &input, "policy::git");
    assert_eq!(tracker.on_result("a", None, "pushed", None), Ok(true), "one call was allowed");
    assert!(tracker.on_result("b", None, "pushed", None).unwrap_err().denied);
}

#[test]
fn decisions_about_unknown_calls_are_counted() {
    let mut tracker = CallTracker::new(NAMED);
    tracker.on_decision(Some("forged"), "Bash", &json!({}));
    assert_eq!(tracker.forged_hook_requests(), 1);
}

#[test]
fn calls_from_code_mode_are_not_counted_as_invented() {
    let mut tracker =
        CallTracker::new(CliBehaviour { code_mode: Some(("exec", "exec-")), ..NAMED });
    tracker.on_decision(Some("exec-1"), "Bash", &json!({}));
    assert_eq!(tracker.forged_hook_requests(), 1, "the model has not requested code mode");
    tracker.on_tool_call("a", "exec", &json!("await tools.exec_command({cmd: 'ls'})"));
    assert_eq!(tracker.forged_hook_requests(), 0);
    tracker.on_decision(Some("forged"), "Bash", &json!({}));
    assert_eq!(tracker.forged_hook_requests(), 1);
}

#[test]
fn decision_about_another_command_does_not_count() {
    let mut tracker = CallTracker::new(NAMED);
    tracker.on_tool_call("a", "exec_command", &json!({"cmd": "git push"}));
    assert!(!tracker.on_decision(Some("a"), "Bash", &json!({"command": "echo hi"})));
    assert!(tracker.on_result("a", None, "pushed", None).is_err());
    assert_eq!(tracker.forged_hook_requests(), 1);
    tracker.on_tool_call("b", "exec_command", &json!({"cmd": "ls"}));
    assert!(tracker.on_decision(Some("b"), "Bash", &json!({"command": "ls"})));
    assert_eq!(tracker.on_result("b", None, "a b c", None), Ok(true));
}

#[test]
fn denial_is_recognised_by_the_programs_text_only() {
    let behaviour = CliBehaviour { denial_marker: "blocked by PreToolUse hook: ", ..NAMED };
    for (output, accepted) in [
        ("Command blocked by PreToolUse hook: policy::x: no", true),
        ("Chunk ID: 1\nOutput:\nblocked by PreToolUse hook: policy::x", false),
        ("policy::x", false),
    ] {
        let mut tracker = CallTracker::new(behaviour);
        let input = json!({"cmd": "git push"});
        tracker.on_tool_call("a", "exec_command", &input);
        tracker.on_decision(Some("a"), "Bash", &json!({"command": "git push"}));
        tracker.on_denial(Some("a"), "Bash", &input, "policy::x");
        assert_eq!(tracker.on_result("a", None, output, None).is_ok(), accepted, "{output}");
    }
}

#[test]
fn call_of_an_incomplete_response_needs_no_result_unless_it_ran() {
    let input = json!({"command": "ls"});
    for (unfinished, broke_off, dropped) in [
        (IncompleteCalls::Runs, true, false),
        (IncompleteCalls::Runs, false, false),
        (IncompleteCalls::RunsUnlessBroken, true, true),
        (IncompleteCalls::RunsUnlessBroken, false, false),
        (IncompleteCalls::ReportsRun, true, true),
        (IncompleteCalls::ReportsRun, false, true),
    ] {
        let mut tracker = CallTracker::new(CliBehaviour { unfinished, ..NAMED });
        tracker.on_tool_call("a", "Bash", &input);
        tracker.on_incomplete_response("a", "Bash", &input, broke_off);
        assert_eq!(tracker.unaccounted().is_none(), dropped, "{unfinished:?}, {broke_off}");
        // Later reports about the call still count.
        let mut reported = tracker.clone();
        reported.on_reported_result("a", "a b c", false);
        assert_eq!(reported.ran_without_permission().unwrap().id, "a", "{unfinished:?}");
        assert!(tracker.on_result("a", None, "a b c", None).is_err(), "{unfinished:?}");
    }
    let mut tracker =
        CallTracker::new(CliBehaviour { unfinished: IncompleteCalls::ReportsRun, ..NAMED });
    tracker.on_tool_call("a", "Bash", &input);
    tracker.on_tool_call("a", "Bash", &input);
    tracker.on_incomplete_response("a", "Bash", &input, true);
    tracker.on_incomplete_response("a", "Bash", &json!({"command": "rm"}), true);
    assert!(tracker.unaccounted().is_some(), "only one of the two calls was cut off");
}

#[test]
fn undecided_call_without_a_result_is_unaccounted_for() {
    let mut tracker = CallTracker::new(NAMED);
    tracker.on_tool_call("a", "Bash", &json!({"command": "ls"}));
    tracker.on_tool_call("b", "Bash", &json!({"command": "rm"}));
    tracker.on_decision(Some("a"), "Bash", &json!({"command": "ls"}));
    assert_eq!(tracker.unaccounted().unwrap().id, "b");
    tracker.clear_unresolved();
    assert_eq!(tracker.unaccounted(), None, "it was an earlier attempt");
    let mut tracker = CallTracker::new(CliBehaviour { hooks_have_call_ids: false, ..NAMED });
    tracker.on_tool_call("x", "shell", &json!({"command": "ls"}));
    assert!(tracker.unaccounted().is_some());
    tracker.on_decision(None, "shell", &json!({"command": "ls"}));
    assert_eq!(tracker.unaccounted(), None);
}
