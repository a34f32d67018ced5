//! Verifies the signature of a webhook. Without a secret every webhook is rejected.

use bailiwick_resources::{ForgeKind, Moment};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use thiserror::Error;

/// How far the clock of a generic sender may be off.
pub const TOLERANCE_SECONDS: u64 = 300;

/// The headers that can contain a signature.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SignatureHeaders<'a> {
    /// `X-Hub-Signature-256`: GitHub, and Gitea in its likeness.
    pub hub_256: Option<&'a str>,
    /// `X-Gitea-Signature`, or Forgejo's `X-Forgejo-Signature`.
    pub gitea: Option<&'a str>,
    /// `X-Bailiwick-Signature`.
    pub bailiwick: Option<&'a str>,
}

/// Why a webhook is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum SignatureError {
    /// There is no secret to verify with.
    #[error(
        "the repository has no webhook secret: set webhookSecretRef, and the same secret at the sender"
    )]
    NoSecret,
    /// It is not signed.
    #[error("there is no signature: set the webhook's secret at the sender")]
    Missing,
    /// The header cannot be read.
    #[error("the signature cannot be read: write {expected}")]
    Malformed {
        /// The expected form.
        expected: &'static str,
    },
    /// It was signed with another secret, or changed on its way.
    #[error("the signature is not one of the repository's secret")]
    Wrong,
    /// It was signed too long ago, or in the future.
    #[error("the signature is of another time: it may be at most {TOLERANCE_SECONDS} s off")]
    OutOfTime,
    /// The forge sends none.
    #[error("a repository without a forge takes no webhooks")]
    NoForge,
}

/// Checks the signature of a body.
pub fn verify(
    forge: ForgeKind,
    headers: SignatureHeaders<'_>,
    secret: Option<&[u8]>,
    body: &[u8],
    now: Moment,
) -> Result<(), SignatureError> {
    let secret = secret.filter(|secret| !secret.is_empty()).ok_or(SignatureError::NoSecret)?;
    match forge {
        ForgeKind::Github => {
            let given = headers.hub_256.ok_or(SignatureError::Missing)?;
            matches(secret, &[body], &hub(given)?)
        }
        ForgeKind::Gitea => match (headers.gitea, headers.hub_256) {
            (Some(given), _) => matches(secret, &[body], &plain(given)?),
            (None, Some(given)) => matches(secret, &[body], &hub(given)?),
            (None, None) => Err(SignatureError::Missing),
        },
        ForgeKind::Generic => timed(secret, headers.bailiwick, body, now),
        ForgeKind::Local => Err(SignatureError::NoForge),
    }
}

/// The header that a generic sender sets for a body at a time.
pub fn sign(secret: &[u8], body: &[u8], at: Moment) -> Result<String, SignatureError> {
    let seconds = at.millis() / 1000;
    let mac = authenticate(secret, &[seconds.to_string().as_bytes(), b".", body])?;
    let hex: String =
        mac.finalize().into_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(format!("t={seconds},v1={hex}"))
}

fn timed(
    secret: &[u8],
    header: Option<&str>,
    body: &[u8],
    now: Moment,
) -> Result<(), SignatureError> {
    let wrong = SignatureError::Malformed { expected: "t=<unix seconds>,v1=<64 hex digits>" };
    let header = header.ok_or(SignatureError::Missing)?;
    let (time, tag) = header.trim().split_once(',').ok_or(wrong)?;
    let time = time.trim().strip_prefix("t=").ok_or(wrong)?;
    let tag = tag.trim().strip_prefix("v1=").and_then(from_hex).ok_or(wrong)?;
    let digits = !time.is_empty() && time.bytes().all(|byte| byte.is_ascii_digit());
    let seconds: u64 = time.parse().ok().filter(|_| digits).ok_or(wrong)?;
    // Signed first: who has no secret learns nothing of our clock.
    matches(secret, &[time.as_bytes(), b".", body], &tag)?;
    if seconds.abs_diff(now.millis() / 1000) > TOLERANCE_SECONDS {
        return Err(SignatureError::OutOfTime);
    }
    Ok(())
}

fn hub(header: &str) -> Result<[u8; 32], SignatureError> {
    let wrong = SignatureError::Malformed { expected: "sha256=<64 hex digits>" };
    header.trim().strip_prefix("sha256=").and_then(from_hex).ok_or(wrong)
}

fn plain(header: &str) -> Result<[u8; 32], SignatureError> {
    from_hex(header.trim()).ok_or(SignatureError::Malformed { expected: "64 hex digits" })
}

fn from_hex(text: &str) -> Option<[u8; 32]> {
    if text.len() != 64 {
        return None;
    }
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|value| u8::try_from(value).ok());
    let mut bytes = [0; 32];
    for (byte, pair) in bytes.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
        let [high, low] = pair else { return None };
        *byte = digit(*high)? << 4 | digit(*low)?;
    }
    Some(bytes)
}

fn authenticate(secret: &[u8], parts: &[&[u8]]) -> Result<Hmac<Sha256>, SignatureError> {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret).map_err(|_| SignatureError::NoSecret)?;
    for part in parts {
        mac.update(part);
    }
    Ok(mac)
}

/// Compares in constant time.
fn matches(secret: &[u8], parts: &[&[u8]], tag: &[u8; 32]) -> Result<(), SignatureError> {
    authenticate(secret, parts)?.verify_slice(tag).map_err(|_| SignatureError::Wrong)
}
