//! API tokens and the sessions of browsers: 32 random bytes, shown once, stored as a digest.
//!
//! A browser sends a session to every program that listens on the same host, whatever its port. So a session is no API
//! token, and an API token is no session.

use bailiwick_fleet::ports::{FleetError, FleetStore, SESSION_ID_PREFIX, TokenRecord, TokenScope};
use bailiwick_model::Sha256Hex;
use bailiwick_resources::Moment;
use hyper::HeaderMap;
use hyper::header::AUTHORIZATION;
use thiserror::Error;

use crate::problem::Problem;

/// The prefix of every token, so that secret scanners recognise it.
pub const TOKEN_PREFIX: &str = "bwk_";

/// The prefix of the sessions of browsers.
const SESSION_PREFIX: &str = "bws_";

/// What a token may be sent as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TokenUse {
    /// In the `Authorization` header.
    Header,
    /// In the cookie of a browser.
    Cookie,
}

impl TokenUse {
    fn prefix(self) -> &'static str {
        match self {
            Self::Header => TOKEN_PREFIX,
            Self::Cookie => SESSION_PREFIX,
        }
    }
}

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

/// Creates an API token. Store the record with `Write::Token`; show the text once.
pub fn mint(
    actor: &str,
    scope: TokenScope,
    expires_at: Option<Moment>,
    now: Moment,
) -> Result<MintedToken, TokenError> {
    mint_as(TokenUse::Header, "tok-", actor, scope, expires_at, now)
}

/// Creates the token of a person who has signed in. Its id tells it apart in lists.
pub(crate) fn mint_signed_in(
    used_as: TokenUse,
    actor: &str,
    scope: TokenScope,
    expires_at: Moment,
    now: Moment,
) -> Result<MintedToken, TokenError> {
    mint_as(used_as, SESSION_ID_PREFIX, actor, scope, Some(expires_at), now)
}

/// Creates the session of a browser that nobody has signed in with a token.
pub fn mint_session(
    actor: &str,
    scope: TokenScope,
    expires_at: Moment,
    now: Moment,
) -> Result<MintedToken, TokenError> {
    mint_signed_in(TokenUse::Cookie, actor, scope, expires_at, now)
}

/// Creates the session of a browser that ends with the token that it is started with.
pub(crate) fn mint_child_session(
    parent: &TokenRecord,
    expires_at: Moment,
    now: Moment,
) -> Result<MintedToken, TokenError> {
    let mut minted = mint_session(&parent.actor, parent.scope, expires_at, now)?;
    let own = minted.record.id.trim_start_matches(SESSION_ID_PREFIX).to_owned();
    minted.record.id = TokenRecord::session_id(&own, parent);
    Ok(minted)
}

fn mint_as(
    used_as: TokenUse,
    id_prefix: &str,
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
    let text = format!("{}{}", used_as.prefix(), random_hex::<32>()?);
    let record = TokenRecord {
        id: format!("{id_prefix}{}", random_hex::<8>()?),
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

/// Whether a token is valid, and the one that it was started with.
async fn is_valid_with_parent<S: FleetStore>(
    store: &S,
    record: &TokenRecord,
    now: Moment,
) -> Result<bool, FleetError> {
    if !is_valid(record, now) {
        return Ok(false);
    }
    let Some(parent) = record.parent() else { return Ok(true) };
    Ok(store.token(parent).await?.is_some_and(|parent| is_valid(&parent, now)))
}

/// Where the token of a request is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Credential {
    Header,
    /// Browsers send cookies without being asked, so a request that writes needs more.
    Cookie,
    /// A page of this server asks for its session; it has checked where the request came from.
    Page,
}

/// The token of a session, on requests that pages make inside of the server. No client can send it.
#[derive(Debug, Clone)]
pub(crate) struct SignedIn(pub(crate) TokenRecord);

fn invalid() -> Problem {
    Problem::unauthorized("the token is unknown, expired or revoked")
}

/// The token of a request, from its header or its session cookie. Unknown, expired and revoked tokens give the same
/// error.
pub(crate) async fn authenticate<S: FleetStore>(
    store: &S,
    headers: &HeaderMap,
    cookie: Option<&str>,
    now: Moment,
) -> Result<(TokenRecord, Credential), Problem> {
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let (token, credential) = match (values.next(), values.next(), cookie) {
        (Some(header), None, _) => {
            let text = header.to_str().map_err(|_| invalid())?;
            let (scheme, token) = text.split_once(' ').ok_or_else(invalid)?;
            if !scheme.eq_ignore_ascii_case("bearer") {
                return Err(invalid());
            }
            (token, Credential::Header)
        }
        (None, _, Some(token)) => (token, Credential::Cookie),
        (None, _, None) | (Some(_), Some(_), _) => {
            return Err(Problem::unauthorized("send one `Authorization: Bearer …` with a token"));
        }
    };
    let used_as = match credential {
        Credential::Header => TokenUse::Header,
        Credential::Cookie | Credential::Page => TokenUse::Cookie,
    };
    Ok((authenticate_text(store, token, used_as, now).await?, credential))
}

/// The record of a token.
pub(crate) async fn authenticate_text<S: FleetStore>(
    store: &S,
    token: &str,
    used_as: TokenUse,
    now: Moment,
) -> Result<TokenRecord, Problem> {
    if !token.starts_with(used_as.prefix()) {
        return Err(invalid());
    }
    let digest = Sha256Hex::of(token).to_string();
    let record = store.token(&digest).await?.ok_or_else(invalid)?;
    let is_equal = constant_time_eq(&record.digest, &digest);
    if !is_equal || !is_valid_with_parent(store, &record, now).await? {
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
    match store.token(digest).await? {
        Some(record) => is_valid_with_parent(store, &record, now).await,
        None => Ok(false),
    }
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
    fn token_needs_an_actor_and_a_future_expiry() {
        let now = Moment::from_millis(10);
        for name in ["", "a b", "a\nb", &"x".repeat(129)] {
            assert!(mint(name, TokenScope::Admin, None, now).is_err(), "{name:?}");
        }
        assert!(mint("ada@example.org", TokenScope::Admin, Some(now), now).is_err());
        assert!(mint("ada", TokenScope::Admin, Some(Moment::from_millis(11)), now).is_ok());
    }

    #[test]
    fn token_comparison_finds_every_difference() {
        assert!(constant_time_eq("abc", "abc"));
        for other in ["abd", "bbc", "ab", "abcd", ""] {
            assert!(!constant_time_eq("abc", other), "{other}");
        }
    }
}
