//! One attempt: the program is started in its sandbox, read, watched and ended.

use std::sync::atomic::{AtomicBool, AtomicU32};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bailiwick_lifecycle::ports::WorkError;
use bailiwick_lifecycle::supervision::Standing;
use bailiwick_lifecycle::supervision::budget::Limit;
use bailiwick_model::attempt::Exhausted;
use bailiwick_model::event::{EventKind, ExitReason, ReportedBy};
use bailiwick_model::size::readable_size;

use super::between::PerCallChecks;
use super::callers::AgentProcesses;
use super::desk;
use super::gate::{CallDecider, GateService};
use super::hub::{Beginning, Hub, exhausted_by};
use super::interactive::{self, Screen};
use super::launch::{Launched, launch, patience};
use super::observer::ProxyObserver;
use super::talk::Answers;
use super::writer::{self, Writer};
use super::{
    Handle, Outcome, Sinks, SuperviseError, Supervision, control, delegation, disk, gate, sockets,
};
use crate::agents::adapter::{Session, Verdict};
use crate::proxy::{self, HttpGate, Proxy, Wire};
use crate::sandbox::{Next, Report};

pub use super::launch::Enclosure;

/// How much of its last words is kept with an attempt.
const MAX_DETAIL_CHARS: usize = 4000;
/// How much longer than people and checks an answer may take: less than the gate waits for it.
const GRACE: Duration = Duration::from_secs(5);
/// How often it is looked whether there is a reason to end.
const BEAT: Duration = Duration::from_millis(100);
/// How long what a program has left in the background may go on when all else is done; as long as one
/// that is told nothing more waits for it by itself.
const BACKGROUND_GRACE_PERIOD: Duration = Duration::from_secs(5);

pub(super) fn run(
    supervision: Supervision,
    screen: Option<&Screen>,
    sinks: Sinks,
    begun: impl FnOnce(Handle),
) -> Result<Outcome, SuperviseError> {
    supervision.directory.make().map_err(|error| {
        SuperviseError::new(supervision.directory.path().display().to_string(), error)
    })?;
    let (hub, writer) = begin(&supervision, sinks);
    begun(Handle(Arc::clone(&hub)));
    let went = held(&supervision, screen, &hub);
    if let Err(error) = &went {
        hub.tell(ReportedBy::Supervisor, None, EventKind::Error { message: error.to_string() });
    }
    let progress = hub.progress();
    hub.publish_progress();
    hub.close();
    let kept = writer.finish();
    let AttemptEnd { conclusion: Conclusion { ending, detail, exhausted }, code } = went?;
    let detail = supervision.redaction.clean(&detail).chars().take(MAX_DETAIL_CHARS).collect();
    let (ending, detail, exhausted) = match kept {
        Ok(()) => (ending, detail, exhausted),
        Err(_) if ending == ExitReason::EnforcementLost => (ending, detail, None),
        Err(why) => (ExitReason::Failed, format!("events could not be kept: {why}"), None),
    };
    Ok(Outcome { ending, detail, exhausted, code, progress, messages: hub.messages() })
}

fn begin(supervision: &Supervision, sinks: Sinks) -> (Arc<Hub>, Writer) {
    let known: Arc<OnceLock<Arc<Hub>>> = Arc::default();
    let told = Arc::clone(&known);
    let (redaction, keeps) = (supervision.redaction.clone(), supervision.keeps);
    let (writer, orders) = writer::start(sinks, redaction, keeps, move |why| {
        if let Some(hub) = told.get() {
            hub.end(ExitReason::Failed, &format!("events could not be kept: {why}"));
        }
    });
    let session = match &supervision.assignment.session {
        Session::Resume(id) => Some(id.clone()),
        Session::New(_) => None,
    };
    let hub = Arc::new(Hub::new(
        Beginning {
            behaviour: supervision.adapter.behaviour(),
            budget: supervision.budget,
            used: supervision.used,
            time: supervision.time,
            prices: supervision.prices.clone(),
            earlier: supervision.earlier.clone(),
            session,
            gated: supervision.adapter.dialect().is_some(),
            marks_failures: matches!(
                supervision.adapter.wire(),
                Some(Wire::Anthropic | Wire::Gemini)
            ),
            watched: supervision.adapter.wire().is_some(),
        },
        orders,
    ));
    // Nobody else knows it yet, so it cannot be set already.
    let _ = known.set(Arc::clone(&hub));
    (hub, writer)
}

