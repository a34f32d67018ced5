//! The exact answer for each CLI; and how calls of MCP servers are read.

use bailiwick_model::capability::GateSeverity;
use bailiwick_model::role::EscalationPolicy;
use bailiwick_policy::call::{Action, Call, Touch};
use bailiwick_policy::decision::{Decision, Objection, Outcome, Warning};
use bailiwick_policy::dialects::{AllowedReply, Dialect, HookReply};
use serde_json::{Value, json};

const MESSAGE: &str = "some::rule: that is not open here. Instead: do this.";

fn objection() -> Objection {
    Objection::new("some::rule", "that is not open here", "do this")
}

fn answer(exit: u8, stdout: &str, stderr: &str) -> HookReply {
    HookReply { exit, stdout: stdout.to_owned(), stderr: stderr.to_owned() }
}

fn check_all(decision: &Decision, expected: impl Fn(Dialect, AllowedReply) -> HookReply) {
    for dialect in Dialect::ALL {
        for allowing in [AllowedReply::Silent, AllowedReply::Explicit] {
            let found = dialect.answer(decision, allowing);
            assert_eq!(found, expected(dialect, allowing), "{dialect:?} {allowing:?}");
        }
    }
}

#[test]
fn denial_is_exit_2_with_the_reason_on_standard_error() {
    let denied = Decision::deny(objection());
    check_all(&denied, |_, _| answer(2, "", &format!("{MESSAGE}\n")));
    let cases = [
        (EscalationPolicy::AskViaReturn, ""),
        (EscalationPolicy::OrchestratorNotify, " The orchestrator has been notified."),
        (EscalationPolicy::FailFast, " This role ends its run at the first denial."),
    ];
    for (policy, addition) in cases {
        let escalated = Decision { escalation: Some(policy), ..denied.clone() };
        check_all(&escalated, |_, _| answer(2, "", &format!("{MESSAGE}{addition}\n")));
    }
    // Codex lets a call run that is denied without a message.
    check_all(&Decision { because: None, ..denied }, |_, _| answer(2, "", "denied\n"));
}

#[test]
fn only_claude_can_ask_and_the_others_deny() {
    let escalated = Decision { outcome: Outcome::Ask, ..Decision::deny(objection()) };
    let reason = format!(
        r#"{{"hookSpecificOutput":{{"hookEventName":"PreToolUse","permissionDecision":"ask","permissionDecisionReason":"{MESSAGE}"}}}}"#
    );
    check_all(&escalated, |dialect, _| match dialect {
        Dialect::Claude => answer(0, &format!("{reason}\n"), ""),
        Dialect::Codex | Dialect::Gemini | Dialect::OpenCode => {
            answer(2, "", &format!("{MESSAGE}\n"))
        }
    });
}

const ALLOW: &str = "{\"hookSpecificOutput\":{\"hookEventName\":\"PreToolUse\",\"permissionDecision\":\"allow\"}}\n";

fn allowed(dialect: Dialect, allowing: AllowedReply) -> &'static str {
    match (dialect, allowing) {
        (Dialect::Claude, AllowedReply::Explicit) => ALLOW,
        (Dialect::Claude, AllowedReply::Silent)
        | (Dialect::Codex | Dialect::Gemini | Dialect::OpenCode, _) => "",
    }
}

#[test]
fn allowed_call_is_exit_0_with_output_only_where_required() {
    check_all(&Decision::allow(), |dialect, allowing| answer(0, allowed(dialect, allowing), ""));
}

#[test]
fn warning_reaches_the_agent_and_advice_only_the_log() {
    let warning = |severity| Warning { severity, objection: objection() };
    let warnings = vec![warning(GateSeverity::Warn), warning(GateSeverity::Advisory)];
    let warned = Decision { warnings, ..Decision::allow() };
    let context = format!("\"additionalContext\":\"warning: {MESSAGE}\"");
    check_all(&warned, |dialect, allowing| {
        let stdout = match (dialect, allowing) {
            (Dialect::Claude, AllowedReply::Explicit) => {
                ALLOW.replace("\"hookEventName\"", &format!("{context},\"hookEventName\""))
            }
            (Dialect::Claude, AllowedReply::Silent) => {
                let event = "\"hookEventName\":\"PreToolUse\"";
                format!("{{\"hookSpecificOutput\":{{{context},{event}}}}}\n")
            }
            (Dialect::Codex | Dialect::Gemini | Dialect::OpenCode, _) => String::new(),
        };
        answer(0, &stdout, &format!("warning: {MESSAGE}\n"))
    });
}

