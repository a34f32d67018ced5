//! Answering the gate: at a socket one question and one answer a connection, or where the program talks
//! with us. No answer is a denial.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use bailiwick_lifecycle::ports::{ForbiddenFile, ForbiddenFiles, Judge, Judgement, WorkError};
use bailiwick_lifecycle::supervision::Standing;
use bailiwick_lifecycle::supervision::budget::Limit;
use bailiwick_model::Sha256Hex;
use bailiwick_model::capability::GateSeverity;
use bailiwick_model::event::{Answer, EventKind, ExitReason, FileChange, ReportedBy};
use bailiwick_model::role::EscalationPolicy;
use bailiwick_policy::decision::{Objection, Outcome};
use bailiwick_policy::protocol::{Question, Reply};
use bailiwick_policy::record::RecordedCall;
use bailiwick_policy::{Decision, dialects::MAX_PAYLOAD_SIZE};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::Semaphore;
use tokio::time::Instant;
use tokio::time::error::Elapsed;

use super::between::{Held, PerCallChecks};
use super::hub::{Hub, exhausted_by};

/// Questions that are judged at once; a flood waits.
const MAX_JUDGING: usize = 8;
/// Questions that are open at once, with those that wait for a person: calls that need nobody must not
/// wait for those that do, or they are given up before they are answered.
pub(super) const MAX_OPEN: usize = 64;
/// Calls that wait for a person at once; one more is denied. Fewer than may be open, so that there is
/// always a place for those that need nobody.
const MAX_PENDING_APPROVALS: usize = MAX_OPEN / 2;
/// Before how many calls in a row forbidden files are removed. A call that is denied for them made none, so
/// a process in the background did.
const MAX_REMOVALS: u32 = 5;
/// How long a question may take to arrive.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Who answers the gate.
pub(super) trait CallDecider: Send + Sync {
    /// The gate has said that it is there.
    fn announced(&self);

    /// Decides about a call.
    fn decide(&self, question: Question) -> Pin<Box<dyn Future<Output = Decision> + Send + '_>>;

    /// Nobody heard this decision: what it told has not been told.
    fn on_undelivered(&self, _decision: &Decision) {}

    /// Whether the program has nothing left but what runs in the background.
    fn lingers(&self, lingers: bool);
}

/// What answers are made with.
pub(super) struct GateService {
    pub(super) hub: Arc<Hub>,
    pub(super) judge: Arc<dyn Judge>,
    pub(super) between: Option<Arc<PerCallChecks>>,
    pub(super) forbidden_files: Option<Arc<dyn ForbiddenFiles>>,
    pub(super) approval: Duration,
    /// How long all of an answer may take: whoever asks waits a little longer.
    pub(super) patience: Duration,
    pub(super) fail_fast: bool,
    /// As many as may judge at once.
    pub(super) judging: Semaphore,
    /// As many as may wait for a person at once.
    pub(super) waiting: Semaphore,
    /// Before how many calls in a row forbidden files were removed.
    pub(super) removals: AtomicU32,
}

impl GateService {
    /// As many as are judged at once.
    pub(super) fn places() -> Semaphore {
        Semaphore::new(MAX_JUDGING)
    }

    /// As many as wait for a person at once.
    pub(super) fn seats() -> Semaphore {
        Semaphore::new(MAX_PENDING_APPROVALS)
    }
}

