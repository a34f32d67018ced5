//! The responses API of Codex: `POST /v1/responses`.

use serde_json::{Value, json};

use super::{
    Call, Conversation, INPUT_TOKENS, OUTPUT_TOKENS, ToolResult, Turn, calls, event, items, rounds,
    text_of,
};

pub(super) fn read(body: &Value) -> Conversation {
    let (mut user, mut results, mut texts) = (String::new(), Vec::new(), 0);
    // A call precedes its output, so an output means that the model had a turn.
    for item in items(&body["input"]) {
        let kind = item["type"].as_str().unwrap_or("message");
        match (kind, item["role"].as_str().unwrap_or_default()) {
            ("message", "user") if results.is_empty() && texts == 0 => {
                user.push_str(&text_of(&item["content"]));
            }
            ("message", "assistant") => texts += 1,
            ("function_call_output" | "custom_tool_call_output", _) => results.push(ToolResult {
                call: text_of(&item["call_id"]),
                text: text_of(&item["output"]),
            }),
            _ => {}
        }
    }
    // Newer models receive theirs in the input.
    let told = items(&body["input"]).filter(|item| item["type"] == "additional_tools");
    let offers = |tools: &Value| items(tools).next().is_some();
    let offers_tools =
        offers(&body["tools"]) || told.into_iter().any(|item| offers(&item["tools"]));
    Conversation { user, turn: rounds(&results) + texts, offers_tools, results }
}

pub(super) fn say(name: &str, turn: &Turn, body: &Value) -> String {
    let mut output: Vec<Value> = Vec::new();
    if let Turn::Say(text) = turn {
        let content = json!([{"type": "output_text", "text": text, "annotations": []}]);
        output.push(json!({
            "type": "message", "id": format!("msg_{name}"), "role": "assistant",
            "status": "completed", "content": content,
        }));
    }
    output.extend(calls(name, turn, tool).into_iter().map(|(id, tool, input)| {
        let (space, tool) = match tool.split_once('.') {
            Some((space, tool)) => (Some(space), tool),
            None => (None, tool.as_str()),
        };
        let mut item = match input {
            Value::String(text) => json!({"type": "custom_tool_call", "input": text}),
            input @ (Value::Null
            | Value::Bool(_)
            | Value::Number(_)
            | Value::Array(_)
            | Value::Object(_)) => json!({"type": "function_call", "arguments": input.to_string()}),
        };
        item["id"] = json!(format!("item_{id}"));
        item["status"] = json!("completed");
        item["call_id"] = json!(id);
        item["name"] = json!(tool);
        if let Some(space) = space {
            item["namespace"] = json!(space);
        }
        item
    }));
    let id = format!("resp_{name}");
    let begun = json!({"id": id, "status": "in_progress"});
    let mut events = vec![json!({"type": "response.created", "response": begun})];
    for (index, item) in output.iter().enumerate() {
        for kind in ["response.output_item.added", "response.output_item.done"] {
            events.push(json!({"type": kind, "output_index": index, "item": item}));
        }
    }
    let usage = json!({
        "input_tokens": INPUT_TOKENS, "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": OUTPUT_TOKENS, "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": INPUT_TOKENS + OUTPUT_TOKENS,
    });
    let response = json!({
        "id": id, "object": "response", "status": "completed", "model": body["model"],
        "output": output, "usage": usage,
    });
    events.push(json!({"type": "response.completed", "response": response}));
    events.iter().map(|data| event(data["type"].as_str(), data)).collect()
}

fn tool(call: &Call) -> (String, Value) {
    let patch =
        |body: String| ("apply_patch", json!(format!("*** Begin Patch\n{body}*** End Patch\n")));
    let (name, input) = match call {
        Call::Shell { command } => ("exec_command", json!({"cmd": command})),
        Call::Write { path, content } => {
            patch(format!("*** Add File: {path}\n{}", marked('+', content)))
        }
        Call::Edit { path, old, new } => {
            patch(format!("*** Update File: {path}\n@@\n{}{}", marked('-', old), marked('+', new)))
        }
        Call::Read { path } => ("exec_command", json!({"cmd": format!("cat '{path}'")})),
        Call::Delegate { prompt } => ("multi_agent_v1.spawn_agent", json!({"message": prompt})),
        Call::Raw { name, input } => (name.as_str(), input.clone()),
    };
    (name.to_owned(), input)
}

/// The lines of a text, each with the mark of a patch.
fn marked(mark: char, text: &str) -> String {
    text.lines().map(|line| format!("{mark}{line}\n")).collect()
}
