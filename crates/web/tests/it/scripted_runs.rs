//! A server with pages and one scripted agent in which every text is hostile.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::os::unix::fs::MetadataExt as _;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bailiwick_fleet::ports::{
    Fleet, FleetStore as _, LocalAction, LocalAgentCost, LocalAnswerRequest, LocalArtifact,
    LocalArtifacts, LocalAskingRule, LocalAttempt, LocalCheck, LocalClaim, LocalClaims,
    LocalContextLayer, LocalCostPoint, LocalEventQuery, LocalExplanation, LocalLineage,
    LocalOutcome, LocalQuestion, LocalQuestions, LocalRelation, LocalRelative, LocalRule, LocalRun,
    LocalRunBudget, LocalRunContext, LocalRunCost, LocalRunCounts, LocalRunDetail, LocalRunDiff,
    LocalRunError, LocalRunEvents, LocalRunGroup, LocalRunList, LocalRunPolicy, LocalRunQuery,
    LocalRunStage, LocalRunUsage, LocalRuns, LocalToolCall, LocalVerb, LocalVerdict,
    LocalVerification, LocalVerifications, MeasuredRun, MemoryFleet, TokenRecord, TokenScope,
    Write,
};
use bailiwick_model::event::{Answer, EventKind, ReportedBy};
use bailiwick_model::{Event, Sha256Hex};
use bailiwick_resources::{
    ActionType, AgentApproval, AnyObject, ApprovalAction, Metadata, Moment, Object, Requester,
    SubjectKind,
};
use bailiwick_server::{Limits, NoControlPlane, Server, Settings, mint, mint_session};
use bailiwick_web::{LinkRules, WebPages};
use serde_json::json;

use crate::browser::{Browser, form};

/// Markup, an event handler, a right-to-left override and an escape sequence.
pub(crate) const HOSTILE: &str =
    "<script>alert(1)</script>\"'><img src=x onerror=alert(1)>\u{202e}\u{1b}[2J";

/// A text that nothing contains; a search for it is cut off once.
pub(crate) const RARE: &str = "rare";

/// A line of a megabyte whose end was not UTF-8.
pub(crate) fn long_line() -> String {
    format!("{}\u{fffd}", "A".repeat(1_000_000))
}

fn now() -> Moment {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    Moment::from_millis(u64::try_from(since.as_millis()).unwrap())
}

#[derive(Debug)]
pub(crate) struct ScriptedRuns {
    events: Mutex<Vec<Event>>,
    changes: Mutex<Vec<String>>,
    queries: Mutex<Vec<String>>,
    permits_all: AtomicBool,
    /// Whether its agent belongs to the control plane.
    is_managed: AtomicBool,
    has_unreadable_events: AtomicBool,
    /// The number of equal questions that wait.
    questions: AtomicUsize,
    /// The number of running agents.
    working: AtomicUsize,
    /// The number of landed runs. Lists do not contain them.
    landed: AtomicUsize,
    has_incomplete_counts: AtomicBool,
    has_long_lines: AtomicBool,
    has_many_lines: AtomicBool,
}

fn event(number: u64, what: EventKind) -> Event {
    let agent = Some(HOSTILE.to_owned());
    Event { number, at: number, reported_by: ReportedBy::Proxy, agent, what, raw: None }
}

impl ScriptedRuns {
    fn new() -> Self {
        let call = "call-1".to_owned();
        let input = json!({ "command": format!("git push {HOSTILE}") });
        let reason = format!("no {HOSTILE}. Instead: report it.");
        let events = vec![
            event(1, EventKind::Text { text: HOSTILE.to_owned() }),
            event(2, EventKind::ToolCall { id: call.clone(), tool: HOSTILE.to_owned(), input }),
            event(
                3,
                EventKind::Decision {
                    call: Some(call.clone()),
                    tool: "Bash".to_owned(),
                    about: HOSTILE.to_owned(),
                    answer: Answer::Deny,
                    rule: Some("policy::no-git-ops".to_owned()),
                    reason: Some(format!("policy::no-git-ops: {reason}")),
                },
            ),
            event(4, EventKind::ToolResult { id: call, ok: false, output: HOSTILE.to_owned() }),
        ];
        let (changes, queries) = (Mutex::default(), Mutex::default());
        Self {
            events: Mutex::new(events),
            changes,
            queries,
            permits_all: AtomicBool::new(false),
            is_managed: AtomicBool::new(false),
            has_unreadable_events: AtomicBool::new(false),
            questions: AtomicUsize::new(1),
            working: AtomicUsize::new(0),
            landed: AtomicUsize::new(0),
            has_incomplete_counts: AtomicBool::new(false),
            has_long_lines: AtomicBool::new(false),
            has_many_lines: AtomicBool::new(false),
        }
    }