/// Answers until the listener is gone.
pub(super) async fn serve(listener: UnixListener, keeper: Arc<dyn CallDecider>) {
    let places = Arc::new(Semaphore::new(MAX_OPEN));
    loop {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
        match listener.accept().await {
            Ok((stream, _)) => {
                let keeper = Arc::clone(&keeper);
                tokio::spawn(async move {
                    connection(keeper.as_ref(), stream).await;
                    drop(place);
                });
            }
            // Too many open files, for example: whoever waits is denied by its own deadline.
            Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    }
}

async fn connection(keeper: &dyn CallDecider, mut stream: UnixStream) {
    let decision = match tokio::time::timeout(TIMEOUT, receive(&mut stream)).await {
        Ok(Ok(question)) if question.announces => {
            keeper.announced();
            Decision::allow()
        }
        Ok(Ok(question)) => keeper.decide(question).await,
        Ok(Err(why)) => Decision::unreadable(why),
        Err(_) => Decision::unreadable("the question did not arrive in time"),
    };
    let line = Reply::new(decision.clone()).line();
    // A gate that is gone denies by itself.
    if stream.write_all(line.as_bytes()).await.is_err() {
        keeper.on_undelivered(&decision);
    }
    let _ = stream.shutdown().await;
}

impl CallDecider for GateService {
    fn announced(&self) {
        self.hub.announce();
    }

    fn decide(&self, question: Question) -> Pin<Box<dyn Future<Output = Decision> + Send + '_>> {
        Box::pin(self.answer(question))
    }

    fn on_undelivered(&self, decision: &Decision) {
        if let (Some(between), Some(told)) = (&self.between, &decision.because) {
            between.untold(told);
        }
    }

    fn lingers(&self, lingers: bool) {
        self.hub.lingers(lingers);
    }
}

impl GateService {
    async fn answer(&self, question: Question) -> Decision {
        self.hub.touch();
        let deadline = Instant::now() + self.patience;
        // Before it is judged: what is looked up for that may have changed while the checks run.
        let looked = match &self.between {
            // What is not done in time is not held against the call here, but below.
            Some(between) => tokio::time::timeout_at(deadline, between.look()).await,
            None => Ok(()),
        };
        let judge = Arc::clone(&self.judge);
        let place = self.judging.acquire().await;
        let judged = tokio::task::spawn_blocking(move || judge.judge(&question)).await;
        drop(place);
        let mut judgement = judged.unwrap_or_else(|_| Judgement {
            decision: Decision::unreadable("the supervisor failed"),
            call: RecordedCall::unreadable("the supervisor failed"),
            input: serde_json::Value::Null,
            words: None,
            offered: String::new(),
        });
        if let Some(spent) = self.spent() {
            judgement.decision = spent;
        }
        let mut may_go_on = false;
        if let Some(objection) = self.forbidden().await {
            judgement.decision = Decision::deny(objection);
            may_go_on = true;
        } else if let Some(held) = self.held(&judgement, looked, deadline).await {
            judgement.decision = Decision::deny(held.objection);
            may_go_on = held.may_go_on;
        }
        if judgement.decision.outcome == Outcome::Ask {
            judgement.decision = self.approved(&judgement, deadline).await;
        }
        self.record(&judgement, self.fail_fast && !may_go_on);
        judgement.decision
    }

    /// What the agent has to be told before its next call: that a file which it made is gone, or does not
    /// land.
    async fn forbidden(&self) -> Option<Objection> {
        let files = Arc::clone(self.forbidden_files.as_ref()?);
        let looked =
            tokio::task::spawn_blocking(move || Ok((files.remove()?, files.left_out()?))).await;
        let failed = |why: String| Objection::new("bailiwick::paths", why, "try the call again");
        match looked {
            Ok(Ok((removed, left_out))) => {
                let gone = removed.iter().map(removal_event);
                for what in gone.chain(left_out.iter().map(left_out_event)) {
                    self.hub.tell(ReportedBy::Supervisor, None, what);
                }
                self.count_removals(&removed);
                removal(&removed).or_else(|| omission(&left_out))
            }
            Ok(Err(error)) => Some(failed(WorkError::to_string(&error))),
            Err(_) => Some(failed("the supervisor failed".to_owned())),
        }
    }

    /// Ends a run in which files that are removed come back each time.
    fn count_removals(&self, removed: &[ForbiddenFile]) {
        if removed.is_empty() {
            self.removals.store(0, Ordering::SeqCst);
            return;
        }
        let removals = self.removals.fetch_add(1, Ordering::SeqCst).saturating_add(1);
        if removals >= MAX_REMOVALS {
            let why = format!(
                "{} was removed before {removals} calls in a row: a process in the background creates it \
                 again each time",
                names(removed)
            );
            self.hub.end(ExitReason::Denied, &why);
        }
    }

