//! Finds the logins that a person already has. It reads no secrets.

use std::path::{Path, PathBuf};

use bailiwick_model::task::Login;
use serde_json::Value;

use crate::context::variable;
use crate::failure::Failure;

/// A login that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundLogin {
    /// What it is and where it was found.
    pub what: String,
    /// How it can be used.
    pub usage: Usage,
}

/// How a login can be used in a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Usage {
    /// By naming it.
    Login(Login),
    /// By naming it, once these variables are set.
    LoginWith(Login, &'static str),
    /// As an API key, by this command.
    Export(String),
    /// Not in a run: the program would not go through the model proxy.
    NotInRuns,
}

/// The variables and directories that are searched for logins.
pub struct LoginEnvironment<'a> {
    /// The variables of the environment.
    pub variable: &'a dyn Fn(&str) -> Option<String>,
    /// The person's home directory.
    pub home: PathBuf,
}

/// The logins of this person for an agent program.
pub fn of_person(program: &str) -> Result<Vec<FoundLogin>, Failure> {
    let home = variable("HOME")?.map(PathBuf::from).unwrap_or_default();
    let lookup = |name: &str| variable(name).ok().flatten();
    Ok(found(program, &LoginEnvironment { variable: &lookup, home }))
}

/// The logins for an agent program, other than the variables with its API key.
pub fn found(program: &str, surroundings: &LoginEnvironment<'_>) -> Vec<FoundLogin> {
    match program {
        "claude-code" => {
            let mut all = claude_subscription(surroundings);
            all.extend(bedrock(surroundings));
            all.extend(vertex(surroundings));
            all
        }
        "codex" => codex(surroundings),
        "gemini" => gemini(surroundings),
        "opencode" => opencode(surroundings),
        _ => Vec::new(),
    }
}

fn claude_subscription(surroundings: &LoginEnvironment<'_>) -> Vec<FoundLogin> {
    let usage = Usage::Login(Login::Subscription);
    let file = surroundings.home.join(".claude/.credentials.json");
    let what = if surroundings.is_set("CLAUDE_CODE_OAUTH_TOKEN") {
        "a Claude subscription (CLAUDE_CODE_OAUTH_TOKEN)".to_owned()
    } else if text(&json(&file), "/claudeAiOauth/accessToken").is_some() {
        format!("a Claude subscription ({})", file.display())
    } else {
        return Vec::new();
    };
    vec![FoundLogin { what, usage }]
}

fn bedrock(surroundings: &LoginEnvironment<'_>) -> Option<FoundLogin> {
    let profile = surroundings.home.join(".aws/credentials");
    let config = surroundings.home.join(".aws/config");
    let place = if surroundings.is_set("AWS_BEARER_TOKEN_BEDROCK") {
        "AWS_BEARER_TOKEN_BEDROCK".to_owned()
    } else if surroundings.is_set("AWS_ACCESS_KEY_ID") {
        "AWS_ACCESS_KEY_ID".to_owned()
    } else {
        [profile, config].iter().find(|file| file.is_file())?.display().to_string()
    };
    let has_region =
        ["AWS_REGION", "AWS_DEFAULT_REGION"].iter().any(|name| surroundings.is_set(name));
    let usage = match has_region {
        true => Usage::Login(Login::Bedrock),
        false => Usage::LoginWith(Login::Bedrock, "AWS_REGION"),
    };
    Some(FoundLogin { what: format!("AWS credentials ({place})"), usage })
}

fn vertex(surroundings: &LoginEnvironment<'_>) -> Option<FoundLogin> {
    let file = surroundings.home.join(".config/gcloud/application_default_credentials.json");
    let variables = ["CLOUDSDK_AUTH_ACCESS_TOKEN", "GOOGLE_APPLICATION_CREDENTIALS"];
    let place = match variables.iter().find(|name| surroundings.is_set(name)) {
        Some(name) => (*name).to_owned(),
        None => Some(&file).filter(|file| file.is_file())?.display().to_string(),
    };
    let needed = ["ANTHROPIC_VERTEX_PROJECT_ID", "CLOUD_ML_REGION"];
    let usage = match needed.iter().all(|name| surroundings.is_set(name)) {
        true => Usage::Login(Login::Vertex),
        false => Usage::LoginWith(Login::Vertex, "ANTHROPIC_VERTEX_PROJECT_ID and CLOUD_ML_REGION"),
    };
    Some(FoundLogin { what: format!("Google Cloud credentials ({place})"), usage })
}

fn codex(surroundings: &LoginEnvironment<'_>) -> Vec<FoundLogin> {
    let home = surroundings.directory("CODEX_HOME", ".codex");
    let file = home.join("auth.json");
    let login = json(&file);
    let mut all = Vec::new();
    if text(&login, "/OPENAI_API_KEY").is_some() {
        all.push(FoundLogin {
            what: format!("an API key of Codex ({})", file.display()),
            usage: Usage::Export(exported("OPENAI_API_KEY", ".OPENAI_API_KEY", &file)),
        });
    }
    if text(&login, "/tokens/access_token").is_some() {
        let what = format!("a ChatGPT login of Codex ({})", file.display());
        all.push(FoundLogin { what, usage: Usage::NotInRuns });
    }
    all
}

fn gemini(surroundings: &LoginEnvironment<'_>) -> Vec<FoundLogin> {
    let file = surroundings.home.join(".gemini/oauth_creds.json");
    if text(&json(&file), "/access_token").is_none()
        && text(&json(&file), "/refresh_token").is_none()
    {
        return Vec::new();
    }
    let what = format!("a Google login of Gemini CLI ({})", file.display());
    vec![FoundLogin { what, usage: Usage::NotInRuns }]
}