    pub(crate) fn changes(&self) -> Vec<String> {
        self.changes.lock().unwrap().clone()
    }

    /// From now on, every action is possible.
    pub(crate) fn permit_all_actions(&self) {
        self.permits_all.store(true, Ordering::SeqCst);
    }

    /// From now on, its agent neither gets messages nor resumes by itself.
    pub(crate) fn make_managed(&self) {
        self.is_managed.store(true, Ordering::SeqCst);
    }

    /// From now on, events cannot be read.
    pub(crate) fn make_events_unreadable(&self) {
        self.has_unreadable_events.store(true, Ordering::SeqCst);
    }

    /// Sets the number of equal questions that wait.
    pub(crate) fn set_equal_questions(&self, count: usize) {
        self.questions.store(count, Ordering::SeqCst);
    }

    /// Sets the number of running agents.
    pub(crate) fn set_working(&self, count: usize) {
        self.working.store(count, Ordering::SeqCst);
    }

    /// Sets the number of landed runs.
    pub(crate) fn set_landed(&self, count: usize) {
        self.landed.store(count, Ordering::SeqCst);
    }

    /// From now on, there are more open runs than are counted.
    pub(crate) fn make_counts_incomplete(&self) {
        self.has_incomplete_counts.store(true, Ordering::SeqCst);
    }

    /// From now on, a change, the output of a check and that of a command are one line of a megabyte.
    pub(crate) fn add_long_lines(&self) {
        self.has_long_lines.store(true, Ordering::SeqCst);
        let id = "call-2".to_owned();
        let input = json!({ "command": "cat long.txt" });
        self.add(EventKind::ToolCall { id: id.clone(), tool: "Bash".to_owned(), input });
        self.add(EventKind::ToolResult { id, ok: true, output: long_line() });
    }

    /// From now on, the change has a file with more lines than a page colours.
    pub(crate) fn add_many_lines(&self) {
        self.has_many_lines.store(true, Ordering::SeqCst);
    }

    fn has_long_lines(&self) -> bool {
        self.has_long_lines.load(Ordering::SeqCst)
    }

    pub(crate) fn queries(&self) -> Vec<String> {
        self.queries.lock().unwrap().clone()
    }

    pub(crate) fn add_event(&self, text: &str) {
        self.add(EventKind::Text { text: text.to_owned() });
    }

    /// Adds a message of a person.
    pub(crate) fn add_message(&self, text: &str) {
        self.add(EventKind::Message { text: text.to_owned() });
    }

    fn add(&self, what: EventKind) {
        let mut events = self.events.lock().unwrap();
        let number = u64::try_from(events.len()).unwrap() + 1;
        events.push(event(number, what));
    }

    fn require(run: &str) -> Result<(), LocalRunError> {
        match run {
            "fix-42" => Ok(()),
            other => Err(LocalRunError::NotFound(format!("there is no agent `{other}`"))),
        }
    }

    fn run() -> LocalRun {
        let text = || HOSTILE.to_owned();
        LocalRun {
            id: "fix-42".to_owned(),
            name: text(),
            repository: text(),
            state: text(),
            group: LocalRunGroup::NeedsYou,
            stage: LocalRunStage::NeedsYou,
            next: Some(text()),
            is_managed: false,
            role: text(),
            branch: text(),
            base: Some(text()),
            parent: Some(text()),
            agent: text(),
            agent_version: text(),
            model: text(),
            sandbox: text(),
            attempts: 1,
            created_at: now(),
            ended_at: None,
            used: LocalRunUsage { tokens: 90, denied: 1, ..LocalRunUsage::default() },
            budget: LocalRunBudget { tokens: Some(100), ..LocalRunBudget::default() },
            questions: 0,
            summary: text(),
        }
    }

