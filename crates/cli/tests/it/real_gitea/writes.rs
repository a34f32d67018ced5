//! What runs write to the server: each kind of write happens once, also after failures.

use serde_json::{Value, json};

use super::site::{Site, rule, text};

const BRANCH: [&str; 4] = ["create-branch", "open-pull-request", "issue-comment", "check-status"];

fn on_label(targets: &[&str]) -> Value {
    rule("labels", &["label"], &json!({ "labels": ["agent"] }), targets)
}

fn on_mention(targets: &[&str]) -> Value {
    rule("mentions", &["pr-comment"], &json!({ "mention": ["/agent"] }), targets)
}

/// Opens an issue about a push to `topic`, after an approval, and comments on it without one.
fn on_push() -> Value {
    let targets = ["open-issue", "issue-comment"];
    let mut rule =
        rule("pushes", &["push"], &json!({ "branches": { "include": ["topic"] } }), &targets);
    rule["spec"]["workItem"] = json!("open-issue");
    rule["spec"]["writeBackPolicy"]["modes"] = json!({ "issue-comment": "auto" });
    rule
}

/// Opens an issue, labels it as `dev`, and waits for the run; returns the issue.
fn start_with_label(site: &Site) -> u64 {
    let issue = site.issue(&site.dev, "Work");
    site.label(&site.dev, issue, "agent");
    site.wait_until("a run", || site.started_runs().contains_key("labels").then_some(()));
    issue
}

fn assert_all_succeed(site: &Site) {
    for (run, phase) in site.wait_for_all_runs() {
        assert_eq!(phase, "succeeded", "{:#}", site.json(&["get", "run", &run]));
    }
}

/// The comments of the control plane on an issue or a pull request.
fn our_comments(site: &Site, number: u64) -> usize {
    let path = format!("/issues/{number}/comments");
    let all = site.request_as(&site.dev, "GET", &path, &Value::Null);
    all.as_array().unwrap().iter().filter(|one| one["user"]["login"] == *site.bot).count()
}

fn our_pulls(site: &Site) -> Vec<Value> {
    let all = site.request_as(&site.dev, "GET", "/pulls?state=all", &Value::Null);
    all.as_array()
        .unwrap()
        .iter()
        .filter(|one| one["user"]["login"] == *site.bot)
        .cloned()
        .collect()
}

fn our_issues(site: &Site) -> Vec<Value> {
    let all = site.request_as(&site.dev, "GET", "/issues?type=issues&state=all", &Value::Null);
    all.as_array()
        .unwrap()
        .iter()
        .filter(|one| one["user"]["login"] == *site.bot)
        .cloned()
        .collect()
}

/// Waits until an approval is pending.
fn wait_for_approval_request(site: &Site) {
    site.wait_until("a question", || {
        let open = site.json(&["get", "approvals", "--field", "phase=pending"]);
        (!open.as_array().unwrap().is_empty()).then_some(())
    });
}

fn file(site: &Site, path: &str, reference: &str) -> String {
    let path = format!("/contents/{path}?ref={reference}");
    text(&site.request_as(&site.dev, "GET", &path, &Value::Null)["content"])
}

#[test]
#[ignore = "needs GITEA_URL and GITEA_ADMIN"]
fn label_creates_branch_pull_request_comment_and_status() {
    let site = Site::new(&[on_label(&BRANCH)]);
    let issue = start_with_label(&site);
    assert_all_succeed(&site);
    let pulls = our_pulls(&site);
    assert_eq!(pulls.len(), 1, "{pulls:#?}");
    assert!(!file(&site, "src/made.txt", pulls[0]["head"]["ref"].as_str().unwrap()).is_empty());
    assert_eq!(our_comments(&site, issue), 1);
    let sha =
        text(&site.request_as(&site.dev, "GET", "/branches/main", &Value::Null)["commit"]["id"]);
    // The approval of the status is requested after the end of the run.
    site.wait_until("the status", || {
        site.approve_all();
        let path = format!("/commits/{sha}/statuses");
        let statuses = site.request_as(&site.dev, "GET", &path, &Value::Null);
        statuses.as_array().unwrap().iter().any(|one| one["status"] == "success").then_some(())
    });
}

