//! The self-test: a scripted turn of the real agent program, whose tool call must be denied.
//!
//! Bailiwick plays the model, which requests a shell command that would leave a mark. The gate denies it. Runs of
//! this CLI with this configuration are considered enforced only if the gate was asked, the model received the
//! denial, and the mark does not exist. The result is stored under a digest of everything that it depends on.

use std::future::Future;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bailiwick_model::Sha256Hex;
use bailiwick_policy::Decision;
use bailiwick_policy::decision::Objection;
use bailiwick_policy::protocol::GateRequest;
use thiserror::Error;

use super::directory::RunDirectory;
use super::gate::CallDecider;
use super::launch::{self, Enclosure};
use super::stdio_gate::DeciderHandle;
use super::{gate, http_gate, sockets};
use crate::agents::adapter::{Adapter, Assignment, Conversation, Instruction};
use crate::environment::ProjectEnvironment;
use crate::proxy::{self, Admission, ModelRequest, ModelResponse, Observer, ToolCall};
use crate::sandbox::{Level, Received, Report, WorktreeAccess};

/// How long the whole of it may take.
const TIMEOUT: Duration = Duration::from_secs(120);
/// The message for the denied call.
const DENIAL_TEXT: &str = "this call is denied to see whether a denial holds";
const CALL: &str = "call_canary_0";
const MARK: &str = "bailiwick-canary";
/// The answer to a side request, such as for a title or for the model to use. It is JSON, because a CLI that expects
/// JSON would retry for a minute and more.
const ASIDE: &str = "{}";

/// Why a CLI is not considered enforced.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{cli} could not be shown to obey the gate: {why}")]
pub struct SelfTestFailure {
    /// The agent program.
    pub cli: String,
    /// The observation.
    pub why: SelfTestError,
}

/// Why a self-test did not pass.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SelfTestError {
    /// The gate does not bind the CLI: a denied call ran, the gate was not asked, or the model did not receive the
    /// denial.
    #[error("{0}")]
    Lost(String),
    /// The self-test could not run: the CLI did not start, or did not get as far as a call. That says nothing about
    /// its gate.
    #[error("it could not be tried: {0}")]
    NotAttempted(String),
}

fn untried(error: impl std::fmt::Display) -> SelfTestError {
    SelfTestError::NotAttempted(error.to_string())
}

/// How it is known that the CLI obeys its gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SelfTestResult {
    /// The program was run now, and obeyed.
    Passed,
    /// The same CLI with the same configuration passed before.
    Known,
    /// There is no model to play: the CLI asks the gate itself.
    NotNeeded,
}

/// Tests whether the CLI obeys the gate, or finds an earlier result. `results` is the directory of results; `scratch`
/// belongs to the self-test alone. `trying` is called before the CLI is started.
pub fn run_self_test(
    adapter: &dyn Adapter,
    assignment: &Assignment,
    enclosure: &Enclosure,
    (results, scratch): (&Path, &RunDirectory),
    trying: impl FnOnce(),
) -> Result<SelfTestResult, SelfTestFailure> {
    let failed_test = |why: SelfTestError| SelfTestFailure { cli: adapter.name().to_owned(), why };
    let (Some(_), Some(_)) = (adapter.dialect(), adapter.model_api()) else {
        return Ok(SelfTestResult::NotNeeded);
    };
    let digest = digest(adapter, assignment, enclosure).map_err(failed_test)?;
    let file = results.join(digest);
    if file.is_file() {
        return Ok(SelfTestResult::Known);
    }
    trying();
    scratch.make().map_err(|error| failed_test(untried(error)))?;
    let result = run_once(adapter, assignment, enclosure, scratch);
    // Its remains are useless; leftovers are removed with the run.
    let _ = std::fs::remove_dir_all(scratch.path());
    result.map_err(failed_test)?;
    let keep = std::fs::create_dir_all(results)
        .and_then(|()| std::fs::write(&file, format!("{}\n", assignment.version)));
    // If the result cannot be stored, the self-test is repeated the next time.
    let _ = keep;
    Ok(SelfTestResult::Passed)
}

/// The assignment of the self-test, without the task. A CLI that has instructions in its home reads more of it: so if
/// a run has instructions or skills, the self-test has empty ones.
fn self_test_assignment(assignment: &Assignment, home: PathBuf) -> Assignment {
    let instruction = Instruction { path: "AGENTS.md".to_owned(), text: "Be brief.".to_owned() };
    let skill = "---\nname: canary\ndescription: Says nothing.\n---\nSay nothing.\n".to_owned();
    let skill = ("canary/SKILL.md".to_owned(), skill);
    let session = Conversation::New("00000000-0000-4000-8000-000000000000".to_owned());
    let (version, worktree) = (assignment.version.clone(), assignment.worktree.clone());
    Assignment {
        prompt: "Say whether you are there.".to_owned(),
        model: assignment.model.clone(),
        effort: assignment.effort.clone(),
        repository: assignment.repository.clone(),
        model_url: assignment.model_url.clone(),
        login: assignment.login,
        gate: assignment.gate.clone(),
        instructions: assignment.instructions.iter().take(1).map(|_| instruction.clone()).collect(),
        skills: assignment.skills.iter().take(1).map(|_| skill.clone()).collect(),
        // It must be able to make the call that is denied, even if the agent cannot.
        tools: assignment.tools.clone().map(|tools| [tools, vec!["Bash".to_owned()]].concat()),
        searches: assignment.searches,
        ..Assignment::empty(version, session, worktree, home)
    }
}

