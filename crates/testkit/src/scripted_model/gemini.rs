//! The Gemini API of Gemini CLI: `POST …:streamGenerateContent?alt=sse`.

use serde_json::{Value, json};

use super::{
    Call, Conversation, INPUT_TOKENS, OUTPUT_TOKENS, ToolResult, Turn, calls, event, items, rounds,
    text_of, with,
};

pub(super) fn read(body: &Value) -> Conversation {
    let contents = &body["contents"];
    let opening = items(contents).take_while(|content| content["role"] != "model");
    let results: Vec<_> = with(contents, "role", "user")
        .flat_map(|content| items(&content["parts"]))
        .filter_map(|part| part.get("functionResponse"))
        .map(|answer| ToolResult {
            call: text_of(&answer["id"]),
            text: text_of(&answer["response"]),
        })
        .collect();
    let asks =
        |content: &&Value| items(&content["parts"]).any(|part| part["functionCall"].is_object());
    let texts = with(contents, "role", "model").filter(|content| !asks(content)).count();
    Conversation {
        user: opening.map(|content| text_of(&content["parts"])).collect(),
        turn: rounds(&results) + texts,
        offers_tools: items(&body["tools"]).next().is_some(),
        results,
    }
}

pub(super) fn say(name: &str, turn: &Turn, body: &Value) -> String {
    // Sub-agents end with a tool call, not with a text.
    let completed = match turn {
        Turn::Say(text) => completes(body).then(|| Turn::Calls(vec![complete(text)])),
        Turn::Calls(_) => None,
    };
    let turn = completed.as_ref().unwrap_or(turn);
    let mut parts = Vec::new();
    if let Turn::Say(text) = turn {
        parts.push(json!({"text": text}));
    }
    parts.extend(calls(name, turn, tool).into_iter().map(|(id, tool, input)| {
        // A call without a signature is refused; any text will do.
        json!({"functionCall": {"id": id, "name": tool, "args": input}, "thoughtSignature": "c2ln"})
    }));
    let content = json!({"role": "model", "parts": parts});
    let usage = json!({
        "promptTokenCount": INPUT_TOKENS, "candidatesTokenCount": OUTPUT_TOKENS,
        "totalTokenCount": INPUT_TOKENS + OUTPUT_TOKENS,
    });
    let response = json!({
        "candidates": [{"index": 0, "content": content, "finishReason": "STOP"}],
        "usageMetadata": usage, "responseId": name,
    });
    event(None, &response)
}

fn completes(body: &Value) -> bool {
    items(&body["tools"])
        .flat_map(|tools| items(&tools["functionDeclarations"]))
        .any(|tool| tool["name"] == "complete_task")
}

fn complete(text: &str) -> Call {
    Call::raw("complete_task", json!({"result": {"response": text}}))
}

fn tool(call: &Call) -> (String, Value) {
    let (name, input) = match call {
        Call::Shell { command } => {
            ("run_shell_command", json!({"command": command, "description": "A shell command"}))
        }
        Call::Write { path, content } => {
            ("write_file", json!({"file_path": path, "content": content}))
        }
        Call::Edit { path, old, new } => (
            "replace",
            json!({
                "file_path": path, "instruction": "A change", "old_string": old, "new_string": new,
            }),
        ),
        Call::Read { path } => ("read_file", json!({"file_path": path})),
        Call::Delegate { prompt } => {
            ("invoke_agent", json!({"agent_name": "generalist", "prompt": prompt}))
        }
        Call::Raw { name, input } => (name.as_str(), input.clone()),
    };
    (name.to_owned(), input)
}