#[test]
#[ignore = "needs GITEA_URL and GITEA_ADMIN"]
fn mention_in_a_pull_request_creates_push_and_comment() {
    let site = Site::new(&[on_mention(&["branch-push", "pull-request-comment"])]);
    let clone = site.clone();
    clone.push("topic", "docs/other.txt", "not in the scope of the agent\n");
    let pull = site.pull(&site.dev, "topic", "A topic");
    site.comment(&site.dev, pull, "Please, /agent.");
    site.wait_until("a run", || site.started_runs().contains_key("mentions").then_some(()));
    assert_all_succeed(&site);
    assert!(!file(&site, "src/made.txt", "topic").is_empty());
    assert_eq!(our_comments(&site, pull), 1);
}

#[test]
#[ignore = "needs GITEA_URL and GITEA_ADMIN"]
fn mention_in_a_pull_request_creates_a_review() {
    let site = Site::new(&[on_mention(&["pull-request-review"])]);
    let clone = site.clone();
    clone.push("topic", "src/topic.txt", "topic\n");
    let pull = site.pull(&site.dev, "topic", "A topic");
    site.comment(&site.dev, pull, "Please, /agent.");
    site.wait_until("a run", || site.started_runs().contains_key("mentions").then_some(()));
    assert_all_succeed(&site);
    let reviews =
        site.request_as(&site.dev, "GET", &format!("/pulls/{pull}/reviews"), &Value::Null);
    assert_eq!(reviews.as_array().unwrap().len(), 1, "{reviews:#}");
    assert_eq!(reviews[0]["user"]["login"], *site.bot);
}

#[test]
#[ignore = "needs GITEA_URL and GITEA_ADMIN"]
fn restarts_before_writes_do_not_duplicate_them() {
    let mut site = Site::new(&[on_label(&BRANCH)]);
    let issue = start_with_label(&site);
    for _ in 0..6 {
        site.approve_all();
        site.serve();
    }
    assert_all_succeed(&site);
    assert_eq!(our_pulls(&site).len(), 1);
    assert_eq!(our_comments(&site, issue), 1);
}

#[test]
#[ignore = "needs GITEA_URL and GITEA_ADMIN"]
fn push_opens_one_issue_and_retry_comments_on_it() {
    let opened = rule("opened", &["webhook"], &json!({ "eventTypes": ["issues.opened"] }), &[]);
    let mut site = Site::new(&[on_push(), opened]);
    site.clone().push("topic", "src/topic.txt", "topic\n");
    wait_for_approval_request(&site);
    assert_eq!(our_issues(&site), Vec::<Value>::new());
    site.serve();
    site.faults.lose_response_to(format!("POST /api/v1/repos/{}/issues ", site.repository));
    site.approve_all();
    site.wait_until("the issue", || (site.faults.count() == 1).then_some(()));
    // Only the server knows the issue so far.
    site.serve();
    assert_all_succeed(&site);
    let issues = our_issues(&site);
    assert_eq!(issues.len(), 1, "{issues:#?}");
    assert_eq!(issues[0]["title"], "Done as asked.");
    let issue = issues[0]["number"].as_u64().unwrap();
    assert_eq!(our_comments(&site, issue), 0);
    let [(run, _)] = &site.wait_for_all_runs()[..] else { panic!("{}", site.report()) };
    assert_eq!(site.json(&["get", "run", run])["status"]["openedIssue"], issue);

    site.run(&["runs", "retry", run]).expect_code(0);
    assert_all_succeed(&site);
    assert_eq!(our_issues(&site).len(), 1);
    assert_eq!(our_comments(&site, issue), 1);

    // The issue of a person starts a run; ours does not.
    site.issue(&site.dev, "Work");
    site.wait_until("a run", || site.started_runs().contains_key("opened").then_some(()));
    site.wait_until_quiet();
    let expected = [("opened", 1), ("pushes", 1)].map(|(rule, count)| (rule.to_owned(), count));
    assert_eq!(site.started_runs(), expected.into(), "{}", site.report());
}

