//! Tests of the answers to the gate.

use super::super::attempt_state::AttemptStateConfig;
use super::super::writer::WriterMessage;
use super::*;
use crate::agents::adapter::Adapter as _;
use bailiwick_lifecycle::ports::{ChecksNotRun, Snapshot, TreeChecks};
use bailiwick_lifecycle::supervision::{Budget, Prices};
use bailiwick_lifecycle::verification::CheckResult;
use bailiwick_model::Event;
use bailiwick_model::attempt::{Allowance, Used};
use bailiwick_model::settings::Settings;
use bailiwick_model::{CommitId, TreeId};
use bailiwick_policy::call::Touch;
use bailiwick_policy::decision::Warning;
use bailiwick_policy::dialects::Dialect;
use bailiwick_policy::protocol::{GateReply, VERSION};
use bailiwick_policy::record::RecordedTarget;
use bailiwick_verify::{Pass, Verdict};
use std::sync::atomic::AtomicBool;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{UnixListener, UnixStream};

fn decided_call(call: RecordedCall, input: serde_json::Value, input_preview: &str) -> DecidedCall {
    let input_preview = input_preview.to_owned();
    DecidedCall { decision: Decision::allow(), call, input, own_tool_text: None, input_preview }
}

#[test]
fn approval_request_shows_the_complete_input_of_a_call() {
    let call = |native: &str, command: Option<&str>, path: Option<&str>| {
        let mut call = RecordedCall::unreadable("");
        (call.cli_tool_name, call.unreadable) = (native.to_owned(), None);
        call.tools = vec![native.to_owned()];
        call.command = command.map(str::to_owned);
        let target = |path: &str| RecordedTarget { path: path.to_owned(), touch: Touch::Change };
        call.files = path.into_iter().map(target).collect();
        call
    };
    let post = |text: &str| {
        let input = serde_json::json!({"text": text});
        let input_preview = format!("text=\"{text}\"");
        approval_text(&decided_call(call("mcp__docs__post", None, None), input, &input_preview))
    };
    let shown = post("hello");
    assert!(shown.starts_with("mcp__docs__post text=\"hello\" [input "), "{shown}");
    assert_ne!(shown, post("good bye"));
    let digest = |shown: &str| shown.rsplit_once(" [input ").unwrap().1.to_owned();
    assert_ne!(digest(&shown), digest(&post("good bye")));
    let input = serde_json::json!({"content": "x"});
    let write = decided_call(call("Write", None, Some("src/a.rs")), input, "content=\"x\"");
    let shown = approval_text(&write);
    assert!(shown.starts_with("Write src/a.rs: content=\"x\" [input "), "{shown}");
    // The text of the stored decision does not change.
    assert_eq!(about(&write), "src/a.rs");
    let input = serde_json::json!({"command": "ls"});
    let shown = approval_text(&decided_call(call("Bash", Some("ls"), None), input, ""));
    assert!(shown.starts_with("Bash ls [input "), "{shown}");
}

/// Answers every question except those that wait for a person.
struct Person;

impl CallDecider for Person {
    fn on_gate_connected(&self) {}

    fn decide(&self, question: GateRequest) -> Pin<Box<dyn Future<Output = Decision> + Send + '_>> {
        match question.payload.as_str() {
            "waits" => Box::pin(std::future::pending()),
            _ => Box::pin(std::future::ready(Decision::allow())),
        }
    }

    fn set_only_background_work(&self, _only_background: bool) {}
}

async fn ask_over(socket: &std::path::Path, payload: &str) -> UnixStream {
    let question = GateRequest {
        version: VERSION,
        dialect: Dialect::Codex,
        directory: String::new(),
        payload: payload.to_owned(),
        announces: false,
    };
    let mut stream = UnixStream::connect(socket).await.unwrap();
    stream.write_all(question.line().as_bytes()).await.unwrap();
    stream.shutdown().await.unwrap();
    stream
}

/// Requires approval for everything except `ls`.
struct Asks;

impl CallPolicy for Asks {
    fn decide(&self, question: &GateRequest) -> DecidedCall {
        let because = Objection::new("scope::ask", "somebody has to know", "ask");
        let decision = match question.payload.as_str() {
            "ls" => Decision::allow(),
            _ => Decision { outcome: Outcome::Ask, ..Decision::deny(because) },
        };
        let call = RecordedCall { unreadable: None, ..RecordedCall::unreadable("") };
        let (input, input_preview) = (serde_json::Value::Null, String::new());
        DecidedCall { decision, call, input, own_tool_text: None, input_preview }
    }
}

/// Checks that hang, fail, or find no valid tree.
#[derive(Default)]
struct Checks {
    hang: Arc<AtomicBool>,
    holds: bool,
    unseen: Option<WorkError>,
}