    /// A page of running agents.
    fn working_runs(count: usize, query: &LocalRunQuery) -> LocalRunList {
        let start = query.after.as_deref().map_or(0, |after| after.parse().unwrap());
        let end = count.min(start + query.limit);
        let run = |number: usize| LocalRun {
            id: format!("work-{number}"),
            group: LocalRunGroup::Working,
            stage: LocalRunStage::Working,
            ..Self::run()
        };
        let next = (end < count).then(|| end.to_string());
        LocalRunList { items: (start..end).map(run).collect(), next, total: None }
    }

    fn about() -> String {
        format!("Bash {HOSTILE}")
    }
}

/// Every action is possible, except `remove` without `permits_all`.
fn action(verb: LocalVerb, permits_all: bool) -> LocalAction {
    let impossible = (verb == LocalVerb::Remove && !permits_all).then(|| HOSTILE.to_owned());
    LocalAction { action: verb, impossible, needs_text: verb == LocalVerb::Message }
}

impl LocalRuns for ScriptedRuns {
    fn list(&self, query: &LocalRunQuery) -> Result<LocalRunList, LocalRunError> {
        self.queries.lock().unwrap().push(format!("{query:?}"));
        let working = self.working.load(Ordering::SeqCst);
        if working > 0 && query.group == Some(LocalRunGroup::Working) {
            return Ok(Self::working_runs(working, query));
        }
        let next = query.after.is_none().then(|| "next.1".to_owned());
        if query.text.as_deref() == Some(RARE) {
            return Ok(LocalRunList { items: Vec::new(), next, total: None });
        }
        Ok(LocalRunList { items: vec![Self::run()], next, total: Some(2) })
    }

    fn count(&self) -> Result<LocalRunCounts, LocalRunError> {
        let is_incomplete = self.has_incomplete_counts.load(Ordering::SeqCst);
        let mut counts = LocalRunCounts { is_incomplete, ..LocalRunCounts::default() };
        counts.add(Self::run().stage, 1);
        for (stage, count) in
            [(LocalRunStage::Working, &self.working), (LocalRunStage::Landed, &self.landed)]
        {
            counts.add(stage, u64::try_from(count.load(Ordering::SeqCst)).unwrap());
        }
        Ok(counts)
    }

    fn read(&self, run: &str) -> Result<LocalRunDetail, LocalRunError> {
        Self::require(run)?;
        Ok(LocalRunDetail {
            run: Self::run(),
            attempts: vec![LocalAttempt {
                number: 1,
                agent: HOSTILE.to_owned(),
                agent_version: HOSTILE.to_owned(),
                model: HOSTILE.to_owned(),
                login: HOSTILE.to_owned(),
                sandbox: HOSTILE.to_owned(),
                phase: "working".to_owned(),
                ending: None,
                detail: HOSTILE.to_owned(),
                started_at: Moment::from_millis(3),
                ended_at: None,
                used: LocalRunUsage::default(),
            }],
            task: HOSTILE.to_owned(),
            dna: HOSTILE.to_owned(),
            worktree: HOSTILE.to_owned(),
            last_event: 4,
            actions: LocalVerb::ALL
                .map(|verb| {
                    let is_managed = self.is_managed.load(Ordering::SeqCst)
                        && matches!(verb, LocalVerb::Message | LocalVerb::Resume);
                    match is_managed {
                        true => LocalAction {
                            impossible: Some("it belongs to a run of the control plane".to_owned()),
                            ..action(verb, true)
                        },
                        false => action(verb, self.permits_all.load(Ordering::SeqCst)),
                    }
                })
                .to_vec(),
        })
    }