#[test]
#[ignore = "needs GITEA_URL and GITEA_ADMIN"]
fn server_errors_neither_duplicate_nor_lose_writes() {
    let site = Site::new(&[on_label(&BRANCH)]);
    site.faults.set(true);
    let issue = start_with_label(&site);
    assert_all_succeed(&site);
    site.faults.set(false);
    println!("{} requests failed", site.faults.count());
    assert!(site.faults.count() > 5, "{} requests failed", site.faults.count());
    assert_eq!(our_pulls(&site).len(), 1);
    assert_eq!(our_comments(&site, issue), 1);
}

#[test]
#[ignore = "needs GITEA_URL and GITEA_ADMIN"]
fn revoked_token_is_reported_and_new_token_resumes_writes() {
    let site = Site::new(&[on_label(&BRANCH)]);
    let issue = start_with_label(&site);
    wait_for_approval_request(&site);
    let path = format!("/users/{}/tokens", site.bot);
    for token in site.server.by(&site.bot, "GET", &path, &Value::Null).as_array().unwrap() {
        site.server.by(&site.bot, "DELETE", &format!("{path}/{}", token["id"]), &Value::Null);
    }
    site.approve_all();
    site.wait_until("a condition that names the token", || {
        let repository = site.json(&["get", "repository", "app"]);
        let conditions = repository["status"]["conditions"].as_array()?.clone();
        conditions.iter().any(|one| one["status"] == "False").then_some(())
    });
    site.rotate_token();
    assert_all_succeed(&site);
    assert_eq!(our_pulls(&site).len(), 1);
    assert_eq!(our_comments(&site, issue), 1);
}

#[test]
#[ignore = "needs GITEA_URL and GITEA_ADMIN"]
fn moved_branch_is_rebased_and_needs_a_new_approval() {
    let site = Site::new(&[on_mention(&["branch-push", "pull-request-comment"])]);
    let clone = site.clone();
    clone.push("topic", "src/topic.txt", "topic\n");
    let pull = site.pull(&site.dev, "topic", "A topic");
    site.comment(&site.dev, pull, "Please, /agent.");
    wait_for_approval_request(&site);
    clone.push("topic", "src/later.txt", "pushed while a person thought\n");
    assert_all_succeed(&site);
    assert!(!file(&site, "src/later.txt", "topic").is_empty(), "the person's push is not lost");
    assert!(!file(&site, "src/made.txt", "topic").is_empty());
    assert_eq!(our_comments(&site, pull), 1);
}

#[test]
#[ignore = "needs GITEA_URL and GITEA_ADMIN"]
fn protected_branch_is_detected_before_approval_is_requested() {
    let site = Site::new(&[on_mention(&["branch-push", "pull-request-comment"])]);
    let clone = site.clone();
    clone.push("topic", "src/topic.txt", "topic\n");
    let pull = site.pull(&site.dev, "topic", "A topic");
    let protection = json!({ "branch_name": "topic", "rule_name": "topic", "enable_push": false });
    site.server.admin(
        "POST",
        &format!("/repos/{}/branch_protections", site.repository),
        &protection,
    );
    site.comment(&site.dev, pull, "Please, /agent.");
    site.wait_until("the end of a run", || {
        let runs = site.json(&["get", "runs"]);
        runs.as_array().unwrap().iter().any(|run| run["status"]["phase"] == "failed").then_some(())
    });
    let approvals = site.json(&["get", "approvals"]);
    assert!(
        !approvals.as_array().unwrap().iter().any(|one| one.to_string().contains("branch-push")),
        "{approvals:#}"
    );
    assert_eq!(our_comments(&site, pull), 0);
}

#[test]
#[ignore = "needs GITEA_URL and GITEA_ADMIN"]
fn renamed_repository_is_reported_in_a_condition() {
    let site = Site::new(&[on_label(&BRANCH)]);
    let path = format!("/repos/{}", site.repository);
    site.server.admin("PATCH", &path, &json!({ "name": "renamed" }));
    let condition = site.wait_until("a condition that names the rename", || {
        let repository = site.json(&["get", "repository", "app"]);
        let conditions = repository["status"]["conditions"].as_array()?.clone();
        conditions.into_iter().find(|one| one["reason"] == "ForgeRepositoryRenamed")
    });
    assert_eq!(condition["status"], "False", "{condition:#}");
    assert!(text(&condition["message"]).contains("renamed"), "{condition:#}");
}
