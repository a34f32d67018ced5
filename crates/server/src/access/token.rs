//! API tokens: 32 random bytes, shown once, stored as a digest.

use bailiwick_fleet::ports::{FleetError, FleetStore, TokenRecord, TokenScope};
use bailiwick_model::Sha256Hex;
use bailiwick_resources::Moment;
use hyper::HeaderMap;
use hyper::header::AUTHORIZATION;
use thiserror::Error;

use crate::problem::Problem;

/// The prefix of every token, so that secret scanners recognise it.
pub const TOKEN_PREFIX: &str = "bwk_";

/// A new token. Its text is not stored.
#[derive(Clone)]
pub struct MintedToken {
    pub text: String,
    /// The stored part.
    pub record: TokenRecord,
}

impl std::fmt::Debug for MintedToken {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("MintedToken").field("record", &self.record.id).finish_non_exhaustive()
    }
}

#[derive(Debug, Error)]
pub enum TokenError {
    #[error("the actor must be a name of letters, digits, `-`, `_`, `.` and `@`, at most 128")]
    Actor,
    #[error("the expiry time is in the past")]
    Expired,
    #[error("the system has no random bytes: {0}")]
    Random(String),
}

fn is_actor(text: &str) -> bool {
    !text.is_empty()
        && text.len() <= 128
        && text.chars().all(|letter| letter.is_alphanumeric() || "-_.@".contains(letter))
}

pub(crate) fn random_hex<const N: usize>() -> Result<String, TokenError> {
    let mut bytes = [0_u8; N];
    getrandom::fill(&mut bytes).map_err(|error| TokenError::Random(error.to_string()))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Creates a token. Store the record with `Write::Token`; show the text once.
pub fn mint(
    actor: &str,
    scope: TokenScope,
    expires_at: Option<Moment>,
    now: Moment,
) -> Result<MintedToken, TokenError> {
    if !is_actor(actor) {
        return Err(TokenError::Actor);
    }
    if expires_at.is_some_and(|end| end <= now) {
        return Err(TokenError::Expired);
    }
    let text = format!("{TOKEN_PREFIX}{}", random_hex::<32>()?);
    let record = TokenRecord {
        id: format!("token-{}", random_hex::<8>()?),
        actor: actor.to_owned(),
        scope,
        digest: Sha256Hex::of(&text).to_string(),
        created_at: now,
        expires_at,
        revoked_at: None,
    };
    Ok(MintedToken { text, record })
}

/// Compares in constant time.
fn constant_time_eq(one: &str, other: &str) -> bool {
    let differences = one
        .bytes()
        .zip(other.bytes())
        .fold(0, |seen, (one, other)| std::hint::black_box(seen | (one ^ other)));
    one.len() == other.len() && differences == 0
}

fn is_valid(record: &TokenRecord, now: Moment) -> bool {
    record.revoked_at.is_none() && record.expires_at.is_none_or(|end| now < end)
}

/// The token of a request. Unknown, expired and revoked tokens give the same error.
pub(crate) async fn authenticate<S: FleetStore>(
    store: &S,
    headers: &HeaderMap,
    now: Moment,
) -> Result<TokenRecord, Problem> {
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let (Some(header), None) = (values.next(), values.next()) else {
        return Err(Problem::unauthorized("send one `Authorization: Bearer …` with a token"));
    };
    let invalid = || Problem::unauthorized("the token is unknown, expired or revoked");
    let text = header.to_str().map_err(|_| invalid())?;
    let (scheme, token) = text.split_once(' ').ok_or_else(invalid)?;
    if !scheme.eq_ignore_ascii_case("bearer") || !token.starts_with(TOKEN_PREFIX) {
        return Err(invalid());
    }
    let digest = Sha256Hex::of(token).to_string();
    let record = store.token(&digest).await?.ok_or_else(invalid)?;
    if !constant_time_eq(&record.digest, &digest) || !is_valid(&record, now) {
        return Err(invalid());
    }
    Ok(record)
}

/// Whether a token is still valid: a stream can outlive its token.
pub(crate) async fn still_valid<S: FleetStore>(
    store: &S,
    digest: &str,
    now: Moment,
) -> Result<bool, FleetError> {
    Ok(store.token(digest).await?.is_some_and(|record| is_valid(&record, now)))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn tokens_are_long_and_unique_and_their_text_is_not_stored() {
        let now = Moment::from_millis(1);
        let mut seen = BTreeSet::new();
        for _ in 0..200 {
            let minted = mint("ada", TokenScope::Viewer, None, now).unwrap();
            assert_eq!(minted.text.len(), TOKEN_PREFIX.len() + 64);
            let stored = serde_json::to_string(&minted.record).unwrap();
            let secret = minted.text.trim_start_matches(TOKEN_PREFIX);
            assert!(!stored.contains(secret), "{stored}");
            assert!(!format!("{minted:?}").contains(secret));
            assert!(stored.contains(Sha256Hex::of(&minted.text).as_str()), "{stored}");
            assert!(seen.insert(minted.text), "the same token twice");
        }
    }

    #[test]
    fn a_token_needs_an_actor_and_a_future_expiry() {
        let now = Moment::from_millis(10);
        for name in ["", "a b", "a\nb", &"x".repeat(129)] {
            assert!(mint(name, TokenScope::Admin, None, now).is_err(), "{name:?}");
        }
        assert!(mint("ada@example.org", TokenScope::Admin, Some(now), now).is_err());
        assert!(mint("ada", TokenScope::Admin, Some(Moment::from_millis(11)), now).is_ok());
    }

    #[test]
    fn the_comparison_finds_every_difference() {
        assert!(constant_time_eq("abc", "abc"));
        for other in ["abd", "bbc", "ab", "abcd", ""] {
            assert!(!constant_time_eq("abc", other), "{other}");
        }
    }
}
