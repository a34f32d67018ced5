//! Tokens: made from 32 random bytes, shown once, kept as a digest.

use bailiwick_fleet::ports::{FleetError, FleetStore, TokenRecord, TokenScope};
use bailiwick_model::Sha256Hex;
use bailiwick_resources::Moment;
use hyper::HeaderMap;
use hyper::header::AUTHORIZATION;
use thiserror::Error;

use crate::problem::Problem;

/// What every token begins with, so that it is recognised where it should not be.
pub const TOKEN_PREFIX: &str = "bwk_";

/// A token that was just made. Its text is nowhere else.
#[derive(Clone)]
pub struct Minted {
    /// The token itself: shown once.
    pub text: String,
    /// What is kept of it.
    pub record: TokenRecord,
}

impl std::fmt::Debug for Minted {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Minted").field("record", &self.record.id).finish_non_exhaustive()
    }
}

/// Why no token was made.
#[derive(Debug, Error)]
pub enum TokenError {
    /// A token without a person stands for nobody.
    #[error(
        "say who the token is for: a name of letters, digits, `-`, `_`, `.` and `@`, at most 128"
    )]
    Actor,
    /// It would be over before it begins.
    #[error("the token would end before it begins")]
    Expired,
    /// There is no randomness.
    #[error("the system gives no random bytes: {0}")]
    Random(String),
}

fn is_actor(text: &str) -> bool {
    !text.is_empty()
        && text.len() <= 128
        && text.chars().all(|sign| sign.is_alphanumeric() || "-_.@".contains(sign))
}

pub(crate) fn random_hex<const N: usize>() -> Result<String, TokenError> {
    let mut bytes = [0_u8; N];
    getrandom::fill(&mut bytes).map_err(|error| TokenError::Random(error.to_string()))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Makes a token. Keep the record with `Write::Token`, show the text once.
pub fn mint(
    actor: &str,
    scope: TokenScope,
    expires_at: Option<Moment>,
    now: Moment,
) -> Result<Minted, TokenError> {
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
    Ok(Minted { text, record })
}

/// The same time whatever the difference is.
fn same(one: &str, other: &str) -> bool {
    let differences = one
        .bytes()
        .zip(other.bytes())
        .fold(0, |seen, (one, other)| std::hint::black_box(seen | (one ^ other)));
    one.len() == other.len() && differences == 0
}

fn in_force(record: &TokenRecord, now: Moment) -> bool {
    record.revoked_at.is_none() && record.expires_at.is_none_or(|end| now < end)
}

/// The token that came with a request. Wrong, expired and revoked ones are not told apart.
pub(crate) async fn authenticate<S: FleetStore>(
    store: &S,
    headers: &HeaderMap,
    now: Moment,
) -> Result<TokenRecord, Problem> {
    let mut given = headers.get_all(AUTHORIZATION).iter();
    let (Some(header), None) = (given.next(), given.next()) else {
        return Err(Problem::unauthorized("send one `Authorization: Bearer …` with a token"));
    };
    let wrong = || Problem::unauthorized("the token is not known, has expired or was revoked");
    let text = header.to_str().map_err(|_| wrong())?;
    let (scheme, token) = text.split_once(' ').ok_or_else(wrong)?;
    if !scheme.eq_ignore_ascii_case("bearer") || !token.starts_with(TOKEN_PREFIX) {
        return Err(wrong());
    }
    let digest = Sha256Hex::of(token).to_string();
    let record = store.token(&digest).await?.ok_or_else(wrong)?;
    if !same(&record.digest, &digest) || !in_force(&record, now) {
        return Err(wrong());
    }
    Ok(record)
}

/// Whether a token that was good is good still: streams live longer than requests.
pub(crate) async fn still_valid<S: FleetStore>(
    store: &S,
    digest: &str,
    now: Moment,
) -> Result<bool, FleetError> {
    Ok(store.token(digest).await?.is_some_and(|record| in_force(&record, now)))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn tokens_are_long_and_never_the_same_and_their_text_is_not_kept() {
        let now = Moment::from_millis(1);
        let mut seen = BTreeSet::new();
        for _ in 0..200 {
            let minted = mint("ada", TokenScope::Viewer, None, now).unwrap();
            assert_eq!(minted.text.len(), TOKEN_PREFIX.len() + 64);
            let kept = serde_json::to_string(&minted.record).unwrap();
            let secret = minted.text.trim_start_matches(TOKEN_PREFIX);
            assert!(!kept.contains(secret), "{kept}");
            assert!(!format!("{minted:?}").contains(secret));
            assert!(kept.contains(Sha256Hex::of(&minted.text).as_str()), "{kept}");
            assert!(seen.insert(minted.text), "the same token twice");
        }
    }

    #[test]
    fn a_token_is_for_somebody_and_for_some_time() {
        let now = Moment::from_millis(10);
        for name in ["", "a b", "a\nb", &"x".repeat(129)] {
            assert!(mint(name, TokenScope::Admin, None, now).is_err(), "{name:?}");
        }
        assert!(mint("ada@example.org", TokenScope::Admin, Some(now), now).is_err());
        assert!(mint("ada", TokenScope::Admin, Some(Moment::from_millis(11)), now).is_ok());
    }

    #[test]
    fn comparing_sees_every_difference() {
        assert!(same("abc", "abc"));
        for other in ["abd", "bbc", "ab", "abcd", ""] {
            assert!(!same("abc", other), "{other}");
        }
    }
}