    /// What the checks between calls have against a call that would run. Where nobody has looked in time,
    /// what is known by now may be of the tree before it.
    async fn held(
        &self,
        judgement: &Judgement,
        looked: Result<(), Elapsed>,
        deadline: Instant,
    ) -> Option<Held> {
        let between = self.between.as_ref()?;
        match (judgement.decision.outcome, looked) {
            (Outcome::Deny, _) => None,
            (Outcome::Allow | Outcome::Ask, Err(_)) => Some(Held::deadline()),
            (Outcome::Allow | Outcome::Ask, Ok(())) => {
                let objection = tokio::time::timeout_at(deadline, between.objection()).await;
                objection.unwrap_or_else(|_| Some(Held::deadline()))
            }
        }
    }

    /// Nothing runs any more when the run is over or its calls are spent.
    fn spent(&self) -> Option<Decision> {
        let (rule, why) = match (self.hub.ending(), self.hub.standing()) {
            (Some((ending, detail)), _) => {
                ("bailiwick::run", format!("the run is over ({ending}): {detail}"))
            }
            (None, Standing::Exhausted(limit @ (Limit::ToolCalls | Limit::Time))) => {
                let why = format!("the budget is spent: {}", limit.as_str());
                self.hub.note_exhaustion(exhausted_by(limit), &why);
                ("bailiwick::budget", why)
            }
            (None, Standing::Fine | Standing::Near(_) | Standing::Exhausted(_)) => return None,
        };
        Some(Decision::deny(Objection::new(rule, why, "say what you have done, and stop")))
    }

    /// Asks a person, and waits. No answer is a denial.
    async fn approved(&self, judgement: &Judgement, deadline: Instant) -> Decision {
        let rule = judgement.decision.because.as_ref().map_or("approval", |one| &one.rule);
        let denied = |why: &str| {
            let instead = "go on with what needs no approval, and say what you would need";
            Decision::deny(Objection::new(rule, why, instead))
        };
        let Ok(_seat) = self.waiting.try_acquire() else {
            return denied(&format!("{MAX_PENDING_APPROVALS} calls wait for a person already"));
        };
        let (id, answer) = self.hub.ask(&worded(judgement));
        let deadline = deadline.min(Instant::now() + self.approval);
        let answer = tokio::time::timeout_at(deadline, answer).await;
        self.hub.forget(&id);
        match answer {
            Ok(Ok(Answer::Allow)) => {
                if judgement.words.is_some() {
                    self.hub.consented(&tool(&judgement.call), &judgement.input);
                }
                Decision { outcome: Outcome::Allow, ..judgement.decision.clone() }
            }
            Ok(Ok(Answer::Deny)) => denied("a person was asked, and said no"),
            Ok(Err(_)) | Err(_) => denied("a person was asked, and did not answer in time"),
        }
    }

    fn record(&self, judgement: &Judgement, fail_fast: bool) {
        let Judgement { decision, call, input, words: _, offered: _ } = judgement;
        let denied = decision.outcome != Outcome::Allow;
        let because = decision.because.as_ref();
        let rule = denied.then(|| because.map_or("", |one| one.rule.as_str()));
        self.hub.decided(call.id.as_deref(), &call.native, input, rule);
        let what = EventKind::Decision {
            call: call.id.clone(),
            tool: tool(call),
            about: about(judgement),
            answer: if denied { Answer::Deny } else { Answer::Allow },
            rule: because.map(|one| one.rule.clone()),
            reason: because.map(Objection::sentence),
        };
        self.hub.tell(ReportedBy::Gate, call.agent.as_deref(), what);
        for warning in &decision.warnings {
            let what = EventKind::Warning {
                rule: warning.objection.rule.clone(),
                text: warning.objection.sentence(),
                told: warning.severity == GateSeverity::Warn && !denied,
            };
            self.hub.tell(ReportedBy::Gate, call.agent.as_deref(), what);
        }
        if denied && decision.escalation == Some(EscalationPolicy::OrchestratorNotify) {
            let why = because.map_or_else(String::new, Objection::sentence);
            let text = format!("denied {} {}: {why}", tool(call), about(judgement));
            let what = EventKind::Notification { text };
            self.hub.tell(ReportedBy::Supervisor, call.agent.as_deref(), what);
        }
        if denied && fail_fast {
            let rule = because.map_or_else(String::new, |one| one.sentence());
            self.hub.end(ExitReason::Denied, &format!("its role ends at the first denial: {rule}"));
        }
    }
}

