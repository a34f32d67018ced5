//! Logins: how an agent program accesses its model.

pub mod found;

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use bailiwick_model::task::Login;
use bailiwick_runner::agents::adapter::Adapter;
use bailiwick_runner::proxy::{Key, ModelApi, ProxyError, RenewedKey, Upstream};

use found::{FoundLogin, Usage};

use crate::context::variable;
use crate::counted::counted;
use crate::failure::Failure;

/// The logins with which an agent program can be run: those that go through the model proxy.
pub fn usable(adapter: &dyn Adapter) -> &'static [Login] {
    match (adapter.name(), adapter.model_api()) {
        ("claude-code", _) => &[Login::ApiKey, Login::Subscription, Login::Bedrock, Login::Vertex],
        (_, Some(_)) => &[Login::ApiKey],
        (_, None) => &[],
    }
}

/// Their names, as a person writes them.
fn usable_names(adapter: &dyn Adapter) -> String {
    usable(adapter).iter().map(|login| login.as_str()).collect::<Vec<_>>().join(", ")
}

const CLAUDE_TOKEN: &str = "CLAUDE_CODE_OAUTH_TOKEN";
const CLAUDE_LOGIN: &str = ".claude/.credentials.json";
/// The name that Google's own program uses.
const GOOGLE_TOKEN: &str = "CLOUDSDK_AUTH_ACCESS_TOKEN";
const AMAZON_TOKEN: &str = "AWS_BEARER_TOKEN_BEDROCK";

/// Variables with model credentials or a billing project. A program that gets them can spend money.
pub const CREDENTIAL_VARIABLES: [&str; 17] = [
    "ANTHROPIC_API_KEY",
    "CODEX_API_KEY",
    "OPENAI_API_KEY",
    "GEMINI_API_KEY",
    "GOOGLE_API_KEY",
    CLAUDE_TOKEN,
    GOOGLE_TOKEN,
    "ANTHROPIC_VERTEX_PROJECT_ID",
    "CLOUD_ML_REGION",
    "GOOGLE_APPLICATION_CREDENTIALS",
    "AWS_REGION",
    "AWS_DEFAULT_REGION",
    "AWS_PROFILE",
    AMAZON_TOKEN,
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
];

/// Variables with model addresses, which are not credentials.
pub const ENDPOINT_VARIABLES: [&str; 5] = [
    "ANTHROPIC_BASE_URL",
    "OPENAI_BASE_URL",
    "GOOGLE_GEMINI_BASE_URL",
    "ANTHROPIC_VERTEX_BASE_URL",
    "ANTHROPIC_BEDROCK_BASE_URL",
];

/// The address of a model and its key.
struct ModelEndpoint {
    /// Variables that may hold the key, the first that is set counts.
    keys: &'static [&'static str],
    /// A variable that may say where the model is.
    place: &'static str,
    /// Where it is otherwise.
    otherwise: &'static str,
    /// The header of the key, and the prefix of its value.
    header: (&'static str, &'static str),
}

fn endpoint(wire: ModelApi) -> ModelEndpoint {
    match wire {
        ModelApi::Anthropic => ModelEndpoint {
            keys: &["ANTHROPIC_API_KEY"],
            place: "ANTHROPIC_BASE_URL",
            otherwise: "https://api.anthropic.com",
            header: ("x-api-key", ""),
        },
        ModelApi::Responses => ModelEndpoint {
            keys: &["CODEX_API_KEY", "OPENAI_API_KEY"],
            place: "OPENAI_BASE_URL",
            otherwise: "https://api.openai.com/v1",
            header: ("authorization", "Bearer "),
        },
        ModelApi::Chat => ModelEndpoint {
            keys: &["OPENAI_API_KEY"],
            place: "OPENAI_BASE_URL",
            otherwise: "https://api.openai.com/v1",
            header: ("authorization", "Bearer "),
        },
        ModelApi::Gemini => ModelEndpoint {
            keys: &["GEMINI_API_KEY", "GOOGLE_API_KEY"],
            place: "GOOGLE_GEMINI_BASE_URL",
            otherwise: "https://generativelanguage.googleapis.com",
            header: ("x-goog-api-key", ""),
        },
    }
}