impl TreeChecks for Checks {
    fn snapshot(&self) -> Result<Snapshot, WorkError> {
        if let Some(error) = &self.unseen {
            return Err(error.clone());
        }
        Ok(Snapshot {
            head: CommitId::new("h"),
            commit: CommitId::new("c"),
            tree: TreeId::new("changed"),
            merge_base: CommitId::new("b"),
            merge_base_tree: TreeId::new("given"),
        })
    }

    fn check(
        &self,
        _: &Snapshot,
        gone: &Arc<AtomicBool>,
    ) -> Result<Vec<CheckResult>, ChecksNotRun> {
        while self.hang.load(Ordering::SeqCst) && !gone.load(Ordering::SeqCst) {
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(vec![CheckResult {
            capability: "quality::own".to_owned(),
            pass: Pass::Worktree,
            verdict: match self.holds {
                true => Verdict::pass("it is whole"),
                false => Verdict::fail("it is broken"),
            },
            reused: false,
        }])
    }

    fn time(&self) -> Duration {
        Duration::from_secs(1)
    }
}

/// A service with checks between calls, in an attempt that has events already.
fn checked(checks: Checks) -> (GateService, std::sync::mpsc::Receiver<WriterMessage>) {
    let (service, events) = service(Duration::from_secs(600));
    let mut service = Arc::into_inner(service).unwrap();
    let before = Event {
        number: 1,
        at: 1,
        reported_by: ReportedBy::Gate,
        agent: None,
        what: EventKind::Announced,
        raw: None,
    };
    let attempt_state = Arc::clone(&service.attempt_state);
    let tree_checks = PerCallChecks::new(attempt_state, Arc::new(checks), &[before]);
    service.tree_checks = Some(Arc::new(tree_checks));
    service.timeout = Duration::from_millis(300);
    (service, events)
}

#[test]
fn call_whose_checks_time_out_is_denied_and_the_denial_is_stored() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let hang = Arc::new(AtomicBool::new(true));
    let (service, events) = checked(Checks { hang, ..Checks::default() });
    let decided = runtime.block_on(async {
        let soon = Duration::from_secs(60);
        tokio::time::timeout(soon, service.decide(question("ls"))).await.unwrap()
    });
    assert_eq!(decided.outcome, Outcome::Deny);
    assert!(decided.message().contains("in time"), "{}", decided.message());
    service.tree_checks.as_ref().unwrap().stop();
    assert_eq!(service.attempt_state.progress().used.denied, 1);
    let denied = |order: &WriterMessage| {
        matches!(order, WriterMessage::Event(event)
            if matches!(event.what, EventKind::Decision { answer: Answer::Deny, .. }))
    };
    assert!(events.try_iter().any(|order| denied(&order)));
}

/// Lets the checks finish during the evaluation.
struct Dawdles {
    hang: Arc<AtomicBool>,
}

impl CallPolicy for Dawdles {
    fn decide(&self, question: &GateRequest) -> DecidedCall {
        self.hang.store(false, Ordering::SeqCst);
        std::thread::sleep(Duration::from_millis(500));
        Asks.decide(question)
    }
}

#[test]
fn call_that_waited_past_its_deadline_is_denied_even_if_checks_have_ended() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    for deadline in [true, false] {
        let hang = Arc::new(AtomicBool::new(deadline));
        let checks = Checks { hang: Arc::clone(&hang), holds: true, unseen: None };
        let (mut service, _events) = checked(checks);
        service.call_policy = Arc::new(Dawdles { hang });
        if !deadline {
            service.timeout = Duration::from_secs(60);
        }
        let decided = runtime.block_on(service.decide(question("ls")));
        assert_eq!(decided.outcome == Outcome::Deny, deadline, "{}", decided.message());
        assert_eq!(decided.message().contains("in time"), deadline, "{}", decided.message());
    }
}

#[test]
fn unread_denial_is_repeated() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (mut service, _events) = checked(Checks::default());
    service.timeout = Duration::from_secs(60);
    runtime.block_on(async {
        let first = service.decide(question("ls")).await;
        assert!(first.message().contains("it is broken"), "{}", first.message());
        service.on_undelivered(&first);
        let second = service.decide(question("ls")).await;
        assert_eq!(first, second);
        let third = service.decide(question("ls")).await;
        assert_eq!(third.outcome, Outcome::Allow, "the agent has received it");
        service.on_undelivered(&third);
        assert_eq!(service.decide(question("ls")).await.outcome, Outcome::Allow);
    });
}

