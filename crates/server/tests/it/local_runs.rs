//! The runs of this machine: queries, answers and actions reach the port; errors keep their meaning.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use bailiwick_fleet::ports::{
    FleetStore as _, LocalAction, LocalAnswerRequest, LocalArtifacts, LocalClaims, LocalEventQuery,
    LocalExplanation, LocalLineage, LocalOutcome, LocalQuestions, LocalRun, LocalRunContext,
    LocalRunCost, LocalRunCounts, LocalRunDetail, LocalRunDiff, LocalRunError, LocalRunEvents,
    LocalRunGroup, LocalRunList, LocalRunPolicy, LocalRunQuery, LocalRunStage, LocalRunUsage,
    LocalRuns, LocalVerb, LocalVerifications, MeasuredRun, TokenScope, Write,
};
use bailiwick_model::Event;
use bailiwick_model::event::{EventKind, ReportedBy};
use bailiwick_resources::Moment;
use bailiwick_server::Settings;
use serde_json::json;

use crate::client::HttpRequest;
use crate::test_server::{TestServer, start, start_server};

/// One run, `fix-42`, with three events; records its calls.
#[derive(Debug, Default)]
struct ScriptedRuns {
    calls: Mutex<Vec<String>>,
    events: Mutex<Vec<Event>>,
    listed: Mutex<Vec<LocalRun>>,
    /// A landing runs until this is set.
    may_end: AtomicBool,
}

impl ScriptedRuns {
    fn call(&self, run: &str, text: String) -> Result<(), LocalRunError> {
        self.calls.lock().unwrap().push(text);
        match run {
            "fix-42" => Ok(()),
            "busy" => Err(LocalRunError::Refused {
                message: "`busy` is running".to_owned(),
                advice: Some("stop it first".to_owned()),
            }),
            "broken" => Err(LocalRunError::Unavailable("/var/secret/path is gone".to_owned())),
            other => Err(LocalRunError::NotFound(format!("there is no agent `{other}`"))),
        }
    }

    fn done(run: &str) -> LocalOutcome {
        LocalOutcome { run: run.to_owned(), message: "done".to_owned() }
    }
}

fn event(number: u64) -> Event {
    let what = EventKind::Text { text: format!("word {number}") };
    Event { number, at: number, reported_by: ReportedBy::Proxy, agent: None, what, raw: None }
}

impl LocalRuns for ScriptedRuns {
    fn list(&self, query: &LocalRunQuery) -> Result<LocalRunList, LocalRunError> {
        self.calls.lock().unwrap().push(format!("{query:?}"));
        let all = self.listed.lock().unwrap();
        // The cursor of these tests is a number; another cursor finds nothing.
        let start = query.after.as_deref().map_or(Ok(0), str::parse).unwrap_or(all.len());
        let end = all.len().min(start + query.limit);
        let next = (end < all.len()).then(|| end.to_string());
        let in_group = |run: &&LocalRun| query.group.is_none_or(|group| group == run.group);
        let items = all[start.min(end)..end].iter().filter(in_group).cloned().collect();
        Ok(LocalRunList { items, next, total: None })
    }

    fn count(&self) -> Result<LocalRunCounts, LocalRunError> {
        self.calls.lock().unwrap().push("count".to_owned());
        let mut counts = LocalRunCounts { is_incomplete: true, ..LocalRunCounts::default() };
        counts.add(LocalRunStage::Landed, 98_765);
        counts.add(LocalRunStage::Working, 1);
        Ok(counts)
    }

    fn read(&self, run: &str) -> Result<LocalRunDetail, LocalRunError> {
        self.call(run, format!("read {run}"))?;
        let impossible =
            |verb| (verb == LocalVerb::Rollback).then(|| "it has not landed".to_owned());
        let action = |verb| LocalAction {
            action: verb,
            impossible: impossible(verb),
            needs_text: verb == LocalVerb::Message,
        };
        let detail = json!({
            "run": {
                "id": run, "name": run, "repository": "", "state": "done", "stage": "needs-you", "group": "needs-you",
                "role": "", "branch": "", "agent": "", "agentVersion": "", "model": "",
                "sandbox": "", "attempts": 0, "createdAt": crate::test_server::moment(),
                "used": LocalRunUsage::default(), "budget": {}, "questions": 0, "summary": "",
            },
            "attempts": [], "task": "", "dna": "", "worktree": "", "lastEvent": 3,
            "actions": LocalVerb::ALL.map(action),
        });
        Ok(serde_json::from_value(detail).unwrap())
    }

