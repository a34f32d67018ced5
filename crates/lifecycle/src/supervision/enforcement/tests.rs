//! The watch over calls, call by call.

use super::*;
use serde_json::json;

const NAMED: CliBehaviour = CliBehaviour {
    hooks_have_call_ids: true,
    unhooked: &["update_plan"],
    refusals: &["No such tool"],
    denial: "",
    truncates_old_results: true,
    unfinished: IncompleteCalls::Runs,
    reports_commands: false,
    code_mode: None,
};

#[test]
fn a_result_without_a_decision_is_a_loss() {
    let mut watch = CallTracker::new(NAMED);
    let input = json!({"command": "ls"});
    watch.on_tool_call("a", "Bash", &input);
    watch.on_tool_call("b", "Bash", &input);
    watch.on_decision(Some("a"), "Bash", &input);
    assert_eq!(watch.on_result("a", None, "ok", None), Ok(true));
    assert_eq!(watch.on_result("a", None, "ok", None), Ok(false), "history is repeated");
    let lost = watch.on_result("b", None, "ok", None).unwrap_err();
    assert_eq!((lost.id.as_str(), lost.tool.as_str()), ("b", "Bash"));
    assert!(watch.on_result("c", Some("Bash"), "ok", None).is_err(), "nobody asked for it");
}

#[test]
fn what_the_program_refuses_by_itself_and_what_has_no_hook_is_no_loss() {
    let mut watch = CallTracker::new(NAMED);
    watch.on_tool_call("a", "MultiEdit", &json!({}));
    watch.on_tool_call("b", "update_plan", &json!({}));
    assert_eq!(watch.on_result("a", None, "No such tool available: MultiEdit", None), Ok(true));
    assert_eq!(watch.on_result("b", None, "done", None), Ok(true));
    watch.on_tool_call("c", "Bash", &json!({}));
    let printed = watch.on_result("c", None, "No such tool available: x", Some(false));
    assert!(printed.is_err(), "it ran, and printed what looks like a refusal");
    watch.add_known_result("old");
    assert_eq!(watch.on_result("old", Some("Bash"), "from before", None), Ok(false));
}

#[test]
fn a_call_that_the_program_says_it_has_run_undecided_is_not_forgotten() {
    let mut watch = CallTracker::new(NAMED);
    for (id, tool) in [("a", "Bash"), ("b", "Bash"), ("c", "update_plan"), ("d", "Bash")] {
        watch.on_tool_call(id, tool, &json!({"command": id}));
    }
    watch.on_decision(Some("a"), "Bash", &json!({"command": "a"}));
    watch.on_reported_result("a", "it ran", false);
    watch.on_reported_result("c", "it ran", false);
    watch.on_reported_result("d", "No such tool available", true);
    watch.on_reported_result("item_0", "a name of the program's own", false);
    assert_eq!(watch.ran_without_permission(), None);
    watch.on_reported_result("b", "No such tool, it printed", false);
    watch.clear_unresolved();
    let lost = watch.ran_without_permission().unwrap();
    assert_eq!(
        (lost.id.as_str(), lost.denied),
        ("b", false),
        "an attempt that ends forgives nothing"
    );
}

/// Somebody inside tells the model of the denial before the program does, and so spends the one
/// result that is looked at.
#[test]
fn a_denied_call_that_the_program_says_it_has_run_is_a_loss_even_if_the_model_was_told() {
    let input = json!({"command": "git push"});
    for (output, failed, held) in [
        ("hook: policy::git: no", true, true),
        ("No such tool, says the program", true, true),
        ("pushed", false, false),
        ("policy::git", false, false),
        ("Exit code 1", true, false),
    ] {
        let mut watch = CallTracker::new(NAMED);
        watch.on_tool_call("a", "Bash", &input);
        watch.on_decision(Some("a"), "Bash", &input);
        watch.on_denial(Some("a"), "Bash", &input, "policy::git");
        assert_eq!(watch.on_result("a", None, "policy::git: no", Some(true)), Ok(true));
        assert_eq!(watch.on_result("a", None, output, Some(failed)), Ok(false), "known");
        watch.on_reported_result("a", output, failed);
        assert_eq!(watch.ran_without_permission().is_none(), held, "{output}");
        assert!(watch.ran_without_permission().is_none_or(|lost| lost.denied), "{output}");
    }
}

