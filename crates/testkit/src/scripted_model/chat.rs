//! The chat completions API of OpenCode: `POST …/chat/completions`.

use serde_json::{Value, json};

use super::{
    Call, Conversation, INPUT_TOKENS, OUTPUT_TOKENS, ToolResult, Turn, calls, event, items, rounds,
    text_of, with,
};

pub(super) fn read(body: &Value) -> Conversation {
    let messages = &body["messages"];
    let opening = items(messages).take_while(|message| message["role"] != "assistant");
    let user = opening.filter(|message| message["role"] == "user");
    let results: Vec<_> = with(messages, "role", "tool")
        .map(|message| ToolResult {
            call: text_of(&message["tool_call_id"]),
            text: text_of(&message["content"]),
        })
        .collect();
    let asks = |message: &&Value| items(&message["tool_calls"]).next().is_some();
    let texts = with(messages, "role", "assistant").filter(|message| !asks(message)).count();
    Conversation {
        user: user.map(|message| text_of(&message["content"])).collect(),
        turn: rounds(&results) + texts,
        offers_tools: items(&body["tools"]).next().is_some(),
        results,
    }
}

pub(super) fn say(name: &str, turn: &Turn, body: &Value) -> String {
    let mut deltas = Vec::new();
    if let Turn::Say(text) = turn {
        deltas.push(json!({"role": "assistant", "content": text}));
    }
    let calls = calls(name, turn, tool);
    let reason = if calls.is_empty() { "stop" } else { "tool_calls" };
    for (index, (id, tool, input)) in calls.into_iter().enumerate() {
        let function = json!({"name": tool, "arguments": input.to_string()});
        let call = json!({"index": index, "id": id, "type": "function", "function": function});
        deltas.push(json!({"role": "assistant", "tool_calls": [call]}));
    }
    let chunk = |choices: Value| {
        json!({
            "id": format!("chat_{name}"), "object": "chat.completion.chunk", "created": 0,
            "model": body["model"], "choices": choices,
        })
    };
    let choice = |delta: Value, reason: Option<&str>| {
        chunk(json!([{"index": 0, "delta": delta, "finish_reason": reason}]))
    };
    let mut chunks: Vec<_> = deltas.into_iter().map(|delta| choice(delta, None)).collect();
    chunks.push(choice(json!({}), Some(reason)));
    let mut last = chunk(json!([]));
    last["usage"] = json!({
        "prompt_tokens": INPUT_TOKENS, "completion_tokens": OUTPUT_TOKENS,
        "total_tokens": INPUT_TOKENS + OUTPUT_TOKENS,
    });
    chunks.push(last);
    let chunks: String = chunks.iter().map(|data| event(None, data)).collect();
    format!("{chunks}data: [DONE]\n\n")
}

fn tool(call: &Call) -> (String, Value) {
    let (name, input) = match call {
        Call::Shell { command } => {
            ("bash", json!({"command": command, "description": "A shell command"}))
        }
        Call::Write { path, content } => ("write", json!({"filePath": path, "content": content})),
        Call::Edit { path, old, new } => {
            ("edit", json!({"filePath": path, "oldString": old, "newString": new}))
        }
        Call::Read { path } => ("read", json!({"filePath": path})),
        Call::Delegate { prompt } => {
            ("task", json!({"description": "A part", "prompt": prompt, "subagent_type": "general"}))
        }
        Call::Raw { name, input } => (name.as_str(), input.clone()),
    };
    (name.to_owned(), input)
}