    fn events(&self, run: &str, after: u64, limit: u32) -> Result<LocalRunEvents, LocalRunError> {
        Self::require(run)?;
        if self.has_unreadable_events.load(Ordering::SeqCst) {
            return Err(LocalRunError::NotFound("the log is lost".to_owned()));
        }
        let all = self.events.lock().unwrap().clone();
        let last = all.last().map_or(0, |event| event.number);
        let after = all.into_iter().filter(|event| event.number > after);
        let events = after.take(usize::try_from(limit).unwrap()).collect();
        Ok(LocalRunEvents { events, last, ended: false, next: None })
    }

    fn search(&self, run: &str, query: &LocalEventQuery) -> Result<LocalRunEvents, LocalRunError> {
        Self::require(run)?;
        self.queries.lock().unwrap().push(format!("{query:?}"));
        if query.text == RARE {
            // The second part of the search reaches the end.
            let next = (query.after == 0).then_some(3);
            return Ok(LocalRunEvents { events: Vec::new(), last: 4, ended: false, next });
        }
        let denied = self.events.lock().unwrap()[2].clone();
        Ok(LocalRunEvents { events: vec![denied], last: 4, ended: false, next: Some(3) })
    }

    fn verifications(&self, run: &str) -> Result<LocalVerifications, LocalRunError> {
        Self::require(run)?;
        let text = || HOSTILE.to_owned();
        let check = |passed| LocalCheck {
            capability: text(),
            merged: passed,
            passed,
            found: text(),
            output: (!passed).then(|| if self.has_long_lines() { long_line() } else { text() }),
            reused: passed,
        };
        let one = LocalVerification {
            at: now(),
            base_branch: text(),
            base: text(),
            work: text(),
            tree: text(),
            merged_tree: text(),
            checks: vec![check(false), check(true)],
            left_out: vec![text()],
        };
        Ok(LocalVerifications { items: vec![one] })
    }

    fn diff(&self, run: &str) -> Result<LocalRunDiff, LocalRunError> {
        Self::require(run)?;
        let mut patch = format!(
            "diff --git a/src/lib.rs b/src/lib.rs\n--- a/src/lib.rs\n+++ b/src/lib.rs\n\
             @@ -1,2 +1,3 @@\n same\n-{HOSTILE}\n+{HOSTILE}\n+two\n"
        );
        let file = bailiwick_fleet::ports::LocalFileChange {
            path: format!("src/lib.rs{HOSTILE}"),
            renamed_from: None,
            added: Some(2),
            removed: Some(1),
        };
        let mut files = vec![file];
        if self.has_long_lines() {
            let header = "diff --git a/long.txt b/long.txt\nnew file mode 100644\n--- /dev/null\n";
            patch += &format!("{header}+++ b/long.txt\n@@ -0,0 +1 @@\n+{}\n", long_line());
            files.push(bailiwick_fleet::ports::LocalFileChange {
                path: "long.txt".to_owned(),
                renamed_from: None,
                added: Some(1),
                removed: Some(0),
            });
        }
        if self.has_many_lines.load(Ordering::SeqCst) {
            patch += "diff --git a/many.rs b/many.rs\nnew file mode 100644\n--- /dev/null\n";
            patch += "+++ b/many.rs\n@@ -0,0 +1,5001 @@\n";
            patch += &"+let a = 1;\n".repeat(5_001);
            files.push(bailiwick_fleet::ports::LocalFileChange {
                path: "many.rs".to_owned(),
                renamed_from: None,
                added: Some(5_001),
                removed: Some(0),
            });
        }
        Ok(LocalRunDiff { files, left_out: vec![HOSTILE.to_owned()], patch })
    }

    fn context(&self, run: &str) -> Result<LocalRunContext, LocalRunError> {
        Self::require(run)?;
        let text = || HOSTILE.to_owned();
        let layer = LocalContextLayer {
            kind: text(),
            name: text(),
            origin: text(),
            digest: text(),
            bytes: 7,
            text: text(),
        };
        let prompt = Some(LocalContextLayer { text: "x".repeat(20_001), ..layer.clone() });
        Ok(LocalRunContext { layers: vec![layer], missing: Some(text()), prompt })
    }