/// Some calls reach no hook and no stream of the program: what comes back is all that is seen of them.
#[test]
fn a_result_that_contradicts_what_the_model_was_told_before_is_a_loss() {
    let input = json!({"command": "git push"});
    for (truncates_old_results, first, second, held) in [
        (false, "No such tool: x", "No such tool: x", true),
        (false, "No such tool: x", "pushed", false),
        (false, "hook: policy::git: no", "pushed", false),
        (true, "No such tool: x", "[cleared]", true),
    ] {
        let mut watch = CallTracker::new(CliBehaviour { truncates_old_results, ..NAMED });
        watch.on_tool_call("a", "Typing", &input);
        if first.contains("policy") {
            watch.on_decision(Some("a"), "Typing", &input);
            watch.on_denial(Some("a"), "Typing", &input, "policy::git");
        }
        assert_eq!(watch.on_result("a", None, first, None), Ok(true));
        assert_eq!(watch.on_result("a", None, first, None), Ok(false));
        assert_eq!(watch.on_result("a", None, second, None).is_ok(), held, "{second}");
    }
    // What has run may be shown in another way later.
    let mut watch = CallTracker::new(CliBehaviour { truncates_old_results: false, ..NAMED });
    watch.on_tool_call("a", "Bash", &input);
    watch.on_decision(Some("a"), "Bash", &input);
    assert_eq!(watch.on_result("a", None, "pushed, and much more", None), Ok(true));
    assert_eq!(watch.on_result("a", None, "pushed …", None), Ok(false));
}

#[test]
fn a_command_that_nobody_decided_is_a_loss_where_the_program_tells_of_all() {
    let input = json!({"command": "git push"});
    for (reports_commands, lost) in [(true, true), (false, false)] {
        let mut watch = CallTracker::new(CliBehaviour { reports_commands, ..NAMED });
        assert!(watch.on_decision(Some("inner"), "Bash", &input));
        watch.on_reported_command("git push\n");
        assert_eq!(watch.ran_without_permission(), None, "it was decided");
        watch.on_reported_command("git push --force");
        assert_eq!(watch.ran_without_permission().is_some_and(|lost| !lost.denied), lost);
    }
}

#[test]
fn files_that_no_allowed_patch_changes_are_a_loss_where_the_program_tells_of_all() {
    let patch = |name: &str| json!({"command": format!("*** Begin Patch\n*** Add File: {name}\n+x\n*** End Patch")});
    let changes = |path: &str| json!({"changes": [{"path": path, "kind": "add"}]});
    for (decided, denied, path, held) in [
        (Some("src/a.txt"), false, "/work/src/a.txt", true),
        (Some("./src/a.txt"), false, "/work/src/a.txt", true),
        (Some("../b/src/a.txt"), false, "/b/src/a.txt", true),
        (Some("/work/src/a.txt"), false, "/work/src/a.txt", true),
        (Some("src/a.txt"), true, "/work/src/a.txt", false),
        (Some("src/a.txt"), false, "/work/src/b.txt", false),
        (Some(".."), false, "/work/src/b.txt", false),
        (None, false, "/work/src/a.txt", false),
    ] {
        let mut watch = CallTracker::new(CliBehaviour { reports_commands: true, ..NAMED });
        if let Some(name) = decided {
            watch.on_decision(Some("exec-1"), "apply_patch", &patch(name));
        }
        if denied {
            watch.on_denial(Some("exec-1"), "apply_patch", &patch("src/a.txt"), "scope");
        }
        watch.on_reported_call("apply_patch", &changes(path));
        assert_eq!(watch.ran_without_permission().is_none(), held, "{decided:?} {path}");
        watch.on_reported_call("apply_patch", &changes(path));
        assert!(watch.ran_without_permission().is_some(), "one patch is applied once");
    }
    // The one that names no more is taken first.
    let both = "*** Begin Patch\n*** Add File: a\n+x\n*** Add File: b\n+x\n*** End Patch";
    let mut watch = CallTracker::new(CliBehaviour { reports_commands: true, ..NAMED });
    watch.on_decision(Some("exec-1"), "apply_patch", &json!({"command": both}));
    watch.on_decision(Some("exec-2"), "apply_patch", &patch("a"));
    watch.on_reported_call("apply_patch", &changes("/work/a"));
    let all = json!({"changes": [{"path": "/work/a"}, {"path": "/work/b"}]});
    watch.on_reported_call("apply_patch", &all);
    assert_eq!(watch.ran_without_permission(), None, "both were allowed");
    let mut watch = CallTracker::new(NAMED);
    watch.on_reported_call("apply_patch", &changes("/work/a"));
    assert_eq!(watch.ran_without_permission(), None, "another program does not report all");
}

