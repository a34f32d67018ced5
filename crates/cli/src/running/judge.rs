//! Judging the calls of a run: from outside of its sandbox, by its policy.

use std::path::{Path, PathBuf};
use std::sync::Mutex;

use bailiwick_control::delegation::consent::shown;
use bailiwick_control::ports::{Judge, Judgement};
use bailiwick_control::supervision::Redaction;
use bailiwick_gate::{Surroundings, append, judged};
use bailiwick_policy::protocol::Question;
use bailiwick_policy::record::KeptCall;
use bailiwick_policy::tool_lists::own;
use bailiwick_policy::{Decision, Policy};
use serde_json::Value;

/// Decides by one policy, and keeps every decision with what was known.
pub struct PolicyJudge {
    /// The policy.
    pub policy: Policy,
    /// Its digest.
    pub digest: String,
    /// The agent's worktree.
    pub worktree: PathBuf,
    /// The agent's home.
    pub home: PathBuf,
    /// Names of its MCP servers.
    pub servers: Vec<String>,
    /// What must not be seen in the log.
    pub redaction: Redaction,
    /// Where decisions are kept; written by one at a time.
    pub log: Mutex<PathBuf>,
}

impl Judge for PolicyJudge {
    fn judge(&self, question: &Question) -> Judgement {
        match self.decided(question) {
            Ok(judgement) => judgement,
            Err(why) => Judgement {
                decision: Decision::unreadable(why.clone()),
                call: KeptCall::unreadable(&why),
                input: Value::Null,
                words: None,
            },
        }
    }
}

impl PolicyJudge {
    fn decided(&self, question: &Question) -> Result<Judgement, String> {
        let directory = match question.directory.as_str() {
            "" => self.worktree.as_path(),
            named => Path::new(named),
        };
        let surroundings = Surroundings::at(&self.worktree, directory)?.with_home(&self.home);
        let payload = question.payload.as_bytes();
        let dialect = (question.dialect, self.servers.as_slice());
        let mut record = judged(&self.policy, &self.digest, dialect, payload, &surroundings);
        record.call.command = record.call.command.map(|command| self.redaction.clean(&command));
        let log = self.log.lock().map_err(|_| "the log of decisions is lost".to_owned())?;
        append(&log, &record)?;
        drop(log);
        let value: Value = serde_json::from_str(&question.payload).unwrap_or_default();
        let input = ["tool_input", "args"].iter().find_map(|key| value.get(key));
        let input = input.cloned().unwrap_or_default();
        let ours = record.call.tools.iter().any(|tool| own(tool).is_some());
        let words = ours.then(|| shown(&input, |text| self.redaction.clean(text)));
        Ok(Judgement { decision: record.decision, call: record.call, input, words })
    }
}
