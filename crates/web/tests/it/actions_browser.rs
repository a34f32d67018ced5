//! Every action of every page in a real Chromium, with the keyboard: each has the effect that its form has.

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;

use bailiwick_fleet::ports::TokenScope;
use bailiwick_server::{Limits, NoControlPlane};
use bailiwick_testkit::browser::{chromium, node_packages};

use crate::scopes::{Offer, all_offers, save_filter};
use crate::scripted_fleet::{ScriptedFleet, serve_fleet};
use crate::scripted_runs::{TestServer, serve, serve_limited};

/// What was done, once each. A browser writes lines in its own way.
fn done(server: &TestServer, fleet: &ScriptedFleet) -> BTreeSet<String> {
    let all = server.runs.changes().into_iter().chain(fleet.calls());
    all.map(|one| one.replace(['\r', '\n'], "")).collect()
}

/// A script in a real Chromium, with the address of the server and its token.
fn in_chromium(server: &TestServer, script: &str) -> Command {
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

fn by_keyboard(server: &TestServer, offers: &[Offer]) -> Vec<String> {
    let list: Vec<serde_json::Value> = offers
        .iter()
        .map(|offer| {
            serde_json::json!({
                "page": offer.page, "action": offer.action, "value": offer.value, "fields": offer.fields,
            })
        })
        .collect();
    let mut node = in_chromium(server, "act.mjs").spawn().unwrap();
    let mut input = node.stdin.take().unwrap();
    input.write_all(serde_json::to_string(&list).unwrap().as_bytes()).unwrap();
    drop(input);
    let output = node.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_action_of_every_page_is_done_with_the_keyboard() {
    // What the same forms do if a program sends them.
    let (server, fleet) = serve_fleet().await;
    let offers = all_offers(&server).await;
    for offer in &offers {
        let mut client = server.signed_in(TokenScope::Admin).await;
        save_filter(&server).await;
        let reply = client.post(&offer.action, &offer.body()).await;
        assert!([200, 303].contains(&reply.status), "{offer:?}: {}", reply.text);
        server.wait_for_jobs().await;
    }
    let expected = done(&server, &fleet);
    assert!(expected.len() > 20, "{expected:?}");

    let (server, fleet) = serve_fleet().await;
    let same = all_offers(&server).await;
    assert_eq!(same.len(), offers.len());
    let (server, statuses) = tokio::task::spawn_blocking(move || {
        let statuses = by_keyboard(&server, &same);
        (server, statuses)
    })
    .await
    .unwrap();
    server.wait_for_jobs().await;
    let wrong: Vec<(&Offer, &String)> =
        offers.iter().zip(&statuses).filter(|(_, status)| *status != "200").collect();
    assert!(wrong.is_empty() && statuses.len() == offers.len(), "{wrong:#?}");
    assert_eq!(done(&server, &fleet), expected);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_update_of_the_inbox_keeps_the_question_that_a_key_answers() {
    let server = serve().await;
    server.runs.ask_times(2);
    let server = tokio::task::spawn_blocking(move || {
        let mut node = in_chromium(&server, "choose.mjs").stderr(Stdio::inherit()).spawn().unwrap();
        let mut lines = BufReader::new(node.stdout.take().unwrap()).lines();
        assert_eq!(lines.next().unwrap().unwrap(), "chosen 8");
        // A third question changes the page.
        server.runs.ask_times(3);
        assert_eq!(lines.next().unwrap().unwrap(), "updated, chosen 8");
        assert_eq!(lines.next().unwrap().unwrap(), "held, not sent");
        assert_eq!(lines.next().unwrap().unwrap(), "approved");
        assert_eq!(lines.next().unwrap().unwrap(), "chosen 8");
        // The question that was chosen is gone.
        server.runs.ask_times(1);
        assert_eq!(lines.next().unwrap().unwrap(), "updated, chosen none");
        assert_eq!(lines.next().unwrap().unwrap(), "early, not sent, told");
        assert!(node.wait().unwrap().success());
        server
    })
    .await
    .unwrap();
    assert_eq!(
        server.runs.changes(),
        ["Approve fix-42 8"],
        "nothing is answered that is not chosen"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_question_that_an_update_has_moved_takes_no_click_at_once() {
    let server = serve().await;
    server.add_approval().await;
    let server = tokio::task::spawn_blocking(move || {
        let mut node = in_chromium(&server, "moved.mjs").stderr(Stdio::inherit()).spawn().unwrap();
        let mut lines = BufReader::new(node.stdout.take().unwrap()).lines();
        assert_eq!(lines.next().unwrap().unwrap(), "ready");
        // A second question is shown above the approval.
        server.runs.ask_times(2);
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

/// What a script prints that runs until its end.
async fn printed(server: &TestServer, script: &str, arguments: &[String]) -> String {
    let mut node = in_chromium(server, script);
    node.args(arguments);
    let output = tokio::task::spawn_blocking(move || node.output()).await.unwrap().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hidden_tab_has_no_stream() {
    let limits = Limits { max_streams_per_person: 1, ..Limits::default() };
    let server = serve_limited("", Arc::new(NoControlPlane), limits).await;
    let shown = printed(&server, "hidden.mjs", &[]).await;
    let lines: Vec<&str> = shown.lines().collect();
    let hidden = "first is hidden and not live";
    assert_eq!(lines, ["first is live", hidden, "second is live", "first is live again"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_button_copies_the_whole_command_the_address_of_an_event_and_what_is_asked() {
    let server = serve().await;
    let shown = printed(&server, "copy.mjs", &[]).await;
    let lines: Vec<&str> = shown.lines().collect();
    let copied =
        ["command true", "shown false, then true", "event true", "digest true", "input true"];
    assert_eq!(lines, [&copied[..], &["with script true", "without script false"]].concat());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_line_of_a_megabyte_makes_no_page_wider_than_its_window() {
    let server = serve().await;
    server.runs.write_long_lines();
    let tabs = ["", "/changes", "/changes?view=split", "/checks"];
    let pages = tabs.map(|tab| format!("/ui/local/fix-42{tab}"));
    let seen: serde_json::Value =
        serde_json::from_str(&printed(&server, "long.mjs", &pages).await).unwrap();
    assert_eq!(seen, serde_json::json!({ "faults": [], "control": true }));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_page_that_gets_no_stream_says_why() {
    let limits = Limits { max_streams_per_person: 0, ..Limits::default() };
    let server = serve_limited("", Arc::new(NoControlPlane), limits).await;
    let shown = printed(&server, "refused.mjs", &[]).await;
    assert!(shown.starts_with("Not live: ") && shown.contains("close some"), "{shown}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_update_keeps_what_was_typed_and_waits_for_a_field_that_is_in_use() {
    let server = serve().await;
    server.runs.ask_times(2);
    let server = tokio::task::spawn_blocking(move || {
        let mut node = in_chromium(&server, "keep.mjs").stderr(Stdio::inherit()).spawn().unwrap();
        let mut lines = BufReader::new(node.stdout.take().unwrap()).lines();
        assert_eq!(lines.next().unwrap().unwrap(), "typed because, ticked true");
        server.runs.ask_times(3);
        // The choice was made for two questions, not for three.
        assert_eq!(lines.next().unwrap().unwrap(), "updated, typed because, ticked false");
        assert_eq!(lines.next().unwrap().unwrap(), "in use");
        server.runs.ask_times(4);
        assert_eq!(lines.next().unwrap().unwrap(), "postponed true, not sent");
        assert_eq!(lines.next().unwrap().unwrap(), "made up for, typed because");
        assert!(node.wait().unwrap().success());
        server
    })
    .await
    .unwrap();
    assert_eq!(server.runs.changes(), Vec::<String>::new());
}
