//! A real Gitea, by its API and by git: accounts, repositories, and what people do there.

use std::io::Write as _;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::Scratch;

/// The password of all test accounts.
const PASSWORD: &str = "a-long-enough-password-1";

/// A running Gitea, by the variables `GITEA_URL` and `GITEA_ADMIN` (`NAME:PASSWORD`).
pub struct GiteaServer {
    /// Its URL.
    pub url: String,
    admin: String,
}

impl GiteaServer {
    /// The one that the variables name.
    pub fn from_environment() -> Self {
        let given =
            |name: &str| std::env::var(name).unwrap_or_else(|_| panic!("{name} is not set"));
        let url = given("GITEA_URL").trim_end_matches('/').to_owned();
        Self { url, admin: given("GITEA_ADMIN") }
    }

    /// The address of its API.
    pub fn api_url(&self) -> String {
        format!("{}/api/v1", self.url)
    }

    /// Which Gitea it is.
    pub fn version(&self) -> String {
        self.admin("GET", "/version", &Value::Null)["version"].as_str().unwrap().to_owned()
    }

    /// A request as the administrator; it must succeed.
    pub fn admin(&self, method: &str, path: &str, body: &Value) -> Value {
        self.done(&self.admin, method, path, body)
    }

    /// A request as an account from [`GiteaServer::account`]; it must succeed.
    pub fn by(&self, account: &str, method: &str, path: &str, body: &Value) -> Value {
        self.done(&format!("{account}:{PASSWORD}"), method, path, body)
    }

    fn done(&self, login: &str, method: &str, path: &str, body: &Value) -> Value {
        let (status, answer) = self.ask(login, method, path, body);
        assert!((200..300).contains(&status), "{method} {path}: {status} {answer:#}");
        answer
    }

    /// A request; returns the status, and the body as JSON.
    fn ask(&self, login: &str, method: &str, path: &str, body: &Value) -> (u16, Value) {
        let url = format!("{}{path}", self.api_url());
        let mut curl = Command::new("curl");
        curl.args(["-sS", "--globoff", "-w", "\n%{http_code}", "-u", login, "-X", method]);
        if !body.is_null() {
            curl.args(["-H", "Content-Type: application/json", "--data-binary", "@-"]);
        }
        curl.arg(&url).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = curl.spawn().unwrap();
        let text = if body.is_null() { String::new() } else { body.to_string() };
        // A server that refuses early does not read it all.
        let _ = child.stdin.take().unwrap().write_all(text.as_bytes());
        let output = child.wait_with_output().unwrap();
        let said = String::from_utf8(output.stdout).unwrap();
        let (body, status) = said.rsplit_once('\n').unwrap();
        (status.parse().unwrap(), serde_json::from_str(body).unwrap_or(Value::Null))
    }

    /// A name that no other test, and no earlier one, has used.
    pub fn unique_name() -> String {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        format!("{:x}", now.as_micros() % 0xffff_ffff)
    }

    /// Creates an account for this test.
    pub fn account(&self, name: &str) {
        let body = json!({
            "username": name, "email": format!("{name}@example.org"), "password": PASSWORD,
            "must_change_password": false,
        });
        self.admin("POST", "/admin/users", &body);
    }

    /// A token of an account.
    pub fn token(&self, account: &str, name: &str, scopes: &[&str]) -> String {
        let path = format!("/users/{account}/tokens");
        let made = self.by(account, "POST", &path, &json!({ "name": name, "scopes": scopes }));
        made["sha1"].as_str().unwrap().to_owned()
    }

    /// The address by which git reaches a repository as this account.
    pub fn remote(&self, account: &str, repository: &str) -> String {
        let (scheme, host) = self.url.split_once("://").unwrap();
        format!("{scheme}://{account}:{PASSWORD}@{host}/{repository}.git")
    }
}

/// The clone of a person, who pushes to the server.
pub struct PersonsClone {
    /// Its directory.
    pub scratch: Scratch,
}

impl PersonsClone {
    /// A clone of `main`.
    pub fn new(server: &GiteaServer, account: &str, repository: &str) -> Self {
        let scratch = Scratch::repository();
        scratch.git(&["remote", "add", "origin", &server.remote(account, repository)]);
        scratch.git(&["fetch", "--quiet", "origin"]);
        scratch.git(&["reset", "--quiet", "--hard", "origin/main"]);
        Self { scratch }
    }

    /// Commits a file on this branch, created from `main` if it is new, and pushes it.
    pub fn push(&self, branch: &str, path: &str, text: &str) -> String {
        self.scratch.git(&["fetch", "--quiet", "origin"]);
        let known =
            self.scratch.git(&["branch", "--remotes", "--list", &format!("origin/{branch}")]);
        let start = if known.trim().is_empty() { "main" } else { branch };
        self.scratch.git(&["checkout", "--quiet", "-B", branch, &format!("origin/{start}")]);
        self.scratch.write(path, text);
        let commit = self.scratch.commit(&format!("Change {path}"));
        self.scratch.git(&["push", "--quiet", "origin", &format!("HEAD:{branch}")]);
        commit
    }
}
