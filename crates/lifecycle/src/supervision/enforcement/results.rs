//! Results in model requests: each must belong to a decided call, and report its denial.

use super::calls::Call;
use super::{CallTracker, EnforcementBreach, Evidence, UnresolvedCall};

const UNKNOWN_TOOL: &str = "an unknown tool";

impl CallTracker {
    /// A result of an earlier attempt.
    pub fn add_known_result(&mut self, id: &str) {
        if let Some(call) = self.requested.get(id).cloned() {
            self.consume_decision(&call);
        }
        self.returned.insert(id.to_owned());
    }

    /// A result is in a model request; returns whether it is new, as every request repeats the whole
    /// conversation.
    ///
    /// `failed` is the mark in the request, where its format has one: a result that is marked as successful
    /// was not refused, whatever its text.
    pub fn on_result(
        &mut self,
        id: &str,
        tool: Option<&str>,
        output: &str,
        failed: Option<bool>,
    ) -> Result<bool, EnforcementBreach> {
        if !self.returned.insert(id.to_owned()) {
            return self.on_repeated_result(id, tool, output, failed);
        }
        if self.reports_denial_of(id, output, failed) {
            self.reported_not_run.insert(id.to_owned());
        }
        let requested = self.requested.get(id).cloned();
        let tool = requested.as_ref().map(|call| call.tool.as_str()).or(tool);
        let tool = tool.unwrap_or(UNKNOWN_TOOL).to_owned();
        self.resolve(id, &tool);
        let was_refused = failed != Some(false) && self.was_refused(output);
        if self.is_unhooked(&tool) || was_refused {
            return Ok(true);
        }
        // Without call ids in hooks the model's id is not known here.
        let is_known = requested.is_some() || !self.behaviour.hooks_have_call_ids;
        let (is_decided, reports_denial) = if self.behaviour.hooks_have_call_ids {
            let reports = |rule: &String| self.reports_denial(rule, output, failed);
            (self.decided.contains(id), self.denials.get(id).is_none_or(reports))
        } else {
            match requested.or_else(|| self.take_decided_call_without_id(&tool)) {
                Some(call) => {
                    (self.consume_decision(&call), self.matches_denials(&call, output, failed))
                }
                None => (false, false),
            }
        };
        if is_decided && reports_denial {
            return Ok(true);
        }
        let evidence = if is_known { Evidence::ResultReturned } else { Evidence::GateNotAsked };
        Err(EnforcementBreach { id: id.to_owned(), tool, denied: is_decided, evidence })
    }

    /// A result that was there before. A process in the sandbox can report to the model that a call did not
    /// run; if the program reports otherwise later, the call did run.
    fn on_repeated_result(
        &self,
        id: &str,
        tool: Option<&str>,
        output: &str,
        failed: Option<bool>,
    ) -> Result<bool, EnforcementBreach> {
        let contradicts_earlier =
            self.reported_not_run.contains(id) && !self.reports_denial_of(id, output, failed);
        if self.behaviour.truncates_old_results || !contradicts_earlier {
            return Ok(false);
        }
        let tool = self.requested.get(id).map(|call| call.tool.as_str()).or(tool);
        let tool = tool.unwrap_or(UNKNOWN_TOOL).to_owned();
        let (id, denied) = (id.to_owned(), self.denials.contains_key(id));
        Err(EnforcementBreach { id, tool, denied, evidence: Evidence::ResultReturned })
    }

    /// Removes the open call that this result belongs to.
    fn resolve(&mut self, id: &str, tool: &str) {
        let is_own = |open: &UnresolvedCall| match open.id.as_str() {
            "" => open.call.tool == tool,
            open_id => open_id == id,
        };
        if let Some(place) = self.unresolved.iter().position(is_own) {
            self.unresolved.remove(place);
        }
    }

    /// Consumes one decision: it is for one call.
    fn consume_decision(&mut self, call: &Call) -> bool {
        match self.decisions_without_id.get_mut(call) {
            Some(remaining @ 1..) => {
                *remaining -= 1;
                true
            }
            Some(0) | None => false,
        }
    }

    /// Takes the first decided call of this tool without an id.
    fn take_decided_call_without_id(&mut self, tool: &str) -> Option<Call> {
        let decisions = &self.decisions_without_id;
        let is_decided = |call: &Call| {
            call.tool == tool && decisions.get(call).is_some_and(|remaining| *remaining > 0)
        };
        let place = self.requested_without_id.iter().position(is_decided)?;
        Some(self.requested_without_id.remove(place))
    }

    /// Whether this can be the result of a call without an id: the remaining denials must still be
    /// reported.
    fn matches_denials(&mut self, call: &Call, output: &str, failed: Option<bool>) -> bool {
        let remaining = self.decisions_without_id.get(call).copied().unwrap_or_default();
        let Some(denials) = self.denials_without_id.get(call) else { return true };
        let place = denials.iter().position(|rule| self.reports_denial(rule, output, failed));
        let Some(denials) = self.denials_without_id.get_mut(call) else { return true };
        if let Some(place) = place {
            denials.remove(place);
            return true;
        }
        u64::try_from(denials.len()).is_ok_and(|denials| denials <= remaining)
    }

    /// Whether the model receives that the call was denied, or refused by the CLI itself.
    fn reports_denial_of(&self, id: &str, output: &str, failed: Option<bool>) -> bool {
        let is_denied =
            self.denials.get(id).is_some_and(|rule| self.reports_denial(rule, output, failed));
        is_denied || failed != Some(false) && self.was_refused(output)
    }

    /// Whether the output reports a denial by this rule: in the program's wording, and marked as a failure where
    /// the format can do that.
    pub(super) fn reports_denial(&self, rule: &str, output: &str, failed: Option<bool>) -> bool {
        let first_line = output.trim_start().lines().next().unwrap_or_default();
        failed != Some(false)
            && first_line.contains(self.behaviour.denial_marker)
            && output.contains(rule)
    }

    /// Whether the program itself refused the call, before any hook.
    pub(super) fn was_refused(&self, output: &str) -> bool {
        let output = output.trim_start();
        self.behaviour.own_refusal_prefixes.iter().any(|beginning| output.starts_with(beginning))
    }
}
