//! What a request lets the model's host do itself: tools that run there, and addresses that it fetches. Only kinds
//! that are known to run in the CLI are left out; all others count.

use serde_json::{Map, Value};

use super::{list, text};
use crate::proxy::ModelApi;
use crate::proxy::parsed_answer::Unreadable;

/// Something that the model's host would do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::proxy) enum ServerSide {
    /// It searches the web, by this tool.
    Search(String),
    /// It connects to an address.
    Address {
        /// For what.
        what: &'static str,
        url: String,
    },
    /// It runs this, or fetches it without being seen.
    Other(String),
}

type Found = Result<Vec<ServerSide>, Unreadable>;

/// Kinds of Anthropic's tools whose calls the program answers itself. The last one finds tools among those
/// of the request.
const ANTHROPIC_CLIENT: [&str; 4] = ["bash_", "text_editor_", "memory_", "tool_search_tool_"];
/// The same for OpenAI's.
const RESPONSES_CLIENT: [&str; 5] =
    ["function", "custom", "local_shell", "apply_patch", "tool_search"];

/// Fields of the APIs that are inspected: they must not be written in another way, which a host might accept.
const WATCHED: [&str; 22] = [
    "background",
    "cachedContent",
    "cached_content",
    "container",
    "contents",
    "conversation",
    "data_sources",
    "enable_search",
    "functions",
    "input",
    "mcp_servers",
    "messages",
    "model",
    "models",
    "plugins",
    "prompt",
    "search_parameters",
    "system",
    "tool_resources",
    "tools",
    "web_search_options",
    "stream",
];

impl ModelApi {
    /// All that a request has the model's host do.
    pub(in crate::proxy) fn server_side(self, body: &Value) -> Found {
        let fields = body.as_object().ok_or(Unreadable("it is no object"))?;
        let plain = |name: &str| name.replace(['_', '-'], "").to_ascii_lowercase();
        let disguised = |name: &String| {
            !WATCHED.contains(&name.as_str())
                && WATCHED.iter().any(|watched| plain(watched) == plain(name))
        };
        if fields.keys().any(disguised) {
            return Err(Unreadable("a field of it is written in an unusual way"));
        }
        match self {
            Self::Anthropic => anthropic(body),
            Self::Responses => responses(body),
            Self::Chat => chat(body),
            Self::Gemini => gemini(body),
        }
    }
}

fn anthropic(body: &Value) -> Found {
    let mut found = Vec::new();
    for tool in objects(body, "tools")? {
        match kind(tool)? {
            // A tool set is one of the servers below.
            None | Some("custom" | "mcp_toolset") => {}
            Some(kind) if ANTHROPIC_CLIENT.iter().any(|client| kind.starts_with(client)) => {}
            Some(kind) if kind.starts_with("web_search_") => {
                found.push(ServerSide::Search(kind.to_owned()));
            }
            Some(kind) => found.push(ServerSide::Other(kind.to_owned())),
        }
    }
    for server in objects(body, "mcp_servers")? {
        found.push(address("the MCP server", text(server, "url")));
    }
    found.extend(fields_set(body, &["container"]));
    for part in [body.get("messages"), body.get("system")].into_iter().flatten() {
        each_object(part, &["input"], &mut |object| {
            let source = object.get("source").filter(|source| text(source, "type") == "url");
            let what = "the image or document";
            found.extend(source.map(|source| address(what, text(source, "url"))));
        });
    }
    Ok(found)
}

fn responses(body: &Value) -> Found {
    let mut found = responses_tools(body)?;
    for item in list(body, "input") {
        // A listing is not a declaration.
        if text(item, "type") != "mcp_list_tools" {
            found.extend(responses_tools(item)?);
        }
    }
    found.extend(fields_set(body, &["background", "conversation", "prompt"]));
    let links = body.get("input").map(|input| linked(input, &[])).unwrap_or_default();
    Ok(found.into_iter().chain(links).collect())
}

fn responses_tools(holder: &Value) -> Found {
    let mut found = Vec::new();
    for tool in objects(holder, "tools")? {
        let Some(kind) = kind(tool)? else {
            return Err(Unreadable("a tool has no type"));
        };
        match kind {
            kind if RESPONSES_CLIENT.contains(&kind) => {}
            "namespace" => found.extend(responses_tools(tool)?),
            "shell" if tool.pointer("/environment/type") == Some(&Value::from("local")) => {}
            "mcp" if tool.get("server_url").is_some() => {
                found.push(address("the MCP server", text(tool, "server_url")));
            }
            kind if kind.starts_with("web_search") => {
                found.push(ServerSide::Search(kind.to_owned()));
            }
            kind => found.push(ServerSide::Other(kind.to_owned())),
        }
    }
    Ok(found)
}

