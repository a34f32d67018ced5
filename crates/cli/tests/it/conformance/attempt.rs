//! One attempt of an agent: while it runs, and after it has ended.

use std::process::Child;

use bailiwick_testkit::scratch::Ran;
use bailiwick_testkit::scripted_model::{INPUT_TOKENS, OUTPUT_TOKENS, ScriptedModel};
use serde_json::Value;

use super::outside;

/// An attempt that has ended.
pub(crate) struct Ended {
    pub(crate) code: i32,
    /// The output of `run` or `resume`.
    pub(crate) said: Value,
    pub(crate) errors: String,
    pub(crate) model: ScriptedModel,
}

/// A running attempt.
pub(crate) struct Working {
    /// `None` after it was waited for.
    child: Option<Child>,
    /// `None` after `end`.
    model: Option<ScriptedModel>,
}

impl Working {
    pub(crate) fn new(child: Child, model: ScriptedModel) -> Self {
        Self { child: Some(child), model: Some(model) }
    }

    /// Waits until `so` is true; panics if the attempt ends before.
    #[track_caller]
    pub(crate) fn until(&mut self, what: &str, so: impl Fn() -> bool) {
        outside::wait(what, || {
            let ended = self.child.as_mut().unwrap().try_wait().unwrap();
            if let Some(status) = ended {
                let said = self.output();
                let told = self.model.as_ref().map(ScriptedModel::results);
                panic!("it ended before {what}: {status}\n{}\n{}\n{told:#?}", said.out, said.err);
            }
            so()
        });
    }

    /// Waits for its end.
    pub(crate) fn end(mut self) -> Ended {
        let ran = self.output();
        let said = serde_json::from_str(&ran.out).unwrap_or(Value::Null);
        Ended { code: ran.code, said, errors: ran.err, model: self.model.take().unwrap() }
    }

    fn output(&mut self) -> Ran {
        Ran::from(self.child.take().unwrap().wait_with_output().unwrap())
    }

    /// Kills its supervisor with SIGKILL.
    pub(crate) fn kill(self) {
        drop(self);
    }
}

impl Drop for Working {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }
}

impl Ended {
    /// Asserts that it ended like this.
    #[track_caller]
    pub(crate) fn expect(&self, ending: &str, code: i32) {
        let told = self.model.results();
        let ended = self.said["ending"].as_str();
        let all = format!("{:#}\n{}\n{told:#?}", self.said, self.errors);
        assert_eq!((ended, self.code), (Some(ending), code), "{all}");
    }

    /// Asserts that the counted tokens are those of all answers of the model.
    pub(crate) fn tokens_of_all_answers(&self) {
        let requests = self.model.requests();
        let answers = requests.iter().filter(|request| request.status == 200).count();
        let tokens = u64::try_from(answers).unwrap() * (INPUT_TOKENS + OUTPUT_TOKENS);
        assert_eq!(self.said["tokens"], tokens, "{answers} answers: {:#}", self.said);
    }
}
