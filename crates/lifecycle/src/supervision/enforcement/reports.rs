//! Reports of the program itself: each call that it reports as run must have been allowed.

use serde_json::Value;

use super::calls::{Call, can_mean_path, command_of, is_valid_tool_name, named_files};
use super::{CallTracker, EnforcementBreach, Evidence};

/// The tool in breaches by commands, which are reported without one.
const SHELL: &str = "the shell";

impl CallTracker {
    /// The program reports the result of a call. If the attempt ends before the next model request, this is the
    /// only evidence that an undecided call has run, in this attempt or an earlier one.
    ///
    /// It is independent evidence, too: a process in the sandbox can send its own model request with a forged
    /// denial, so that the real result counts as known later.
    pub fn on_reported_result(&mut self, id: &str, output: &str, failed: bool) {
        let Some(call) = self.requested.get(id) else { return };
        let was_refused = failed && self.was_refused(output);
        if self.is_unhooked(&call.tool) || was_refused {
            return;
        }
        let is_decided = !self.behaviour.hooks_have_call_ids || self.decided.contains(id);
        let denial = self.denials.get(id).filter(|_| self.behaviour.hooks_have_call_ids);
        let is_denied = denial.is_some_and(|rule| !self.reports_denial(rule, output, Some(failed)));
        if !is_decided || is_denied {
            let tool = call.tool.clone();
            self.add_breach(id, &tool, is_denied);
        }
    }

    /// The CLI reports a command as run, under any id: even one from code of its model, which the proxy does not
    /// see. A denied command may run only as often as it was allowed.
    pub fn on_reported_command(&mut self, command: &str) {
        let command = command.trim();
        let Some(tally) = self.command_tallies.get_mut(command) else {
            if self.behaviour.reports_commands {
                self.add_breach(command, SHELL, false);
            }
            return;
        };
        tally.ran = tally.ran.saturating_add(1);
        if tally.denied > 0 && tally.ran > tally.allowed() {
            self.add_breach(command, SHELL, true);
        }
    }

    /// The CLI reports a call under its own id. As with commands, calls from code of its model are visible nowhere
    /// else: files are changed by an allowed patch, and a server is called as often as was allowed.
    pub fn on_reported_call(&mut self, tool: &str, input: &Value) {
        if !self.behaviour.reports_commands {
            return;
        }
        let changes = input.get("changes").and_then(Value::as_array);
        let (is_permitted, is_denied) = match (command_of(input), changes) {
            _ if tool.starts_with("mcp__") => self.count_server_call(tool, input),
            (_, Some(changes)) => (self.take_patch(changes), false),
            // A denial is checked when the command has ended.
            (Some(command), None) => (self.command_tallies.contains_key(&command), false),
            (None, None) => (true, false),
        };
        if !is_permitted {
            let id = command_of(input).unwrap_or_else(|| input.to_string());
            self.add_breach(&id, tool, is_denied);
        }
    }

    /// Whether a server may be called once more, and whether such a call was denied. Where hooks cannot name
    /// the tool, any call with this input counts for it.
    fn count_server_call(&mut self, tool: &str, input: &Value) -> (bool, bool) {
        let reported = Call::normalized(tool, input);
        let must_match_tool = is_valid_tool_name(tool) || self.call_tallies.contains_key(&reported);
        let mut is_denied = false;
        for (decided, tally) in &mut self.call_tallies {
            let is_same = decided.input == reported.input
                && (!must_match_tool || decided.tool == reported.tool);
            if !is_same {
                continue;
            }
            is_denied = is_denied || tally.denied > 0;
            if tally.ran < tally.allowed() {
                tally.ran = tally.ran.saturating_add(1);
                return (true, is_denied);
            }
        }
        (false, is_denied)
    }

    /// Uses up an allowed patch that makes exactly these changes.
    fn take_patch(&mut self, changes: &[Value]) -> bool {
        let path = |change: &Value| change.get("path").and_then(Value::as_str).map(str::to_owned);
        let Some(paths) = changes.iter().map(path).collect::<Option<Vec<_>>>() else {
            return false;
        };
        let names_all_paths = |patch: &String| {
            paths.iter().all(|path| named_files(patch).any(|name| can_mean_path(name, path)))
        };
        // A patch that names more files may be for another change.
        let names_only_paths = |patch: &String| {
            named_files(patch).all(|name| paths.iter().any(|path| can_mean_path(name, path)))
        };
        let patches = &self.allowed_patches;
        let place = patches
            .iter()
            .position(|patch| names_all_paths(patch) && names_only_paths(patch))
            .or_else(|| patches.iter().position(names_all_paths));
        place.map(|place| self.allowed_patches.remove(place)).is_some()
    }

    fn add_breach(&mut self, id: &str, tool: &str, denied: bool) {
        self.reported_breaches.push(EnforcementBreach {
            id: id.to_owned(),
            tool: tool.to_owned(),
            denied,
            evidence: Evidence::ProgramReported,
        });
    }
}