    fn policy(&self, run: &str) -> Result<LocalRunPolicy, LocalRunError> {
        Self::require(run)?;
        let text = || HOSTILE.to_owned();
        let rule = LocalRule {
            rule: text(),
            file: text(),
            severity: text(),
            enforced_by: "kernel".to_owned(),
            tools: vec![text()],
            commands: vec![text()],
            above: Some(text()),
        };
        Ok(LocalRunPolicy {
            digest: text(),
            role: text(),
            rules: vec![rule],
            writable: vec![text()],
            denied: vec![text()],
            tools: Some(vec![text()]),
            approval: vec![text()],
            is_read_only: false,
            bypassed: vec![text()],
        })
    }

    fn explain(&self, run: &str, command: &str) -> Result<LocalExplanation, LocalRunError> {
        Self::require(run)?;
        let text = || HOSTILE.to_owned();
        let verdict = |verdict: &str| LocalVerdict {
            rule: text(),
            verdict: verdict.to_owned(),
            reason: text(),
            instead: text(),
        };
        Ok(LocalExplanation {
            decision: if command == "ls" { "allow" } else { "deny" }.to_owned(),
            rule: Some(text()),
            reason: text(),
            instead: text(),
            runs: vec![command.to_owned()],
            writes: vec![text()],
            left_to_sandbox: vec![text()],
            verdicts: vec![verdict("allow"), verdict("deny")],
            sandbox: (command != "ls").then(text),
        })
    }

    fn cost(&self, run: &str) -> Result<LocalRunCost, LocalRunError> {
        Self::require(run)?;
        let point = |seconds: u64, agent: Option<&str>| LocalCostPoint {
            at: Moment::from_millis(seconds * 1_000),
            agent: agent.map(str::to_owned),
            model: HOSTILE.to_owned(),
            tokens: 1_234,
        };
        let agent = |agent: &str, is_run| LocalAgentCost {
            agent: agent.to_owned(),
            is_run,
            responses: is_run.then_some(2),
            tokens: 2_468,
            micro_usd: None,
        };
        Ok(LocalRunCost {
            points: vec![point(10, None), point(70, Some(HOSTILE)), point(70, None)],
            is_incomplete: true,
            agents: vec![agent("fix-42", true), agent(HOSTILE, false)],
        })
    }

    fn lineage(&self, run: &str) -> Result<LocalLineage, LocalRunError> {
        Self::require(run)?;
        let one = |run: &str, parent: Option<&str>, relation, depth| LocalRelative {
            run: run.to_owned(),
            name: HOSTILE.to_owned(),
            state: HOSTILE.to_owned(),
            parent: parent.map(str::to_owned),
            relation,
            depth,
            created_at: now(),
        };
        let items = vec![
            one("first", None, None, 0),
            one("fix-42", Some("first"), Some(LocalRelation::Started), 1),
            one("again", Some("fix-42"), Some(LocalRelation::Respawned), 2),
        ];
        Ok(LocalLineage { items, is_incomplete: true })
    }

    fn artifacts(&self, run: &str) -> Result<LocalArtifacts, LocalRunError> {
        Self::require(run)?;
        let one = LocalArtifact {
            name: "task.toml".to_owned(),
            about: HOSTILE.to_owned(),
            bytes: 9,
            digest: HOSTILE.to_owned(),
            unreadable: None,
        };
        let large = LocalArtifact {
            name: "policy.json".to_owned(),
            unreadable: Some(HOSTILE.to_owned()),
            ..one.clone()
        };
        Ok(LocalArtifacts { items: vec![one, large] })
    }

    fn artifact(&self, run: &str, name: &str) -> Result<Vec<u8>, LocalRunError> {
        Self::require(run)?;
        match name {
            "task.toml" => Ok(HOSTILE.as_bytes().to_vec()),
            _ => Err(LocalRunError::NotFound("there is no such file".to_owned())),
        }
    }

