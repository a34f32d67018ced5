//! One attempt of an agent: while it runs, and after it has ended.

use std::process::Child;

use bailiwick_testkit::scratch::Ran;
use bailiwick_testkit::scripted_model::{INPUT_TOKENS, OUTPUT_TOKENS, ScriptedModel};
use serde_json::Value;

use super::outside;

/// An attempt that has ended.
pub(crate) struct Ended {
    pub(crate) code: i32,
    /// The JSON output of `run` or `resume`.
    pub(crate) report: Value,
    pub(crate) errors: String,
    pub(crate) model: ScriptedModel,
}

/// A running attempt.
pub(crate) struct RunningAttempt {
    /// `None` after its end.
    child: Option<Child>,
    /// `None` after `end`.
    model: Option<ScriptedModel>,
}

impl RunningAttempt {
    pub(crate) fn new(child: Child, model: ScriptedModel) -> Self {
        Self { child: Some(child), model: Some(model) }
    }

    /// Waits until `condition` is true; panics if the attempt ends before.
    #[track_caller]
    pub(crate) fn wait_until(&mut self, what: &str, condition: impl Fn() -> bool) {
        outside::wait_until(what, || {
            let status = self.child.as_mut().unwrap().try_wait().unwrap();
            if let Some(status) = status {
                let output = self.output();
                let results = self.model.as_ref().map(ScriptedModel::results);
                panic!(
                    "it ended before {what}: {status}\n{}\n{}\n{results:#?}",
                    output.out, output.err
                );
            }
            condition()
        });
    }

    /// Waits for its end.
    pub(crate) fn end(mut self) -> Ended {
        let ran = self.output();
        let report = serde_json::from_str(&ran.out).unwrap_or(Value::Null);
        Ended { code: ran.code, report, errors: ran.err, model: self.model.take().unwrap() }
    }

    fn output(&mut self) -> Ran {
        Ran::from(self.child.take().unwrap().wait_with_output().unwrap())
    }

    /// Kills its supervisor with SIGKILL.
    pub(crate) fn kill(self) {
        drop(self);
    }
}

impl Drop for RunningAttempt {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }
}

impl Ended {
    /// Asserts how it ended, and its exit code.
    #[track_caller]
    pub(crate) fn expect(&self, ending: &str, code: i32) {
        let results = self.model.results();
        let ended = self.report["ending"].as_str();
        let details = format!("{:#}\n{}\n{results:#?}", self.report, self.errors);
        assert_eq!((ended, self.code), (Some(ending), code), "{details}");
    }

    /// Asserts that the reported tokens are those of all responses of the model.
    pub(crate) fn expect_tokens_of_all_responses(&self) {
        let requests = self.model.requests();
        let responses = requests.iter().filter(|request| request.status == 200).count();
        let tokens = u64::try_from(responses).unwrap() * (INPUT_TOKENS + OUTPUT_TOKENS);
        assert_eq!(self.report["tokens"], tokens, "{responses} responses: {:#}", self.report);
    }
}
