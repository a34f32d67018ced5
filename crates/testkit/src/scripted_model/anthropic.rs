//! The messages API of Claude Code: `POST /v1/messages`.

use serde_json::{Value, json};

use super::{
    Call, Conversation, INPUT_TOKENS, OUTPUT_TOKENS, ToolResult, Turn, calls, event, items, rounds,
    text_of, with,
};

pub(super) fn read(body: &Value) -> Conversation {
    let messages = &body["messages"];
    let opening = items(messages).take_while(|message| message["role"] != "assistant");
    let results: Vec<_> = with(messages, "role", "user")
        .flat_map(|message| with(&message["content"], "type", "tool_result"))
        .map(|part| ToolResult {
            call: text_of(&part["tool_use_id"]),
            text: text_of(&part["content"]),
        })
        .collect();
    let asks = |message: &&Value| with(&message["content"], "type", "tool_use").next().is_some();
    let texts = with(messages, "role", "assistant").filter(|message| !asks(message)).count();
    Conversation {
        user: opening.map(|message| text_of(&message["content"])).collect(),
        turn: rounds(&results) + texts,
        offers_tools: items(&body["tools"]).next().is_some(),
        results,
    }
}

pub(super) fn say(name: &str, turn: &Turn, body: &Value) -> String {
    let calls = calls(name, turn, tool);
    let stop = if calls.is_empty() { "end_turn" } else { "tool_use" };
    // Each block, as it begins, and all that it then holds.
    let mut blocks: Vec<(Value, Value)> = Vec::new();
    if let Turn::Say(text) = turn {
        let holds = json!({"type": "text_delta", "text": text});
        blocks.push((json!({"type": "text", "text": ""}), holds));
    }
    for (id, tool, input) in calls {
        let begins = json!({"type": "tool_use", "id": id, "name": tool, "input": {}});
        let holds = json!({"type": "input_json_delta", "partial_json": input.to_string()});
        blocks.push((begins, holds));
    }
    let usage = json!({
        "input_tokens": INPUT_TOKENS, "output_tokens": 1,
        "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0,
    });
    let message = json!({
        "id": format!("msg_{name}"), "type": "message", "role": "assistant", "content": [],
        "model": body["model"], "stop_reason": null, "stop_sequence": null, "usage": usage,
    });
    let mut events = vec![json!({"type": "message_start", "message": message})];
    for (index, (begins, holds)) in blocks.into_iter().enumerate() {
        let begin = json!({"type": "content_block_start", "index": index, "content_block": begins});
        let delta = json!({"type": "content_block_delta", "index": index, "delta": holds});
        let stop = json!({"type": "content_block_stop", "index": index});
        events.extend([begin, delta, stop]);
    }
    let delta = json!({"stop_reason": stop, "stop_sequence": null});
    let usage = json!({"output_tokens": OUTPUT_TOKENS});
    events.push(json!({"type": "message_delta", "delta": delta, "usage": usage}));
    events.push(json!({"type": "message_stop"}));
    events.iter().map(|data| event(data["type"].as_str(), data)).collect()
}

fn tool(call: &Call) -> (String, Value) {
    let (name, input) = match call {
        Call::Shell { command } => {
            ("Bash", json!({"command": command, "description": "A shell command"}))
        }
        Call::Write { path, content } => ("Write", json!({"file_path": path, "content": content})),
        Call::Edit { path, old, new } => {
            ("Edit", json!({"file_path": path, "old_string": old, "new_string": new}))
        }
        Call::Read { path } => ("Read", json!({"file_path": path})),
        Call::Delegate { prompt } => (
            "Agent",
            json!({"description": "A part", "prompt": prompt, "subagent_type": "general-purpose"}),
        ),
        Call::Raw { name, input } => (name.as_str(), input.clone()),
    };
    (name.to_owned(), input)
}