/// The digest of everything that a result depends on: the program, its version, how it is started and gated, and
/// Bailiwick's own program. Places that differ from run to run are called by one name.
fn digest(
    adapter: &dyn Adapter,
    assignment: &Assignment,
    enclosure: &Enclosure,
) -> Result<String, SelfTestError> {
    let mut trial = self_test_assignment(assignment, PathBuf::from("/home/agent"));
    trial.worktree = PathBuf::from("/worktree");
    trial.repository = PathBuf::from("/repository");
    trial.model_url = "http://127.0.0.1:1".to_owned();
    let place = RunDirectory::new(Path::new("/state"), "canary");
    let mut normalised = enclosure.clone();
    normalised.bailiwick_program = PathBuf::from("/run/bailiwick/bailiwick");
    trial.gate = Some(launch::gate(&place, &normalised, Duration::ZERO));
    let plan = adapter.plan(&trial).map_err(untried)?;
    let program = std::fs::canonicalize(&enclosure.program).map_err(untried)?;
    let file_identity = |path: &Path| -> Result<String, SelfTestError> {
        let data = std::fs::metadata(path).map_err(untried)?;
        let changed = data.modified().map_err(untried)?;
        Ok(format!("{} {} {changed:?}", path.display(), data.len()))
    };
    let parts = [
        adapter.name().to_owned(),
        assignment.version.clone(),
        file_identity(&program)?,
        file_identity(&enclosure.bailiwick_program)?,
        enclosure.level.as_str().to_owned(),
        serde_json::to_string(&plan).map_err(untried)?,
    ];
    let parts = serde_json::to_string(&parts).map_err(untried)?;
    Ok(Sha256Hex::of(parts).to_string())
}

/// The observations of the self-test.
#[derive(Default)]
struct Observations {
    /// The CLI has reached its model, which requested the call.
    called: AtomicBool,
    gate_connected: AtomicBool,
    asked: AtomicBool,
    /// The result of the call that the model received.
    told: Mutex<Option<String>>,
}

struct Model {
    observed: Arc<Observations>,
    call: ToolCall,
}

impl Observer for Model {
    fn admit<'a>(
        &'a self,
        request: ModelRequest,
    ) -> Pin<Box<dyn Future<Output = Admission> + Send + 'a>> {
        Box::pin(async move {
            if !request.offers_tools {
                return Admission::Say(ASIDE.to_owned());
            }
            let result_of_call = request.results.iter().find(|result| result.id.starts_with(CALL));
            match result_of_call {
                None => {
                    self.observed.called.store(true, Ordering::SeqCst);
                    Admission::Call(self.call.clone())
                }
                Some(result) => {
                    let mut result_of_call =
                        self.observed.told.lock().unwrap_or_else(PoisonError::into_inner);
                    *result_of_call = Some(result.output.clone());
                    Admission::Say("done".to_owned())
                }
            }
        })
    }

    fn on_tool_call(&self, _agent: Option<&str>, _call: &ToolCall) {}

    fn on_response(&self, _answered: ModelResponse) {}

    fn on_connect(&self, _host: &str, _allowed: bool) {}
}

fn run_once(
    adapter: &dyn Adapter,
    assignment: &Assignment,
    enclosure: &Enclosure,
    scratch: &RunDirectory,
) -> Result<(), SelfTestError> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .map_err(untried)?;
    let observed = Arc::new(Observations::default());
    let listener = sockets::listen(&scratch.gate_socket()).map_err(untried)?;
    listener.set_nonblocking(true).map_err(untried)?;
    {
        let _inside = runtime.enter();
        let listener = tokio::net::UnixListener::from_std(listener).map_err(untried)?;
        runtime.spawn(gate::serve(listener, Arc::clone(&observed) as Arc<dyn CallDecider>));
    }
    let mark = match enclosure.level {
        Level::Off => scratch.temp().join(MARK),
        Level::Partial | Level::Full => Path::new("/tmp").join(MARK),
    };
    let (tool, input) = adapter.shell_call(&format!("echo sang > {}", mark.display()));
    let call = ToolCall { id: CALL.to_owned(), tool, input };
    let mut trial = self_test_assignment(assignment, scratch.home());
    trial.gate = Some(launch::gate(scratch, enclosure, Duration::from_secs(20)));
    let result = play_model(
        adapter,
        &mut trial,
        enclosure,
        scratch,
        Model { observed: Arc::clone(&observed), call },
        &runtime,
    );
    runtime.shutdown_timeout(Duration::from_secs(2));
    evaluate(&observed, &scratch.temp().join(MARK), result)
}