    fn events(&self, run: &str, after: u64, limit: u32) -> Result<LocalRunEvents, LocalRunError> {
        self.call(run, format!("events {run} {after} {limit}"))?;
        let all = self.events.lock().unwrap().clone();
        let last = all.last().map_or(0, |event| event.number);
        let after = all.into_iter().filter(|event| event.number > after);
        let events = after.take(usize::try_from(limit).unwrap()).collect();
        Ok(LocalRunEvents { events, last, ended: false, next: None })
    }

    fn search(&self, run: &str, query: &LocalEventQuery) -> Result<LocalRunEvents, LocalRunError> {
        self.call(run, format!("{query:?}"))?;
        Ok(LocalRunEvents { next: Some(7), ..LocalRunEvents::default() })
    }

    fn verifications(&self, run: &str) -> Result<LocalVerifications, LocalRunError> {
        self.call(run, format!("verifications {run}"))?;
        Ok(LocalVerifications::default())
    }

    fn diff(&self, run: &str) -> Result<LocalRunDiff, LocalRunError> {
        self.call(run, format!("diff {run}"))?;
        Ok(LocalRunDiff { patch: "+one".to_owned(), ..LocalRunDiff::default() })
    }

    fn context(&self, run: &str) -> Result<LocalRunContext, LocalRunError> {
        self.call(run, format!("context {run}"))?;
        Ok(LocalRunContext::default())
    }

    fn policy(&self, run: &str) -> Result<LocalRunPolicy, LocalRunError> {
        self.call(run, format!("policy {run}"))?;
        Ok(LocalRunPolicy::default())
    }

    fn explain(&self, run: &str, command: &str) -> Result<LocalExplanation, LocalRunError> {
        self.call(run, format!("explain {run} {command}"))?;
        let explanation = json!({
            "decision": "deny", "rule": "policy::no-git-ops", "reason": "", "instead": "",
            "runs": [], "writes": [], "leftToSandbox": [], "verdicts": [],
        });
        Ok(serde_json::from_value(explanation).unwrap())
    }

    fn cost(&self, run: &str) -> Result<LocalRunCost, LocalRunError> {
        self.call(run, format!("cost {run}"))?;
        Ok(LocalRunCost::default())
    }

    fn lineage(&self, run: &str) -> Result<LocalLineage, LocalRunError> {
        self.call(run, format!("lineage {run}"))?;
        Ok(LocalLineage::default())
    }

    fn artifacts(&self, run: &str) -> Result<LocalArtifacts, LocalRunError> {
        self.call(run, format!("artifacts {run}"))?;
        Ok(LocalArtifacts::default())
    }

    fn artifact(&self, run: &str, name: &str) -> Result<Vec<u8>, LocalRunError> {
        self.call(run, format!("artifact {run} {name}"))?;
        Ok(b"<script>".to_vec())
    }

    fn questions(&self, run: Option<&str>) -> Result<LocalQuestions, LocalRunError> {
        self.calls.lock().unwrap().push(format!("questions {run:?}"));
        Ok(LocalQuestions::default())
    }

    fn claims(&self) -> Result<LocalClaims, LocalRunError> {
        self.calls.lock().unwrap().push("claims".to_owned());
        Ok(LocalClaims::default())
    }

    fn measure(&self, since: Moment, limit: usize) -> Result<Vec<MeasuredRun>, LocalRunError> {
        assert!(since.millis() > 0 && limit > 0);
        self.calls.lock().unwrap().push("measure".to_owned());
        Ok(vec![MeasuredRun {
            created_at: since.plus_millis(86_400_000),
            stage: LocalRunStage::Landed,
            role: "fixer".to_owned(),
            agent: "claude".to_owned(),
            model: "opus".to_owned(),
            used: LocalRunUsage { tokens: 7, micro_usd: 9, ..LocalRunUsage::default() },
            denials: BTreeMap::from([("policy::no-git-ops".to_owned(), 2)]),
            phases: BTreeMap::from([("working".to_owned(), 5)]),
        }])
    }

