//! One attempt: the program is started in its sandbox, read, watched and ended.

use std::sync::atomic::{AtomicBool, AtomicU32};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bailiwick_lifecycle::ports::WorkError;
use bailiwick_lifecycle::supervision::BudgetState;
use bailiwick_lifecycle::supervision::budget::BudgetLimit;
use bailiwick_model::attempt::Exhausted;
use bailiwick_model::event::{EventKind, ExitReason, ReportedBy};
use bailiwick_model::size::readable_size;

use super::attempt_state::{AttemptState, AttemptStateConfig, exhausted_by};
use super::callers::AgentProcesses;
use super::gate::{CallDecider, GateService};
use super::http_gate;
use super::interactive;
use super::launch::{Launched, gate_timeout, launch};
use super::observer::ProxyObserver;
use super::per_call_checks::PerCallChecks;
use super::stdio_gate::DeciderHandle;
use super::terminal::Screen;
use super::writer::{self, Writer};
use super::{
    AttemptOutcome, Handle, Sinks, SuperviseError, Supervision, control, delegation, disk, gate,
    sockets,
};
use crate::agents::adapter::{Conversation, Verdict};
use crate::proxy::{self, HttpGate, ModelApi, Proxy};
use crate::sandbox::{Received, Report};

pub use super::launch::Enclosure;

/// How much of the final text is stored with an attempt.
const MAX_DETAIL_CHARS: usize = 4000;
/// How much longer than approval and checks an answer may take: less than the gate waits for it.
const GRACE: Duration = Duration::from_secs(5);
/// How often time limits are checked. Other reasons to end take effect at once.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// How long background work may continue when all else is done: as long as a CLI with closed input waits for it.
const BACKGROUND_GRACE_PERIOD: Duration = Duration::from_secs(5);

pub(super) fn run(
    supervision: Supervision,
    screen: Option<&Screen>,
    sinks: Sinks,
    begun: impl FnOnce(Handle),
) -> Result<AttemptOutcome, SuperviseError> {
    supervision.directory.make().map_err(|error| {
        SuperviseError::new(supervision.directory.path().display().to_string(), error)
    })?;
    let (attempt_state, writer) = begin(&supervision, sinks);
    begun(Handle(Arc::clone(&attempt_state)));
    let end = run_with_services(&supervision, screen, &attempt_state);
    if let Err(error) = &end {
        attempt_state.record_event(
            ReportedBy::Supervisor,
            None,
            EventKind::Error { message: error.to_string() },
        );
    }
    let progress = attempt_state.progress();
    attempt_state.publish_progress();
    attempt_state.close();
    let stored = writer.finish();
    let AttemptEnd { conclusion: Conclusion { ending, detail, exhausted }, code } = end?;
    let detail = supervision.redaction.clean(&detail).chars().take(MAX_DETAIL_CHARS).collect();
    let (ending, detail, exhausted) = match stored {
        Ok(()) => (ending, detail, exhausted),
        Err(_) if ending == ExitReason::EnforcementLost => (ending, detail, None),
        Err(why) => (ExitReason::Failed, format!("events could not be kept: {why}"), None),
    };
    Ok(AttemptOutcome {
        ending,
        detail,
        exhausted,
        code,
        progress,
        messages: attempt_state.take_messages(),
    })
}