    fn questions(&self, _: Option<&str>) -> Result<LocalQuestions, LocalRunError> {
        let question = LocalQuestion {
            run: "fix-42".to_owned(),
            name: HOSTILE.to_owned(),
            repository: HOSTILE.to_owned(),
            question: "7".to_owned(),
            about: Self::about(),
            asked_at: Some(now()),
            expires_at: Some(now().plus_millis(20 * 60_000 + 30_000)),
            event: Some(3),
            call: Some(LocalToolCall {
                tool: HOSTILE.to_owned(),
                input: json!({
                    "command": HOSTILE,
                    "file_path": "notes.txt",
                    "old_string": format!("same\n{HOSTILE}"),
                    "new_string": format!("same\nnew\n{HOSTILE} new"),
                }),
            }),
            rule: Some(LocalAskingRule {
                rule: "role::ask".to_owned(),
                reason: HOSTILE.to_owned(),
            }),
        };
        let numbers = 7..7 + self.questions.load(Ordering::SeqCst);
        let items = numbers
            .map(|number| LocalQuestion { question: number.to_string(), ..question.clone() })
            .collect();
        Ok(LocalQuestions { items })
    }

    fn claims(&self) -> Result<LocalClaims, LocalRunError> {
        let claim = LocalClaim {
            claim: "17".to_owned(),
            run: "fix-42".to_owned(),
            repository: HOSTILE.to_owned(),
            paths: vec![HOSTILE.to_owned()],
            except: vec![HOSTILE.to_owned()],
            claimed_at: now(),
            expires_at: now().plus_millis(60_000),
        };
        Ok(LocalClaims { items: vec![claim] })
    }

    fn measure(&self, _: Moment, _: usize) -> Result<Vec<MeasuredRun>, LocalRunError> {
        let run = Self::run();
        Ok(vec![MeasuredRun {
            created_at: run.created_at,
            stage: run.stage,
            role: run.role,
            agent: run.agent,
            model: run.model,
            used: LocalRunUsage { micro_usd: 1_250_000, ..run.used },
            denials: BTreeMap::from([(HOSTILE.to_owned(), 3)]),
            phases: BTreeMap::from([("working".to_owned(), 90_000)]),
        }])
    }

    fn answer(
        &self,
        run: &str,
        question: &str,
        request: &LocalAnswerRequest,
    ) -> Result<LocalOutcome, LocalRunError> {
        Self::require(run)?;
        assert_eq!(request.about, Self::about());
        self.changes.lock().unwrap().push(format!("{:?} {run} {question}", request.answer));
        Ok(LocalOutcome { run: run.to_owned(), message: "done".to_owned() })
    }

    fn act(
        &self,
        run: &str,
        verb: LocalVerb,
        text: &str,
        report: &mut dyn FnMut(String),
    ) -> Result<LocalOutcome, LocalRunError> {
        report(HOSTILE.to_owned());
        Self::require(run)?;
        self.changes.lock().unwrap().push(format!("{} {run} {text}", verb.as_str()));
        Ok(LocalOutcome { run: run.to_owned(), message: "done".to_owned() })
    }
}

pub(crate) struct TestServer {
    pub(crate) address: SocketAddr,
    pub(crate) runs: Arc<ScriptedRuns>,
    pub(crate) link: String,
    store: Arc<MemoryFleet>,
    tokens: BTreeMap<TokenScope, (String, TokenRecord)>,
}

pub(crate) async fn serve() -> TestServer {
    serve_at("").await
}

pub(crate) async fn serve_at(path_prefix: &str) -> TestServer {
    serve_with(path_prefix, Arc::new(NoControlPlane)).await
}

pub(crate) async fn serve_with<F: Fleet>(path_prefix: &str, fleet: Arc<F>) -> TestServer {
    let limits = Limits { failed_auth_cost: 0.0, sign_in_cost: 0.0, ..Limits::default() };
    serve_limited(path_prefix, fleet, limits).await
}

