//! Every action of every page in a real Chromium, by keyboard: it has the same effect as its form.

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;

use bailiwick_fleet::ports::TokenScope;
use bailiwick_server::{Limits, NoControlPlane};
use bailiwick_testkit::browser::{chromium, node_packages};

use crate::browser::form;
use crate::scopes::{ActionButton, all_action_buttons, save_filter};
use crate::scripted_fleet::{ScriptedFleet, serve_fleet};
use crate::scripted_runs::{TestServer, serve, serve_limited};

/// The recorded actions without duplicates. Browsers change line ends.
fn recorded_actions(server: &TestServer, fleet: &ScriptedFleet) -> BTreeSet<String> {
    let actions = server.runs.changes().into_iter().chain(fleet.calls());
    actions.map(|action| action.replace(['\r', '\n'], "")).collect()
}

/// A command that runs a script in a real Chromium, with the address and a token of the server.
fn chromium_script(server: &TestServer, script: &str) -> Command {
    let script = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/browser").join(script);
    let mut node = Command::new("node");
    node.arg(script)
        .arg(format!("http://{}", server.address))
        .env("CHROMIUM", chromium())
        .env("NODE_MODULES", node_packages())
        .env("TOKEN", server.token(TokenScope::Admin))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    node
}

fn press_buttons_by_keyboard(server: &TestServer, buttons: &[ActionButton]) -> Vec<String> {
    let list: Vec<serde_json::Value> = buttons
        .iter()
        .map(|button| {
            serde_json::json!({
                "page": button.page, "action": button.action, "value": button.value, "fields": button.fields,
            })
        })
        .collect();
    let mut node = chromium_script(server, "act.mjs").spawn().unwrap();
    let mut input = node.stdin.take().unwrap();
    input.write_all(serde_json::to_string(&list).unwrap().as_bytes()).unwrap();
    drop(input);
    let output = node.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_page_action_works_from_the_keyboard() {
    // The effects of the same forms when a program sends them.
    let (server, fleet) = serve_fleet().await;
    let buttons = all_action_buttons(&server).await;
    for button in &buttons {
        let mut client = server.signed_in(TokenScope::Admin).await;
        save_filter(&server).await;
        let reply = client.post(&button.action, &button.body()).await;
        assert!([200, 303].contains(&reply.status), "{button:?}: {}", reply.text);
        server.wait_for_jobs().await;
    }
    let expected = recorded_actions(&server, &fleet);
    assert!(expected.len() > 20, "{expected:?}");

    let (server, fleet) = serve_fleet().await;
    let same_buttons = all_action_buttons(&server).await;
    assert_eq!(same_buttons.len(), buttons.len());
    let (server, statuses) = tokio::task::spawn_blocking(move || {
        let statuses = press_buttons_by_keyboard(&server, &same_buttons);
        (server, statuses)
    })
    .await
    .unwrap();
    server.wait_for_jobs().await;
    let failed: Vec<(&ActionButton, &String)> =
        buttons.iter().zip(&statuses).filter(|(_, status)| *status != "200").collect();
    assert!(failed.is_empty() && statuses.len() == buttons.len(), "{failed:#?}");
    assert_eq!(recorded_actions(&server, &fleet), expected);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn inbox_update_keeps_the_selected_question() {
    let server = serve().await;
    server.runs.set_equal_questions(2);
    let server = tokio::task::spawn_blocking(move || {
        let mut node =
            chromium_script(&server, "choose.mjs").stderr(Stdio::inherit()).spawn().unwrap();
        let mut lines = BufReader::new(node.stdout.take().unwrap()).lines();
        assert_eq!(lines.next().unwrap().unwrap(), "chosen 8");
        // A third question changes the page.
        server.runs.set_equal_questions(3);
        assert_eq!(lines.next().unwrap().unwrap(), "updated, chosen 8");
        assert_eq!(lines.next().unwrap().unwrap(), "held, not sent");
        assert_eq!(lines.next().unwrap().unwrap(), "approved");
        assert_eq!(lines.next().unwrap().unwrap(), "chosen 8");
        // The selected question has been removed.
        server.runs.set_equal_questions(1);
        assert_eq!(lines.next().unwrap().unwrap(), "updated, chosen none");
        assert_eq!(lines.next().unwrap().unwrap(), "early, not sent, told");
        assert_eq!(lines.next().unwrap().unwrap(), "land early, not sent");
        assert_eq!(lines.next().unwrap().unwrap(), "land later, sent");
        assert_eq!(lines.next().unwrap().unwrap(), "blocked 1, after going back 0");
        assert!(node.wait().unwrap().success());
        server
    })
    .await
    .unwrap();
    assert_eq!(
        server.runs.changes(),
        ["Approve fix-42 8"],
        "only the selected question is answered"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn job_appears_beside_the_changes_which_stay_as_they_are() {
    let server = serve().await;
    let mut operator = server.signed_in(TokenScope::Operator).await;
    let (mut node, mut lines) = tokio::task::spawn_blocking(move || {
        let mut node =
            chromium_script(&server, "beside.mjs").stderr(Stdio::inherit()).spawn().unwrap();
        let mut lines = BufReader::new(node.stdout.take().unwrap()).lines();
        assert_eq!(lines.next().unwrap().unwrap(), "no jobs true");
        (node, lines)
    })
    .await
    .unwrap();
    let verify = form(&[("action", "verify")]);
    assert_eq!(operator.post("/ui/local/fix-42/action", &verify).await.status, 303);
    tokio::task::spawn_blocking(move || {
        assert_eq!(lines.next().unwrap().unwrap(), "job, kept because, yes");
        assert_eq!(lines.next().unwrap().unwrap(), "read /ui/local/fix-42?since=last");
        assert!(node.wait().unwrap().success());
    })
    .await
    .unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn moved_question_ignores_an_immediate_click() {
    let server = serve().await;
    server.add_approval().await;
    let server = tokio::task::spawn_blocking(move || {
        let mut node =
            chromium_script(&server, "moved.mjs").stderr(Stdio::inherit()).spawn().unwrap();
        let mut lines = BufReader::new(node.stdout.take().unwrap()).lines();
        assert_eq!(lines.next().unwrap().unwrap(), "ready");
        // A second question is shown above the approval.
        server.runs.set_equal_questions(2);
        assert_eq!(lines.next().unwrap().unwrap(), "moved true, sent 0, told");
        assert_eq!(lines.next().unwrap().unwrap(), "by key, sent 1");
        assert_eq!(lines.next().unwrap().unwrap(), "later, sent 2");
        assert!(node.wait().unwrap().success());
        server
    })
    .await
    .unwrap();
    assert_eq!(server.runs.changes(), Vec::<String>::new());
}

/// Runs a script to its end; returns its standard output.
async fn script_output(server: &TestServer, script: &str, arguments: &[String]) -> String {
    let mut node = chromium_script(server, script);
    node.args(arguments);
    let output = tokio::task::spawn_blocking(move || node.output()).await.unwrap().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn times_pass_on_an_open_page_and_delay_no_answer() {
    let server = serve().await;
    let output = script_output(&server, "times.mjs", &[]).await;
    let lines: Vec<&str> = output.lines().collect();
    assert_eq!(lines, ["just now, 20 min", "2 h 1 min ago, 0 s", "sent"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hidden_tab_closes_its_stream() {
    let limits = Limits { max_streams_per_person: 1, ..Limits::default() };
    let server = serve_limited("", Arc::new(NoControlPlane), limits).await;
    let output = script_output(&server, "hidden.mjs", &[]).await;
    let lines: Vec<&str> = output.lines().collect();
    let hidden = "first is hidden and not live";
    assert_eq!(lines, ["first is live", hidden, "second is live", "first is live again"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn copy_buttons_copy_commands_event_links_digests_and_inputs() {
    let server = serve().await;
    let output = script_output(&server, "copy.mjs", &[]).await;
    let lines: Vec<&str> = output.lines().collect();
    let copied =
        ["command true", "shown false, then true", "event true", "digest true", "input true"];
    assert_eq!(lines, [&copied[..], &["with script true", "without script false"]].concat());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn very_long_line_makes_no_page_wider_than_the_window() {
    let server = serve().await;
    server.runs.add_long_lines();
    let tabs = ["", "/changes", "/changes?view=split", "/checks"];
    let pages = tabs.map(|tab| format!("/ui/local/fix-42{tab}"));
    let report: serde_json::Value =
        serde_json::from_str(&script_output(&server, "long.mjs", &pages).await).unwrap();
    assert_eq!(report, serde_json::json!({ "faults": [], "control": true }));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn page_without_a_stream_shows_the_reason() {
    let limits = Limits { max_streams_per_person: 0, ..Limits::default() };
    let server = serve_limited("", Arc::new(NoControlPlane), limits).await;
    let output = script_output(&server, "refused.mjs", &[]).await;
    assert!(output.starts_with("Not live: ") && output.contains("close some"), "{output}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn update_keeps_typed_text_and_waits_for_a_focused_field() {
    let server = serve().await;
    server.runs.set_equal_questions(2);
    let server = tokio::task::spawn_blocking(move || {
        let mut node =
            chromium_script(&server, "keep.mjs").stderr(Stdio::inherit()).spawn().unwrap();
        let mut lines = BufReader::new(node.stdout.take().unwrap()).lines();
        assert_eq!(lines.next().unwrap().unwrap(), "typed because, ticked true");
        server.runs.set_equal_questions(3);
        // The box was ticked for two questions, not for three.
        assert_eq!(lines.next().unwrap().unwrap(), "updated, typed because, ticked false");
        assert_eq!(lines.next().unwrap().unwrap(), "in use");
        server.runs.set_equal_questions(4);
        assert_eq!(lines.next().unwrap().unwrap(), "postponed true, not sent");
        assert_eq!(lines.next().unwrap().unwrap(), "made up for, typed because");
        assert!(node.wait().unwrap().success());
        server
    })
    .await
    .unwrap();
    assert_eq!(server.runs.changes(), Vec::<String>::new());
}