fn begin(supervision: &Supervision, sinks: Sinks) -> (Arc<AttemptState>, Writer) {
    let known: Arc<OnceLock<Arc<AttemptState>>> = Arc::default();
    let state_of_sink = Arc::clone(&known);
    let (redaction, audit_level) = (supervision.redaction.clone(), supervision.audit_level);
    let (writer, writer_sender) = writer::start(sinks, redaction, audit_level, move |why| {
        if let Some(attempt_state) = state_of_sink.get() {
            attempt_state.end(ExitReason::Failed, &format!("events could not be kept: {why}"));
        }
    });
    let session = match &supervision.assignment.session {
        Conversation::Resume(id) => Some(id.clone()),
        Conversation::New(_) => None,
    };
    let attempt_state = Arc::new(AttemptState::new(
        AttemptStateConfig {
            behaviour: supervision.adapter.behaviour(),
            budget: supervision.budget,
            used: supervision.used,
            time: supervision.time,
            prices: supervision.prices.clone(),
            earlier: supervision.earlier.clone(),
            session,
            has_gate: supervision.adapter.dialect().is_some(),
            api_marks_failures: matches!(
                supervision.adapter.model_api(),
                Some(ModelApi::Anthropic | ModelApi::Gemini)
            ),
            proxy_sees_calls: supervision.adapter.model_api().is_some(),
        },
        writer_sender,
    ));
    // No other thread has it yet, so it cannot be set already.
    let _ = known.set(Arc::clone(&attempt_state));
    (attempt_state, writer)
}

/// Starts the services of the attempt, then the program, and waits for its end.
fn run_with_services(
    supervision: &Supervision,
    screen: Option<&Screen>,
    attempt_state: &Arc<AttemptState>,
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
    let tree_checks = supervision.checks.as_ref().map(|checks| {
        let (attempt_state, checks) = (Arc::clone(attempt_state), Arc::clone(checks));
        Arc::new(PerCallChecks::new(attempt_state, checks, &supervision.earlier))
    });
    let decider: Arc<dyn CallDecider> = Arc::new(GateService {
        attempt_state: Arc::clone(attempt_state),
        call_policy: Arc::clone(&supervision.call_policy),
        tree_checks: tree_checks.clone(),
        forbidden_files: supervision.forbidden_files.clone(),
        approval_timeout: supervision.approval,
        timeout: gate_timeout(supervision).saturating_add(GRACE),
        fail_fast: supervision.fail_fast,
        warns_near_limit: supervision.warns_near_limit,
        decision_permits: GateService::decision_permits(),
        approval_permits: GateService::approval_permits(),
        removals: AtomicU32::new(0),
    });
    // With a control protocol no process connects to the socket.
    if supervision.adapter.stdio_gate().is_none() && supervision.adapter.http_gate().is_none() {
        let listener = listen(directory.gate_socket()).map_err(failed("the gate's socket"))?;
        runtime.spawn(gate::serve(listener, Arc::clone(&decider)));
    }
    let answers = DeciderHandle { decider, runtime: runtime.handle().clone() };
    let listener = listen(directory.control_socket()).map_err(failed("the control socket"))?;
    runtime.spawn(control::serve(listener, Arc::clone(attempt_state), directory.clone()));
    if let Some(answers) = &supervision.delegation {
        let listener = listen(directory.delegation_socket()).map_err(failed("the socket"))?;
        runtime.spawn(delegation::serve(listener, Arc::clone(answers), Arc::clone(attempt_state)));
    }
    let end = run_agent_process(supervision, screen, attempt_state, answers, tree_checks.as_ref());
    // Also if nothing was started.
    tree_checks.iter().for_each(|tree_checks| tree_checks.stop());
    let _ = std::fs::remove_file(directory.delegation_socket());
    // A later client must find no socket, rather than one that does not answer.
    let _ = std::fs::remove_file(directory.control_socket());
    let _ = std::fs::remove_file(directory.gate_socket());
    runtime.shutdown_timeout(Duration::from_secs(2));
    end
}

/// How an attempt ended, with the exit code of the program.
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

/// How the process ended.
struct ProcessEnd {
    /// The exit code, or 128 plus the signal; `None` if the supervisor ended it.
    code: Option<i32>,
    /// The error.
    error: Option<String>,
}

