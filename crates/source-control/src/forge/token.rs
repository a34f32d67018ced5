//! A credential that is never printed.

use std::fmt;

use bailiwick_control::ports::fleet::ForgeError;

/// The token for a forge's API.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

impl Token {
    /// Parses a token; it must be valid in an HTTP header.
    pub fn parse(text: &str) -> Result<Self, ForgeError> {
        let text = text.trim();
        if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            let why = "the credential is empty or has invalid characters; store it again";
            return Err(ForgeError::Refused(why.to_owned()));
        }
        Ok(Self(text.to_owned()))
    }

    /// The token itself, to send it.
    pub(super) fn secret(&self) -> &str {
        &self.0
    }

    /// Replaces the token and other recognisable secrets in a text.
    pub(super) fn redact(&self, text: &str) -> String {
        let text = text.replace(&self.0, bailiwick_model::secret::PLACEHOLDER);
        bailiwick_model::secret::redacted(&text)
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Token([secret])")
    }
}