fn tool(call: &RecordedCall) -> String {
    call.tools.first().cloned().unwrap_or_else(|| call.native.clone())
}

/// What a person is asked: the tool, all that it is given as far as it can be shown, and the digest of that,
/// which is another for another call.
fn worded(judgement: &Judgement) -> String {
    let Judgement { call, offered, input, .. } = judgement;
    let about = about(judgement);
    let text = match (&call.unreadable, &call.command) {
        (Some(_), _) | (None, Some(_)) => about,
        (None, None) if call.files.is_empty() => offered.clone(),
        (None, None) => format!("{about}: {offered}"),
    };
    let digest = match input.is_null() {
        true => String::new(),
        false => format!(" [input {}]", Sha256Hex::of(input.to_string()).prefix(24)),
    };
    format!("{} {}{digest}", tool(call), text.trim()).trim().to_owned()
}

/// What a call is about, as people read it.
fn about(Judgement { call, words, .. }: &Judgement) -> String {
    match (&call.command, call.files.as_slice(), &call.unreadable) {
        (_, _, Some(why)) => why.clone(),
        (_, _, None) if words.is_some() => words.clone().unwrap_or_default(),
        (Some(command), _, None) => command.clone(),
        (None, files, None) => {
            files.iter().map(|file| file.path.as_str()).collect::<Vec<_>>().join(", ")
        }
    }
}

async fn receive(stream: &mut UnixStream) -> Result<Question, String> {
    // The payload is a text inside of a JSON text, whose escapes make it longer.
    let most = u64::try_from(MAX_PAYLOAD_SIZE).unwrap_or(u64::MAX).saturating_mul(2);
    let mut bytes = Vec::new();
    stream.take(most).read_to_end(&mut bytes).await.map_err(|error| error.to_string())?;
    Question::read(&bytes)
}

/// What is recorded of a file that was removed.
pub(super) fn removal_event(file: &ForbiddenFile) -> EventKind {
    let ForbiddenFile { path, capability } = file;
    let message = format!("the new file {path} was removed from the worktree: {capability}");
    EventKind::Error { message }
}

/// What is recorded of a file that was made outside of the scope.
pub(super) fn left_out_event(file: &ForbiddenFile) -> EventKind {
    EventKind::FileChange { path: file.path.clone(), change: FileChange::LeftOut }
}

/// How many files an objection names.
const NAMED: usize = 5;

fn names(files: &[ForbiddenFile]) -> String {
    let named: Vec<&str> = files.iter().take(NAMED).map(|file| file.path.as_str()).collect();
    match files.len().saturating_sub(NAMED) {
        0 => named.join(", "),
        more => format!("{} and {more} more", named.join(", ")),
    }
}

fn omission(left_out: &[ForbiddenFile]) -> Option<Objection> {
    let first = left_out.first()?;
    let reason = format!(
        "your last call made {}, outside of your scope: that is not part of your change and will not \
         land; this call did not run",
        names(left_out)
    );
    let instead = "repeat this call if that was only build output; if your change needs it, make it within \
                   your scope, or say in your report what is missing";
    Some(Objection::new(&first.capability, reason, instead))
}

fn removal(removed: &[ForbiddenFile]) -> Option<Objection> {
    let first = removed.first()?;
    let reason = format!(
        "your last call made {}, which you may not; it was removed, and this call did not run",
        names(removed)
    );
    let instead = "go on without it: repeat this call if it does not need it, and say in your report \
                   what you would have added";
    Some(Objection::new(&first.capability, reason, instead))
}

