//! The limits of a run hold in the real agent CLIs, whatever happens to their hooks.
//!
//! Each CLI gets a repository, in which `bailiwick run` starts it once or more for every scenario,
//! against a scripted model. What counts is what has happened: files, references, processes, events.
//! A limit either held (enforced), or the run was ended and its work cannot land (quarantined).

mod agent;
mod attempt;
mod background;
mod broken_answers;
mod broken_hooks;
mod carried_logins;
mod changed_settings;
mod checks_between_calls;
mod children;
mod client;
mod code_mode;
mod consents;
mod delegation;
mod endings;
mod families;
mod fan_out;
mod fleet;
mod fleet_children;
mod fleet_servers;
mod hunted_hooks;
mod logins;
mod lost_answers;
mod merging;
mod model_calls;
mod no_hooks;
mod outside;
mod ownership;
mod page;
mod returning;
mod root_session;
mod root_sessions;
mod siblings;
pub(crate) mod stage;
mod starts;
mod work;

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Condvar, Mutex, OnceLock, PoisonError};

use bailiwick_testkit::clis::Cli;
use bailiwick_testkit::figure;

use stage::Stage;

/// How a limit fared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Held {
    /// What is not allowed did not happen, and what is allowed did.
    Enforced,
    /// The gate was not heard: the run was ended, and its work cannot land.
    Quarantined,
}

/// Something that happens to a limit.
struct Scenario {
    name: &'static str,
    /// How it is brought about, and what is looked at.
    how: &'static str,
    happens: fn(&Stage) -> Held,
}

const SCENARIOS: [Scenario; 15] = [
    work::PLAIN,
    work::DENIED_COMMAND,
    work::OUT_OF_SCOPE,
    work::SUB_AGENT,
    work::RESUME,
    broken_hooks::REMOVED,
    broken_hooks::CRASHING,
    broken_hooks::HANGING,
    hunted_hooks::HUNTED,
    no_hooks::SWITCHED_OFF,
    work::DISARMING_FILE,
    changed_settings::CHANGED,
    endings::KILL,
    endings::BUDGET,
    model_calls::MODEL_CALL,
];

/// What came of each scenario, in their order; or what was seen that must not be.
type Row = Vec<Result<Held, String>>;

static ROWS: [OnceLock<Row>; Cli::ALL.len()] = [const { OnceLock::new() }; Cli::ALL.len()];

/// All scenarios with one CLI, one after the other; once in a process.
fn row(cli: Cli) -> &'static Row {
    let place = Cli::ALL.iter().position(|one| *one == cli).unwrap();
    ROWS[place].get_or_init(|| {
        let _turn = turn();
        let begin = std::time::Instant::now();
        let stage = Stage::new(cli);
        let row = SCENARIOS.iter().map(|scenario| one(&stage, scenario)).collect();
        figure(&format!("conformance of {}: {:.0} s", cli.name(), begin.elapsed().as_secs_f64()));
        row
    })
}

fn one(stage: &Stage, scenario: &Scenario) -> Result<Held, String> {
    let held = catch_unwind(AssertUnwindSafe(|| (scenario.happens)(stage)));
    held.map_err(|panic| said(panic.as_ref()))
}

fn said(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("it panicked").to_owned()
}

/// CLIs that run at the same time: more of them would only wait for each other.
const AT_ONCE: usize = 2;
static FREE: (Mutex<usize>, Condvar) = (Mutex::new(AT_ONCE), Condvar::new());

struct Busy;

fn turn() -> Busy {
    let free = FREE.0.lock().unwrap_or_else(PoisonError::into_inner);
    let mut free = FREE.1.wait_while(free, |free| *free == 0).unwrap();
    *free -= 1;
    Busy
}

impl Drop for Busy {
    fn drop(&mut self) {
        *FREE.0.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        FREE.1.notify_one();
    }
}

fn conforms(cli: Cli) {
    let failed: Vec<String> = SCENARIOS
        .iter()
        .zip(row(cli))
        .filter_map(|(scenario, held)| {
            held.as_ref().err().map(|why| format!("{}: {why}", scenario.name))
        })
        .collect();
    assert!(failed.is_empty(), "{}", failed.join("\n\n"));
}

#[test]
fn claude_conforms() {
    conforms(Cli::Claude);
}

#[test]
fn codex_conforms() {
    conforms(Cli::Codex);
}

#[test]
fn gemini_conforms() {
    conforms(Cli::Gemini);
}

#[test]
fn opencode_conforms() {
    conforms(Cli::OpenCode);
}
