//! What agent programs do, as far as it matters for whether they are held; and the loss of a limit.

use thiserror::Error;

/// The behaviour of an agent program, measured on the real one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CliBehaviour {
    /// Whether its hooks carry the model's name of the call.
    pub hooks_have_call_ids: bool,
    /// Tools that never reach a hook and touch nothing, or whose parts reach it one by one.
    pub unhooked: &'static [&'static str],
    /// How the program itself refuses a call before any hook: the beginnings of what the model is told.
    pub refusals: &'static [&'static str],
    /// What the first line has in which the model reads of a denial: words of the program, which no
    /// tool that ran can print there. Empty where it has none.
    pub denial: &'static str,
    /// Whether it shows the model less of earlier results as a conversation grows.
    pub truncates_old_results: bool,
    /// What becomes of calls in an incomplete answer.
    pub unfinished: IncompleteCalls,
    /// Whether it says of every command, patch and call of a server that it runs it, so that one which
    /// nobody decided ran unseen.
    pub reports_commands: bool,
    /// The tool whose input is code that makes calls, and how the names of those begin: the model has
    /// not asked for them by name.
    pub code_mode: Option<(&'static str, &'static str)>,
}

/// What a program does with complete calls of an incomplete response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IncompleteCalls {
    /// It runs them as it runs any other.
    Runs,
    /// It runs none of them where the connection broke off, and all where the answer just stopped.
    RunsUnlessBroken,
    /// It runs some and drops others. Of all that it has run, it says so by the name of the call.
    ReportsRun,
}

/// The evidence that a call bypassed a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Evidence {
    /// Its result came back to the model.
    ResultReturned,
    /// A result came back of a call that the model has not asked for.
    GateNotAsked,
    /// The program itself says that it has run it.
    ProgramReported,
    /// The program has ended without a word about it.
    Unaccounted,
}

/// A limit may not have held.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("the call {id} of {tool} {}", self.why())]
pub struct EnforcementBreach {
    /// The model's name of the call.
    pub id: String,
    /// The tool.
    pub tool: String,
    /// Whether the gate had denied it; otherwise it was never asked.
    pub denied: bool,
    /// How it is known.
    pub evidence: Evidence,
}

impl EnforcementBreach {
    fn why(&self) -> &'static str {
        match (self.evidence, self.denied) {
            (Evidence::ResultReturned, false) => {
                "came back with a result, and the gate was never asked about it"
            }
            (Evidence::ResultReturned, true) => {
                "came back with a result, and the gate had denied it, of which the model was not told"
            }
            (Evidence::GateNotAsked, false | true) => {
                "came back with a result, and the model never asked for it"
            }
            (Evidence::ProgramReported, false) => {
                "was run, as the program itself says, and the gate was never asked about it"
            }
            (Evidence::ProgramReported, true) => {
                "was run, as the program itself says, and the gate had denied it"
            }
            (Evidence::Unaccounted, false | true) => {
                "may have run: the model asked for it, and the program ended without asking the gate about \
                 it or returning a result"
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_message_names_the_call_and_claims_no_more_than_is_known() {
        let message = |evidence, denied| {
            let (id, tool) = ("call_1".to_owned(), "Bash".to_owned());
            EnforcementBreach { id, tool, denied, evidence }.to_string()
        };
        for evidence in [
            Evidence::ResultReturned,
            Evidence::GateNotAsked,
            Evidence::ProgramReported,
            Evidence::Unaccounted,
        ] {
            for denied in [false, true] {
                let message = message(evidence, denied);
                assert!(message.starts_with("the call call_1 of Bash "), "{message}");
                let on_result =
                    matches!(evidence, Evidence::ResultReturned | Evidence::GateNotAsked);
                assert_eq!(message.contains("came back with a result"), on_result, "{message}");
            }
        }
        assert!(message(Evidence::Unaccounted, false).contains("may have run"));
    }
}