#[cfg(test)]
mod tests {
    use super::super::hub::Beginning;
    use super::super::writer::Order;
    use super::*;
    use crate::agents::adapter::Adapter as _;
    use bailiwick_lifecycle::ports::{Snapshot, TreeChecks};
    use bailiwick_lifecycle::supervision::{Budget, Prices};
    use bailiwick_lifecycle::verification::CheckResult;
    use bailiwick_model::Event;
    use bailiwick_model::attempt::{Allowance, Used};
    use bailiwick_model::settings::Settings;
    use bailiwick_policy::call::Touch;
    use bailiwick_policy::decision::Warning;
    use bailiwick_policy::dialects::Dialect;
    use bailiwick_policy::protocol::VERSION;
    use bailiwick_policy::record::RecordedTarget;
    use bailiwick_verify::{Pass, Verdict};
    use std::sync::atomic::AtomicBool;

    fn judgement(call: RecordedCall, input: serde_json::Value, offered: &str) -> Judgement {
        let offered = offered.to_owned();
        Judgement { decision: Decision::allow(), call, input, words: None, offered }
    }

    #[test]
    fn a_person_is_asked_about_all_that_a_call_is_given() {
        let call = |native: &str, command: Option<&str>, path: Option<&str>| {
            let mut call = RecordedCall::unreadable("");
            (call.native, call.unreadable) = (native.to_owned(), None);
            call.tools = vec![native.to_owned()];
            call.command = command.map(str::to_owned);
            let target =
                |path: &str| RecordedTarget { path: path.to_owned(), touch: Touch::Change };
            call.files = path.into_iter().map(target).collect();
            call
        };
        let post = |text: &str| {
            let input = serde_json::json!({"text": text});
            let offered = format!("text=\"{text}\"");
            worded(&judgement(call("mcp__docs__post", None, None), input, &offered))
        };
        let asked = post("hello");
        assert!(asked.starts_with("mcp__docs__post text=\"hello\" [input "), "{asked}");
        assert_ne!(asked, post("good bye"));
        let digest = |asked: &str| asked.rsplit_once(" [input ").unwrap().1.to_owned();
        assert_ne!(digest(&asked), digest(&post("good bye")));
        let input = serde_json::json!({"content": "x"});
        let write = judgement(call("Write", None, Some("src/a.rs")), input, "content=\"x\"");
        let asked = worded(&write);
        assert!(asked.starts_with("Write src/a.rs: content=\"x\" [input "), "{asked}");
        // What is kept of the decision stays what it was.
        assert_eq!(about(&write), "src/a.rs");
        let input = serde_json::json!({"command": "ls"});
        let asked = worded(&judgement(call("Bash", Some("ls"), None), input, ""));
        assert!(asked.starts_with("Bash ls [input "), "{asked}");
    }

    /// Answers all but what waits for a person.
    struct Person;

    impl CallDecider for Person {
        fn announced(&self) {}

        fn decide(
            &self,
            question: Question,
        ) -> Pin<Box<dyn Future<Output = Decision> + Send + '_>> {
            match question.payload.as_str() {
                "waits" => Box::pin(std::future::pending()),
                _ => Box::pin(std::future::ready(Decision::allow())),
            }
        }

