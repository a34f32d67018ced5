//! A program that speaks MCP to `bailiwick mcp`, as a person's own agent program does.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use bailiwick_testkit::scripted_model::ScriptedModel;
use serde_json::{Value, json};

use super::stage::Stage;

/// `bailiwick mcp` at work.
pub(crate) struct Client {
    pub(crate) child: Child,
    to: Option<ChildStdin>,
    from: BufReader<ChildStdout>,
    number: u64,
    /// Answers that came before anybody waited for them.
    early: BTreeMap<u64, Value>,
}

impl Client {
    /// Starts it, for a program that has this model.
    pub(crate) fn start(stage: &Stage, model: &ScriptedModel) -> Self {
        Self::of(stage.command(Some(model), None))
    }

    /// Starts it by this command.
    pub(crate) fn of(command: Command) -> Self {
        Self::with(command, &[])
    }

    /// The same with more arguments.
    pub(crate) fn with(mut command: Command, more: &[&str]) -> Self {
        command.arg("mcp").args(more).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let to = child.stdin.take();
        let from = BufReader::new(child.stdout.take().unwrap());
        let mut client = Self { child, to, from, number: 0, early: BTreeMap::new() };
        let about = json!({"name": "test", "version": "1"});
        let hello =
            json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": about});
        assert_eq!(client.ask("initialize", hello)["serverInfo"]["name"], "bailiwick");
        client.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        client
    }

    fn send(&mut self, message: &Value) {
        writeln!(self.to.as_mut().unwrap(), "{message}").unwrap();
    }

    /// Asks, and waits for the answer.
    pub(crate) fn ask(&mut self, method: &str, parameters: Value) -> Value {
        let id = self.begin(method, parameters);
        self.answer(id)
    }

    /// Asks, and does not wait.
    pub(crate) fn begin(&mut self, method: &str, parameters: Value) -> u64 {
        self.number += 1;
        let id = self.number;
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": parameters}));
        id
    }

    fn answer(&mut self, id: u64) -> Value {
        loop {
            if let Some(answer) = self.early.remove(&id) {
                return answer;
            }
            let mut line = String::new();
            assert!(self.from.read_line(&mut line).unwrap() > 0, "the server is gone");
            let answer: Value = serde_json::from_str(&line).unwrap();
            if let Some(id) = answer["id"].as_u64() {
                self.early.insert(id, answer["result"].clone());
            }
        }
    }

    /// Says that nobody wants this answer any more.
    pub(crate) fn cancel(&mut self, id: u64) {
        let parameters = json!({"requestId": id, "reason": "it takes too long"});
        let method = "notifications/cancelled";
        self.send(&json!({"jsonrpc": "2.0", "method": method, "params": parameters}));
    }

    /// What a tool answers; the words of a refusal as an error.
    pub(crate) fn call(&mut self, tool: &str, arguments: Value) -> Result<Value, String> {
        let id = self.begin_call(tool, arguments);
        self.called(id)
    }

    /// Calls a tool, and does not wait.
    pub(crate) fn begin_call(&mut self, tool: &str, arguments: Value) -> u64 {
        self.begin("tools/call", json!({"name": tool, "arguments": arguments}))
    }

    /// What a tool answers that was called before.
    pub(crate) fn called(&mut self, id: u64) -> Result<Value, String> {
        let result = self.answer(id);
        let text = result["content"][0]["text"].as_str().unwrap().to_owned();
        match result["isError"] == true {
            true => Err(text),
            false => Ok(serde_json::from_str(&text).unwrap()),
        }
    }

    /// The words of a refusal.
    pub(crate) fn refused(&mut self, tool: &str, arguments: Value) -> String {
        self.call(tool, arguments).unwrap_err()
    }

    /// Closes its input, and waits for its end.
    pub(crate) fn end(mut self) {
        drop(self.to.take());
        assert!(self.child.wait().unwrap().success());
    }
}