/// The same call of an MCP server's tool in every dialect.
fn of_server(tool: &str, input: &Value) -> Vec<Option<Call>> {
    let claude = json!({"tool_name": format!("mcp__gov__{tool}"), "tool_input": input});
    let context = json!({"server_name": "gov", "tool_name": tool});
    let gemini = json!({
        "tool_name": format!("mcp_gov_{tool}"), "tool_input": input, "mcp_context": context,
    });
    let opencode = json!({"tool": format!("gov_{tool}"), "args": input});
    let servers = ["gov".to_owned(), "go".to_owned()];
    [
        (Dialect::Claude, &claude),
        (Dialect::Codex, &claude),
        (Dialect::Gemini, &gemini),
        (Dialect::OpenCode, &opencode),
    ]
    .map(|(dialect, payload)| dialect.read(payload.to_string().as_bytes(), &servers).ok())
    .into()
}

/// The changed paths.
fn changed(call: &Call) -> Vec<String> {
    match &call.action {
        Action::Files(targets) | Action::ShellAndFiles(_, targets) => {
            let changed = targets.iter().filter(|target| target.touch != Touch::Read);
            changed.map(|target| target.path.clone()).collect()
        }
        Action::Shell(_) | Action::TerminalInput | Action::NoKnownEffect => Vec::new(),
    }
}

#[test]
fn path_of_a_server_call_is_found_among_any_other_fields() {
    for (tool, input) in [
        ("store", json!({"path": "/outside"})),
        ("store", json!({"path": "/outside", "target": 7})),
        ("store", json!({"output": true, "path": "/outside", "source": null})),
        ("store", json!({"files": [7, {"path": "/outside"}]})),
        ("store", json!({"target": {"path": "/outside", "file": 7}})),
        ("store", json!({"what": {"where": [{"path": "/outside"}]}})),
        ("find_and_replace", json!({"path": "/outside"})),
        ("searchReplace", json!({"path": "/outside"})),
        ("get_or_create", json!({"path": "/outside"})),
    ] {
        for call in of_server(tool, &input) {
            let call = call.unwrap();
            assert_eq!(call.tools[0].as_str(), format!("mcp__gov__{tool}"));
            assert_eq!(changed(&call), ["/outside"], "{tool} {input}: {call:?}");
        }
    }
    for call in of_server("read_file", &json!({"path": "/outside"})) {
        assert_eq!(changed(&call.unwrap()), [""; 0], "a read is not a change");
    }
    for call in of_server("store", &json!({"path": "/out\0side"})) {
        assert_eq!(call, None, "a path with a NUL is invalid");
    }
}

#[test]
fn name_of_both_a_server_tool_and_a_cli_tool_is_refused() {
    let patch = "*** Begin Patch\n*** Add File: a\n+x\n*** End Patch\n";
    let payload = json!({"tool": "apply_patch", "args": {"patchText": patch}}).to_string();
    let read = |servers: &[String]| Dialect::OpenCode.read(payload.as_bytes(), servers);
    assert!(read(&["apply".to_owned()]).is_err());
    assert_eq!(changed(&read(&["other".to_owned()]).unwrap()), ["a"]);
}

#[test]
fn ambiguous_directory_is_refused() {
    for directory in ["repo", "", "./x", "~"] {
        let claude = json!({"cwd": directory, "tool_name": "Bash", "tool_input": {"command": "x"}});
        let opencode = json!({"cwd": directory, "tool": "bash", "args": {"command": "x"}});
        for dialect in Dialect::ALL {
            let payload = match dialect {
                Dialect::Claude | Dialect::Codex | Dialect::Gemini => &claude,
                Dialect::OpenCode => &opencode,
            };
            let call = dialect.read(payload.to_string().as_bytes(), &[]);
            assert!(call.is_err(), "{dialect:?} {directory:?}: {call:?}");
        }
    }
}
