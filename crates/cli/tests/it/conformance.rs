//! The limits of a run apply in the real agent CLIs, whatever happens to their hooks.
//!
//! Each CLI gets a repository, in which `bailiwick run` starts it at least once for every scenario,
//! with a scripted model. The tests assert effects: files, references, processes, events.
//! Either a limit was enforced, or the run was stopped and its work cannot land (quarantined).

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

/// The outcome of a scenario.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    /// Forbidden calls had no effect, and allowed calls had theirs.
    Enforced,
    /// The gate was lost: the run was stopped, and its work cannot land.
    Quarantined,
}

/// An event that could disable a limit.
struct Scenario {
    name: &'static str,
    /// How the test causes it, and what it asserts.
    how: &'static str,
    run_scenario: fn(&Stage) -> Outcome,
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

/// The outcome of each scenario, in order, or the message of its failure.
type Row = Vec<Result<Outcome, String>>;

static ROWS: [OnceLock<Row>; Cli::ALL.len()] = [const { OnceLock::new() }; Cli::ALL.len()];

/// Runs all scenarios with one CLI, one after the other, once in a process.
fn row(cli: Cli) -> &'static Row {
    let index = Cli::ALL.iter().position(|other| *other == cli).unwrap();
    ROWS[index].get_or_init(|| {
        let _slot = wait_for_slot();
        let started = std::time::Instant::now();
        let stage = Stage::new(cli);
        let row = SCENARIOS.iter().map(|scenario| outcome_of(&stage, scenario)).collect();
        figure(&format!("conformance of {}: {:.0} s", cli.name(), started.elapsed().as_secs_f64()));
        row
    })
}

fn outcome_of(stage: &Stage, scenario: &Scenario) -> Result<Outcome, String> {
    let outcome = catch_unwind(AssertUnwindSafe(|| (scenario.run_scenario)(stage)));
    outcome.map_err(|panic| panic_message(panic.as_ref()))
}

fn panic_message(panic: &(dyn Any + Send)) -> String {
    let message = panic.downcast_ref::<String>().map(String::as_str);
    message.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("it panicked").to_owned()
}

/// More CLIs at the same time would only slow each other down.
const MAX_CONCURRENT_CLIS: usize = 2;
static FREE: (Mutex<usize>, Condvar) = (Mutex::new(MAX_CONCURRENT_CLIS), Condvar::new());

struct Slot;

fn wait_for_slot() -> Slot {
    let free = FREE.0.lock().unwrap_or_else(PoisonError::into_inner);
    let mut free = FREE.1.wait_while(free, |free| *free == 0).unwrap();
    *free -= 1;
    Slot
}

impl Drop for Slot {
    fn drop(&mut self) {
        *FREE.0.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        FREE.1.notify_one();
    }
}

fn conforms(cli: Cli) {
    let failed: Vec<String> = SCENARIOS
        .iter()
        .zip(row(cli))
        .filter_map(|(scenario, outcome)| {
            outcome.as_ref().err().map(|why| format!("{}: {why}", scenario.name))
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