pub(crate) async fn serve_limited<F: Fleet>(
    path_prefix: &str,
    fleet: Arc<F>,
    limits: Limits,
) -> TestServer {
    let store = Arc::new(MemoryFleet::default());
    let mut tokens = BTreeMap::new();
    let scopes =
        [TokenScope::Viewer, TokenScope::Operator, TokenScope::Approver, TokenScope::Admin];
    for scope in scopes {
        let minted = mint("ada", scope, None, now()).unwrap();
        store.put_token(minted.record.clone()).await.unwrap();
        tokens.insert(scope, (minted.text, minted.record));
    }
    let runs = Arc::new(ScriptedRuns::new());
    let session =
        mint_session("ada", TokenScope::Admin, now().plus_millis(600_000), now()).unwrap();
    store.put_token(session.record).await.unwrap();
    let user = std::fs::metadata("/proc/self").unwrap().uid();
    let rules = LinkRules { lifetime: Duration::from_secs(600), user: Some(user) };
    let pages = WebPages::new(path_prefix).with_link("secret", session.text, rules);
    let link = pages.link_path("secret");
    let settings = Settings {
        address: "127.0.0.1:0".parse().unwrap(),
        local_runs: Some(runs.clone()),
        limits,
        ..Settings::default()
    };
    let server = Server::bind(settings, store.clone(), fleet).await.unwrap();
    let server = server.with_pages(Arc::new(pages), path_prefix);
    let address = server.address();
    tokio::spawn(server.run(std::future::pending()));
    TestServer { address, runs, link, store, tokens }
}

impl TestServer {
    pub(crate) fn token(&self, scope: TokenScope) -> &str {
        &self.tokens[&scope].0
    }

    pub(crate) async fn signed_in(&self, scope: TokenScope) -> Browser {
        self.signed_in_below(scope, "").await
    }

    pub(crate) async fn signed_in_below(&self, scope: TokenScope, prefix: &str) -> Browser {
        let mut browser = Browser::new(self.address);
        let fields = form(&[("token", self.token(scope))]);
        let reply = browser.post(&format!("{prefix}/ui/sign-in"), &fields).await;
        assert_eq!(reply.status, 303, "{}", reply.text);
        browser
    }

    pub(crate) async fn revoke(&self, scope: TokenScope) {
        let mut record = self.tokens[&scope].1.clone();
        record.revoked_at = Some(now());
        self.store.put_token(record).await.unwrap();
    }

    /// The events of the audit log.
    pub(crate) async fn audit_events(&self) -> Vec<String> {
        let all = self.store.audit(0, usize::MAX).await.unwrap();
        all.into_iter().map(|(_, entry)| format!("{} {}", entry.actor, entry.event)).collect()
    }

    /// Writes to the store, as the control plane does.
    pub(crate) async fn write(&self, writes: Vec<Write>) {
        self.store.commit(writes, now()).await.unwrap();
    }

    /// Waits until no job is running.
    pub(crate) async fn wait_for_jobs(&self) {
        let browser = Browser::new(self.address);
        let token = format!("Bearer {}", self.token(TokenScope::Admin));
        loop {
            let headers = [("authorization", token.as_str())];
            let jobs = browser.get_with("/api/v1alpha1/local/jobs", &headers).await;
            assert_eq!(jobs.status, 200, "{}", jobs.text);
            if !jobs.text.contains("\"running\"") {
                return;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Adds a pending approval of the control plane.
    pub(crate) async fn add_approval(&self) {
        let approval = AgentApproval {
            dispatch_run: HOSTILE.to_owned(),
            attempt: None,
            requested_by: Requester { kind: SubjectKind::AgentStack, name: "fixer".to_owned() },
            dispatched_by: None,
            attempt_asked_by: None,
            action: ApprovalAction {
                kind: ActionType::ToolCall,
                target: HOSTILE.to_owned(),
                summary: HOSTILE.to_owned(),
            },
            policy_reasons: Vec::new(),
            artifact_refs: Vec::new(),
            artifact_digest: "sha256:one".to_owned(),
            target_state: Some(HOSTILE.to_owned()),
            expires_at: now().plus_millis(60_000),
        };
        let object = Object::new(Metadata::named("aap-1"), approval);
        let object = AnyObject::of(&object).unwrap();
        self.store.commit(vec![Write::Create(object)], now()).await.unwrap();
    }

    /// The form of an answer to the question.
    pub(crate) fn answer(&self, answer: &str) -> String {
        let digest = Sha256Hex::of(ScriptedRuns::about()).to_string();
        form(&[("run", "fix-42"), ("question", "7"), ("digest", &digest), ("answer", answer)])
    }
}