/// The variables that may hold the key of a model.
pub fn keys(wire: ModelApi) -> &'static [&'static str] {
    endpoint(wire).keys
}

/// The model, and the secrets that open it; `None` if Bailiwick knows no model for the program.
pub fn resolve(
    adapter: &dyn Adapter,
    login: Login,
) -> Result<Option<(Upstream, Vec<String>)>, Failure> {
    let Some(wire) = adapter.model_api() else { return Ok(None) };
    require_usable(adapter, login)?;
    match login {
        Login::ApiKey => upstream(adapter, wire).map(Some),
        Login::Subscription => claude_subscription().map(Some),
        Login::Vertex => claude_at_google().map(Some),
        Login::Bedrock => claude_at_amazon().map(Some),
    }
}

/// Returns an error if an agent program cannot be run with a login, whatever the person has.
pub fn require_usable(adapter: &dyn Adapter, login: Login) -> Result<(), Failure> {
    if adapter.model_api().is_none() || usable(adapter).contains(&login) {
        return Ok(());
    }
    let (name, login) = (adapter.name(), login.as_str());
    Err(Failure::refused(format!(
        "{name} cannot be run with the login `{login}`: it would talk to its own hosts instead of the model \
         proxy, and nothing would count what it spends"
    ))
    .help(format!("logins of {name} in a run: {}", usable_names(adapter))))
}

/// The help for a person without an API key: the logins that were found, and how to use each.
fn offered(adapter: &dyn Adapter, keys: &str, found: &[FoundLogin]) -> String {
    let name = adapter.name();
    let one = |login: &FoundLogin| match &login.usage {
        Usage::Login(login_name) => {
            let word = login_name.as_str();
            format!(
                "found {}. Use it: `--login {word}`, or `login = \"{word}\"` under [agent] in the task",
                login.what
            )
        }
        Usage::LoginWith(login_name, needed) => {
            format!(
                "found {}. Use them: set {needed}, and `--login {}`",
                login.what,
                login_name.as_str()
            )
        }
        Usage::Export(command) => format!("found {}. Use it: {command}", login.what),
        Usage::NotInRuns => format!(
            "found {}, which cannot be used in a run: {name} would talk to its own hosts instead of the \
             model proxy. It works in your own terminal: bailiwick hooks install {}",
            login.what,
            adapter.program()
        ),
    };
    let mut lines: Vec<String> = found.iter().map(one).collect();
    lines.push(format!("set {keys}; it stays with the supervisor, and the agent never sees it"));
    lines.push(format!("logins of {name} in a run: {}", usable_names(adapter)));
    lines.join("\n ")
}

/// A model that a key opens, and where the key comes from.
fn from(base: String, key: Key, origin: &str) -> Upstream {
    Upstream { base, key, origin: Some(origin.to_owned()) }
}

/// The model of a wire, with the person's key; and the key, so that it is never shown.
fn upstream(adapter: &dyn Adapter, wire: ModelApi) -> Result<(Upstream, Vec<String>), Failure> {
    let ModelEndpoint { keys, place, otherwise, header: (header, before) } = endpoint(wire);
    let mut found = None;
    for name in keys {
        found = found.or(variable(name)?.map(|key| (*name, key)));
    }
    let Some((origin, key)) = found else {
        let (name, keys) = (adapter.name(), keys.join(" or "));
        let found = found::of_person(name)?;
        return Err(Failure::general(format!("there is no API key for {name}: {keys} is not set"))
            .help(offered(adapter, &keys, &found)));
    };
    let base = variable(place)?.unwrap_or_else(|| otherwise.to_owned());
    let header = Key::new(header, &format!("{before}{key}")).map_err(|error| {
        Failure::general(format!("the key of the model cannot be used: {error}"))
    })?;
    Ok((from(base, header, origin), vec![key]))
}

