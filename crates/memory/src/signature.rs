//! Signatures of events, for agents that share one account.

use std::fmt;

use hmac::{Hmac, KeyInit as _, Mac as _};
use serde_json::Value;
use sha2::Sha256;

use crate::event::Event;

const PREFIX: &str = "hmac-sha256:";

/// The key of everybody who may write events with the shared account. It is never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct SigningKey(Vec<u8>);

impl fmt::Debug for SigningKey {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("SigningKey")
    }
}

impl SigningKey {
    pub fn new(secret: &[u8]) -> Self {
        Self(secret.to_vec())
    }

    /// The event with its signature. The issue is signed too, so that an event cannot be copied to another one.
    #[must_use]
    pub fn sign(&self, mut event: Event, repository: &str, issue: u64) -> Event {
        event.signature = None;
        let tag: String = match self.tag(&event, repository, issue) {
            Some(mac) => hex_of(&mac.finalize().into_bytes()),
            None => return event,
        };
        event.signature = Some(format!("{PREFIX}{tag}"));
        event
    }

    /// Whether the event was signed with this key for this issue.
    pub fn verifies(&self, event: &Event, repository: &str, issue: u64) -> bool {
        let Some(hex) = event.signature.as_deref().and_then(|text| text.strip_prefix(PREFIX))
        else {
            return false;
        };
        let Some(bytes) = bytes(hex) else { return false };
        let bare = Event { signature: None, ..event.clone() };
        self.tag(&bare, repository, issue).is_some_and(|mac| mac.verify_slice(&bytes).is_ok())
    }

    /// The signature of a text.
    pub fn sign_text(&self, text: &str) -> Option<String> {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.0).ok()?;
        mac.update(text.as_bytes());
        let bytes = mac.finalize().into_bytes();
        Some(format!("{PREFIX}{}", hex_of(&bytes)))
    }

    /// Whether a text was signed with this key.
    pub fn verifies_text(&self, text: &str, signature: &str) -> bool {
        let Some(bytes) = signature.strip_prefix(PREFIX).and_then(bytes) else { return false };
        let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(&self.0) else { return false };
        mac.update(text.as_bytes());
        mac.verify_slice(&bytes).is_ok()
    }

    fn tag(&self, event: &Event, repository: &str, issue: u64) -> Option<Hmac<Sha256>> {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.0).ok()?;
        let mut text = String::new();
        canonical(&serde_json::to_value(event).ok()?, &mut text);
        mac.update(format!("{repository}#{issue}\n{text}").as_bytes());
        Some(mac)
    }
}

/// JSON with sorted keys and no spaces: one text for one value.
fn canonical(value: &Value, out: &mut String) {
    match value {
        Value::Object(object) => {
            let mut keys: Vec<&String> = object.keys().collect();
            keys.sort();
            out.push('{');
            for (index, key) in keys.into_iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                canonical(&Value::String(key.clone()), out);
                out.push(':');
                canonical(object.get(key).unwrap_or(&Value::Null), out);
            }
            out.push('}');
        }
        Value::Array(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                canonical(item, out);
            }
            out.push(']');
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            out.push_str(&value.to_string())
        }
    }
}

fn hex_of(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn bytes(hex: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u8>> = hex
        .chars()
        .map(|digit| digit.to_digit(16).and_then(|digit| u8::try_from(digit).ok()))
        .collect();
    let digits = digits?;
    let pairs = digits.as_chunks::<2>();
    pairs.1.is_empty().then(|| pairs.0.iter().map(|[high, low]| high << 4 | low).collect())
}