#[test]
fn a_server_is_called_as_often_as_it_was_allowed_and_no_more() {
    for (input, told) in
        [(json!({"text": "hi", "to": 1}), json!({"to": 1, "text": "hi"})), (json!({}), Value::Null)]
    {
        let mut watch = CallTracker::new(CliBehaviour { reports_commands: true, ..NAMED });
        watch.on_decision(Some("exec-1"), "mcp__notes__say", &input);
        watch.on_decision(Some("exec-2"), "mcp__notes__say", &input);
        watch.on_denial(Some("exec-2"), "mcp__notes__say", &input, "tools");
        watch.on_reported_call("mcp__notes__say", &told);
        assert_eq!(watch.ran_without_permission(), None, "one was allowed");
        watch.on_reported_call("mcp__notes__say", &told);
        assert!(watch.ran_without_permission().unwrap().denied);
    }
    let mut watch = CallTracker::new(CliBehaviour { reports_commands: true, ..NAMED });
    watch.on_reported_call("mcp__notes__say", &json!({"text": "hi"}));
    assert!(!watch.ran_without_permission().unwrap().denied, "nobody was asked");
}

#[test]
fn a_server_is_called_by_the_tool_that_was_allowed_and_by_no_other() {
    let input = json!({"id": 1});
    let long = format!("mcp__notes__{}", "x".repeat(60));
    for (decided, told, held) in [
        ("mcp__notes__read", "mcp__notes__read", true),
        ("mcp__notes__read", "mcp__notes__delete", false),
        ("mcp__notes__read", "mcp__other__read", false),
        // The hook has another name for it.
        ("mcp__my_notes__read", "mcp__my-notes__read", true),
        ("mcp__notes__xxx_0123abcd", long.as_str(), true),
    ] {
        let mut watch = CallTracker::new(CliBehaviour { reports_commands: true, ..NAMED });
        watch.on_decision(Some("exec-1"), decided, &input);
        watch.on_reported_call(told, &input);
        assert_eq!(watch.ran_without_permission().is_none(), held, "{decided} {told}");
        watch.on_reported_call(told, &input);
        assert!(watch.ran_without_permission().is_some(), "{told}: one was allowed");
    }
    // Where the hook has the same name, that one counts.
    let mut watch = CallTracker::new(CliBehaviour { reports_commands: true, ..NAMED });
    watch.on_decision(Some("exec-1"), "mcp__my-notes__read", &input);
    watch.on_denial(Some("exec-1"), "mcp__my-notes__read", &input, "tools");
    watch.on_decision(Some("exec-2"), "mcp__notes__read", &input);
    watch.on_reported_call("mcp__my-notes__read", &input);
    assert!(watch.ran_without_permission().unwrap().denied);
}

#[test]
fn a_command_that_nobody_decided_is_a_loss_before_it_has_ended() {
    let mut watch = CallTracker::new(CliBehaviour { reports_commands: true, ..NAMED });
    watch.on_decision(Some("exec-1"), "Bash", &json!({"command": "ls"}));
    watch.on_reported_call("exec_command", &json!({"command": "ls"}));
    assert_eq!(watch.ran_without_permission(), None);
    watch.on_reported_call("exec_command", &json!({"command": "sleep 1000"}));
    assert!(watch.ran_without_permission().is_some());
}

#[test]
fn a_command_that_was_denied_is_run_as_often_as_it_was_allowed_and_no_more() {
    let input = json!({"cmd": "git push "});
    for hooks_have_call_ids in [true, false] {
        let mut watch = CallTracker::new(CliBehaviour { hooks_have_call_ids, ..NAMED });
        watch.on_reported_command("git push");
        assert_eq!(watch.ran_without_permission(), None, "nobody has asked");
        let mut name = |number: u32, denied: bool| {
            let name = format!("call-{number}");
            let id = hooks_have_call_ids.then_some(name.as_str());
            watch.on_tool_call(&name, "shell", &input);
            assert!(watch.on_decision(id, "shell", &input));
            if denied {
                watch.on_denial(id, "shell", &input, "policy::git");
            }
        };
        name(0, true);
        name(1, false);
        name(2, true);
        watch.on_reported_command("git push");
        watch.on_reported_command("git status");
        assert_eq!(watch.ran_without_permission(), None, "one was allowed");
        watch.on_reported_command("git push");
        assert!(watch.ran_without_permission().unwrap().denied);
    }
}