fn chat(body: &Value) -> Found {
    let mut found = Vec::new();
    for tool in objects(body, "tools")? {
        match kind(tool)? {
            None => return Err(Unreadable("a tool has no type")),
            Some("function" | "custom") => {}
            Some(kind) if kind.starts_with("web_search") => {
                found.push(ServerSide::Search(kind.to_owned()));
            }
            Some(kind) => found.push(ServerSide::Other(kind.to_owned())),
        }
    }
    let search = body.get("web_search_options").filter(|value| is_set(value));
    found.extend(search.map(|_| ServerSide::Search("web_search_options".to_owned())));
    // Hosts that many models are behind of take these, and other models in place of the one.
    let others = [
        "data_sources",
        "enable_search",
        "models",
        "plugins",
        "search_parameters",
        "tool_resources",
    ];
    found.extend(fields_set(body, &others));
    let links = body.get("messages").map(|messages| linked(messages, &["tool_calls"]));
    Ok(found.into_iter().chain(links.unwrap_or_default()).collect())
}

fn gemini(body: &Value) -> Found {
    const SEARCHES: [&str; 6] = [
        "googleSearch",
        "google_search",
        "googleSearchRetrieval",
        "google_search_retrieval",
        "enterpriseWebSearch",
        "enterprise_web_search",
    ];
    let mut found = Vec::new();
    for tool in objects(body, "tools")? {
        for name in tool.as_object().into_iter().flat_map(Map::keys) {
            match name.as_str() {
                "functionDeclarations" | "function_declarations" => {}
                name if SEARCHES.contains(&name) => {
                    found.push(ServerSide::Search(name.to_owned()));
                }
                name => found.push(ServerSide::Other(name.to_owned())),
            }
        }
    }
    found.extend(fields_set(body, &["cachedContent", "cached_content"]));
    if let Some(contents) = body.get("contents") {
        each_object(contents, &["args", "response"], &mut |object| {
            let file = object.get("fileData").or_else(|| object.get("file_data"));
            let uri = file.map(|file| file.get("fileUri").or_else(|| file.get("file_uri")));
            let uri = uri.map(|uri| uri.and_then(Value::as_str).unwrap_or_default());
            found.extend(uri.map(|uri| address("the file", uri)));
        });
    }
    Ok(found)
}

/// Images and files that the host would fetch: `image_url`, `file_url` and the like, as a text or an object.
fn linked(value: &Value, passed_over: &[&str]) -> Vec<ServerSide> {
    let mut found = Vec::new();
    each_object(value, passed_over, &mut |object| {
        for (_, link) in object.iter().filter(|(name, _)| name.ends_with("_url")) {
            let url = match link {
                Value::String(url) => Some(url.as_str()),
                Value::Object(link) => link.get("url").and_then(Value::as_str),
                Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) => None,
            };
            let url = url.filter(|url| !url.starts_with("data:"));
            found.extend(url.map(|url| address("the image or file", url)));
        }
    });
    found
}

fn address(what: &'static str, url: &str) -> ServerSide {
    ServerSide::Address { what, url: url.to_owned() }
}

/// The fields with these names that are set.
fn fields_set<'a>(body: &'a Value, names: &'a [&str]) -> impl Iterator<Item = ServerSide> + 'a {
    let set = |name: &&&str| body.get(**name).is_some_and(is_set);
    names.iter().filter(set).map(|name| ServerSide::Other((*name).to_owned()))
}

fn is_set(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => false,
        Value::Array(items) => !items.is_empty(),
        Value::Bool(true) | Value::Number(_) | Value::String(_) | Value::Object(_) => true,
    }
}

/// The objects of a list; anything else in its place cannot be read.
fn objects<'a>(holder: &'a Value, name: &str) -> Result<&'a [Value], Unreadable> {
    match holder.get(name) {
        None | Some(Value::Null) => Ok(&[]),
        Some(Value::Array(items)) if items.iter().all(Value::is_object) => Ok(items),
        Some(_) => Err(Unreadable("its tools or servers are no list of objects")),
    }
}

/// The type of a tool, if it has one.
fn kind(tool: &Value) -> Result<Option<&str>, Unreadable> {
    match tool.get("type") {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(kind)) => Ok(Some(kind)),
        Some(_) => Err(Unreadable("the type of a tool is no text")),
    }
}

/// Shows every object in a value, but for what lies under these names: what tools are given and give is data.
fn each_object<'a>(
    value: &'a Value,
    passed_over: &[&str],
    visit: &mut impl FnMut(&'a Map<String, Value>),
) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| each_object(item, passed_over, visit)),
        Value::Object(fields) => {
            visit(fields);
            let inner = fields.iter().filter(|(name, _)| !passed_over.contains(&name.as_str()));
            inner.for_each(|(_, value)| each_object(value, passed_over, visit));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}
#[cfg(test)]
mod tests;