fn run_agent_process(
    supervision: &Supervision,
    screen: Option<&Screen>,
    attempt_state: &Arc<AttemptState>,
    answers: DeciderHandle,
    tree_checks: Option<&Arc<PerCallChecks>>,
) -> Result<AttemptEnd, SuperviseError> {
    let line = Arc::clone(attempt_state);
    let runtime = &answers.runtime.clone();
    let http_gate = http_gate::of(supervision.adapter.as_ref(), Arc::clone(&answers.decider));
    let disk = disk::DiskMonitor::begin(supervision, attempt_state);
    let mut launched = match screen {
        None => launch(supervision, answers, move |read, raw| line.on_output_line(read, raw))?,
        Some(screen) => interactive::launch(supervision, screen)?,
    };
    disk.started(launched.running.id());
    let observer = ProxyObserver {
        attempt_state: Arc::clone(attempt_state),
        tree_checks: tree_checks.cloned(),
        key_origin: supervision.upstream.as_ref().and_then(|upstream| upstream.origin.clone()),
        key_refused: AtomicBool::default(),
        callers: supervision
            .adapter
            .no_late_model_clients()
            .then(|| Arc::new(AgentProcesses::below(launched.running.id()))),
    };
    let proxy = start_proxy(supervision, observer, &mut launched, http_gate, runtime)?;
    let waker = launched.running.waker();
    let waker = waker.map_err(|error| SuperviseError::new("the supervisor's waker", error))?;
    let has_ended = attempt_state.wait_for_end();
    runtime.spawn(async move {
        has_ended.await;
        waker.wake();
    });
    let ended = watch(supervision, attempt_state, &mut launched);
    tree_checks.iter().for_each(|tree_checks| tree_checks.stop());
    let verdict = launched.finish(ended.code);
    drop((proxy, disk));
    if let Some(tree_checks) = tree_checks {
        runtime.block_on(tree_checks.ended());
    }
    let removal_failed = remove_forbidden_files(supervision, attempt_state).err();
    let code = ended.code;
    // At a terminal a person may leave before any call; before the first model request the proxy has
    // waited for the gate.
    let must_connect = screen.is_none() || supervision.adapter.model_api().is_none();
    let gate_connected = !(attempt_state.has_gate && must_connect)
        || runtime.block_on(attempt_state.wait_for_gate(Duration::ZERO));
    let conclusion = match removal_failed {
        Some(error) => Conclusion::of(ExitReason::EnforcementLost, error.to_string()),
        None => final_reason(attempt_state, ended.error, verdict, gate_connected),
    };
    let what = EventKind::Ended { how: conclusion.ending, detail: conclusion.detail.clone() };
    attempt_state.record_event(ReportedBy::Supervisor, None, what);
    Ok(AttemptEnd { conclusion, code })
}

/// Removes forbidden files that the last call created, and records those that do not land.
fn remove_forbidden_files(
    supervision: &Supervision,
    attempt_state: &AttemptState,
) -> Result<(), WorkError> {
    let Some(files) = &supervision.forbidden_files else { return Ok(()) };
    let removed = files.remove()?;
    let left_out = files.left_out()?;
    let events = removed.iter().map(gate::removal_event);
    events
        .chain(left_out.iter().map(gate::left_out_event))
        .for_each(|what| attempt_state.record_event(ReportedBy::Supervisor, None, what));
    Ok(())
}

/// Starts the model proxy.
fn start_proxy(
    supervision: &Supervision,
    observer: ProxyObserver,
    launched: &mut Launched,
    http_gate: Option<Arc<dyn HttpGate>>,
    runtime: &tokio::runtime::Handle,
) -> Result<Option<Proxy>, SuperviseError> {
    let Some(wire) = supervision.adapter.model_api() else { return Ok(None) };
    let listener = launched.take_listener()?;
    if let Some(upstream) = &supervision.upstream {
        let redaction = supervision.redaction.clone();
        upstream.key.on_secret(move |secret| redaction.add([secret]));
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
        http_gate,
    };
    let proxy = proxy::start(setup, runtime);
    proxy.map(Some).map_err(|error| SuperviseError::new("the model proxy", error))
}