/// Starts everything around the program, then the program, and waits for its end.
fn held(
    supervision: &Supervision,
    screen: Option<&Screen>,
    hub: &Arc<Hub>,
) -> Result<AttemptEnd, SuperviseError> {
    let failed = |what: &str| {
        let what = what.to_owned();
        move |error: std::io::Error| SuperviseError::new(what, error)
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(failed("the supervisor's runtime"))?;
    let directory = &supervision.directory;
    let listen = |path: std::path::PathBuf| -> std::io::Result<tokio::net::UnixListener> {
        let listener = sockets::listen(&path)?;
        listener.set_nonblocking(true)?;
        let _inside = runtime.enter();
        tokio::net::UnixListener::from_std(listener)
    };
    let between = supervision.checks.as_ref().map(|checks| {
        let (hub, checks) = (Arc::clone(hub), Arc::clone(checks));
        Arc::new(PerCallChecks::new(hub, checks, &supervision.earlier))
    });
    let keeper: Arc<dyn CallDecider> = Arc::new(GateService {
        hub: Arc::clone(hub),
        judge: Arc::clone(&supervision.judge),
        between: between.clone(),
        forbidden_files: supervision.forbidden_files.clone(),
        approval: supervision.approval,
        patience: patience(supervision).saturating_add(GRACE),
        fail_fast: supervision.fail_fast,
        judging: GateService::places(),
        waiting: GateService::seats(),
        removals: AtomicU32::new(0),
    });
    // Where the program talks with us, nobody else has anything to ask.
    if supervision.adapter.talk().is_none() && supervision.adapter.posts().is_none() {
        let listener = listen(directory.gate_socket()).map_err(failed("the gate's socket"))?;
        runtime.spawn(gate::serve(listener, Arc::clone(&keeper)));
    }
    let answers = Answers { keeper, runtime: runtime.handle().clone() };
    let listener = listen(directory.control_socket()).map_err(failed("the control socket"))?;
    runtime.spawn(control::serve(listener, Arc::clone(hub), directory.clone()));
    if let Some(answers) = &supervision.delegation {
        let listener = listen(directory.delegation_socket()).map_err(failed("the socket"))?;
        runtime.spawn(delegation::serve(listener, Arc::clone(answers), Arc::clone(hub)));
    }
    let went = worked(supervision, screen, hub, answers, between.as_ref());
    // Also where nothing was started.
    between.iter().for_each(|between| between.stop());
    let _ = std::fs::remove_file(directory.delegation_socket());
    // Whoever comes later finds nobody, and not somebody who does not answer.
    let _ = std::fs::remove_file(directory.control_socket());
    let _ = std::fs::remove_file(directory.gate_socket());
    runtime.shutdown_timeout(Duration::from_secs(2));
    went
}

/// How it went.
struct AttemptEnd {
    conclusion: Conclusion,
    code: Option<i32>,
}

/// How an attempt ended, and why.
#[derive(Debug, PartialEq, Eq)]
struct Conclusion {
    ending: ExitReason,
    detail: String,
    exhausted: Option<Exhausted>,
}

impl Conclusion {
    fn of(ending: ExitReason, detail: impl Into<String>) -> Self {
        Self { ending, detail: detail.into(), exhausted: None }
    }

    fn exhausted(by: Exhausted, detail: impl Into<String>) -> Self {
        Self { exhausted: Some(by), ..Self::of(ExitReason::BudgetExhausted, detail) }
    }
}

/// How the program ended.
struct Ended {
    /// Its exit code, or the one that shells give to a signal; nothing if we have ended it.
    code: Option<i32>,
    /// What went wrong with it.
    wrong: Option<String>,
}

fn worked(
    supervision: &Supervision,
    screen: Option<&Screen>,
    hub: &Arc<Hub>,
    answers: Answers,
    between: Option<&Arc<PerCallChecks>>,
) -> Result<AttemptEnd, SuperviseError> {
    let line = Arc::clone(hub);
    let runtime = &answers.runtime.clone();
    let desk = desk::of(supervision.adapter.as_ref(), Arc::clone(&answers.keeper));
    let disk = disk::Guard::begin(supervision, hub);
    let mut launched = match screen {
        None => launch(supervision, answers, move |read, raw| line.read(read, raw))?,
        Some(screen) => interactive::launch(supervision, screen)?,
    };
    disk.started(launched.running.id());
    let observer = ProxyObserver {
        hub: Arc::clone(hub),
        between: between.cloned(),
        key_origin: supervision.upstream.as_ref().and_then(|upstream| upstream.origin.clone()),
        key_refused: AtomicBool::default(),
        callers: supervision
            .adapter
            .no_late_model_clients()
            .then(|| Arc::new(AgentProcesses::below(launched.running.id()))),
    };
    let proxy = door(supervision, observer, &mut launched, desk, runtime)?;
    let ended = watch(supervision, hub, &mut launched);
    between.iter().for_each(|between| between.stop());
    let verdict = launched.finish(ended.code);
    drop((proxy, disk));
    if let Some(between) = between {
        runtime.block_on(between.ended());
    }
    let unswept = swept(supervision, hub).err();
    let code = ended.code;
    // A person may leave before there is anything to gate; before a model was asked, the proxy has
    // waited for the gate.
    let announces = screen.is_none() || supervision.adapter.wire().is_none();
    let announced = !(hub.gated && announces) || runtime.block_on(hub.announced(Duration::ZERO));
    let conclusion = match unswept {
        Some(error) => Conclusion::of(ExitReason::EnforcementLost, error.to_string()),
        None => concluded(hub, ended.wrong, verdict, announced),
    };
    let what = EventKind::Ended { how: conclusion.ending, detail: conclusion.detail.clone() };
    hub.tell(ReportedBy::Supervisor, None, what);
    Ok(AttemptEnd { conclusion, code })
}

/// Removes forbidden files that the last call has made, and records those that do not land.
fn swept(supervision: &Supervision, hub: &Hub) -> Result<(), WorkError> {
    let Some(files) = &supervision.forbidden_files else { return Ok(()) };
    let removed = files.remove()?;
    let left_out = files.left_out()?;
    let events = removed.iter().map(gate::removal_event);
    events
        .chain(left_out.iter().map(gate::left_out_event))
        .for_each(|what| hub.tell(ReportedBy::Supervisor, None, what));
    Ok(())
}

/// The way to the model.
fn door(
    supervision: &Supervision,
    observer: ProxyObserver,
    launched: &mut Launched,
    desk: Option<Arc<dyn HttpGate>>,
    runtime: &tokio::runtime::Handle,
) -> Result<Option<Proxy>, SuperviseError> {
    let Some(wire) = supervision.adapter.wire() else { return Ok(None) };
    let listener = launched.door()?;
    if let Some(upstream) = &supervision.upstream {
        let redaction = supervision.redaction.clone();
        upstream.key.tells(move |secret| redaction.add([secret]));
    }
    let callers = observer.callers.clone().map(|callers| callers as Arc<dyn proxy::Callers>);
    let setup = proxy::Setup {
        wire,
        callers,
        upstream: supervision.upstream.clone(),
        listener,
        hosts: supervision.hosts.clone(),
        models: supervision.models.clone(),
        searches: supervision.assignment.searches,
        observer: Arc::new(observer),
        desk,
    };
    let proxy = proxy::start(setup, runtime);
    proxy.map(Some).map_err(|error| SuperviseError::new("the model proxy", error))
}

/// Waits for the end of the program, or for a reason to end it.
fn watch(supervision: &Supervision, hub: &Arc<Hub>, launched: &mut Launched) -> Ended {
    let wrong = |why: String| Ended { code: None, wrong: Some(why) };
    loop {
        match launched.running.next_report(BEAT) {
            Next::Report(Report::Exit(code)) => return Ended { code: Some(code), wrong: None },
            Next::Report(Report::Signal(signal)) => {
                let why = format!("the agent program was ended by signal {signal}");
                return Ended { code: Some(128 + signal), wrong: Some(why) };
            }
            Next::Report(Report::Refused(error)) => {
                return wrong(format!("the sandbox could not be made: {error}"));
            }
            Next::Report(Report::MemorySpent(most)) => {
                let most = readable_size(most);
                return wrong(format!("the agent took more than {most} of memory"));
            }
            Next::Report(Report::Held(_) | Report::Door(_)) | Next::TimedOut => {}
            Next::Over => return wrong("the sandbox ended without a word".to_owned()),
        }
        if hub.idle() > supervision.idle {
            let minutes = supervision.idle.as_secs().div_ceil(60);
            hub.end(
                ExitReason::TimedOut,
                &format!("nothing was heard of it for {minutes} minutes"),
            );
        }
        if let Standing::Exhausted(Limit::Time) = hub.standing() {
            hub.exhaust(Exhausted::Minutes, "the budget is spent: minutes");
        }
        if hub.ending().is_some() {
            return Ended { code: None, wrong: None };
        }
        if hub.lingered() > BACKGROUND_GRACE_PERIOD {
            return Ended { code: Some(0), wrong: None };
        }
    }
}

/// Why it ended: the first reason of ours, or what the program says of itself.
fn concluded(hub: &Hub, wrong: Option<String>, verdict: Verdict, announced: bool) -> Conclusion {
    // Whoever ends an attempt before its model hears of a call does not undo what the call has done.
    if let Some(lost) = hub.ran_without_permission() {
        return Conclusion::of(ExitReason::EnforcementLost, lost.to_string());
    }
    if let Some((ending, detail)) = hub.ending() {
        return Conclusion { ending, detail, exhausted: hub.ended_by() };
    }
    let (unaccounted, made_up) = hub.unaccounted();
    if made_up > 0 {
        let message = format!("{made_up} questions to the gate were about no call of the model");
        hub.tell(ReportedBy::Supervisor, None, EventKind::Error { message });
    }
    if let Some((by, why)) = hub.exhausted() {
        return Conclusion::exhausted(by, why);
    }
    let said = said(hub, wrong, verdict, announced);
    // A program that ended by itself has done all that its model asked for: what nobody decided may
    // have run, and its result was never seen. Only at the end of its budget it leaves calls undone.
    match unaccounted.filter(|_| said.ending != ExitReason::BudgetExhausted) {
        Some(lost) => Conclusion::of(ExitReason::EnforcementLost, lost.to_string()),
        None => said,
    }
}

/// What the program says of itself, where we had no reason to end it.
fn said(hub: &Hub, wrong: Option<String>, verdict: Verdict, announced: bool) -> Conclusion {
    match wrong {
        Some(why) => Conclusion::of(ExitReason::Failed, why),
        None if !verdict.completed => match hub.standing() {
            // Some programs know their budget, and end by themselves before anything is refused.
            Standing::Exhausted(limit) => {
                let why = format!("the budget is spent: {}", limit.as_str());
                Conclusion::exhausted(exhausted_by(limit), why)
            }
            Standing::Fine | Standing::Near(_) => Conclusion::of(ExitReason::Failed, verdict.words),
        },
        None if !announced => {
            Conclusion::of(ExitReason::EnforcementLost, "the gate never said that it is there")
        }
        None => Conclusion::of(ExitReason::Completed, verdict.words),
    }
}

#[cfg(test)]
mod tests {
    use super::super::writer::Order;
    use super::*;
    use crate::agents::adapter::{Adapter as _, Read};
    use bailiwick_lifecycle::supervision::{Budget, CliBehaviour, Prices};
    use bailiwick_model::attempt::{Allowance, Used};
    use bailiwick_model::settings::Settings;

    fn hub(behaviour: CliBehaviour) -> (Hub, std::sync::mpsc::Receiver<Order>) {
        let (orders, kept) = std::sync::mpsc::sync_channel(64);
        let beginning = Beginning {
            behaviour,
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
        (Hub::new(beginning, orders), kept)
    }

    /// The model has been told of the denial already, by somebody inside.
    #[test]
    fn a_denied_call_that_the_program_says_it_has_run_ends_the_attempt_at_once() {
        let input = serde_json::json!({"command": "git push"});
        let result = |ok: bool, output: &str| EventKind::ToolResult {
            id: "a".to_owned(),
            ok,
            output: output.to_owned(),
        };
        let command = || EventKind::Command { command: "git push".to_owned(), exit: Some(0) };
        let (claude, codex) =
            (crate::agents::ClaudeCode.behaviour(), crate::agents::Codex.behaviour());
        for (behaviour, denied, said, lost) in [
            (claude, true, result(true, "pushed"), true),
            (claude, true, result(false, "policy::git: no"), false),
            (claude, false, result(true, "pushed"), false),
            (codex, true, command(), true),
            (codex, false, command(), false),
        ] {
            let (hub, _kept) = hub(behaviour);
            hub.asked(None, "a", "Bash", &input);
            hub.decided(Some("a"), "Bash", &input, denied.then_some("policy::git"));
            let told = "blocked by PreToolUse hook: policy::git";
            assert!(hub.came_back("a", None, told, true).is_ok());
            hub.read(vec![Read::of(said.clone())], "");
            let ending = hub.ending().map(|(ending, _)| ending);
            assert_eq!(ending, lost.then_some(ExitReason::EnforcementLost), "{said:?}");
        }
    }

    /// A person stops an attempt before its model hears of a call.
    #[test]
    fn a_call_that_ran_undecided_is_not_forgiven_to_an_attempt_that_is_stopped() {
        for (decided, expected) in
            [(true, ExitReason::Stopped), (false, ExitReason::EnforcementLost)]
        {
            let (hub, _kept) = hub(crate::agents::ClaudeCode.behaviour());
            let input = serde_json::json!({"command": "date"});
            hub.asked(None, "a", "Bash", &input);
            if decided {
                hub.decided(Some("a"), "Bash", &input, None);
            }
            let what =
                EventKind::ToolResult { id: "a".to_owned(), ok: true, output: "Sunday".to_owned() };
            hub.read(vec![Read::of(what)], "");
            hub.end(ExitReason::Stopped, "by a person");
            let verdict = Verdict { completed: false, words: String::new() };
            assert_eq!(concluded(&hub, None, verdict, true).ending, expected);
        }
    }
}
