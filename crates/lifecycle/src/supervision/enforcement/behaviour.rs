//! Differences between agent CLIs that matter for enforcement; and breaches of enforcement.

use thiserror::Error;

/// The behaviour of an agent program, measured on the real one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CliBehaviour {
    /// Whether its hooks carry the model's name of the call.
    pub hooks_have_call_ids: bool,
    /// Tools that never reach a hook and change nothing, or whose parts reach it one by one.
    pub tools_without_hook: &'static [&'static str],
    /// How the CLI itself refuses a call before any hook: the beginnings of the result for the model.
    pub own_refusal_prefixes: &'static [&'static str],
    /// What the first line of a denied result contains: words of the CLI that no tool can print there. Empty if
    /// there are none.
    pub denial_marker: &'static str,
    /// Whether it shows the model less of earlier results as a conversation grows.
    pub truncates_old_results: bool,
    /// What happens to calls in an incomplete response.
    pub unfinished: IncompleteCalls,
    /// Whether it reports every command, patch and server call that it runs, so that an undecided one ran unseen.
    pub reports_commands: bool,
    /// The tool whose input is code that makes calls, and the prefix of their names: the model does not request them
    /// by name.
    pub code_mode: Option<(&'static str, &'static str)>,
}

/// What a CLI does with complete calls in an incomplete response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IncompleteCalls {
    /// It runs them as it runs any other.
    Runs,
    /// It runs none of them where the connection broke off, and all where the answer just stopped.
    RunsUnlessBroken,
    /// It runs some and drops others, and reports each call that it ran by ID.
    ReportsRun,
}

/// The evidence that a call bypassed a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Evidence {
    /// Its result was returned to the model.
    ResultReturned,
    /// A result was returned for a call that the model did not request.
    GateNotAsked,
    /// The CLI reports that it ran.
    ProgramReported,
    /// The CLI exited without accounting for it.
    Unaccounted,
}

/// A limit may not have been in force.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("the call {id} of {tool} {}", self.why())]
pub struct EnforcementBreach {
    /// The model's name of the call.
    pub id: String,
    /// The tool.
    pub tool: String,
    /// Whether the gate denied it; otherwise it was never asked.
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
    fn message_names_the_call_and_only_known_facts() {
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