#[test]
fn invalid_tree_does_not_stop_an_agent_that_can_fix_it() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    for (caused_by_agent, expected) in [(true, Outcome::Allow), (false, Outcome::Deny)] {
        let (what, why) = ("the files".to_owned(), "nested/ is a repository".to_owned());
        let error = Some(WorkError { what, why, caused_by_agent });
        let (mut service, _events) = checked(Checks { unseen: error, ..Checks::default() });
        service.timeout = Duration::from_secs(60);
        service.fail_fast = true;
        runtime.block_on(async {
            let first = service.decide(question("ls")).await;
            assert_eq!(first.outcome, Outcome::Deny);
            assert!(first.message().contains("nested/ is a repository"), "{}", first.message());
            assert_eq!(
                service.attempt_state.ending().is_none(),
                caused_by_agent,
                "the agent may fix it"
            );
            assert_eq!(service.decide(question("ls")).await.outcome, expected);
        });
    }
}

#[test]
fn agent_is_warned_once_that_its_tokens_are_nearly_used() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    for (tokens, warns_near_limit, warned) in
        [(80, true, true), (79, true, false), (80, false, false)]
    {
        let (service, _events) = service_that_has_used(Duration::from_secs(60), tokens);
        let mut service = Arc::into_inner(service).unwrap();
        (service.warns_near_limit, service.fail_fast) = (warns_near_limit, true);
        runtime.block_on(async {
            let first = service.decide(question("ls")).await;
            let has_warning = first.message().contains("80 of 100 tokens are used");
            assert_eq!((has_warning, first.outcome == Outcome::Deny), (warned, warned), "{tokens}");
            assert_eq!(service.attempt_state.ending(), None, "it may finish");
            if warned {
                // A message that it did not receive is repeated.
                service.on_undelivered(&first);
                assert_eq!(service.decide(question("ls")).await, first);
            }
            assert_eq!(service.decide(question("ls")).await.outcome, Outcome::Allow);
        });
    }
}

fn service(
    approval_timeout: Duration,
) -> (Arc<GateService>, std::sync::mpsc::Receiver<WriterMessage>) {
    service_that_has_used(approval_timeout, 0)
}

/// The service of an attempt that may use 100 tokens and has used some of them.
fn service_that_has_used(
    approval_timeout: Duration,
    tokens: u64,
) -> (Arc<GateService>, std::sync::mpsc::Receiver<WriterMessage>) {
    let (writer_sender, events) = std::sync::mpsc::sync_channel(1000);
    let config = AttemptStateConfig {
        behaviour: crate::agents::ClaudeCode.behaviour(),
        budget: Budget(Allowance { tokens: Some(100), ..Allowance::default() }),
        used: Used { tokens, ..Used::default() },
        time: 0,
        prices: Prices::new(Settings::default().prices),
        earlier: Vec::new(),
        session: None,
        has_gate: true,
        api_marks_failures: true,
        proxy_sees_calls: true,
    };
    let service = GateService {
        attempt_state: Arc::new(AttemptState::new(config, writer_sender)),
        call_policy: Arc::new(Asks),
        tree_checks: None,
        forbidden_files: None,
        approval_timeout,
        timeout: approval_timeout.saturating_add(Duration::from_secs(10)),
        fail_fast: false,
        warns_near_limit: false,
        decision_permits: GateService::decision_permits(),
        approval_permits: GateService::approval_permits(),
        removals: AtomicU32::new(0),
    };
    (Arc::new(service), events)
}

fn question(payload: &str) -> GateRequest {
    GateRequest {
        version: VERSION,
        dialect: Dialect::Codex,
        directory: String::new(),
        payload: payload.to_owned(),
        announces: false,
    }
}

/// Returns the same decision for every call.
struct Fixed(Decision);

impl CallPolicy for Fixed {
    fn decide(&self, _question: &GateRequest) -> DecidedCall {
        let mut call = RecordedCall::unreadable("");
        (call.cli_tool_name, call.unreadable) = ("Bash".to_owned(), None);
        call.command = Some("git push".to_owned());
        DecidedCall { decision: self.0.clone(), ..decided_call(call, serde_json::Value::Null, "") }
    }
}

/// The events of one call with this decision.
fn stored_events(decision: Decision) -> Vec<EventKind> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (service, receiver) = service(Duration::from_secs(1));
    let mut service = Arc::into_inner(service).unwrap();
    service.call_policy = Arc::new(Fixed(decision));
    runtime.block_on(service.decide(question("x")));
    let events = receiver.try_iter().filter_map(|order| match order {
        WriterMessage::Event(event) => Some(event.what),
        WriterMessage::Progress(_) => None,
    });
    events.collect()
}

#[test]
fn warning_is_stored_although_the_call_runs() {
    let objection = Objection::new("own::rule", "it is slow", "use the other one");
    let warning = |severity| Warning { severity, objection: objection.clone() };
    let warnings = vec![warning(GateSeverity::Warn), warning(GateSeverity::Advisory)];
    let events = stored_events(Decision { warnings, ..Decision::allow() });
    let is_reported = |what: &EventKind| {
        let EventKind::Warning { rule, text, told: is_reported } = what else { return None };
        assert!(rule == "own::rule" && text.contains("it is slow"), "{rule} {text}");
        Some(*is_reported)
    };
    assert_eq!(events.iter().filter_map(is_reported).collect::<Vec<_>>(), [true, false]);
}