/// The model that a person's own subscription of Claude Code opens. The token stays here, as a key does:
/// the program gets a placeholder.
fn claude_subscription() -> Result<(Upstream, Vec<String>), Failure> {
    let ModelEndpoint { place, otherwise, .. } = endpoint(ModelApi::Anthropic);
    let base = variable(place)?.unwrap_or_else(|| otherwise.to_owned());
    if let Some(token) = variable(CLAUDE_TOKEN)? {
        let key = bearer(&token).map_err(|error| Failure::general(error.to_string()))?;
        return Ok((from(base, key, CLAUDE_TOKEN), vec![token]));
    }
    let file = variable("HOME")?.map(PathBuf::from).unwrap_or_default().join(CLAUDE_LOGIN);
    let (first, token) = claude_token(&file).map_err(|error| {
        Failure::general(error.to_string())
            .help("log in with claude itself first, or run `claude setup-token`")
    })?;
    let origin = format!("the login in {}", file.display());
    // The person's own claude writes a new one there before the old one is over.
    let key = Key::renewed(first, move || claude_token(&file).map(|(fresh, _)| fresh));
    Ok((from(base, key, &origin), vec![token]))
}

/// Why no key could be obtained from a person's own login.
#[derive(Debug, thiserror::Error)]
enum LoginError {
    #[error("neither {CLAUDE_TOKEN} nor {} has a login", file.display())]
    NoClaudeLogin { file: PathBuf },
    #[error("the login cannot be used: {0}")]
    BadKey(#[from] ProxyError),
    #[error("`{0}` gave none")]
    NoneGiven(&'static str),
    #[error("`aws` does not say until when they are good")]
    NoExpiry,
    #[error("{program}: {error}")]
    NotStarted { program: String, error: std::io::Error },
    #[error("`{program}` cannot be run")]
    CannotRun { program: String },
    #[error("`{program}` did not answer within {}", counted(*seconds, "second"))]
    TimedOut { program: String, seconds: u64 },
    #[error("{program}: {stderr}")]
    ProgramFailed { program: String, stderr: String },
}

/// The token that Claude Code keeps of the person's login, as it is now.
fn claude_token(file: &Path) -> Result<(RenewedKey, String), LoginError> {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    let login: serde_json::Value = serde_json::from_str(&text).unwrap_or_default();
    let token = login.pointer("/claudeAiOauth/accessToken").and_then(|one| one.as_str());
    let Some(token) = token.map(str::to_owned) else {
        return Err(LoginError::NoClaudeLogin { file: file.to_owned() });
    };
    let until = login.pointer("/claudeAiOauth/expiresAt").and_then(serde_json::Value::as_u64);
    let until = until.and_then(|ms| SystemTime::UNIX_EPOCH.checked_add(Duration::from_millis(ms)));
    Ok((RenewedKey { key: bearer(&token)?, until }, token))
}

/// Anthropic's models at Google, for the person's own project. Project and token stay here.
fn claude_at_google() -> Result<(Upstream, Vec<String>), Failure> {
    let needed = |name: &str| {
        variable(name)?.ok_or_else(|| {
            Failure::general(format!("{name} is not set, and the login is `vertex`"))
                .help("it needs ANTHROPIC_VERTEX_PROJECT_ID and CLOUD_ML_REGION, as claude does")
        })
    };
    let (project, region) = (needed("ANTHROPIC_VERTEX_PROJECT_ID")?, needed("CLOUD_ML_REGION")?);
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.:".contains(c);
    if ![&project, &region].iter().all(|part| part.chars().all(plain)) {
        return Err(Failure::general("the project or the region of `vertex` is not a plain name"));
    }
    let host = match region.as_str() {
        "global" => "https://aiplatform.googleapis.com/v1".to_owned(),
        region => format!("https://{region}-aiplatform.googleapis.com/v1"),
    };
    let base = variable("ANTHROPIC_VERTEX_BASE_URL")?.unwrap_or(host);
    let base = format!("{}/projects/{project}/locations/{region}", base.trim_end_matches('/'));
    if let Some(token) = variable(GOOGLE_TOKEN)? {
        let key = bearer(&token).map_err(|error| Failure::general(error.to_string()))?;
        return Ok((from(base, key, GOOGLE_TOKEN), vec![token]));
    }
    let failed = |why: LoginError| {
        Failure::general(format!("there is no token for Google: {why}")).help(format!(
            "log in with `gcloud auth application-default login`, or set {GOOGLE_TOKEN}"
        ))
    };
    let (first, token) = google_token().map_err(failed)?;
    let key = Key::renewed(first, || google_token().map(|(fresh, _)| fresh));
    Ok((from(base, key, "gcloud's application-default login"), vec![token]))
}

fn bearer(token: &str) -> Result<Key, LoginError> {
    Ok(Key::new("authorization", &format!("Bearer {token}"))?)
}

/// How long a token of Google's is good for: an hour, which it does not say itself.
const GOOGLE_LASTS: Duration = Duration::from_mins(55);

/// The token that Google's own program gives for the person's login.
fn google_token() -> Result<(RenewedKey, String), LoginError> {
    let output =
        helped("gcloud", &["auth", "application-default", "print-access-token"], HELP_TAKES)?;
    let token = output.trim().to_owned();
    if token.is_empty() {
        return Err(LoginError::NoneGiven("gcloud"));
    }
    let until = SystemTime::now().checked_add(GOOGLE_LASTS);
    Ok((RenewedKey { key: bearer(&token)?, until }, token))
}

/// The time limit for a program that returns a login token.
const HELP_TAKES: Duration = Duration::from_secs(30);

/// The output of a program that has a person's login. It cannot ask questions, and has a time limit.
fn helped(program: &str, arguments: &[&str], limit: Duration) -> Result<String, LoginError> {
    let seconds = limit.as_secs();
    let output = std::process::Command::new("timeout")
        .args(["-k", "2", &seconds.to_string(), program])
        .args(arguments)
        .stdin(std::process::Stdio::null())
        .output()
        .map_err(|error| LoginError::NotStarted { program: program.to_owned(), error })?;
    match output.status.code() {
        Some(0) => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        Some(124 | 137) => Err(LoginError::TimedOut { program: program.to_owned(), seconds }),
        Some(126 | 127) => Err(LoginError::CannotRun { program: program.to_owned() }),
        Some(_) | None => {
            let stderr = String::from_utf8_lossy(&output.stderr).trim().to_owned();
            Err(LoginError::ProgramFailed { program: program.to_owned(), stderr })
        }
    }
}

/// Anthropic's models at Amazon, for the person's own account. Keys stay here.
fn claude_at_amazon() -> Result<(Upstream, Vec<String>), Failure> {
    let Some(region) = variable("AWS_REGION")?.or(variable("AWS_DEFAULT_REGION")?) else {
        return Err(Failure::general("AWS_REGION is not set, and the login is `bedrock`")
            .help("it is the region whose models you may use, such as eu-west-1"));
    };
    if region.is_empty() || !region.chars().all(|c| c.is_ascii_alphanumeric() || c == '-') {
        return Err(Failure::general("the region of `bedrock` is not a plain name"));
    }
    let base = variable("ANTHROPIC_BEDROCK_BASE_URL")?
        .unwrap_or_else(|| format!("https://bedrock-runtime.{region}.amazonaws.com"));
    let base = base.trim_end_matches('/').to_owned();
    if let Some(token) = variable(AMAZON_TOKEN)? {
        let key = Key::new("authorization", &format!("Bearer {token}"))
            .map_err(|error| Failure::general(format!("the login cannot be used: {error}")))?;
        return Ok((from(base, key, AMAZON_TOKEN), vec![token]));
    }
    let key_pair = (variable("AWS_ACCESS_KEY_ID")?, variable("AWS_SECRET_ACCESS_KEY")?);
    if let (Some(id), Some(secret)) = key_pair {
        let session = variable("AWS_SESSION_TOKEN")?;
        let key = Key::signing(&id, &secret, session.as_deref(), &region);
        let secrets = [secret].into_iter().chain(session).collect();
        return Ok((from(base, key, "AWS_ACCESS_KEY_ID"), secrets));
    }
    let failed = |why: LoginError| {
        Failure::general(format!("there are no keys for Amazon: {why}")).help(
            "set AWS_BEARER_TOKEN_BEDROCK, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or log in \
             with `aws sso login`",
        )
    };
    let (first, secrets) = amazon_keys(&region).map_err(failed)?;
    let key = Key::renewed(first, move || amazon_keys(&region).map(|(fresh, _)| fresh));
    Ok((from(base, key, "the login of aws"), secrets))
}

/// The keys that the `aws` program returns for the person's login, and those that must stay secret.
fn amazon_keys(region: &str) -> Result<(RenewedKey, Vec<String>), LoginError> {
    let arguments = ["configure", "export-credentials", "--format", "process"];
    let output = helped("aws", &arguments, HELP_TAKES)?;
    let keys: serde_json::Value = serde_json::from_str(&output).unwrap_or_default();
    let word = |name: &str| keys.get(name).and_then(|one| one.as_str()).map(str::to_owned);
    let (Some(id), Some(secret)) = (word("AccessKeyId"), word("SecretAccessKey")) else {
        return Err(LoginError::NoneGiven("aws"));
    };
    let until = match word("Expiration").map(|text| text.parse::<jiff::Timestamp>()) {
        None => None,
        Some(Ok(until)) => Some(SystemTime::from(until)),
        Some(Err(_)) => return Err(LoginError::NoExpiry),
    };
    let session = word("SessionToken");
    let key = Key::signing(&id, &secret, session.as_deref(), region);
    Ok((RenewedKey { key, until }, [secret].into_iter().chain(session).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use bailiwick_runner::agents::{ClaudeCode, Codex};

    #[test]
    fn missing_key_error_suggests_found_logins() {
        let found = |what: &str, usage| FoundLogin { what: what.to_owned(), usage };
        let subscription = found("a Claude subscription (FILE)", Usage::Login(Login::Subscription));
        assert_eq!(
            offered(&ClaudeCode, "ANTHROPIC_API_KEY", &[subscription]),
            "found a Claude subscription (FILE). Use it: `--login subscription`, or `login = \
             \"subscription\"` under [agent] in the task\n set ANTHROPIC_API_KEY; it stays with the \
             supervisor, and the agent never sees it\n logins of claude-code in a run: api-key, \
             subscription, bedrock, vertex"
        );
        let chatgpt = found("a ChatGPT login of Codex (FILE)", Usage::NotInRuns);
        let offered = offered(&Codex, "CODEX_API_KEY or OPENAI_API_KEY", &[chatgpt]);
        assert!(offered.contains("bailiwick hooks install codex"), "{offered}");
        assert!(offered.ends_with("logins of codex in a run: api-key"), "{offered}");
    }

    #[test]
    fn claude_token_is_read_from_the_current_file() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join(".credentials.json");
        assert!(claude_token(&file).unwrap_err().to_string().contains("has a login"));
        for (token, until) in [("first-token", Some(1_000_u64)), ("second-token", None)] {
            let expiry = until.map(|ms| format!(",\"expiresAt\":{ms}")).unwrap_or_default();
            let text = format!("{{\"claudeAiOauth\":{{\"accessToken\":\"{token}\"{expiry}}}}}");
            std::fs::write(&file, text).unwrap();
            let (renewed_key, found) = claude_token(&file).unwrap();
            assert_eq!(found, token);
            let until = until.map(|ms| SystemTime::UNIX_EPOCH + Duration::from_millis(ms));
            assert_eq!(renewed_key.until, until);
        }
    }

    #[test]
    fn login_helper_program_has_a_timeout() {
        let second = Duration::from_secs(1);
        let hangs = helped("sleep", &["600"], second).unwrap_err().to_string();
        assert!(hangs.contains("`sleep` did not answer within 1 second"), "{hangs}");
        let missing = helped("no-such-program-at-all", &[], second).unwrap_err().to_string();
        assert!(missing.contains("cannot be run"), "{missing}");
        let fails =
            helped("sh", &["-c", "echo log in first >&2; exit 3"], second).unwrap_err().to_string();
        assert_eq!(fails, "sh: log in first");
        assert_eq!(helped("echo", &["here"], second).unwrap(), "here\n");
    }
}
