//! How an agent is paid for, and what of the person's environment it is granted.

use std::path::PathBuf;

use bailiwick_control::supervision::redaction::SHORTEST;
use bailiwick_model::task::{self, Login};
use bailiwick_runner::agents::adapter::Adapter;
use bailiwick_runner::proxy::{Key, Upstream, Wire};

use crate::context::variable;
use crate::failure::Failure;

const CLAUDE_TOKEN: &str = "CLAUDE_CODE_OAUTH_TOKEN";
const CLAUDE_LOGIN: &str = ".claude/.credentials.json";

/// Where a model is, and what opens it.
struct Known {
    /// Variables that may hold the key, the first that is set counts.
    keys: &'static [&'static str],
    /// A variable that may say where the model is.
    place: &'static str,
    /// Where it is otherwise.
    otherwise: &'static str,
    /// The header of the key, and what stands before it there.
    header: (&'static str, &'static str),
}

fn known(wire: Wire) -> Known {
    match wire {
        Wire::Anthropic => Known {
            keys: &["ANTHROPIC_API_KEY"],
            place: "ANTHROPIC_BASE_URL",
            otherwise: "https://api.anthropic.com",
            header: ("x-api-key", ""),
        },
        Wire::Responses => Known {
            keys: &["CODEX_API_KEY", "OPENAI_API_KEY"],
            place: "OPENAI_BASE_URL",
            otherwise: "https://api.openai.com/v1",
            header: ("authorization", "Bearer "),
        },
        Wire::Chat => Known {
            keys: &["OPENAI_API_KEY"],
            place: "OPENAI_BASE_URL",
            otherwise: "https://api.openai.com/v1",
            header: ("authorization", "Bearer "),
        },
        Wire::Gemini => Known {
            keys: &["GEMINI_API_KEY", "GOOGLE_API_KEY"],
            place: "GOOGLE_GEMINI_BASE_URL",
            otherwise: "https://generativelanguage.googleapis.com",
            header: ("x-goog-api-key", ""),
        },
    }
}

/// The model, and the secret that opens it; nothing if the program has no model of ours.
pub fn paid(adapter: &dyn Adapter, login: Login) -> Result<Option<(Upstream, String)>, Failure> {
    let Some(wire) = adapter.wire() else { return Ok(None) };
    match login {
        Login::ApiKey => upstream(wire).map(Some),
        Login::Subscription if adapter.name() == "claude-code" => claude_subscription().map(Some),
        Login::Subscription | Login::Bedrock | Login::Vertex => Err(Failure::usage(format!(
            "{} cannot be held with the login `{}`: nothing would count what it spends",
            adapter.name(),
            login.as_str()
        ))
        .help("`api-key` works for all, `subscription` for claude-code; the agent sees neither")),
    }
}

/// The model of a wire, with the person's key; and the key, so that it is never shown.
fn upstream(wire: Wire) -> Result<(Upstream, String), Failure> {
    let Known { keys, place, otherwise, header: (header, before) } = known(wire);
    let mut found = None;
    for name in keys {
        found = found.or(variable(name)?);
    }
    let Some(key) = found else {
        return Err(Failure::general(format!(
            "{} is not set, so there is no key for the model",
            keys.join(" or ")
        ))
        .help(
            "set it here; the agent never sees it. Or choose another login in [agent] of the task",
        ));
    };
    let base = variable(place)?.unwrap_or_else(|| otherwise.to_owned());
    let header = Key::new(header, &format!("{before}{key}")).map_err(|error| {
        Failure::general(format!("the key of the model cannot be used: {error}"))
    })?;
    Ok((Upstream { base, key: header }, key))
}

/// The model that a person's own subscription of Claude Code opens. The token stays here, as a key does:
/// the program gets a placeholder.
fn claude_subscription() -> Result<(Upstream, String), Failure> {
    let Known { place, otherwise, .. } = known(Wire::Anthropic);
    let file = variable("HOME")?.map(PathBuf::from).unwrap_or_default().join(CLAUDE_LOGIN);
    let token = match variable(CLAUDE_TOKEN)? {
        Some(token) => token,
        None => {
            let text = std::fs::read_to_string(&file).unwrap_or_default();
            let login: serde_json::Value = serde_json::from_str(&text).unwrap_or_default();
            let token = login.pointer("/claudeAiOauth/accessToken").and_then(|one| one.as_str());
            let Some(token) = token else {
                return Err(Failure::general(format!(
                    "neither {CLAUDE_TOKEN} nor {} has a login",
                    file.display()
                ))
                .help("log in with claude itself first, or run `claude setup-token`"));
            };
            token.to_owned()
        }
    };
    let base = variable(place)?.unwrap_or_else(|| otherwise.to_owned());
    let key = Key::new("authorization", &format!("Bearer {token}"))
        .map_err(|error| Failure::general(format!("the login cannot be used: {error}")))?;
    Ok((Upstream { base, key }, token))
}

/// Variables of the person's environment that the task grants.
pub fn granted(names: &[task::Line]) -> Result<Vec<(String, String)>, Failure> {
    names.iter().map(|name| one(name.as_str())).collect()
}

fn one(name: &str) -> Result<(String, String), Failure> {
    let Some(value) = variable(name)? else {
        return Err(Failure::general(format!("the task grants {name}, which is not set here")));
    };
    if value.len() < SHORTEST {
        return Err(Failure::general(format!(
            "{name} is shorter than {SHORTEST} characters: it could not be kept out of logs"
        )));
    }
    Ok((name.to_owned(), value))
}