/// Plays the model until the CLI ends; returns its verdict.
fn play_model(
    adapter: &dyn Adapter,
    assignment: &mut Assignment,
    enclosure: &Enclosure,
    scratch: &RunDirectory,
    model: Model,
    runtime: &tokio::runtime::Runtime,
) -> Result<String, SelfTestError> {
    let Some(wire) = adapter.model_api() else { return Err(untried("it speaks to no model")) };
    let host = match enclosure.level {
        Level::Off => Some(std::net::TcpListener::bind(("127.0.0.1", 0)).map_err(untried)?),
        Level::Partial | Level::Full => None,
    };
    let port = match &host {
        Some(listener) => listener.local_addr().map_err(untried)?.port(),
        None => launch::PROXY_PORT,
    };
    assignment.model_url = format!("http://127.0.0.1:{port}");
    // Nothing that it does may leave a trace in the worktree.
    let environment = ProjectEnvironment::default();
    let read_only = Enclosure {
        access: WorktreeAccess::ReadOnly,
        commits: false,
        environment,
        ..enclosure.clone()
    };
    let decider = Arc::clone(&model.observed) as Arc<dyn CallDecider>;
    let http_gate = http_gate::of(adapter, Arc::clone(&decider));
    let answers = DeciderHandle { decider, runtime: runtime.handle().clone() };
    let started = launch::start(scratch, adapter, &read_only, assignment, host, answers, |_, _| {});
    let mut launched = started.map_err(untried)?;
    let listener = launched.take_listener().map_err(untried)?;
    let setup = proxy::Setup {
        wire,
        upstream: None,
        listener,
        hosts: Vec::new(),
        models: proxy::Models::Any,
        // Nothing runs the tools of the model's host.
        searches: true,
        callers: None,
        observer: Arc::new(model),
        http_gate,
    };
    let proxy = proxy::start(setup, runtime.handle()).map_err(untried)?;
    let deadline = Instant::now() + TIMEOUT;
    let code = loop {
        match launched.running.next_report(deadline.saturating_duration_since(Instant::now())) {
            Received::Report(Report::Exit(code)) => break Ok(Some(code)),
            Received::Report(Report::Confinement(_) | Report::Listener(_)) => {}
            Received::Report(Report::Refused(error)) => break Err(untried(error)),
            Received::Report(Report::Signal(_) | Report::MemorySpent(_)) | Received::Closed => {
                break Ok(None);
            }
            Received::TimedOut => {
                break Err(untried(format_args!("it was not done in {} s", TIMEOUT.as_secs())));
            }
        }
    };
    let verdict = launched.finish(code.as_ref().ok().copied().flatten());
    drop(proxy);
    code.map(|_| verdict.words)
}

/// The observations count more than the exit: a call that ran has run, even if the program hung afterwards.
fn evaluate(
    observed: &Observations,
    mark: &Path,
    ended: Result<String, SelfTestError>,
) -> Result<(), SelfTestError> {
    let lost = |why: String| Err(SelfTestError::Lost(why));
    if mark.exists() {
        return lost("a call that was denied ran all the same".to_owned());
    }
    let returned = observed.told.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let was_asked = observed.asked.load(Ordering::SeqCst);
    match (&returned, was_asked) {
        (Some(_), false) => {
            return lost("its gate was never asked about a call that came back".to_owned());
        }
        (Some(returned), true) if !returned.contains(DENIAL_TEXT) => {
            return lost(format!("the model did not get the denial, but: {returned}"));
        }
        (Some(_) | None, _) => {}
    }
    let ended = ended?;
    if !observed.called.load(Ordering::SeqCst) {
        let why = format!("it never asked its model for anything; it ended with: {ended}");
        return Err(SelfTestError::NotAttempted(why));
    }
    if !observed.gate_connected.load(Ordering::SeqCst) {
        return lost(format!("its gate did not connect; it ended with: {ended}"));
    }
    if !was_asked {
        return lost(format!("its gate was never asked about a call; it ended with: {ended}"));
    }
    match returned {
        None => {
            let why = "nothing came back from a call that was denied";
            Err(SelfTestError::NotAttempted(format!("{why}; it ended with: {ended}")))
        }
        Some(_) => Ok(()),
    }
}

impl CallDecider for Observations {
    fn on_gate_connected(&self) {
        self.gate_connected.store(true, Ordering::SeqCst);
    }

    fn decide(&self, question: GateRequest) -> Pin<Box<dyn Future<Output = Decision> + Send + '_>> {
        self.asked.fetch_or(question.payload.contains(MARK), Ordering::SeqCst);
        let no = Decision::deny(Objection::new("bailiwick::canary", DENIAL_TEXT, "nothing"));
        Box::pin(std::future::ready(no))
    }

    fn set_only_background_work(&self, _only_background: bool) {}
}
#[cfg(test)]
mod tests;