    fn answer(
        &self,
        run: &str,
        question: &str,
        request: &LocalAnswerRequest,
    ) -> Result<LocalOutcome, LocalRunError> {
        self.call(run, format!("{question} {request:?}"))?;
        Ok(Self::done(run))
    }

    fn act(
        &self,
        run: &str,
        verb: LocalVerb,
        text: &str,
        tell: &mut dyn FnMut(String),
    ) -> Result<LocalOutcome, LocalRunError> {
        tell("quality::tests-green …".to_owned());
        while verb == LocalVerb::Land && !self.may_end.load(Ordering::SeqCst) {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        self.call(run, format!("{} {run} {text}", verb.as_str()))?;
        Ok(Self::done(run))
    }
}

async fn server() -> (TestServer, Arc<ScriptedRuns>) {
    let runs = Arc::new(ScriptedRuns::default());
    let local_runs: Option<Arc<dyn LocalRuns>> = Some(runs.clone());
    let address = "127.0.0.1:0".parse().unwrap();
    (start(Settings { address, local_runs, ..Settings::default() }).await, runs)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn query_reaches_the_port_and_unknown_parameters_are_refused() {
    let (server, runs) = server().await;
    let path = "/api/v1alpha1/local/runs?group=needs-you&text=fix&limit=7&continue=9.a";
    assert_eq!(server.get(path).await.expect(200).json()["items"], json!([]));
    let expected = LocalRunQuery {
        group: Some(LocalRunGroup::NeedsYou),
        text: Some("fix".to_owned()),
        after: Some("9.a".to_owned()),
        limit: 7,
    };
    assert_eq!(*runs.calls.lock().unwrap(), [format!("{expected:?}")]);
    server.get("/api/v1alpha1/local/runs?group=all").await.expect(400);
    server.get("/api/v1alpha1/local/runs?state=x").await.expect(400);
    server.get("/api/v1alpha1/local/questions?run=fix-42").await.expect(200);
    assert!(runs.calls.lock().unwrap().contains(&"questions Some(\"fix-42\")".to_owned()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn claims_and_metrics_come_from_the_port() {
    let (server, runs) = server().await;
    let claims = server.get("/api/v1alpha1/local/claims").await.expect(200).json();
    assert_eq!(claims, json!({ "items": [] }));
    let numbers = server.get("/api/v1alpha1/numbers?days=2").await.expect(200).json();
    assert_eq!(numbers["runs"][0]["stage"], "landed");
    assert_eq!(numbers["denials"], json!([{ "name": "policy::no-git-ops", "count": 2 }]));
    assert_eq!(numbers["roles"][0]["microUsd"], 9);
    assert_eq!(numbers["isIncomplete"], false);
    assert_eq!(*runs.calls.lock().unwrap(), ["claims", "measure"]);
    for wrong in ["days=0", "days=366", "days=x", "weeks=1"] {
        server.get(&format!("/api/v1alpha1/numbers?{wrong}")).await.expect(400);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stages_count_agents_and_the_runs_of_the_control_plane_that_have_none() {
    let (server, runs) = server().await;
    for name in ["a", "b", "c"] {
        server.run(name).await;
    }
    let mut with_agent = server.run("d").await;
    with_agent.status["agentMuxRunId"] = json!("fix-42");
    server.store.commit(vec![Write::Status(with_agent)], Moment::from_millis(1)).await.unwrap();
    let counts = server.get("/api/v1alpha1/all-runs/stages").await.expect(200).json();
    let expected = json!([
        { "stage": "needs-you", "count": 0 },
        { "stage": "working", "count": 4 },
        { "stage": "verifying", "count": 0 },
        { "stage": "ready-to-land", "count": 0 },
        { "stage": "landed", "count": 98_765 },
        { "stage": "failed", "count": 0 },
    ]);
    assert_eq!((&counts["stages"], &counts["isIncomplete"]), (&expected, &json!(true)));
    assert_eq!(*runs.calls.lock().unwrap(), ["count"]);
    server.get("/api/v1alpha1/all-runs/stages?group=ended").await.expect(400);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_are_paged_by_number_and_can_be_awaited() {
    let (server, runs) = server().await;
    runs.events.lock().unwrap().extend([event(1), event(2), event(3)]);
    let page = server.get("/api/v1alpha1/local/runs/fix-42/events?after=1&limit=1").await;
    let page = page.expect(200).json();
    assert_eq!((&page["events"][0]["number"], &page["last"]), (&json!(2), &json!(3)));
    let later = runs.clone();
    let writer = tokio::spawn(async move {
        // The first read finds no event.
        while !later.calls.lock().unwrap().contains(&"events fix-42 3 1000".to_owned()) {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
        later.events.lock().unwrap().push(event(4));
    });
    let waited = server.get("/api/v1alpha1/local/runs/fix-42/events?after=3&wait=20000").await;
    assert_eq!(waited.expect(200).json()["events"][0]["number"], 4);
    writer.await.unwrap();
    let empty = server.get("/api/v1alpha1/local/runs/fix-42/events?after=4&wait=1").await;
    assert_eq!(empty.expect(200).json()["events"], json!([]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_can_be_filtered_and_searched() {
    let (server, runs) = server().await;
    let events = "/api/v1alpha1/local/runs/fix-42/events";
    let path = format!("{events}?filter=denied&text=git%20push&after=3&limit=2");
    assert_eq!(server.get(&path).await.expect(200).json()["next"], 7);
    let call = runs.calls.lock().unwrap().pop().unwrap();
    for part in ["after: 3", "limit: 2", "Some(Denied)", "\"git push\""] {
        assert!(call.contains(part), "{call}");
    }
    let unknown = server.get(&format!("{events}?filter=nice")).await.expect(400);
    assert!(unknown.text().contains("denied, writes, commands, errors"), "{}", unknown.text());
    let checks = server.get("/api/v1alpha1/local/runs/fix-42/checks").await.expect(200).json();
    assert_eq!(checks["items"], json!([]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answer_needs_an_approver_and_is_in_the_audit_log() {
    let (server, runs) = server().await;
    let path = "/api/v1alpha1/local/runs/fix-42/questions/3/answer";
    let body = json!({ "answer": "deny", "about": "Bash make", "reason": "not today" });
    let token = &server.tokens[&TokenScope::Operator];
    let request = HttpRequest::new("post", path).token(token).json(&body);
    server.execute(request).await.expect(403);
    assert!(runs.calls.lock().unwrap().is_empty());
    let token = &server.tokens[&TokenScope::Approver];
    let request = HttpRequest::new("post", path).token(token).json(&body);
    server.execute(request).await.expect(200);
    let calls = runs.calls.lock().unwrap().clone();
    assert!(calls[0].starts_with("3 ") && calls[0].contains("Deny"), "{calls:?}");
    assert!(calls[0].contains("Bash make") && calls[0].contains("not today"), "{calls:?}");
    let audit = server.audit().await;
    let line = ("approver".to_owned(), "LocalQuestionAnswered".to_owned());
    let found = audit.iter().find(|one| (one.0.clone(), one.1.clone()) == line);
    assert_eq!(found.unwrap().2, "LocalRun/fix-42");
    // Every viewer sees who answered what, and nothing else of the audit log.
    let shown = server.get("/api/v1alpha1/answers").await.expect(200).json();
    let answer = &shown["items"][0];
    assert_eq!(shown["items"].as_array().unwrap().len(), 1, "{shown}");
    assert_eq!((&answer["actor"], &answer["answer"]), (&json!("approver"), &json!("deny")));
    assert_eq!((&answer["about"], &answer["reason"]), (&json!("Bash make"), &json!("not today")));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_short_action_reaches_the_port_with_its_text() {
    let (server, runs) = server().await;
    let paths = [
        "/api/v1alpha1/local/runs/fix-42/stop",
        "/api/v1alpha1/local/runs/fix-42/message",
        "/api/v1alpha1/local/runs/fix-42/resume",
        "/api/v1alpha1/local/runs/fix-42/reject",
        "/api/v1alpha1/local/runs/fix-42/respawn",
        "/api/v1alpha1/local/runs/fix-42/remove",
    ];
    let short: Vec<LocalVerb> = LocalVerb::ALL.into_iter().filter(|verb| !verb.is_job()).collect();
    assert_eq!(paths.len(), short.len());
    for (path, verb) in paths.into_iter().zip(short) {
        server.send("post", path, &json!({ "text": "because" })).await.expect(200);
        let called = runs.calls.lock().unwrap().pop().unwrap();
        assert_eq!(called, format!("{} fix-42 because", verb.as_str()));
    }
    server.send("post", paths[0], &json!({ "words": "x" })).await.expect(422);
}

/// The job with this ID, when it has ended.
async fn ended(server: &TestServer, id: &str) -> serde_json::Value {
    loop {
        let job = server.get(&format!("/api/v1alpha1/local/jobs/{id}")).await.expect(200).json();
        if job["state"] != "running" {
            return job;
        }
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn long_action_is_a_job_with_progress_result_and_audit_entries() {
    let (server, runs) = server().await;
    let land = "/api/v1alpha1/local/runs/fix-42/land";
    let job = server.send("post", land, &json!({})).await.expect(202).json();
    assert_eq!((&job["state"], &job["action"]), (&json!("running"), &json!("land")));
    let id = job["id"].as_str().unwrap().to_owned();
    let verify = "/api/v1alpha1/local/runs/fix-42/verify";
    let busy = server.send("post", verify, &json!({})).await.expect(409);
    assert!(busy.text().contains("`land` of this agent is running"), "{}", busy.text());
    let open = server.audit().await;
    assert!(
        open.iter().any(|line| line.1 == "LocalRunAction"),
        "the entry is written before the job ends: {open:?}"
    );
    runs.may_end.store(true, Ordering::SeqCst);
    let done = ended(&server, &id).await;
    assert_eq!((&done["state"], &done["message"]), (&json!("succeeded"), &json!("done")));
    assert_eq!(done["progress"], json!(["quality::tests-green …"]));
    assert!(server.audit().await.iter().any(|line| line.1 == "LocalRunActionEnded"));

    let job = server.send("post", verify, &json!({})).await.expect(202).json();
    ended(&server, job["id"].as_str().unwrap()).await;
    let listed = server.get("/api/v1alpha1/local/jobs?run=fix-42").await.expect(200).json();
    assert_eq!(listed["items"].as_array().unwrap().len(), 2);
    assert_eq!(listed["items"][0]["action"], "verify", "the newest job comes first");
    let other = server.get("/api/v1alpha1/local/jobs?run=other").await.expect(200).json();
    assert_eq!(other["items"], json!([]));
    server.get("/api/v1alpha1/local/jobs/none").await.expect(404);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn impossible_action_is_refused_before_a_job_starts() {
    let (server, runs) = server().await;
    let refused = server
        .send("post", "/api/v1alpha1/local/runs/fix-42/rollback", &json!({}))
        .await
        .expect(409);
    assert!(
        refused.text().contains("cannot rollback `fix-42`: it has not landed"),
        "{}",
        refused.text()
    );
    server.send("post", "/api/v1alpha1/local/runs/nobody/verify", &json!({})).await.expect(404);
    let calls = runs.calls.lock().unwrap().clone();
    assert!(calls.iter().all(|call| call.starts_with("read ")), "{calls:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn port_errors_keep_their_status_and_hide_paths() {
    let (server, _) = server().await;
    let missing = server.get("/api/v1alpha1/local/runs/nobody").await.expect(404);
    assert!(missing.text().contains("there is no agent `nobody`"));
    let busy = server.get("/api/v1alpha1/local/runs/busy/diff").await.expect(409);
    assert_eq!(busy.code(), "REFUSED");
    assert!(busy.text().contains("`busy` is running; stop it first"), "{}", busy.text());
    let broken = server.get("/api/v1alpha1/local/runs/broken/diff").await.expect(503);
    assert!(!broken.text().contains("secret"), "{}", broken.text());
    let plain = start_server().await;
    plain.get("/api/v1alpha1/local/runs").await.expect(404);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn run_details_come_from_the_port_and_a_file_is_no_web_page() {
    let (server, runs) = server().await;
    let base = "/api/v1alpha1/local/runs/fix-42";
    let paths = [
        "/api/v1alpha1/local/runs/fix-42/context",
        "/api/v1alpha1/local/runs/fix-42/policy",
        "/api/v1alpha1/local/runs/fix-42/cost",
        "/api/v1alpha1/local/runs/fix-42/lineage",
        "/api/v1alpha1/local/runs/fix-42/artifacts",
    ];
    for path in paths {
        server.get(path).await.expect(200);
        server.get(&path.replace("fix-42", "none")).await.expect(404);
        server.get(&format!("{path}?x=1")).await.expect(400);
    }
    let path = "/api/v1alpha1/local/runs/fix-42/explain?command=git%20push";
    assert_eq!(server.get(path).await.expect(200).json()["decision"], "deny");
    assert!(runs.calls.lock().unwrap().contains(&"explain fix-42 git push".to_owned()));
    for wrong in ["", "?command=", "?command=%20"] {
        server.get(&format!("{base}/explain{wrong}")).await.expect(400);
    }
    let file = server.get("/api/v1alpha1/local/runs/fix-42/artifacts/task.toml").await.expect(200);
    assert_eq!(file.headers.get("content-disposition").map(String::as_str), Some("attachment"));
    assert_eq!(
        file.headers.get("content-type").map(String::as_str),
        Some("application/octet-stream")
    );
}

/// The names of all runs, page by page.
async fn all_runs(server: &TestServer, query: &str) -> Vec<String> {
    let (mut names, mut next) = (Vec::new(), String::new());
    // More pages than runs mean that the cursor does not advance.
    for _ in 0..30 {
        let page = server.get(&format!("/api/v1alpha1/all-runs?{query}{next}")).await;
        let page = page.expect(200).json();
        let name_of = |run: &serde_json::Value| run["name"].as_str().unwrap().to_owned();
        names.extend(page["items"].as_array().unwrap().iter().map(name_of));
        match page["next"].as_str() {
            Some(cursor) => next = format!("&continue={cursor}"),
            None => return names,
        }
    }
    panic!("the list does not end: {names:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn local_and_fleet_runs_are_one_list_without_duplicates() {
    let (server, runs) = server().await;
    let detail = server.get("/api/v1alpha1/local/runs/fix-42").await.expect(200).json();
    for second in [9_u64, 7, 5, 3, 1] {
        let mut run: LocalRun = serde_json::from_value(detail["run"].clone()).unwrap();
        run.name = format!("local-{second}");
        run.created_at = Moment::from_millis(second * 1_000);
        run.group = LocalRunGroup::Ended;
        runs.listed.lock().unwrap().push(run);
    }
    for second in [2, 4, 6, 8] {
        server.run_at(&format!("fleet-{second}"), Moment::from_millis(second * 1_000)).await;
    }
    let expected = [
        "local-9", "fleet-8", "local-7", "fleet-6", "local-5", "fleet-4", "local-3", "fleet-2",
        "local-1",
    ];
    for limit in [1, 2, 3, 4, 8, 9, 100] {
        assert_eq!(all_runs(&server, &format!("limit={limit}")).await, expected, "{limit}");
    }
    let fleet = ["fleet-8", "fleet-6", "fleet-4", "fleet-2"];
    assert_eq!(all_runs(&server, "limit=3&group=working").await, fleet);
    assert_eq!(all_runs(&server, "limit=3&group=needs-you").await, [""; 0]);
    assert_eq!(all_runs(&server, "limit=3&stack=mender&taskKind=mend&branch=main").await, fleet);
    assert_eq!(all_runs(&server, "status=pending&source=manual&pool=local").await, fleet);
    for other in ["stack=x", "rule=x", "issue=7", "pullRequest=7", "branch=x", "status=failed"] {
        assert_eq!(all_runs(&server, other).await, [""; 0], "{other}");
    }
    for wrong in ["status=x", "source=x", "issue=x", "pullRequest=x", "stak=x"] {
        server.get(&format!("/api/v1alpha1/all-runs?{wrong}")).await.expect(400);
    }
    server.get("/api/v1alpha1/all-runs?continue=x").await.expect(400);
    server.get("/api/v1alpha1/all-runs?group=all").await.expect(400);
}
