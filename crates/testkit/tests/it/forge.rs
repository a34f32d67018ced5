//! The stand-in for a forge: its contract is checked, its webhooks are signed, its git is real.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};

use bailiwick_testkit::Scratch;
use bailiwick_testkit::forge::{RunSeed, StandIn, Told, contract};
use serde_json::json;

#[test]
fn different_contract_is_detected() {
    let expected = contract::requests().len();
    let fields: usize = contract::shapes().values().map(|fields| fields.len()).sum();
    let missing = contract::compare(&json!({}));
    assert!(missing.len() >= expected + fields, "{} {expected} {fields}", missing.len());
    assert!(contract::faults("Comment", &json!({ "id": 1, "body": "x" })).is_empty());
    let wrong = json!({ "id": "1", "text": "x", "user": { "login": 7 }, "created_at": "soon" });
    assert_eq!(contract::faults("Comment", &wrong).len(), 4);
    assert_eq!(contract::faults("[Comment]", &json!({})).len(), 1);
    assert!(contract::find("GET", &["branches", "a", "b"]).is_some());
    assert!(contract::find("PUT", &["branches", "a"]).is_none());
}

#[test]
fn requests_outside_the_contract_are_recorded() {
    let forge = StandIn::gitea("acme/widgets");
    let ask = |path: &str| {
        let base = forge.base_url();
        let mut stream = TcpStream::connect(base.trim_start_matches("http://")).unwrap();
        let token = forge.token();
        let text = format!(
            "GET /api/v1/repos/acme/widgets{path} HTTP/1.1\r\nAuthorization: token {token}\r\n\r\n"
        );
        stream.write_all(text.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    };
    assert!(ask("/pulls?state=all&page=1").starts_with("HTTP/1.1 200"));
    assert!(forge.breaches().is_empty(), "{:?}", forge.breaches());
    ask("/pulls?per_page=3");
    ask("/milk");
    assert_eq!(forge.breaches().len(), 2, "{:?}", forge.breaches());
}

/// Compared with `openssl`, which does not use our code.
#[test]
fn webhooks_are_signed_like_by_openssl() {
    let forge = StandIn::gitea("acme/widgets");
    let (run, job) = forge.add_run(&RunSeed { fork: Some("them/widgets"), ..RunSeed::default() });
    let issue = forge.add_issue("It fails", "");
    let pull = forge.add_fork_pull("Theirs", "them/widgets", "x", &"a".repeat(40));
    let text = || "hello".to_owned();
    forge.add_release("hello", "Notes.");
    let notifications = [
        Told::JobEnded { job },
        Told::RunEnded { run },
        Told::Comment { number: issue, by: text(), body: text() },
        Told::Comment { number: pull, by: text(), body: text() },
        Told::Label { number: issue, label: text() },
        Told::Label { number: pull, label: text() },
        Told::PullRequest { number: pull, action: "opened".to_owned() },
        Told::Push { branch: text(), before: text(), after: text(), files: vec![text()] },
        Told::Tag { name: text(), commit: text() },
        Told::AnnotatedTag { name: text(), object: text(), commit: text() },
        Told::Create { tag: text(), object: text() },
        Told::Review { number: pull, by: text(), verdict: "COMMENT".to_owned(), body: text() },
        Told::Status { commit: text(), state: "failure".to_owned(), context: text() },
        Told::Release { tag: text(), action: "updated".to_owned() },
        Told::Test,
    ];
    let mut deliveries = std::collections::BTreeSet::new();
    for notification in &notifications {
        let webhook = forge.webhook(notification);
        assert!(deliveries.insert(webhook.delivery.clone()), "each delivery has its own number");
        assert_eq!(webhook.payload["repository"]["full_name"], "acme/widgets");
        let headers = webhook.headers("geheim");
        let signature = headers.iter().find(|(name, _)| name == "X-Gitea-Signature").unwrap();
        let mut openssl = std::process::Command::new("openssl")
            .args(["dgst", "-sha256", "-hmac", "geheim"])
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        openssl.stdin.take().unwrap().write_all(&webhook.body()).unwrap();
        let output = openssl.wait_with_output().unwrap();
        let printed = String::from_utf8(output.stdout).unwrap();
        assert!(printed.trim().ends_with(&signature.1), "{printed} {signature:?}");
    }
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let webhook = forge.webhook(&notifications[0]);
    let body = webhook.body();
    let listening = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut received = Vec::new();
        let mut piece = [0; 4096];
        while !received.ends_with(&body) {
            let count = stream.read(&mut piece).unwrap();
            assert!(count > 0, "the connection ended early");
            received.extend_from_slice(&piece[..count]);
        }
        stream.write_all(b"HTTP/1.1 202 Accepted\r\n\r\nkept").unwrap();
        String::from_utf8(received).unwrap()
    });
    let answer = webhook.deliver(&format!("http://{address}/hooks/gitea"), "geheim");
    assert_eq!(answer, (202, "kept".to_owned()));
    let received = listening.join().unwrap();
    assert!(
        received.starts_with("POST /hooks/gitea ")
            && received.contains("X-Gitea-Event: workflow_job")
    );
}

#[test]
fn git_clones_and_pushes_with_only_the_token() {
    let forge = StandIn::gitea("acme/widgets");
    let scratch = Scratch::repository();
    scratch.write("a", "1\n");
    let commit = scratch.commit("first");
    let url = forge.clone_url();
    let push = |user: &str| {
        let url = url.replacen("http://", &format!("http://{user}@"), 1);
        let mut git = scratch.command("git");
        git.env("GIT_TERMINAL_PROMPT", "0").args(["push", "--quiet", &url, "main"]);
        git.output().unwrap().status.success()
    };
    assert!(!push("me:wrong"));
    assert!(push(&format!("me:{}", forge.token())));
    assert_eq!(forge.git(&["rev-parse", "main"]).trim(), commit);
    let cloned = scratch.place().join("clone");
    let with = url.replacen("http://", &format!("http://me:{}@", forge.token()), 1);
    scratch.git(&["clone", "--quiet", &with, cloned.to_str().unwrap()]);
    assert_eq!(std::fs::read_to_string(cloned.join("a")).unwrap(), "1\n");
}
