//! A remote repository that commits are pushed to and fetched from.
//!
//! Git runs on the object store alone. The checkout's configuration could name a proxy, another address
//! or a certificate, and an agent may have written it, so it is not read. The credential is in the
//! environment of that one git, bound to the address.

use std::path::Path;
use std::time::Duration;

use base64::Engine as _;
use thiserror::Error;

use super::command::{Git, GitError};
use super::timeout::Timeout;
use super::work;

const TIMEOUT: Timeout = Timeout {
    grace: Duration::from_secs(120),
    limit: Duration::from_secs(480),
    find_obstacle: |_| None,
};

/// How much of git's messages is passed on.
const MAX_MESSAGE_CHARS: usize = 600;

/// An object name where only its length matters.
pub(super) const ANY_SHA1: &str = "0000000000000000000000000000000000000000";

pub(crate) struct Remote<'a> {
    /// An http(s) URL, or the path of a repository on this machine.
    pub(crate) url: &'a str,
    pub(crate) token: Option<&'a str>,
}

/// Why a push or a fetch did not succeed.
#[derive(Debug, Error)]
pub(crate) enum RemoteError {
    /// The branch is not at the expected commit.
    #[error("the branch has moved")]
    Moved,
    /// The request is invalid, or the remote refused it.
    #[error("{0}")]
    Refused(String),
    /// The remote did not answer: it is not known whether the request succeeded.
    #[error("{0}")]
    Unavailable(String),
}

impl Remote<'_> {
    pub(super) fn is_http(&self) -> bool {
        self.url.starts_with("http://") || self.url.starts_with("https://")
    }

    /// Git that can reach this remote and has the objects of `repository`. `object` is the name of any
    /// object: its length tells the hash algorithm.
    pub(super) fn git(
        &self,
        repository: &Path,
        state: &Path,
        object: &str,
    ) -> Result<Git, RemoteError> {
        let git = work::objects_of(repository, state, object)
            .map_err(|error| RemoteError::Refused(format!("{}: {}", error.what, error.why)))?;
        let protocols = if self.is_http() { "http:https" } else { "file" };
        Ok(git.with_protocols(protocols).with_settings(self.settings()).with_timeout(TIMEOUT))
    }

    /// Settings that are passed in the environment of git, never in its arguments.
    fn settings(&self) -> Vec<(String, String)> {
        let mut settings = vec![
            // A redirect would carry the header to another host.
            ("http.followRedirects".to_owned(), "false".to_owned()),
            ("http.lowSpeedLimit".to_owned(), "1".to_owned()),
            ("http.lowSpeedTime".to_owned(), "30".to_owned()),
        ];
        if crate::loopback::is_local(self.url) {
            settings.push(("http.proxy".to_owned(), String::new()));
        }
        if let (true, Some(token)) = (self.is_http(), self.token) {
            let user_and_token = format!("x-access-token:{token}");
            let encoded = base64::engine::general_purpose::STANDARD.encode(user_and_token);
            let name = format!("http.{}.extraHeader", self.url);
            settings.push((name, format!("Authorization: Basic {encoded}")));
        }
        settings
    }

    /// A message of git's in one line, without secrets.
    pub(super) fn redact(&self, text: &str) -> String {
        let mut text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        if let Some(token) = self.token.filter(|token| !token.is_empty()) {
            text = text.replace(token, bailiwick_model::secret::PLACEHOLDER);
        }
        bailiwick_model::secret::redacted(&text).chars().take(MAX_MESSAGE_CHARS).collect()
    }

    pub(super) fn refused(&self, error: &GitError) -> RemoteError {
        RemoteError::Refused(self.redact(&error.to_string()))
    }

    pub(super) fn unavailable(&self, error: &GitError) -> RemoteError {
        RemoteError::Unavailable(self.redact(&error.to_string()))
    }

    /// What a failed transfer means. Git's exit code is the same for a refusal and for a broken
    /// connection, so only its message tells them apart; any other message means that the outcome is
    /// unknown.
    pub(super) fn transfer_error(&self, stderr: &str) -> RemoteError {
        let message = self.redact(stderr);
        if message.contains("could not read Username") {
            return RemoteError::Refused("the remote does not accept the credential".to_owned());
        }
        let refusals = [
            "Authentication failed",
            "returned error: 401",
            "returned error: 403",
            "returned error: 404",
            "not found",
            "does not appear to be",
        ];
        if refusals.iter().any(|refusal| message.contains(refusal)) {
            return RemoteError::Refused(message);
        }
        RemoteError::Unavailable(message)
    }
}

/// Whether this is the full name of an object, in lower case.
pub(super) fn is_object_name(name: &str) -> bool {
    let is_hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    matches!(name.len(), 40 | 64) && name.bytes().all(is_hex)
}
