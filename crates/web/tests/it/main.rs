//! The pages over HTTP: sign-in, sessions, same-origin checks, and the content of pages.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a helper of a test fails the test"
)]

mod actions_browser;
mod browser;
mod fleet_browser;
mod fleet_pages;
mod page_sources;
mod scopes;
mod scripted_fleet;
mod scripted_runs;

use std::collections::BTreeSet;
use std::sync::Arc;

use bailiwick_fleet::ports::TokenScope;
use bailiwick_server::{Limits, NoControlPlane, Rate};
use browser::{Browser, form};
use scripted_runs::{HOSTILE, RARE, long_line, serve, serve_at, serve_limited};

const CSP: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' \
                   data:; form-action 'self'; base-uri 'none'; frame-ancestors 'none'; \
                   require-trusted-types-for 'script'; trusted-types 'none'";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pages_require_a_session() {
    let server = serve().await;
    let mut browser = Browser::new(server.address);
    for path in [
        "/ui/runs",
        "/ui/inbox",
        "/ui/local/fix-42",
        "/ui/local/fix-42/changes",
        "/ui/local/fix-42/changes?view=split&c=1n2",
        "/ui/local/fix-42/checks",
        "/ui/local/fix-42/context",
        "/ui/local/fix-42/policy?command=x",
        "/ui/local/fix-42/cost",
        "/ui/local/fix-42/lineage",
        "/ui/local/fix-42/artifacts",
    ] {
        let reply = browser.get(path).await;
        assert_eq!(reply.status, 303, "{path}");
        let location = reply.header("location");
        assert!(location.starts_with("/ui/sign-in?next="), "{path}: {location}");
    }
    let reply = browser.get("/ui/live?topic=runs").await;
    assert_eq!(reply.status, 204, "a stream without a session is not retried");
    let page = browser.get("/ui/sign-in").await;
    assert_eq!(page.status, 200);
    assert!(!page.text.contains("fix-42"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn session_ends_at_sign_out_or_when_its_token_is_revoked() {
    let server = serve().await;
    let mut browser = Browser::new(server.address);
    let wrong = browser.post("/ui/sign-in", &form(&[("token", "bwk_wrong")])).await;
    assert_eq!(wrong.status, 401);
    assert!(wrong.text.contains("unknown, expired or revoked"), "{}", wrong.text);
    let fields = [("token", server.token(TokenScope::Viewer)), ("next", "/local/fix-42?event=2")];
    let reply = browser.post("/ui/sign-in", &form(&fields)).await;
    assert_eq!((reply.status, reply.header("location")), (303, "/ui/local/fix-42?event=2"));
    let cookie = reply.header("set-cookie");
    assert!(cookie.contains("HttpOnly; SameSite=Strict"), "{cookie}");
    assert!(!cookie.contains(server.token(TokenScope::Viewer)), "the token is not in the cookie");
    assert_eq!(browser.get("/ui/runs").await.status, 200);
    let mut other = Browser { cookie: browser.cookie.clone(), ..Browser::new(server.address) };
    assert_eq!(browser.post("/ui/sign-out", "").await.status, 303);
    assert_eq!(
        other.get("/ui/runs").await.status,
        303,
        "the session has ended for every copy of the cookie"
    );

    let mut browser = server.signed_in(TokenScope::Viewer).await;
    assert_eq!(browser.get("/ui/runs").await.status, 200);
    server.revoke(TokenScope::Viewer).await;
    assert_eq!(browser.get("/ui/runs").await.status, 303);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn session_and_api_token_are_not_interchangeable() {
    let server = serve().await;
    let browser = server.signed_in(TokenScope::Admin).await;
    let (name, session) = browser.cookie.as_deref().unwrap().split_once('=').unwrap();
    let as_token = format!("Bearer {session}");
    let whoami = "/api/v1alpha1/whoami";
    let other = Browser::new(server.address);
    assert_eq!(other.get_with(whoami, &[("authorization", as_token.as_str())]).await.status, 401);
    let token = server.token(TokenScope::Admin);
    let mut wrong =
        Browser { cookie: Some(format!("{name}={token}")), ..Browser::new(server.address) };
    assert_eq!(wrong.get("/ui/runs").await.status, 303);
    // Positive controls.
    let as_token = format!("Bearer {token}");
    assert_eq!(other.get_with(whoami, &[("authorization", as_token.as_str())]).await.status, 200);
    assert_eq!(browser.get_with("/ui/runs", &[]).await.status, 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sign_out_ends_open_streams_and_is_in_the_audit_log() {
    let server = serve().await;
    let mut browser = server.signed_in(TokenScope::Viewer).await;
    let follower = Browser { cookie: browser.cookie.clone(), ..Browser::new(server.address) };
    let stream = tokio::spawn(async move { follower.get_with("/ui/live?topic=runs", &[]).await });
    tokio::time::sleep(std::time::Duration::from_millis(300)).await;
    assert!(!stream.is_finished(), "positive control: the stream stays open");
    assert_eq!(browser.post("/ui/sign-out", "").await.status, 303);
    let reply = stream.await.unwrap();
    assert!(reply.text.contains("event: hello"), "{}", reply.text);
    assert_eq!(server.audit_events().await, ["ada SignedIn", "ada SignedOut"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_failed_sign_ins_count_against_a_shared_address() {
    // The buckets are not refilled while the test runs.
    let per_address = Rate { per_second: 0.000_001, burst: 100.0 };
    let per_token = Rate { per_second: 0.000_001, burst: 6.0 };
    let costs = Limits { failed_auth_cost: 30.0, sign_in_cost: 1.0, ..Limits::default() };
    let limits = Limits { per_address, per_token, ..costs };
    let server = serve_limited("", Arc::new(NoControlPlane), limits).await;
    for _ in 0..6 {
        server.signed_in(TokenScope::Viewer).await;
    }
    let mut browser = Browser::new(server.address);
    let token = |scope| form(&[("token", server.token(scope))]);
    let reply = browser.post("/ui/sign-in", &token(TokenScope::Viewer)).await;
    assert_eq!(reply.status, 429, "the number of sessions per token is limited");
    assert!(reply.text.contains("too many sign-ins"), "{}", reply.text);
    let other = browser.post("/ui/sign-in", &token(TokenScope::Admin)).await;
    assert_eq!(other.status, 303, "another person at this address");
    for _ in 0..3 {
        let wrong = browser.post("/ui/sign-in", &form(&[("token", "bwk_wrong")])).await;
        assert_eq!(wrong.status, 401);
    }
    assert_eq!(
        browser.get("/ui/sign-in").await.status,
        429,
        "positive control: failed sign-ins count"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stream_over_the_limit_of_a_person_is_refused_with_a_reason() {
    let limits = Limits { max_streams_per_person: 1, ..Limits::default() };
    let server = serve_limited("", Arc::new(NoControlPlane), limits).await;
    let browser = server.signed_in(TokenScope::Viewer).await;
    let first = Browser { cookie: browser.cookie.clone(), ..Browser::new(server.address) };
    let first = tokio::spawn(async move { first.get_with("/ui/live?topic=runs", &[]).await });
    // Another session of the same person has the same limit.
    let second = server.signed_in(TokenScope::Operator).await;
    let mut refused = None;
    for _ in 0..20 {
        let probe = second.get_with("/ui/live?topic=runs&after=0", &[]);
        refused = tokio::time::timeout(std::time::Duration::from_millis(500), probe).await.ok();
        if refused.is_some() {
            break;
        }
        // The probe got the slot before the first stream.
        assert!(!first.is_finished(), "the first stream was refused");
    }
    let refused = refused.expect("the second stream is refused");
    assert_eq!(refused.status, 200, "a page cannot read another status");
    assert!(refused.text.starts_with("event: refused"), "{}", refused.text);
    assert!(refused.text.contains("close some of them"), "{}", refused.text);
    let token = format!("Bearer {}", server.token(TokenScope::Viewer));
    let headers = [("authorization", token.as_str()), ("accept", "text/event-stream")];
    let api = second.get_with("/api/v1alpha1/runs", &headers).await;
    assert_eq!(api.status, 429, "{}", api.text);
    first.abort();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn long_form_without_a_session_is_refused() {
    let server = serve().await;
    let mut browser = Browser::new(server.address);
    let long = form(&[("token", &"x".repeat(9 * 1024))]);
    assert_eq!(browser.post("/ui/sign-in", &long).await.status, 413);
    let short = form(&[("token", &"x".repeat(1024))]);
    assert_eq!(browser.post("/ui/sign-in", &short).await.status, 401, "positive control");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn terminal_link_signs_in_only_once() {
    let server = serve().await;
    let mut browser = Browser::new(server.address);
    assert_eq!(browser.get("/ui/link/wrong").await.status, 401);
    let reply = browser.get(&server.link).await;
    assert_eq!(reply.status, 200);
    assert!(reply.text.contains("url=/ui/runs"), "{}", reply.text);
    assert_eq!(browser.get("/ui/runs").await.status, 200);
    let mut other = Browser::new(server.address);
    assert_eq!(other.get(&server.link).await.status, 401);
    assert_eq!(other.get("/ui/runs").await.status, 303);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changes_require_the_same_origin_and_a_known_host() {
    let server = serve().await;
    let browser = server.signed_in(TokenScope::Admin).await;
    let answer = server.answer("approve");
    for headers in [
        vec![("origin", "http://evil.example")],
        vec![("origin", "null")],
        vec![],
        vec![("origin", "OWN"), ("sec-fetch-site", "cross-site")],
        vec![("origin", "OWN"), ("sec-fetch-site", "none")],
    ] {
        for path in ["/ui/inbox/answer", "/ui/local/fix-42/action", "/ui/sign-out", "/ui/sign-in"] {
            let reply = browser.post_with(path, &answer, &headers).await;
            assert_eq!(reply.status, 403, "{path} {headers:?}");
        }
    }
    let rebound = browser.get_with("/ui/runs", &[("host", "evil.example")]).await;
    assert_eq!(rebound.status, 403);
    assert_eq!(server.runs.changes(), Vec::<String>::new());
    let own = browser.post_with("/ui/inbox/answer", &answer, &[("origin", "OWN")]).await;
    assert_eq!(own.status, 303, "positive control: {}", own.text);
    assert_eq!(server.runs.changes(), ["Approve fix-42 7"]);
    let inbox = server.signed_in(TokenScope::Viewer).await.get("/ui/inbox").await.text;
    let answered = "<bdi>ada</bdi> approved <a href=\"/ui/local/fix-42\"><bdi>fix-42</bdi></a>";
    assert_eq!(inbox.matches(answered).count(), 1, "{inbox}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn impossible_action_is_disabled_and_shows_its_reason() {
    let server = serve().await;
    let mut browser = server.signed_in(TokenScope::Operator).await;
    let page = browser.get("/ui/local/fix-42").await.text;
    assert!(page.contains("aria-describedby=\"why-remove\">Remove files</button>"), "{page}");
    assert!(!page.contains("name=\"action\" value=\"remove\""), "{page}");
    assert!(page.contains("name=\"action\" value=\"stop\""), "positive control: {page}");
    assert!(page.contains("Not possible: <bdi>&#60;script&#62;"), "{page}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn job_is_on_its_run_page_and_on_the_stream() {
    let server = serve().await;
    let mut browser = server.signed_in(TokenScope::Operator).await;
    let reply = browser.post("/ui/local/fix-42/action", &form(&[("action", "verify")])).await;
    assert_eq!((reply.status, reply.header("location")), (303, "/ui/local/fix-42"));
    server.wait_for_jobs().await;
    let page = browser.get("/ui/local/fix-42").await.text;
    assert!(
        page.contains("<strong>Verify</strong> <span class=\"state ended\">done</span>"),
        "{page}"
    );
    assert!(!page.contains(HOSTILE), "steps are text: {page}");
    let path = "/ui/live?topic=run&run=fix-42&after=4";
    let text = browser.stream(path, &[], "event: change").await;
    assert!(text.contains("id: 4.") && text.contains("\"changed\":true"), "{text}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answer_with_another_digest_is_refused() {
    let server = serve().await;
    let mut browser = server.signed_in(TokenScope::Approver).await;
    let other_digest =
        form(&[("run", "fix-42"), ("question", "7"), ("digest", "0000"), ("answer", "approve")]);
    let reply = browser.post("/ui/inbox/answer", &other_digest).await;
    assert_eq!(reply.status, 409);
    assert!(reply.text.contains("does not wait any more"), "{}", reply.text);
    assert_eq!(server.runs.changes(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn equal_questions_are_answered_together_on_request() {
    let server = serve().await;
    server.runs.set_equal_questions(2);
    let mut browser = server.signed_in(TokenScope::Approver).await;
    let inbox = browser.get("/ui/inbox").await.text;
    assert_eq!(inbox.matches("Answer all 2 equal questions").count(), 2, "{inbox}");
    assert!(inbox.contains("What the agent did just before"), "{inbox}");
    let one = browser.post("/ui/inbox/answer", &server.answer("approve")).await;
    assert_eq!(one.status, 303, "{}", one.text);
    assert_eq!(server.runs.changes(), ["Approve fix-42 7"], "only the first question is answered");
    assert!(inbox.contains("name=\"equal\" value=\"fix-42/7 fix-42/8\""), "{inbox}");
    // A third equal question arrives after the page was loaded.
    server.runs.set_equal_questions(3);
    let both = format!("{}&all=true&equal=fix-42/7+fix-42/8", server.answer("deny"));
    let reply = browser.post("/ui/inbox/answer", &both).await;
    assert_eq!(reply.status, 303, "{}", reply.text);
    assert_eq!(server.runs.changes()[1..], ["Deny fix-42 7", "Deny fix-42 8"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hostile_text_is_escaped_on_every_page() {
    let server = serve().await;
    let mut browser = server.signed_in(TokenScope::Admin).await;
    for path in [
        "/ui/runs",
        "/ui/inbox",
        "/ui/local/fix-42",
        "/ui/local/fix-42/changes",
        "/ui/local/fix-42/changes?view=split&c=1n2",
        "/ui/local/fix-42/checks",
        "/ui/local/fix-42/context",
        "/ui/local/fix-42/policy?command=x",
        "/ui/local/fix-42/cost",
        "/ui/local/fix-42/lineage",
        "/ui/local/fix-42/artifacts",
    ] {
        let reply = browser.get(path).await;
        assert_eq!(reply.status, 200, "{path}: {}", reply.text);
        assert_eq!(reply.header("content-security-policy"), CSP, "{path}");
        assert_eq!(reply.header("cache-control"), "no-store", "{path}");
        assert_eq!(reply.header("x-content-type-options"), "nosniff", "{path}");
        assert!(!reply.text.contains(HOSTILE), "{path}");
        assert!(!reply.text.contains("<script>"), "{path}");
        assert!(!reply.text.contains('\u{202e}') && !reply.text.contains('\u{1b}'), "{path}");
        // The text itself is shown.
        assert!(reply.text.contains("script&#62;alert(1)"), "{path}: {}", reply.text);
        for inline in [" onclick=", " onerror=alert(1)>", " style=", "<style", "javascript:"] {
            assert!(!reply.text.contains(inline), "{path}: {inline}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn run_page_shows_calls_with_decisions_and_every_changed_line() {
    let server = serve().await;
    let mut browser = server.signed_in(TokenScope::Viewer).await;
    let run = browser.get("/ui/local/fix-42").await.text;
    for expected in ["id=\"e2\"", "git push", "denied", "policy::no-git-ops", "Instead: report it"]
    {
        assert!(run.contains(expected), "{expected}: {run}");
    }
    assert!(run.contains("data-live=\"/ui/live?topic=run"), "{run}");
    let changes = browser.get("/ui/local/fix-42/changes").await.text;
    assert!(changes.contains("src/lib.rs"), "{changes}");
    assert_eq!(changes.matches("<tr class=\"add\">").count(), 2, "{changes}");
    assert_eq!(changes.matches("<tr class=\"del\">").count(), 1, "{changes}");
    let split = browser.get("/ui/local/fix-42/changes?view=split").await.text;
    assert_eq!(split.matches("<td class=\"code add\">").count(), 2, "{split}");
    assert_eq!(split.matches("<td class=\"code del\">").count(), 1, "{split}");
    assert_eq!(split.matches("<td class=\"none\" colspan=\"2\">").count(), 1, "{split}");
    let unknown = browser.get("/ui/local/fix-42/changes?view=round").await;
    assert_eq!(unknown.status, 400);
    let missing = browser.get("/ui/local/nobody").await;
    assert_eq!(missing.status, 404);
    assert!(missing.text.contains("there is no agent"), "{}", missing.text);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn line_comment_reaches_the_agent_with_its_line() {
    let server = serve().await;
    server.runs.permit_all_actions();
    let changes_page = "/ui/local/fix-42/changes";
    let mut viewer = server.signed_in(TokenScope::Viewer).await;
    let page = viewer.get(&format!("{changes_page}?c=1n3")).await.text;
    assert!(!page.contains("/comment\""), "a viewer is offered no comment: {page}");
    let mut browser = server.signed_in(TokenScope::Operator).await;
    let page = browser.get(&format!("{changes_page}?c=1n3")).await.text;
    let part = page.split("<form id=\"c\"").nth(1).expect("the form is below the line");
    assert!(
        part.contains("name=\"line\" type=\"number\" min=\"1\" required value=\"3\""),
        "{part}"
    );
    let file = page_sources::attribute(part, "value").unwrap();
    let file = file.replace("&#60;", "<").replace("&#62;", ">").replace("&#34;", "\"");
    let file = file.replace("&#39;", "'").replace("&#38;", "&");
    let comment_form = |line: &str, text: &str| {
        let fields = [
            ("file", file.as_str()),
            ("side", "new"),
            ("line", line),
            ("text", text),
            ("view", "split"),
        ];
        form(&fields)
    };
    let target = "/ui/local/fix-42/comment";
    for (line, text, status) in [("3", " ", 400), ("9", "Why?", 409), ("x", "Why?", 400)] {
        assert_eq!(
            browser.post(target, &comment_form(line, text)).await.status,
            status,
            "{line} {text}"
        );
    }
    assert_eq!(viewer.post(target, &comment_form("3", "Why?")).await.status, 403);
    assert_eq!(server.runs.changes(), Vec::<String>::new());
    let sent = browser.post(target, &comment_form("3", "Why?\r\nSay it.")).await;
    assert_eq!(
        (sent.status, sent.header("location")),
        (303, "/ui/local/fix-42/changes?view=split&sent=true#f1")
    );
    let changes = server.runs.changes();
    let [message] = changes.as_slice() else { panic!("{changes:?}") };
    assert!(message.starts_with("message fix-42 Comment on src/lib.rs"), "{message}");
    assert!(message.ends_with(", line 3:\n> two\n\nWhy?\nSay it."), "{message}");
    let page = browser.get(&format!("{changes_page}?view=split&sent=true")).await.text;
    assert!(page.contains("Sent to the agent"), "{page}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn page_update_contains_only_new_rows() {
    let server = serve().await;
    let mut browser = server.signed_in(TokenScope::Viewer).await;
    let rows = |page: &str| page.matches(" class=\"row ").count();
    let whole = browser.get("/ui/local/fix-42").await.text;
    let tag = whole.split("data-follow").nth(1).unwrap().split('>').next().unwrap();
    let since: u64 = page_sources::attribute(tag, "data-since").unwrap().parse().unwrap();
    assert!(since > 0, "{tag}");
    let fresh = browser.get(&format!("/ui/local/fix-42?since={since}")).await.text;
    assert!(rows(&fresh) >= 1 && rows(&fresh) < rows(&whole), "{fresh}");
    // The rows are the same as those at the end of the whole page.
    let ends = |page: &str| -> Vec<String> {
        let rows = page.split(" data-row=\"e").skip(1);
        rows.map(|row| row.split("</li>").next().unwrap().to_owned()).collect()
    };
    assert!(ends(&whole).ends_with(&ends(&fresh)), "{fresh}");
    let nothing = browser.get("/ui/local/fix-42?since=100000").await.text;
    assert_eq!(rows(&nothing), 0, "{nothing}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_page_of_a_run_is_updated_with_what_is_beside_it() {
    let server = serve().await;
    let mut browser = server.signed_in(TokenScope::Operator).await;
    let beside = "/ui/local/fix-42?since=last";
    let update = browser.get(beside).await.text;
    assert_eq!(update.matches(" class=\"row ").count(), 0, "{update}");
    for tab in ["changes", "checks", "context", "policy", "cost", "lineage", "artifacts"] {
        let page = browser.get(&format!("/ui/local/fix-42/{tab}")).await.text;
        let own = if tab == "checks" { "" } else { beside };
        assert!(page.contains(&format!(" data-updates=\"{own}\">")), "{tab}: {page}");
        let other = if tab == "checks" { &page } else { &update };
        for part in ["state", "meters", "facts", "jobs", "actions"] {
            let part = format!(" data-part=\"{part}\"");
            assert_eq!(page.matches(&part).count(), 1, "{tab}, {part}: {page}");
            assert_eq!(other.matches(&part).count(), 1, "{tab}, {part}: {other}");
        }
    }
    assert_eq!(browser.get("/ui/local/fix-42?since=first").await.status, 400);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn server_searches_the_transcript_and_events_have_permalinks() {
    let server = serve().await;
    let mut browser = server.signed_in(TokenScope::Viewer).await;
    let page = browser.get("/ui/local/fix-42?filter=denied&text=git%26").await.text;
    let queries = server.runs.queries();
    let is_search = |query: &String| query.contains("Some(Denied)") && query.contains("\"git&\"");
    assert!(queries.iter().any(is_search), "{queries:?}");
    assert!(page.contains("id=\"e3\"") && !page.contains("id=\"e1\""), "{page}");
    assert!(page.contains("href=\"/ui/local/fix-42?event=3#e3\""), "{page}");
    let next = "href=\"/ui/local/fix-42?filter=denied&#38;text=git%26&#38;after=3\"";
    assert!(page.contains(next), "{page}");
    assert!(!page.contains("data-updates"), "search results are not updated: {page}");
    let all = browser.get("/ui/local/fix-42").await.text;
    assert!(all.contains("href=\"/ui/local/fix-42?filter=errors\""), "{all}");
    assert!(all.contains("data-updates"), "positive control: {all}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn search_that_was_cut_off_does_not_say_that_nothing_matches() {
    let server = serve().await;
    let mut browser = server.signed_in(TokenScope::Viewer).await;
    for (page, cursor, cut, none) in [
        ("/ui/local/fix-42", "3", "None among the events searched so far.", "No event matches"),
        ("/ui/runs", "next.1~end", "None among the runs searched so far.", "No older run matches"),
    ] {
        let first = browser.get(&format!("{page}?text={RARE}")).await.text;
        assert!(first.contains(cut) && !first.contains("matches"), "{first}");
        let next = format!("<a rel=\"next\" href=\"{page}?text={RARE}&#38;after={cursor}\">");
        let (_, label) = first.split_once(&next).expect("the search can be continued");
        assert!(label.starts_with("Continue the search</a>"), "{label}");
        let second = browser.get(&format!("{page}?text={RARE}&after={cursor}")).await.text;
        assert!(second.contains(none) && !second.contains("so far"), "{second}");
        assert!(!second.contains("rel=\"next\""), "{second}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_page_receives_the_number_of_waiting_questions() {
    let server = serve().await;
    let mut browser = server.signed_in(TokenScope::Viewer).await;
    for (path, topic, is_updated) in [
        ("/ui/runs", "runs", true),
        ("/ui/runs?after=next.1~end", "waiting", false),
        ("/ui/inbox", "inbox", true),
        ("/ui/board", "runs", true),
        ("/ui/local/fix-42", "run", true),
        ("/ui/local/fix-42/changes", "run", true),
        ("/ui/local/fix-42/checks", "run", true),
        ("/ui/local/fix-42/cost", "run", true),
        ("/ui/local/fix-42?text=a", "waiting", false),
        ("/ui/numbers", "waiting", false),
        ("/ui/nothing/here", "waiting", false),
    ] {
        let page = browser.get(path).await.text;
        let stream = format!("data-live=\"/ui/live?topic={topic}");
        assert_eq!(page.matches(&stream).count(), 1, "{path}: {page}");
        assert_eq!(page.contains("data-updates"), is_updated, "{path}: {page}");
    }
    let page = Browser::new(server.address).get("/ui/sign-in").await.text;
    assert!(!page.contains("data-live="), "nobody is signed in: {page}");
    let count = async || {
        let stream = browser.stream("/ui/live?topic=waiting", &[], "event: change").await;
        let data = stream.split("event: change\ndata: ").nth(1).unwrap().lines().next().unwrap();
        let event: serde_json::Value = serde_json::from_str(data).unwrap();
        assert_eq!(event["changed"], false, "the page has not changed");
        event["waiting"].as_u64().unwrap()
    };
    let before = count().await;
    server.runs.set_equal_questions(3);
    assert_eq!(count().await, before + 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tabs_of_a_server_share_what_waits() {
    const TABS: usize = 8;
    const SECONDS: u64 = 4;
    let server = serve().await;
    let browser = server.signed_in(TokenScope::Viewer).await;
    let tab = |number: usize| {
        let browser = Browser { cookie: browser.cookie.clone(), ..Browser::new(server.address) };
        let topic = ["topic=waiting", "topic=run&run=fix-42&after=0"][number % 2];
        tokio::spawn(async move {
            let time = std::time::Duration::from_secs(SECONDS);
            let path = format!("/ui/live?{topic}");
            drop(tokio::time::timeout(time, browser.get_with(&path, &[])).await);
        })
    };
    let reads = || server.runs.queries().iter().filter(|query| query.contains("NeedsYou")).count();
    let tabs: Vec<_> = (0..TABS).map(tab).collect();
    for tab in tabs {
        tab.await.unwrap();
    }
    let reads_of_tabs = reads();
    let most = usize::try_from(SECONDS).unwrap() + 1;
    assert!((2..=most).contains(&reads_of_tabs), "{reads_of_tabs} reads for {TABS} tabs");
    // Pages read it again. The server has noticed by then that the tabs are closed.
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    let (before, mut browser) = (reads(), browser);
    for _ in 0..3 {
        assert_eq!(browser.get("/ui/numbers").await.status, 200);
    }
    assert_eq!(reads(), before + 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commands_ids_and_commits_have_copy_buttons() {
    let server = serve().await;
    let mut browser = server.signed_in(TokenScope::Viewer).await;
    let run = browser.get("/ui/local/fix-42").await.text;
    let buttons = |page: &str| page.matches(" data-copy-text=\"").count();
    // The next command, the id, the base, and the digest of the question.
    assert_eq!(buttons(&run), 4, "{run}");
    assert!(run.contains(" data-copy-text=\"bailiwick &#60;script&#62;"), "{run}");
    assert_eq!(run.matches(" data-copy-link>").count(), run.matches(" class=\"row ").count());
    let checks = browser.get("/ui/local/fix-42/checks").await.text;
    assert_eq!(buttons(&checks), 3 + 4, "{checks}");
    let inbox = browser.get("/ui/inbox").await.text;
    assert_eq!(buttons(&inbox), 2, "{inbox}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn inbox_copy_buttons_have_unique_names() {
    let server = serve().await;
    server.runs.set_equal_questions(2);
    server.add_approval().await;
    let mut browser = server.signed_in(TokenScope::Approver).await;
    let inbox = browser.get("/ui/inbox").await.text;
    let buttons = inbox.split("<button class=\"copy\"").skip(1);
    let buttons: Vec<&str> = buttons.map(|part| part.split('>').next().unwrap()).collect();
    // Two fields and the digest of each question; target, summary, state and digest of the approval; the next command.
    assert_eq!(buttons.len(), 2 * 3 + 4 + 1, "{buttons:?}");
    let attribute = page_sources::attribute;
    let names: BTreeSet<String> =
        buttons.iter().map(|button| attribute(button, "aria-label").unwrap()).collect();
    assert_eq!(names.len(), buttons.len(), "{names:?}");
    assert!(names.iter().all(|name| name.starts_with("Copy: ")), "{names:?}");
    let texts: Vec<String> =
        buttons.iter().filter_map(|button| attribute(button, "data-copy-text")).collect();
    assert!(texts.iter().any(|text| text == "sha256:one"), "{texts:?}");
    let answer = server.answer("approve");
    assert_eq!(texts.iter().filter(|text| answer.contains(text.as_str())).count(), 2, "{texts:?}");
    for id in buttons.iter().filter_map(|button| attribute(button, "data-copy")) {
        assert_eq!(inbox.matches(&format!("<pre id=\"{id}\"")).count(), 1, "{id}: {inbox}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn very_long_line_is_shown_whole_or_its_remainder_is_counted() {
    let server = serve().await;
    let mut browser = server.signed_in(TokenScope::Viewer).await;
    server.runs.add_long_lines();
    let line = long_line();
    for view in ["", "?view=split"] {
        let page = browser.get(&format!("/ui/local/fix-42/changes{view}")).await.text;
        assert!(page.contains(&line), "{view}: the line is not shown as a whole");
    }
    for tab in ["", "/checks"] {
        let page = browser.get(&format!("/ui/local/fix-42{tab}")).await.text;
        assert!(!page.contains(&line), "{tab}");
        assert!(page.contains(&"A".repeat(20_000)), "{tab}: the beginning is not shown");
        assert!(page.contains("Characters not shown: 980001."), "{tab}: the rest is not counted");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn inbox_decides_about_a_run_and_shows_what_came_of_it() {
    let server = serve().await;
    let mut viewer = server.signed_in(TokenScope::Viewer).await;
    let mut browser = server.signed_in(TokenScope::Operator).await;
    let target = "/ui/local/fix-42/action";
    let offered = |page: &str| page.matches(&format!("action=\"{target}\"")).count();
    assert_eq!(offered(&viewer.get("/ui/inbox").await.text), 0, "a viewer decides nothing");
    let inbox = browser.get("/ui/inbox").await.text;
    assert_eq!(offered(&inbox), 2, "{inbox}");
    for verb in ["verify", "land", "reject", "respawn"] {
        let button = format!("name=\"action\" value=\"{verb}\"");
        assert_eq!(inbox.matches(&button).count(), 1, "{verb}: {inbox}");
    }
    // The keys approve and deny only questions.
    let (_, row) = inbox.split_once("<li class=\"decision\"").unwrap();
    assert!(!row.contains("data-key-"), "{row}");
    let decide = |action: &str, back: &str| {
        form(&[("action", action), ("text", "too wide"), ("back", back)])
    };
    let reply = browser.post(target, &decide("reject", "inbox")).await;
    assert_eq!((reply.status, reply.header("location")), (303, "/ui/inbox"), "{}", reply.text);
    assert_eq!(server.runs.changes(), ["reject fix-42 too wide"]);
    let reply = browser.post(target, &decide("verify", "//evil.example")).await;
    assert_eq!(
        (reply.status, reply.header("location")),
        (303, "/ui/local/fix-42"),
        "only own pages"
    );
    server.wait_for_jobs().await;
    let inbox = browser.get("/ui/inbox").await.text;
    let job = "<strong>Verify</strong> <span class=\"state ended\">done</span>";
    assert!(inbox.contains(job), "{inbox}");
    assert_eq!(viewer.post(target, &decide("land", "inbox")).await.status, 403);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pages_say_what_they_leave_out() {
    let server = serve().await;
    let mut browser = server.signed_in(TokenScope::Operator).await;
    let (colours, jobs) = ("Files without colours for their language: 1.", "Older jobs not shown:");
    let questions = "is shown for the first 20 questions only";
    let changes = "/ui/local/fix-42/changes";
    server.runs.set_equal_questions(20);
    for _ in 0..5 {
        browser.post("/ui/local/fix-42/action", &form(&[("action", "verify")])).await;
        server.wait_for_jobs().await;
    }
    let page = browser.get(changes).await.text;
    assert!(!page.contains(colours) && !page.contains(jobs), "nothing is left out: {page}");
    let inbox = browser.get("/ui/inbox").await.text;
    assert!(!inbox.contains(questions), "nothing is left out: {inbox}");

    server.runs.add_many_lines();
    server.runs.set_equal_questions(22);
    browser.post("/ui/local/fix-42/action", &form(&[("action", "verify")])).await;
    server.wait_for_jobs().await;
    let page = browser.get(changes).await.text;
    assert!(page.contains(colours) && page.contains("at most 5\u{202f}000 lines"), "{page}");
    assert!(page.contains(&format!("{jobs} 1.")), "{page}");
    let inbox = browser.get("/ui/inbox").await.text;
    assert_eq!(inbox.matches(questions).count(), 2, "{inbox}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn inbox_links_to_all_runs_that_need_a_person() {
    let server = serve().await;
    let mut browser = server.signed_in(TokenScope::Viewer).await;
    let inbox = browser.get("/ui/inbox").await.text;
    let link = "<a href=\"/ui/runs?group=needs-you\">all runs that need you</a>";
    assert!(inbox.contains(link), "{inbox}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn checks_are_shown_with_verdict_tree_evidence_and_output() {
    let server = serve().await;
    let mut browser = server.signed_in(TokenScope::Viewer).await;
    let page = browser.get("/ui/local/fix-42/checks").await.text;
    for expected in ["1 of 2 failed", "as it is", "merged onto the base", "Output</summary>"] {
        assert!(page.contains(expected), "{expected}: {page}");
    }
    assert!(page.contains("href=\"/ui/local/fix-42/checks\" aria-current=\"page\""), "{page}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn filters_are_in_the_url_and_paging_follows_the_cursor() {
    let server = serve().await;
    let mut browser = server.signed_in(TokenScope::Viewer).await;
    let page = browser.get("/ui/runs?group=working&text=a%26b").await.text;
    assert!(page.contains("href=\"/ui/runs?group=ended&#38;text=a%26b\""), "{page}");
    assert!(
        page.contains("href=\"/ui/runs?group=working&#38;text=a%26b&#38;after=next.1~end\""),
        "{page}"
    );
    let query = server.runs.queries().pop().unwrap();
    assert!(query.contains("Working") && query.contains("\"a&b\""), "{query}");
    browser.get("/ui/runs?after=next.1~end").await;
    assert!(server.runs.queries().pop().unwrap().contains("\"next.1\""));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn filter_can_be_saved_opened_and_deleted() {
    let server = serve().await;
    let mut browser = server.signed_in(TokenScope::Viewer).await;
    let page = browser.get("/ui/runs?group=ended&stack=mender").await.text;
    assert!(page.contains("value=\"save\""), "{page}");
    assert!(!browser.get("/ui/runs").await.text.contains("value=\"save\""), "nothing to save");
    let save =
        form(&[("action", "save"), ("name", HOSTILE), ("query", "group=ended&stack=mender")]);
    let refused = browser.post("/ui/runs/filters", &save).await;
    assert_eq!(refused.status, 422, "a name has no control characters: {}", refused.text);
    let name = "<script>mine";
    let save = form(&[("action", "save"), ("name", name), ("query", "group=ended&stack=mender")]);
    let saved = browser.post("/ui/runs/filters", &save).await;
    assert_eq!(
        (saved.status, saved.header("location")),
        (303, "/ui/runs?group=ended&stack=mender")
    );
    let page = browser.get("/ui/runs").await.text;
    let link = "href=\"/ui/runs?group=ended&#38;stack=mender\"><bdi>&#60;script&#62;mine</bdi>";
    assert!(page.contains(link), "{page}");
    let delete = form(&[("action", "delete"), ("name", name), ("query", "")]);
    assert_eq!(browser.post_with("/ui/runs/filters", &delete, &[]).await.status, 403);
    let deleted = browser.post("/ui/runs/filters", &delete).await;
    assert_eq!((deleted.status, deleted.header("location")), (303, "/ui/runs"));
    assert!(!browser.get("/ui/runs").await.text.contains("script&#62;mine"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn assets_are_named_by_digest_and_cached_forever() {
    let server = serve().await;
    let mut browser = Browser::new(server.address);
    let page = browser.get("/ui/sign-in").await.text;
    let names: Vec<&str> = page.split('"').filter(|part| part.contains("/static/")).collect();
    assert!(names.len() >= 3, "{page}");
    for name in names {
        let reply = browser.get(name).await;
        assert_eq!(reply.status, 200, "{name}");
        assert_eq!(reply.header("cache-control"), "public, max-age=31536000, immutable");
    }
    assert_eq!(browser.get("/ui/static/page-0000000000000000.js").await.status, 404);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_link_has_the_path_prefix() {
    let server = serve_at("/agents").await;
    for prefix in ["", "/agents"] {
        // The proxy either forwards the prefix or removes it.
        let mut browser = server.signed_in_below(TokenScope::Admin, prefix).await;
        for path in [
            "/ui/runs",
            "/ui/inbox",
            "/ui/local/fix-42",
            "/ui/local/fix-42/changes",
            "/ui/local/fix-42/checks",
            "/ui/local/fix-42/context",
            "/ui/local/fix-42/policy",
            "/ui/local/fix-42/cost",
            "/ui/local/fix-42/lineage",
            "/ui/local/fix-42/artifacts",
        ] {
            let page = browser.get(&format!("{prefix}{path}")).await;
            assert_eq!(page.status, 200, "{prefix}{path}");
            let links = page.text.split(['"', ' ']).filter(|part| part.starts_with('/'));
            let links: Vec<&str> =
                links.filter(|part| part.len() > 1 && !part.starts_with("/>")).collect();
            assert!(links.len() > 5, "{links:?}");
            assert!(links.iter().all(|link| link.starts_with("/agents/ui")), "{links:?}");
        }
    }
    let mut browser = Browser::new(server.address);
    let root = browser.get_with("/", &[("accept", "text/html")]).await;
    assert_eq!((root.status, root.header("location")), (303, "/agents/ui"));
    for path in ["/ui/", "/agents/ui/"] {
        let slash = browser.get(path).await;
        assert_eq!((slash.status, slash.header("location")), (303, "/agents/ui"), "{path}");
    }
    let plain = browser.get("/").await;
    assert_eq!(plain.status, 200, "programs get plain text");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stream_reports_new_events_and_resumes_after_the_last_one() {
    let server = serve().await;
    let browser = server.signed_in(TokenScope::Viewer).await;
    let path = "/ui/live?topic=run&run=fix-42&after=0";
    let first = browser.stream(path, &[], "event: change").await;
    assert!(first.contains("id: 4"), "{first}");
    server.runs.add_event("more");
    let again = browser.stream(path, &[("last-event-id", "4")], "event: change").await;
    assert!(again.contains("event: hello") && again.contains("id: 5"), "{again}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn approvals_are_in_the_inbox_and_decided_through_the_api() {
    let server = serve().await;
    server.add_approval().await;
    let mut browser = server.signed_in(TokenScope::Approver).await;
    let inbox = browser.get("/ui/inbox").await.text;
    assert!(inbox.contains("sha256:one") && inbox.contains("(3) Inbox"), "{inbox}");
    assert!(!inbox.contains(HOSTILE) && !inbox.contains("<script>"), "{inbox}");
    let unseen = "would be done cannot be shown: <bdi>this server has no control plane</bdi>";
    assert!(inbox.contains(unseen), "{inbox}");
    let decision = form(&[
        ("namespace", "default"),
        ("name", "aap-1"),
        ("digest", "sha256:one"),
        ("answer", "approve"),
    ]);
    // This server has no control plane, and the response says so.
    let reply = browser.post("/ui/inbox/decide", &decision).await;
    assert_eq!(reply.status, 503);
    assert!(reply.text.contains("no control plane"), "{}", reply.text);
    let mut viewer = server.signed_in(TokenScope::Viewer).await;
    assert_eq!(viewer.post("/ui/inbox/decide", &decision).await.status, 403);
    assert!(!viewer.get("/ui/inbox").await.text.contains("value=\"approve\""));
    let foreign = viewer.post_with("/ui/inbox/decide", &decision, &[]).await;
    assert_eq!(foreign.status, 403);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn question_shows_its_expiry_and_that_events_are_unreadable() {
    let server = serve().await;
    let mut browser = server.signed_in(TokenScope::Approver).await;
    let inbox = browser.get("/ui/inbox").await.text;
    assert!(inbox.contains("Denied in <time") && inbox.contains(">20 min</time>"), "{inbox}");
    assert!(!inbox.contains("cannot be shown"), "positive control: {inbox}");
    server.runs.make_events_unreadable();
    let inbox = browser.get("/ui/inbox").await.text;
    let reason = "did just before cannot be shown: <bdi>the log is lost</bdi>";
    assert!(inbox.contains(reason) && inbox.contains("value=\"approve\""), "{inbox}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn run_has_context_policy_cost_lineage_and_artifact_pages() {
    let server = serve().await;
    let mut browser = server.signed_in(TokenScope::Viewer).await;
    let expected: [(&str, &[&str]); 5] = [
        ("context", &["7 bytes", "Characters not shown: 1.", "<summary>Text</summary>"]),
        ("policy", &["text and kernel", "action=\"/ui/local/fix-42/policy\""]),
        (
            "cost",
            &["Tokens over time, table", "1\u{202f}234", "unknown price", "part of the agent"],
        ),
        ("lineage", &["started by first", "another attempt after fix-42", "this agent"]),
        (
            "artifacts",
            &["href=\"/ui/local/fix-42/artifacts/task.toml\"", "9 bytes", "cannot be shown"],
        ),
    ];
    for (tab, texts) in expected {
        let page = browser.get(&format!("/ui/local/fix-42/{tab}")).await;
        assert_eq!(page.status, 200, "{tab}: {}", page.text);
        for text in texts {
            assert!(page.text.contains(text), "{tab}, {text}: {}", page.text);
        }
        let current = format!("href=\"/ui/local/fix-42/{tab}\" aria-current=\"page\"");
        assert!(page.text.contains(&current), "{tab}: {}", page.text);
        assert!(!page.text.contains("<script>alert"), "{tab}: {}", page.text);
        assert_eq!(browser.get(&format!("/ui/local/nobody/{tab}")).await.status, 404, "{tab}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn trying_a_command_changes_nothing() {
    let server = serve().await;
    let mut browser = server.signed_in(TokenScope::Viewer).await;
    let denied = browser.get("/ui/local/fix-42/policy?command=git%20push").await.text;
    assert!(denied.contains("<span class=\"verdict refused\">denied</span>"), "{denied}");
    assert!(denied.contains("value=\"git push\""), "{denied}");
    assert!(denied.contains("This holds for sandbox level"), "{denied}");
    let allowed = browser.get("/ui/local/fix-42/policy?command=ls").await.text;
    assert!(allowed.contains("<span class=\"verdict allowed\">allowed</span>"), "{allowed}");
    assert!(allowed.contains("the answer without a sandbox"), "{allowed}");
    assert!(server.runs.changes().is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn artifact_is_downloaded_and_never_shown_as_a_page() {
    let server = serve().await;
    let mut browser = server.signed_in(TokenScope::Viewer).await;
    let file = browser.get("/ui/local/fix-42/artifacts/task.toml").await;
    assert_eq!(file.status, 200);
    assert!(file.text.contains("<script>"), "positive control: {}", file.text);
    assert_eq!(file.header("content-disposition"), "attachment");
    assert_eq!(file.header("content-type"), "application/octet-stream");
    assert_eq!(file.header("x-content-type-options"), "nosniff");
    assert_eq!(browser.get("/ui/local/fix-42/artifacts/passwd").await.status, 404);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unknown_or_invalid_address_gets_an_error_page() {
    let server = serve().await;
    let mut browser = server.signed_in(TokenScope::Viewer).await;
    let unknown = browser.get("/ui/nothing/here").await;
    assert_eq!(unknown.status, 404);
    assert!(unknown.header("content-type").starts_with("text/html"), "{}", unknown.text);
    assert!(unknown.text.contains("There is no page with this address."), "{}", unknown.text);
    let slash = browser.get("/ui/runs/?group=ended").await;
    assert_eq!((slash.status, slash.header("location")), (303, "/ui/runs?group=ended"));
    for (path, location) in [
        ("/ui/", "/ui"),
        ("/ui", "/ui/runs"),
        ("/ui/local/", "/ui/local"),
        ("/ui/local", "/ui/runs"),
    ] {
        let reply = browser.get(path).await;
        assert_eq!((reply.status, reply.header("location")), (303, location), "{path}");
    }
    for wrong in [
        "/ui/runs?grup=ended",
        "/ui/runs?group=nobody",
        "/ui/local/fix-42?event=x",
        "/ui/local/fix-42?filter=nothing",
        "/ui/numbers?days=x",
        "/ui/fleet/kinds/agentstacks?page=2",
    ] {
        let page = browser.get(wrong).await;
        assert_eq!(page.status, 400, "{wrong}: {}", page.text);
        assert!(page.header("content-type").starts_with("text/html"), "{wrong}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn missing_event_is_reported_and_every_event_has_an_anchor() {
    let server = serve().await;
    let mut browser = server.signed_in(TokenScope::Viewer).await;
    let page = browser.get("/ui/local/fix-42?event=9999").await.text;
    assert!(page.contains("There is no event 9999: the last one is 4."), "{page}");
    let page = browser.get("/ui/local/fix-42?event=3").await.text;
    assert!(!page.contains("There is no event"), "{page}");
    // The decision is the third event; it is in the row of the second one.
    assert!(page.contains("id=\"e2\"") && page.contains("<span id=\"e3\">"), "{page}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn attempt_links_to_its_first_event() {
    let server = serve().await;
    let mut browser = server.signed_in(TokenScope::Viewer).await;
    let run = "/ui/local/fix-42";
    let page = browser.get(run).await.text;
    assert!(page.contains(&format!("<a href=\"{run}?at=3\">Attempt 1</a>")), "{page}");
    for number in 5..=40 {
        server.runs.add_event(&format!("word {number}"));
    }
    // The time of each event is its number.
    for at in [0_u64, 1, 2, 3, 4, 5, 20, 21, 39, 40] {
        let reply = browser.get(&format!("{run}?at={at}")).await;
        let event = at.max(1);
        let expected = format!("{run}?event={event}#e{event}");
        assert_eq!((reply.status, reply.header("location")), (303, expected.as_str()), "{at}");
    }
    let later = browser.get(&format!("{run}?at=41")).await;
    assert_eq!((later.status, later.header("location")), (303, run), "no event is later");
    assert_eq!(browser.get("/ui/local/nobody?at=3").await.status, 404);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn question_names_its_rule() {
    let server = serve().await;
    let mut browser = server.signed_in(TokenScope::Viewer).await;
    let inbox = browser.get("/ui/inbox").await.text;
    assert!(inbox.contains("Rule <code>role::ask</code>"), "{inbox}");
    let (_, digest) =
        inbox.split_once("Digest <code title=\"").expect("the digest of the question");
    assert!(
        server.answer("approve").contains(digest.get(..64).unwrap()),
        "the form has the digest that is shown"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn question_about_an_edit_shows_a_line_diff() {
    let server = serve().await;
    let mut browser = server.signed_in(TokenScope::Viewer).await;
    let inbox = browser.get("/ui/inbox").await.text;
    let (_, change) = inbox.split_once("<dt>Change</dt>").expect("the change of the call");
    let change = change.split("</table>").next().unwrap();
    for (class, count) in [("same", 1), ("del", 1), ("add", 2)] {
        let rows = change.matches(&format!("<tr class=\"{class}\">")).count();
        assert_eq!(rows, count, "{class}: {change}");
    }
    assert_eq!(change.matches("script&#62;alert(1)").count(), 2, "{change}");
    assert!(!change.contains("<script>") && !change.contains("<img"), "{change}");
    // Every other field is shown unchanged, and only once.
    for (field, is_shown) in
        [("command", true), ("file_path", true), ("old_string", false), ("new_string", false)]
    {
        assert_eq!(inbox.contains(&format!("<bdi>{field}</bdi>")), is_shown, "{field}: {inbox}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn truncated_message_shows_the_number_of_missing_characters() {
    let server = serve().await;
    let mut browser = server.signed_in(TokenScope::Viewer).await;
    server.runs.add_message(&"x".repeat(20_000));
    let whole = browser.get("/ui/local/fix-42").await.text;
    assert!(!whole.contains("Characters not shown: 7"), "positive control: {whole}");
    server.runs.add_message(&"x".repeat(20_007));
    let cut = browser.get("/ui/local/fix-42").await.text;
    let note = "Characters not shown: 7; the whole text is in <code>bailiwick logs fix-42 -o json";
    assert!(cut.contains(note), "{cut}");
}
