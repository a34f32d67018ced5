//! Records what the calls of the corpus really do.
//!
//! `record-truth [--check | --all] [gate…]`: runs every case that has no truth yet or was changed
//! since (`--all`: every case) and writes `crates/policy/tests/corpus/truth/<gate>.jsonl`.
//! `--check` runs nothing and fails when a case has no truth, or one that belongs to another text.
//!
//! Each case runs with real bash in a fresh copy of the fixture, inside a sandbox of bubblewrap
//! (own user, mount, process and network namespaces; the system read-only; private home and /tmp)
//! and under strace. git is the real one: in a throwaway repository without a network it can do no
//! harm, and its writes below `.git` are part of the truth. Programs that would need the network
//! are stubs, see `stubs.rs`. Whether a call was forbidden is worked out in `rules.rs`.

mod facts;
mod rules;
mod sandbox;
mod stubs;
mod tool_call;
mod trace;
mod view;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use bailiwick_testkit::corpus::{self, Case, Truth};

/// Which cases are run.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Check,
    Changed,
    All,
}

fn main() -> ExitCode {
    let mut mode = Mode::Changed;
    let mut gates: Vec<String> = Vec::new();
    for argument in std::env::args().skip(1) {
        match argument.as_str() {
            "--check" => mode = Mode::Check,
            "--all" => mode = Mode::All,
            gate if corpus::GATES.contains(&gate) => gates.push(gate.to_owned()),
            other => {
                eprintln!("{other:?} is no gate: give --check, --all or {:?}", corpus::GATES);
                return ExitCode::from(2);
            }
        }
    }
    if gates.is_empty() {
        gates = corpus::GATES.map(str::to_owned).to_vec();
    }
    let problems: usize = match mode {
        Mode::Check => gates.iter().map(|gate| check(gate)).sum(),
        Mode::Changed | Mode::All => {
            let missing = sandbox::missing_tools();
            if !missing.is_empty() {
                eprintln!("missing: {}: install these packages and run again", missing.join(", "));
                return ExitCode::from(2);
            }
            gates.iter().map(|gate| record(gate, mode)).sum()
        }
    };
    if problems == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Compares cases and truth without running anything.
fn check(gate: &str) -> usize {
    let cases = corpus::of(gate);
    let bad = cases.iter().filter(|case| !is_fresh(case));
    bad.map(|case| eprintln!("{gate}/{}: no truth for this text: run record-truth", case.id))
        .count()
}

fn is_fresh(case: &Case) -> bool {
    case.truth.as_ref().is_some_and(|truth| truth.digest == case.digest())
}

/// Runs what has to be run and writes the truth of the gate.
fn record(gate: &str, mode: Mode) -> usize {
    let cases = corpus::of(gate);
    let tools = facts::Tools::observe();
    let next = AtomicUsize::new(0);
    let done: Mutex<Vec<(usize, Result<Truth, String>)>> = Mutex::new(Vec::new());
    let work = || {
        loop {
            let at = next.fetch_add(1, Ordering::SeqCst);
            let Some(case) = cases.get(at) else { return };
            let result = match &case.truth {
                Some(truth) if mode == Mode::Changed && is_fresh(case) => Ok(truth.clone()),
                _ => run(case, &tools),
            };
            done.lock().expect("no thread panics while it holds this").push((at, result));
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(work);
        }
    });
    let mut done = done.into_inner().expect("all threads have ended");
    done.sort_by_key(|(at, _)| *at);
    write(gate, &cases, &done)
}

fn write(gate: &str, cases: &[Case], done: &[(usize, Result<Truth, String>)]) -> usize {
    let (mut text, mut problems, mut forbidden, mut harmless) = (String::new(), 0, 0, 0);
    for (case, (_, result)) in cases.iter().zip(done) {
        match result {
            Ok(truth) => {
                forbidden += usize::from(truth.forbidden);
                harmless += usize::from(!truth.forbidden);
                if truth.forbidden == case.is_meant_harmless() {
                    problems += 1;
                    eprintln!(
                        "{gate}/{}: not as its class says: {} (exit {})",
                        case.id, truth.reason, truth.status
                    );
                }
                text.push_str(&serde_json::to_string(truth).expect("a truth is JSON"));
                text.push('\n');
            }
            Err(why) => {
                problems += 1;
                eprintln!("{gate}/{}: not recorded: {why}", case.id);
            }
        }
    }
    let file: PathBuf = corpus::truth_file(gate);
    std::fs::create_dir_all(file.parent().expect("a parent")).expect("a directory");
    std::fs::write(&file, text).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    println!(
        "{gate}: {} cases, {forbidden} forbidden, {harmless} harmless, {problems} problems",
        cases.len()
    );
    problems
}

/// Runs one case and works out what it did.
fn run(case: &Case, tools: &facts::Tools) -> Result<Truth, String> {
    let seen = sandbox::run(case, tools)?;
    let verdict = rules::judge(&case.gate, &seen);
    let (forbidden, reason) = match verdict {
        Some(reason) => (true, reason),
        None => (false, "nothing forbidden was seen".to_owned()),
    };
    Ok(Truth {
        id: case.id.clone(),
        digest: case.digest(),
        forbidden,
        reason,
        status: seen.status,
        programs: seen.programs(),
        writes: seen.writes(),
    })
}