#[test]
fn denial_is_notified_if_the_role_requires_it() {
    let denied = Decision::deny(Objection::new("own::rule", "no", "stop"));
    for (escalation, notified) in [
        (EscalationPolicy::OrchestratorNotify, true),
        (EscalationPolicy::AskViaReturn, false),
        (EscalationPolicy::FailFast, false),
    ] {
        let events = stored_events(Decision { escalation: Some(escalation), ..denied.clone() });
        let notification = events.iter().find_map(|what| {
            let EventKind::Notification { text } = what else { return None };
            Some(text.as_str())
        });
        let expected = "denied Bash git push: own::rule: no. Instead: stop.";
        assert_eq!(notification, notified.then_some(expected), "{escalation:?}");
    }
}

#[test]
fn call_above_the_limit_of_pending_approvals_is_denied_immediately() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (service, _events) = service(Duration::from_secs(600));
    runtime.block_on(async {
        let mut waiting = Vec::new();
        for _ in 0..MAX_PENDING_APPROVALS {
            let pending_service = Arc::clone(&service);
            waiting
                .push(tokio::spawn(async move { pending_service.decide(question("push")).await }));
        }
        while service.attempt_state.questions().len() < MAX_PENDING_APPROVALS {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let soon = Duration::from_secs(60);
        let extra = service.decide(question("push"));
        let extra = tokio::time::timeout(soon, extra).await.unwrap();
        assert_eq!(extra.outcome, Outcome::Deny);
        assert!(extra.message().contains("wait for a person already"), "{}", extra.message());
        let other = tokio::time::timeout(soon, service.decide(question("ls"))).await;
        assert_eq!(other.unwrap().outcome, Outcome::Allow, "it needs no approval");
        let (id, _) = service.attempt_state.questions().remove(0);
        service.attempt_state.answer(&id, Answer::Allow).unwrap();
        while service.approval_permits.available_permits() == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        for task in &waiting {
            task.abort();
        }
    });
}

#[test]
fn pending_approvals_do_not_delay_other_questions() {
    let place = tempfile::tempdir().unwrap();
    let socket = place.path().join("gate.sock");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let answer = runtime.block_on(async {
        let listener = UnixListener::bind(&socket).unwrap();
        tokio::spawn(serve(listener, Arc::new(Person)));
        let mut waiting = Vec::new();
        for _ in 0..2 * MAX_JUDGING {
            waiting.push(ask_over(&socket, "waits").await);
        }
        let mut answer = Vec::new();
        let mut second = ask_over(&socket, "goes").await;
        let read = second.read_to_end(&mut answer);
        tokio::time::timeout(Duration::from_secs(60), read).await.unwrap().unwrap();
        drop(waiting);
        answer
    });
    assert_eq!(GateReply::read(&answer).unwrap().decision, Decision::allow());
}

/// Finds a forbidden file this many times.
struct Recreated(AtomicU32);

impl ForbiddenFiles for Recreated {
    fn remove(&self) -> Result<Vec<ForbiddenFile>, WorkError> {
        let (path, capability) = ("src/package.json".to_owned(), "a::b".to_owned());
        let remaining = self
            .0
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |remaining| remaining.checked_sub(1));
        Ok(remaining.map(|_| vec![ForbiddenFile { path, capability }]).unwrap_or_default())
    }

    fn left_out(&self) -> Result<Vec<ForbiddenFile>, WorkError> {
        Ok(Vec::new())
    }
}

#[test]
fn forbidden_file_that_is_recreated_again_and_again_ends_the_run() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    for (removals, ends) in [(MAX_REMOVALS - 1, false), (MAX_REMOVALS, true)] {
        let (service, _events) = service(Duration::from_secs(1));
        let mut service = Arc::into_inner(service).unwrap();
        service.call_policy = Arc::new(Fixed(Decision::allow()));
        service.forbidden_files = Some(Arc::new(Recreated(AtomicU32::new(removals))));
        let answers: Vec<Outcome> = (0..=removals)
            .map(|_| runtime.block_on(service.decide(question("x"))).outcome)
            .collect();
        let denied = answers.iter().filter(|answer| **answer == Outcome::Deny).count();
        assert_eq!(denied, usize::try_from(removals).unwrap() + usize::from(ends));
        let ending = service.attempt_state.ending();
        assert_eq!(ending.is_some(), ends, "{removals}");
        if let Some((ending, why)) = ending {
            assert_eq!(ending, ExitReason::Denied);
            assert!(why.starts_with("src/package.json was removed before 5 calls"), "{why}");
        }
    }
}