#[test]
fn an_answer_is_not_for_another_call_of_the_same_name() {
    let mut watch = CallTracker::new(NAMED);
    let (list, remove) = (json!({"command": "ls"}), json!({"command": "rm"}));
    watch.on_tool_call("a", "Bash", &list);
    watch.on_decision(Some("a"), "Bash", &list);
    watch.on_tool_call("a", "Bash", &list);
    assert_eq!(watch.on_result("a", None, "ok", None), Ok(true), "the same, told again");
    watch.on_tool_call("a", "Bash", &remove);
    assert_eq!(watch.unaccounted().unwrap().id, "a");
    assert!(watch.on_result("a", None, "ok", None).is_err(), "rm was never decided");
    watch.on_tool_call("b", "Write", &json!({"file_path": "x"}));
    watch.on_decision(Some("b"), "Write", &json!({"file_path": "x"}));
    watch.on_tool_call("b", "Write", &json!({"file_path": "y"}));
    assert!(watch.on_result("b", None, "ok", None).is_err(), "y was never decided");
}

#[test]
fn calls_without_names_are_matched_one_to_one_by_what_they_are() {
    let behaviour = CliBehaviour { hooks_have_call_ids: false, ..NAMED };
    let mut watch = CallTracker::new(behaviour);
    let input = json!({"command": "ls", "dir": 1});
    watch.on_tool_call("a", "shell", &input);
    watch.on_tool_call("b", "shell", &input);
    watch.on_decision(None, "shell", &json!({"dir": 1, "command": "ls"}));
    assert_eq!(watch.on_result("a", None, "ok", None), Ok(true));
    assert!(watch.on_result("b", None, "ok", None).is_err(), "one decision is for one call");
    watch.on_tool_call("c", "shell", &json!({"command": "rm"}));
    watch.on_decision(None, "shell", &input);
    assert!(watch.on_result("c", None, "ok", None).is_err(), "decided was another command");
}

#[test]
fn calls_that_the_model_gave_no_name_are_found_by_their_tool() {
    let mut watch = CallTracker::new(CliBehaviour { hooks_have_call_ids: false, ..NAMED });
    let (list, remove) = (json!({"command": "ls"}), json!({"command": "rm"}));
    watch.on_tool_call("", "shell", &list);
    watch.on_tool_call("", "shell", &remove);
    watch.on_decision(None, "shell", &list);
    assert_eq!(watch.on_result("shell-1", Some("shell"), "ok", None), Ok(true));
    assert!(watch.on_result("shell-2", Some("shell"), "ok", None).is_err(), "rm was never decided");
}

#[test]
fn a_denial_of_which_the_model_is_not_told_is_a_loss() {
    let mut watch = CallTracker::new(NAMED);
    let input = json!({"command": "git push"});
    for id in ["a", "b", "c"] {
        watch.on_tool_call(id, "Bash", &input);
        watch.on_decision(Some(id), "Bash", &input);
        watch.on_denial(Some(id), "Bash", &input, "policy::git");
    }
    assert_eq!(watch.on_result("a", None, "hook: policy::git: no.", None), Ok(true));
    assert!(watch.on_result("b", None, "pushed", None).unwrap_err().denied);
    let printed = watch.on_result("c", None, "policy::git", Some(false));
    assert!(printed.is_err(), "it ran, and printed what looks like a denial");
    let mut watch = CallTracker::new(CliBehaviour { hooks_have_call_ids: false, ..NAMED });
    for id in ["a", "b"] {
        watch.on_tool_call(id, "shell", &input);
        watch.on_decision(None, "shell", &input);
    }
    watch.on_denial(None, "shell", &input, "policy::git");
    assert_eq!(watch.on_result("a", None, "pushed", None), Ok(true), "one was allowed");
    assert!(watch.on_result("b", None, "pushed", None).unwrap_err().denied);
}

#[test]
fn questions_about_no_call_are_counted() {
    let mut watch = CallTracker::new(NAMED);
    watch.on_decision(Some("forged"), "Bash", &json!({}));
    assert_eq!(watch.invented_questions(), 1);
}

#[test]
fn calls_of_code_that_the_model_wrote_are_not_made_up() {
    let mut watch = CallTracker::new(CliBehaviour { code_mode: Some(("exec", "exec-")), ..NAMED });
    watch.on_decision(Some("exec-1"), "Bash", &json!({}));
    assert_eq!(watch.invented_questions(), 1, "nobody has written code");
    watch.on_tool_call("a", "exec", &json!("await tools.exec_command({cmd: 'ls'})"));
    assert_eq!(watch.invented_questions(), 0);
    watch.on_decision(Some("forged"), "Bash", &json!({}));
    assert_eq!(watch.invented_questions(), 1);
}

