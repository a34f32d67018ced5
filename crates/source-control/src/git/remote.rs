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
    #[error(transparent)]
    Refused(Refusal),
    /// The remote did not answer: it is not known whether the request succeeded.
    #[error("{0}")]
    Unavailable(String),
}

/// What was refused, with git's message or our own.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub(crate) enum Refusal {
    /// The remote does not accept the credential, or demands one.
    #[error("{0}")]
    Credential(String),
    /// The account has no right to do this.
    #[error("{0}")]
    Forbidden(String),
    /// The remote has no such repository, or does not show it to this account.
    #[error("{0}")]
    NotFound(String),
    #[error("{0}")]
    Other(String),
}

impl Refusal {
    /// What git's message says was refused; `None` if it may be a broken connection. Git has one exit code for all
    /// failed transfers, so that only its message distinguishes them.
    fn of_transfer(message: &str) -> Option<Self> {
        let has = |texts: &[&str]| texts.iter().any(|text| message.contains(text));
        if has(&["could not read Username"]) {
            return Some(Self::Credential("the remote does not accept the credential".to_owned()));
        }
        if has(&["Authentication failed", "returned error: 401"]) {
            return Some(Self::Credential(message.to_owned()));
        }
        if has(&["returned error: 403"]) {
            return Some(Self::Forbidden(message.to_owned()));
        }
        if has(&["returned error: 404", "not found"]) {
            return Some(Self::NotFound(message.to_owned()));
        }
        has(&["does not appear to be"]).then(|| Self::Other(message.to_owned()))
    }
}

impl RemoteError {
    /// The request is invalid, or the remote refused it for a reason that no other refusal names.
    pub(super) fn refused(why: String) -> Self {
        Self::Refused(Refusal::Other(why))
    }
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
            .map_err(|error| RemoteError::refused(format!("{}: {}", error.what, error.why)))?;
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
        RemoteError::refused(self.redact(&error.to_string()))
    }

    pub(super) fn unavailable(&self, error: &GitError) -> RemoteError {
        RemoteError::Unavailable(self.redact(&error.to_string()))
    }

    /// What a failed transfer means. If git's message is not known to be a refusal, the outcome is unknown.
    pub(super) fn transfer_error(&self, stderr: &str) -> RemoteError {
        let message = self.redact(stderr);
        match Refusal::of_transfer(&message) {
            Some(refusal) => RemoteError::Refused(refusal),
            None => RemoteError::Unavailable(message),
        }
    }
}

/// Whether this is the full name of an object, in lower case.
pub(super) fn is_object_name(name: &str) -> bool {
    let is_hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    matches!(name.len(), 40 | 64) && name.bytes().all(is_hex)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_of_git_are_classified() {
        let of = Refusal::of_transfer;
        let demanded = "fatal: could not read Username for 'https://a': terminal prompts disabled";
        assert!(matches!(of(demanded), Some(Refusal::Credential(_))));
        for message in [
            "fatal: Authentication failed for 'http://127.0.0.1/a.git/'",
            "fatal: unable to access 'https://a/': The requested URL returned error: 401",
        ] {
            assert_eq!(of(message), Some(Refusal::Credential(message.to_owned())));
        }
        let message = "fatal: unable to access 'https://a/': The requested URL returned error: 403";
        assert_eq!(of(message), Some(Refusal::Forbidden(message.to_owned())));
        for message in [
            "fatal: unable to access 'https://a/': The requested URL returned error: 404",
            "fatal: repository 'https://a/b.git/' not found",
        ] {
            assert_eq!(of(message), Some(Refusal::NotFound(message.to_owned())));
        }
        let message = "fatal: '/missing' does not appear to be a git repository";
        assert_eq!(of(message), Some(Refusal::Other(message.to_owned())));
        assert_eq!(of("fatal: unable to access 'https://a/': Could not resolve host: a"), None);
    }
}