/// Waits until the program ends, or until there is a reason to end it.
fn watch(
    supervision: &Supervision,
    attempt_state: &Arc<AttemptState>,
    launched: &mut Launched,
) -> ProcessEnd {
    let failed = |why: String| ProcessEnd { code: None, error: Some(why) };
    loop {
        match launched.running.next_report(POLL_INTERVAL) {
            Received::Report(Report::Exit(code)) => {
                return ProcessEnd { code: Some(code), error: None };
            }
            Received::Report(Report::Signal(signal)) => {
                let why = format!("the agent program was ended by signal {signal}");
                return ProcessEnd { code: Some(128 + signal), error: Some(why) };
            }
            Received::Report(Report::Refused(error)) => {
                return failed(format!("the sandbox could not be made: {error}"));
            }
            Received::Report(Report::MemorySpent(most)) => {
                let most = readable_size(most);
                return failed(format!("the agent took more than {most} of memory"));
            }
            Received::Report(Report::Confinement(_) | Report::Listener(_)) | Received::TimedOut => {
            }
            Received::Closed => {
                return failed("the sandbox process exited without a report".to_owned());
            }
        }
        if attempt_state.idle() > supervision.idle {
            let minutes = supervision.idle.as_secs().div_ceil(60);
            attempt_state
                .end(ExitReason::TimedOut, &format!("it reported nothing for {minutes} minutes"));
        }
        if let BudgetState::Exhausted(BudgetLimit::Time) = attempt_state.budget_state() {
            attempt_state.exhaust(Exhausted::Minutes, "the budget is spent: minutes");
        }
        if attempt_state.ending().is_some() {
            return ProcessEnd { code: None, error: None };
        }
        if attempt_state.only_background_for() > BACKGROUND_GRACE_PERIOD {
            return ProcessEnd { code: Some(0), error: None };
        }
    }
}

/// Why the attempt ended: the first reason of the supervisor, or what the program reports.
fn final_reason(
    attempt_state: &AttemptState,
    error: Option<String>,
    verdict: Verdict,
    gate_connected: bool,
) -> Conclusion {
    // Stopping an attempt does not undo what a call has done.
    if let Some(lost) = attempt_state.ran_without_permission() {
        return Conclusion::of(ExitReason::EnforcementLost, lost.to_string());
    }
    if let Some((ending, detail)) = attempt_state.ending() {
        return Conclusion { ending, detail, exhausted: attempt_state.ended_by() };
    }
    let (unaccounted, made_up) = attempt_state.unaccounted();
    if made_up > 0 {
        let message = format!("{made_up} questions to the gate were about no call of the model");
        attempt_state.record_event(ReportedBy::Supervisor, None, EventKind::Error { message });
    }
    if let Some((by, why)) = attempt_state.exhausted() {
        return Conclusion::exhausted(by, why);
    }
    let reason = reason_from_program(attempt_state, error, verdict, gate_connected);
    // A CLI that exited has run all calls of its model: an undecided one may have run, and its result was never
    // seen. Only with an exhausted budget, calls may remain.
    match unaccounted.filter(|_| reason.ending != ExitReason::BudgetExhausted) {
        Some(lost) => Conclusion::of(ExitReason::EnforcementLost, lost.to_string()),
        None => reason,
    }
}

/// The reason that the CLI reports, if the supervisor had no reason to end it.
fn reason_from_program(
    attempt_state: &AttemptState,
    error: Option<String>,
    verdict: Verdict,
    gate_connected: bool,
) -> Conclusion {
    match error {
        Some(why) => Conclusion::of(ExitReason::Failed, why),
        None if !verdict.completed => match attempt_state.budget_state() {
            // Some CLIs know their budget, and end before anything is refused.
            BudgetState::Exhausted(limit) => {
                let why = format!("the budget is spent: {}", limit.as_str());
                Conclusion::exhausted(exhausted_by(limit), why)
            }
            BudgetState::Fine | BudgetState::Near(_) => {
                Conclusion::of(ExitReason::Failed, verdict.words)
            }
        },
        None if !gate_connected => {
            Conclusion::of(ExitReason::EnforcementLost, "the gate did not connect")
        }
        None => Conclusion::of(ExitReason::Completed, verdict.words),
    }
}
#[cfg(test)]
mod tests;