#[test]
fn an_answer_about_another_command_does_not_count() {
    let mut watch = CallTracker::new(NAMED);
    watch.on_tool_call("a", "exec_command", &json!({"cmd": "git push"}));
    assert!(!watch.on_decision(Some("a"), "Bash", &json!({"command": "echo hi"})));
    assert!(watch.on_result("a", None, "pushed", None).is_err());
    assert_eq!(watch.invented_questions(), 1);
    watch.on_tool_call("b", "exec_command", &json!({"cmd": "ls"}));
    assert!(watch.on_decision(Some("b"), "Bash", &json!({"command": "ls"})));
    assert_eq!(watch.on_result("b", None, "a b c", None), Ok(true));
}

#[test]
fn a_denial_is_told_in_the_words_of_the_program_and_not_by_the_command() {
    let behaviour = CliBehaviour { denial: "blocked by PreToolUse hook: ", ..NAMED };
    for (output, held) in [
        ("Command blocked by PreToolUse hook: policy::x: no", true),
        ("Chunk ID: 1\nOutput:\nblocked by PreToolUse hook: policy::x", false),
        ("policy::x", false),
    ] {
        let mut watch = CallTracker::new(behaviour);
        let input = json!({"cmd": "git push"});
        watch.on_tool_call("a", "exec_command", &input);
        watch.on_decision(Some("a"), "Bash", &json!({"command": "git push"}));
        watch.on_denial(Some("a"), "Bash", &input, "policy::x");
        assert_eq!(watch.on_result("a", None, output, None).is_ok(), held, "{output}");
    }
}

#[test]
fn a_call_of_an_answer_that_broke_off_is_let_go_where_the_program_does_and_held_if_it_ran() {
    let input = json!({"command": "ls"});
    for (unfinished, broke_off, let_go) in [
        (IncompleteCalls::Runs, true, false),
        (IncompleteCalls::Runs, false, false),
        (IncompleteCalls::RunsUnlessBroken, true, true),
        (IncompleteCalls::RunsUnlessBroken, false, false),
        (IncompleteCalls::ReportsRun, true, true),
        (IncompleteCalls::ReportsRun, false, true),
    ] {
        let mut watch = CallTracker::new(CliBehaviour { unfinished, ..NAMED });
        watch.on_tool_call("a", "Bash", &input);
        watch.on_incomplete_response("a", "Bash", &input, broke_off);
        assert_eq!(watch.unaccounted().is_none(), let_go, "{unfinished:?}, {broke_off}");
        // Whatever is known of it later counts all the same.
        let mut told = watch.clone();
        told.on_reported_result("a", "a b c", false);
        assert_eq!(told.ran_without_permission().unwrap().id, "a", "{unfinished:?}");
        assert!(watch.on_result("a", None, "a b c", None).is_err(), "{unfinished:?}");
    }
    let mut watch =
        CallTracker::new(CliBehaviour { unfinished: IncompleteCalls::ReportsRun, ..NAMED });
    watch.on_tool_call("a", "Bash", &input);
    watch.on_tool_call("a", "Bash", &input);
    watch.on_incomplete_response("a", "Bash", &input, true);
    watch.on_incomplete_response("a", "Bash", &json!({"command": "rm"}), true);
    assert!(watch.unaccounted().is_some(), "one was cut short, and not the other");
}

#[test]
fn a_call_that_nobody_decided_and_that_never_came_back_is_unaccounted_for() {
    let mut watch = CallTracker::new(NAMED);
    watch.on_tool_call("a", "Bash", &json!({"command": "ls"}));
    watch.on_tool_call("b", "Bash", &json!({"command": "rm"}));
    watch.on_decision(Some("a"), "Bash", &json!({"command": "ls"}));
    assert_eq!(watch.unaccounted().unwrap().id, "b");
    watch.clear_unresolved();
    assert_eq!(watch.unaccounted(), None, "that was an earlier attempt");
    let mut watch = CallTracker::new(CliBehaviour { hooks_have_call_ids: false, ..NAMED });
    watch.on_tool_call("x", "shell", &json!({"command": "ls"}));
    assert!(watch.unaccounted().is_some());
    watch.on_decision(None, "shell", &json!({"command": "ls"}));
    assert_eq!(watch.unaccounted(), None);
}
