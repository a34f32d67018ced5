//! The hook program: asks the supervisor, or decides alone from a policy file.
//!
//! Small, synchronous, fast. Every failure is a denial: exit 2 with a reason on standard error, which every CLI
//! honours. All input comes from arguments; nothing that an agent can set changes what is enforced.

mod ancestors;
mod arguments;
mod error;
mod evaluate;
mod forward;
mod log;
mod observe;
mod standalone;
mod watchdog;

use std::ffi::OsString;
use std::io::{self, Read as _, Write as _};
use std::process::ExitCode;

use bailiwick_policy::dialects::{AllowedReply, HookReply, MAX_PAYLOAD_SIZE};

pub use ancestors::{Process, ancestors};
pub use arguments::USAGE;
pub use error::{GateError, HostError, LogError};
pub use evaluate::evaluate_call;
pub use log::append;
pub use observe::{HostContext, look_up, look_up_in_root, repository_around};

/// Runs the gate with these arguments.
pub fn run(arguments: impl Iterator<Item = OsString>) -> ExitCode {
    watchdog::deny_on_panic();
    let answer = match arguments::parse(arguments) {
        Ok(arguments::Invocation::Help) => {
            HookReply { exit: 0, stdout: USAGE.to_owned(), stderr: String::new() }
        }
        Ok(arguments::Invocation::Decide(options)) => {
            watchdog::within(options.deadline, move || answer(&options))
        }
        Err(problem) => watchdog::refused(&problem.to_string()),
    };
    print(&answer)
}

fn answer(options: &arguments::Options) -> HookReply {
    let payload = match read(&mut io::stdin().lock()) {
        Ok(payload) => payload,
        Err(problem) => return watchdog::refused(&problem.to_string()),
    };
    make_room(payload.len());
    let decision = match &options.mode {
        arguments::Mode::Standalone(standalone) => {
            standalone::decide(options, standalone, &payload)
        }
        arguments::Mode::Forward(socket) => forward::ask(options, socket, &payload),
    };
    // The start of a session prints nothing: a CLI would pass the output to the agent.
    let allowing = if options.announces { AllowedReply::Silent } else { options.allowing };
    options.dialect.answer(&decision, allowing)
}

/// Grows the heap of this thread in a few large steps, because glibc asks the kernel for each page.
fn make_room(payload: usize) {
    const BLOCK: usize = 120 * 1024;
    const MAX_BLOCKS: usize = 16;
    let count = (1 + payload / 1024).min(MAX_BLOCKS);
    let blocks: Vec<Vec<u8>> = (0..count).map(|_| Vec::with_capacity(BLOCK)).collect();
    drop(std::hint::black_box(blocks));
}

/// Does the work as the gate does: a panic or a missed deadline is a denial.
pub fn run_with_deadline(work: impl FnOnce() -> HookReply + Send + 'static) -> ExitCode {
    watchdog::deny_on_panic();
    print(&watchdog::within(arguments::DEADLINE, work))
}

/// Prints a note that changes no answer.
pub fn print_note(text: &str) {
    let _ = writeln!(io::stderr(), "{text}");
}

/// Reads the payload to its end; one that is too large is not read further.
pub fn read(input: &mut impl io::Read) -> Result<Vec<u8>, GateError> {
    let most = u64::try_from(MAX_PAYLOAD_SIZE).unwrap_or(u64::MAX).saturating_add(1);
    let mut payload = Vec::with_capacity(16 * 1024);
    input.take(most).read_to_end(&mut payload).map_err(GateError::UnreadableCall)?;
    Ok(payload)
}

/// Prints an answer; one that cannot be printed is a denial.
pub fn print(answer: &HookReply) -> ExitCode {
    let reported = io::stderr().write_all(answer.stderr.as_bytes());
    let answered =
        io::stdout().write_all(answer.stdout.as_bytes()).and_then(|()| io::stdout().flush());
    if answered.is_err() || (reported.is_err() && answer.exit != 0) {
        return ExitCode::from(2);
    }
    ExitCode::from(answer.exit)
}
