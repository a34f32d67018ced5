//! A program that speaks MCP to `bailiwick mcp`, as a person's own agent program does.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use bailiwick_testkit::scripted_model::ScriptedModel;
use serde_json::{Value, json};

use super::stage::Stage;

/// A running `bailiwick mcp`.
pub(crate) struct Client {
    pub(crate) child: Child,
    to: Option<ChildStdin>,
    from: BufReader<ChildStdout>,
    number: u64,
    /// Responses that arrived before they were waited for.
    early_responses: BTreeMap<u64, Value>,
}

impl Client {
    /// Starts it with this model.
    pub(crate) fn start(stage: &Stage, model: &ScriptedModel) -> Self {
        Self::from_command(stage.command(Some(model), None))
    }

    /// Starts it with this command.
    pub(crate) fn from_command(command: Command) -> Self {
        Self::with_arguments(command, &[])
    }

    /// Starts it with this command and more arguments.
    pub(crate) fn with_arguments(mut command: Command, arguments: &[&str]) -> Self {
        command.arg("mcp").args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let to = child.stdin.take();
        let from = BufReader::new(child.stdout.take().unwrap());
        let mut client = Self { child, to, from, number: 0, early_responses: BTreeMap::new() };
        let client_info = json!({"name": "test", "version": "1"});
        let parameters =
            json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client_info});
        assert_eq!(client.request("initialize", parameters)["serverInfo"]["name"], "bailiwick");
        client.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        client
    }

    fn send(&mut self, message: &Value) {
        writeln!(self.to.as_mut().unwrap(), "{message}").unwrap();
    }

    /// Sends a request, and waits for the response.
    pub(crate) fn request(&mut self, method: &str, parameters: Value) -> Value {
        let id = self.send_request(method, parameters);
        self.response(id)
    }

    /// Sends a request without waiting for the response.
    pub(crate) fn send_request(&mut self, method: &str, parameters: Value) -> u64 {
        self.number += 1;
        let id = self.number;
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": parameters}));
        id
    }

    fn response(&mut self, id: u64) -> Value {
        loop {
            if let Some(response) = self.early_responses.remove(&id) {
                return response;
            }
            let mut line = String::new();
            assert!(
                self.from.read_line(&mut line).unwrap() > 0,
                "the server has closed its output"
            );
            let response: Value = serde_json::from_str(&line).unwrap();
            if let Some(id) = response["id"].as_u64() {
                self.early_responses.insert(id, response["result"].clone());
            }
        }
    }

    /// Cancels a request.
    pub(crate) fn cancel(&mut self, id: u64) {
        let parameters = json!({"requestId": id, "reason": "it takes too long"});
        let method = "notifications/cancelled";
        self.send(&json!({"jsonrpc": "2.0", "method": method, "params": parameters}));
    }

    /// Calls a tool. Returns its result, or its error message.
    pub(crate) fn call(&mut self, tool: &str, arguments: Value) -> Result<Value, String> {
        let id = self.begin_call(tool, arguments);
        self.call_result(id)
    }

    /// Calls a tool without waiting for the result.
    pub(crate) fn begin_call(&mut self, tool: &str, arguments: Value) -> u64 {
        self.send_request("tools/call", json!({"name": tool, "arguments": arguments}))
    }

    /// The result of an earlier tool call, or its error message.
    pub(crate) fn call_result(&mut self, id: u64) -> Result<Value, String> {
        let result = self.response(id);
        let text = result["content"][0]["text"].as_str().unwrap().to_owned();
        match result["isError"] == true {
            true => Err(text),
            false => Ok(serde_json::from_str(&text).unwrap()),
        }
    }

    /// Calls a tool that must fail. Returns its error message.
    pub(crate) fn call_error(&mut self, tool: &str, arguments: Value) -> String {
        self.call(tool, arguments).unwrap_err()
    }

    /// Closes its input, and waits until it ends.
    pub(crate) fn end(mut self) {
        drop(self.to.take());
        assert!(self.child.wait().unwrap().success());
    }
}