        fn lingers(&self, _lingers: bool) {}
    }

    async fn asked(socket: &std::path::Path, payload: &str) -> UnixStream {
        let question = Question {
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

    /// Has a person asked about all but `ls`.
    struct Asks;

    impl Judge for Asks {
        fn judge(&self, question: &Question) -> Judgement {
            let because = Objection::new("scope::ask", "somebody has to know", "ask");
            let decision = match question.payload.as_str() {
                "ls" => Decision::allow(),
                _ => Decision { outcome: Outcome::Ask, ..Decision::deny(because) },
            };
            let call = RecordedCall { unreadable: None, ..RecordedCall::unreadable("") };
            let (input, offered) = (serde_json::Value::Null, String::new());
            Judgement { decision, call, input, words: None, offered }
        }
    }

    /// Checks that do not end, that find something, or for which there is no tree.
    #[derive(Default)]
    struct Checks {
        hang: Arc<AtomicBool>,
        holds: bool,
        unseen: Option<WorkError>,
    }

    impl TreeChecks for Checks {
        fn look(&self) -> Result<Snapshot, WorkError> {
            if let Some(error) = &self.unseen {
                return Err(error.clone());
            }
            let name = |text: &str| text.to_owned();
            Ok(Snapshot {
                head: name("h"),
                commit: name("c"),
                tree: name("changed"),
                merge_base: name("b"),
                merge_base_tree: name("given"),
            })
        }

        fn check(&self, _: &Snapshot, gone: &Arc<AtomicBool>) -> Result<Vec<CheckResult>, String> {
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

    /// Somebody who is checked between calls, in an attempt that goes on.
    fn checked(checks: Checks) -> (GateService, std::sync::mpsc::Receiver<Order>) {
        let (answering, kept) = answering(Duration::from_secs(600));
        let mut answering = Arc::into_inner(answering).unwrap();
        let before = Event {
            number: 1,
            at: 1,
            seen_by: ReportedBy::Gate,
            agent: None,
            what: EventKind::Announced,
            raw: None,
        };
        let hub = Arc::clone(&answering.hub);
        let between = PerCallChecks::new(hub, Arc::new(checks), &[before]);
        answering.between = Some(Arc::new(between));
        answering.patience = Duration::from_millis(300);
        (answering, kept)
    }

    #[test]
    fn a_call_whose_checks_are_not_done_in_time_is_denied_and_that_is_kept() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let hang = Arc::new(AtomicBool::new(true));
        let (answering, kept) = checked(Checks { hang, ..Checks::default() });
        let decided = runtime.block_on(async {
            let soon = Duration::from_secs(60);
            tokio::time::timeout(soon, answering.decide(question("ls"))).await.unwrap()
        });
        assert_eq!(decided.outcome, Outcome::Deny);
        assert!(decided.message().contains("in time"), "{}", decided.message());
        answering.between.as_ref().unwrap().stop();
        assert_eq!(answering.hub.progress().used.denied, 1);
        let denied = |order: &Order| {
            matches!(order, Order::Event(event)
                if matches!(event.what, EventKind::Decision { answer: Answer::Deny, .. }))
        };
        assert!(kept.try_iter().any(|order| denied(&order)));
    }

    /// Has the checks come to their end while it judges.
    struct Dawdles {
        hang: Arc<AtomicBool>,
    }

    impl Judge for Dawdles {
        fn judge(&self, question: &Question) -> Judgement {
            self.hang.store(false, Ordering::SeqCst);
            std::thread::sleep(Duration::from_millis(500));
            Asks.judge(question)
        }
    }

    #[test]
    fn a_call_that_nobody_looked_for_in_time_is_denied_though_the_checks_have_ended_since() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        for deadline in [true, false] {
            let hang = Arc::new(AtomicBool::new(deadline));
            let checks = Checks { hang: Arc::clone(&hang), holds: true, unseen: None };
            let (mut answering, _kept) = checked(checks);
            answering.judge = Arc::new(Dawdles { hang });
            if !deadline {
                answering.patience = Duration::from_secs(60);
            }
            let decided = runtime.block_on(answering.decide(question("ls")));
            assert_eq!(decided.outcome == Outcome::Deny, deadline, "{}", decided.message());
            assert_eq!(decided.message().contains("in time"), deadline, "{}", decided.message());
        }
    }

    #[test]
    fn what_nobody_heard_is_told_again() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let (mut answering, _kept) = checked(Checks::default());
        answering.patience = Duration::from_secs(60);
        runtime.block_on(async {
            let first = answering.decide(question("ls")).await;
            assert!(first.message().contains("it is broken"), "{}", first.message());
            answering.on_undelivered(&first);
            let second = answering.decide(question("ls")).await;
            assert_eq!(first, second);
            let third = answering.decide(question("ls")).await;
            assert_eq!(third.outcome, Outcome::Allow, "it was told");
            answering.on_undelivered(&third);
            assert_eq!(answering.decide(question("ls")).await.outcome, Outcome::Allow);
        });
    }

    #[test]
    fn files_that_are_no_tree_stop_nobody_who_can_mend_them() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        for (of_tree, then) in [(true, Outcome::Allow), (false, Outcome::Deny)] {
            let (what, why) = ("the files".to_owned(), "nested/ is a repository".to_owned());
            let unseen = Some(WorkError { what, why, of_tree });
            let (mut answering, _kept) = checked(Checks { unseen, ..Checks::default() });
            answering.patience = Duration::from_secs(60);
            answering.fail_fast = true;
            runtime.block_on(async {
                let first = answering.decide(question("ls")).await;
                assert_eq!(first.outcome, Outcome::Deny);
                assert!(first.message().contains("nested/ is a repository"), "{}", first.message());
                assert_eq!(answering.hub.ending().is_none(), of_tree, "it may mend that");
                assert_eq!(answering.decide(question("ls")).await.outcome, then);
            });
        }
    }

    fn answering(approval: Duration) -> (Arc<GateService>, std::sync::mpsc::Receiver<Order>) {
        let (orders, kept) = std::sync::mpsc::sync_channel(1000);
        let beginning = Beginning {
            behaviour: crate::agents::ClaudeCode.behaviour(),
            budget: Budget(Allowance::default()),
            used: Used::default(),
            time: 0,
            prices: Prices::new(Settings::default().prices),
            earlier: Vec::new(),
            session: None,
            gated: true,
            marks_failures: true,
            watched: true,
        };
        let answering = GateService {
            hub: Arc::new(Hub::new(beginning, orders)),
            judge: Arc::new(Asks),
            between: None,
            forbidden_files: None,
            approval,
            patience: approval.saturating_add(Duration::from_secs(10)),
            fail_fast: false,
            judging: GateService::places(),
            waiting: GateService::seats(),
            removals: AtomicU32::new(0),
        };
        (Arc::new(answering), kept)
    }

    fn question(payload: &str) -> Question {
        Question {
            version: VERSION,
            dialect: Dialect::Codex,
            directory: String::new(),
            payload: payload.to_owned(),
            announces: false,
        }
    }

    /// Gives the same answer to every call.
    struct Fixed(Decision);

    impl Judge for Fixed {
        fn judge(&self, _question: &Question) -> Judgement {
            let mut call = RecordedCall::unreadable("");
            (call.native, call.unreadable) = ("Bash".to_owned(), None);
            call.command = Some("git push".to_owned());
            Judgement { decision: self.0.clone(), ..judgement(call, serde_json::Value::Null, "") }
        }
    }

    /// What is kept of one call that is answered so.
    fn kept_of(decision: Decision) -> Vec<EventKind> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let (answering, kept) = answering(Duration::from_secs(1));
        let mut answering = Arc::into_inner(answering).unwrap();
        answering.judge = Arc::new(Fixed(decision));
        runtime.block_on(answering.decide(question("x")));
        let events = kept.try_iter().filter_map(|order| match order {
            Order::Event(event) => Some(event.what),
            Order::Progress(_) => None,
        });
        events.collect()
    }

    #[test]
    fn a_warning_is_kept_though_the_call_runs() {
        let objection = Objection::new("own::rule", "it is slow", "use the other one");
        let warning = |severity| Warning { severity, objection: objection.clone() };
        let warnings = vec![warning(GateSeverity::Warn), warning(GateSeverity::Advisory)];
        let kept = kept_of(Decision { warnings, ..Decision::allow() });
        let told = |what: &EventKind| {
            let EventKind::Warning { rule, text, told } = what else { return None };
            assert!(rule == "own::rule" && text.contains("it is slow"), "{rule} {text}");
            Some(*told)
        };
        assert_eq!(kept.iter().filter_map(told).collect::<Vec<_>>(), [true, false]);
    }

    #[test]
    fn a_denial_is_notified_where_the_role_wants_that() {
        let denied = Decision::deny(Objection::new("own::rule", "no", "stop"));
        for (escalation, notified) in [
            (EscalationPolicy::OrchestratorNotify, true),
            (EscalationPolicy::AskViaReturn, false),
            (EscalationPolicy::FailFast, false),
        ] {
            let kept = kept_of(Decision { escalation: Some(escalation), ..denied.clone() });
            let told = kept.iter().find_map(|what| {
                let EventKind::Notification { text } = what else { return None };
                Some(text.as_str())
            });
            let expected = "denied Bash git push: own::rule: no. Instead: stop.";
            assert_eq!(told, notified.then_some(expected), "{escalation:?}");
        }
    }

    #[test]
    fn one_call_more_than_may_wait_for_a_person_is_denied_at_once() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let (answering, _kept) = answering(Duration::from_secs(600));
        runtime.block_on(async {
            let mut waiting = Vec::new();
            for _ in 0..MAX_PENDING_APPROVALS {
                let own = Arc::clone(&answering);
                waiting.push(tokio::spawn(async move { own.decide(question("push")).await }));
            }
            while answering.hub.questions().len() < MAX_PENDING_APPROVALS {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            let soon = Duration::from_secs(60);
            let more = answering.decide(question("push"));
            let more = tokio::time::timeout(soon, more).await.unwrap();
            assert_eq!(more.outcome, Outcome::Deny);
            assert!(more.message().contains("wait for a person already"), "{}", more.message());
            let other = tokio::time::timeout(soon, answering.decide(question("ls"))).await;
            assert_eq!(other.unwrap().outcome, Outcome::Allow, "it needs nobody");
            let (id, _) = answering.hub.questions().remove(0);
            answering.hub.answer(&id, Answer::Allow).unwrap();
            while answering.waiting.available_permits() == 0 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            for task in &waiting {
                task.abort();
            }
        });
    }

    #[test]
    fn questions_that_wait_for_a_person_keep_no_other_waiting() {
        let place = tempfile::tempdir().unwrap();
        let socket = place.path().join("gate.sock");
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let answer = runtime.block_on(async {
            let listener = UnixListener::bind(&socket).unwrap();
            tokio::spawn(serve(listener, Arc::new(Person)));
            let mut waiting = Vec::new();
            for _ in 0..2 * MAX_JUDGING {
                waiting.push(asked(&socket, "waits").await);
            }
            let mut answer = Vec::new();
            let mut other = asked(&socket, "goes").await;
            let read = other.read_to_end(&mut answer);
            tokio::time::timeout(Duration::from_secs(60), read).await.unwrap().unwrap();
            drop(waiting);
            answer
        });
        assert_eq!(Reply::read(&answer).unwrap().decision, Decision::allow());
    }

    /// Finds a forbidden file as often as is said.
    struct Recreated(AtomicU32);

    impl ForbiddenFiles for Recreated {
        fn remove(&self) -> Result<Vec<ForbiddenFile>, WorkError> {
            let (path, capability) = ("src/package.json".to_owned(), "a::b".to_owned());
            let left =
                self.0.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
            Ok(left.map(|_| vec![ForbiddenFile { path, capability }]).unwrap_or_default())
        }

        fn left_out(&self) -> Result<Vec<ForbiddenFile>, WorkError> {
            Ok(Vec::new())
        }
    }

    #[test]
    fn a_forbidden_file_that_comes_back_each_time_ends_the_run() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        for (times, ends) in [(MAX_REMOVALS - 1, false), (MAX_REMOVALS, true)] {
            let (answering, _kept) = answering(Duration::from_secs(1));
            let mut answering = Arc::into_inner(answering).unwrap();
            answering.judge = Arc::new(Fixed(Decision::allow()));
            answering.forbidden_files = Some(Arc::new(Recreated(AtomicU32::new(times))));
            let answers: Vec<Outcome> = (0..=times)
                .map(|_| runtime.block_on(answering.decide(question("x"))).outcome)
                .collect();
            let denied = answers.iter().filter(|answer| **answer == Outcome::Deny).count();
            assert_eq!(denied, usize::try_from(times).unwrap() + usize::from(ends));
            let ending = answering.hub.ending();
            assert_eq!(ending.is_some(), ends, "{times}");
            if let Some((ending, why)) = ending {
                assert_eq!(ending, ExitReason::Denied);
                assert!(why.starts_with("src/package.json was removed before 5 calls"), "{why}");
            }
        }
    }
}