fn opencode(surroundings: &LoginEnvironment<'_>) -> Vec<FoundLogin> {
    let file = surroundings.directory("XDG_DATA_HOME", ".local/share").join("opencode/auth.json");
    let Value::Object(providers) = json(&file) else { return Vec::new() };
    let one = |(name, login): (String, Value)| {
        let what = format!("a login of OpenCode for {name} ({})", file.display());
        let is_key = text(&login, "/type") == Some("api") && text(&login, "/key").is_some();
        let usage = match name.as_str() {
            "openai" if is_key => Usage::Export(exported("OPENAI_API_KEY", ".openai.key", &file)),
            _ => Usage::NotInRuns,
        };
        FoundLogin { what, usage }
    };
    providers.into_iter().map(one).collect()
}

impl LoginEnvironment<'_> {
    fn is_set(&self, name: &str) -> bool {
        (self.variable)(name).is_some_and(|value| !value.is_empty())
    }

    /// The directory that a variable names, else this one of the home directory.
    fn directory(&self, name: &str, usual: &str) -> PathBuf {
        let named = (self.variable)(name).filter(|value| !value.is_empty());
        named.map_or_else(|| self.home.join(usual), PathBuf::from)
    }
}

fn exported(variable: &str, query: &str, file: &Path) -> String {
    format!("export {variable}=\"$(jq -r {query} '{}')\"", file.display())
}

fn json(file: &Path) -> Value {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    serde_json::from_str(&text).unwrap_or_default()
}

/// A text in a JSON document that is not empty.
fn text<'a>(value: &'a Value, pointer: &str) -> Option<&'a str> {
    value.pointer(pointer)?.as_str().filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The logins found with these variables and files, each as `what: usage`.
    fn found_with(
        program: &str,
        variables: &[(&str, &str)],
        files: &[(&str, &str)],
    ) -> Vec<String> {
        let home = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let file = home.path().join(name);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, text).unwrap();
        }
        let lookup = |name: &str| {
            let one = variables.iter().find(|(known, _)| *known == name);
            one.map(|(_, value)| (*value).to_owned())
        };
        let surroundings = LoginEnvironment { variable: &lookup, home: home.path().to_path_buf() };
        let home_path = home.path().display().to_string();
        let shown = |one: FoundLogin| {
            assert!(!format!("{one:?}").contains("SECRET"), "{one:?}");
            format!("{}: {:?}", one.what, one.usage).replace(&home_path, "~")
        };
        found(program, &surroundings).into_iter().map(shown).collect()
    }

    #[test]
    fn logins_of_every_program_are_found_without_their_secrets() {
        let claude = r#"{"claudeAiOauth":{"accessToken":"SECRET"}}"#;
        let codex = r#"{"OPENAI_API_KEY":"SECRET","tokens":{"access_token":"SECRET"}}"#;
        let opencode = r#"{"anthropic":{"type":"oauth","access":"SECRET"},
                           "openai":{"type":"api","key":"SECRET"}}"#;
        for (program, variables, files, expected) in [
            ("claude-code", &[][..], &[][..], &[][..]),
            (
                "claude-code",
                &[],
                &[(".claude/.credentials.json", claude)],
                &["a Claude subscription (~/.claude/.credentials.json): Login(Subscription)"],
            ),
            (
                "claude-code",
                &[("CLAUDE_CODE_OAUTH_TOKEN", "SECRET"), ("AWS_ACCESS_KEY_ID", "SECRET")],
                &[],
                &[
                    "a Claude subscription (CLAUDE_CODE_OAUTH_TOKEN): Login(Subscription)",
                    "AWS credentials (AWS_ACCESS_KEY_ID): LoginWith(Bedrock, \"AWS_REGION\")",
                ],
            ),
            (
                "claude-code",
                &[("AWS_REGION", "eu-west-1")],
                &[
                    (".aws/credentials", "SECRET"),
                    (".config/gcloud/application_default_credentials.json", "SECRET"),
                ],
                &[
                    "AWS credentials (~/.aws/credentials): Login(Bedrock)",
                    "Google Cloud credentials (~/.config/gcloud/application_default_credentials.json): \
                     LoginWith(Vertex, \"ANTHROPIC_VERTEX_PROJECT_ID and CLOUD_ML_REGION\")",
                ],
            ),
            (
                "codex",
                &[],
                &[(".codex/auth.json", codex)],
                &[
                    "an API key of Codex (~/.codex/auth.json): Export(\"export \
                     OPENAI_API_KEY=\\\"$(jq -r .OPENAI_API_KEY '~/.codex/auth.json')\\\"\")",
                    "a ChatGPT login of Codex (~/.codex/auth.json): NotInRuns",
                ],
            ),
            ("codex", &[], &[(".codex/auth.json", "{broken")], &[]),
            (
                "gemini",
                &[],
                &[(".gemini/oauth_creds.json", r#"{"refresh_token":"SECRET"}"#)],
                &["a Google login of Gemini CLI (~/.gemini/oauth_creds.json): NotInRuns"],
            ),
            (
                "opencode",
                &[],
                &[(".local/share/opencode/auth.json", opencode)],
                &[
                    "a login of OpenCode for anthropic (~/.local/share/opencode/auth.json): NotInRuns",
                    "a login of OpenCode for openai (~/.local/share/opencode/auth.json): \
                     Export(\"export OPENAI_API_KEY=\\\"$(jq -r .openai.key \
                     '~/.local/share/opencode/auth.json')\\\"\")",
                ],
            ),
        ] {
            assert_eq!(found_with(program, variables, files), expected, "{program}");
        }
    }
}
