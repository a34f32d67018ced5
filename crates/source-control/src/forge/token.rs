//! A credential that does not show itself.

use std::fmt;

use bailiwick_fleet::ports::ForgeError;

/// What a forge is spoken to with.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

impl Token {
    /// A token as the forge gave it; one that could not stand in a header is none.
    pub fn parse(text: &str) -> Result<Self, ForgeError> {
        let text = text.trim();
        if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            let why = "the credential is empty or has characters that no token has; store it anew";
            return Err(ForgeError::Refused(why.to_owned()));
        }
        Ok(Self(text.to_owned()))
    }

    /// The token itself, for the one who sends it.
    pub(super) fn secret(&self) -> &str {
        &self.0
    }

    /// A text in which it does not stand, nor any other secret that can be recognised.
    pub(super) fn hidden_in(&self, text: &str) -> String {
        let text = text.replace(&self.0, bailiwick_model::secret::PLACEHOLDER);
        bailiwick_model::secret::redacted(&text)
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Token([secret])")
    }
}
