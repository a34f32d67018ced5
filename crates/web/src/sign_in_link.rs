//! The link that signs a person in: once, for a short time, and only the user who started the page.
//!
//! A program that opens a browser has the link among its arguments, which every user of the machine can read. So the
//! secret alone is not enough. Nor is the session that it gives: a browser sends its cookie to every port of the page's
//! address, where another user may listen.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use bailiwick_model::Sha256Hex;
use thiserror::Error;

/// Who may use a link, and for how long.
#[derive(Debug, Clone, Copy)]
pub struct LinkRules {
    pub lifetime: Duration,
    /// The user of this machine whose programs may use it and its session; everybody if unset.
    pub user: Option<u32>,
}

/// Why a link signs nobody in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub(crate) enum LinkRefusal {
    #[error("This link was used already. Start `bailiwick ui` again, or sign in with a token.")]
    Used,
    #[error("This link has expired. Start `bailiwick ui` again, or sign in with a token.")]
    Expired,
    #[error(
        "This link is for programs of the user who started `bailiwick ui`. Open it as that user, or sign in with a token."
    )]
    OtherUser,
}

const ROOT: u32 = 0;

struct Unused {
    digest: Sha256Hex,
    session: String,
    expires_at: Instant,
    user: Option<u32>,
}

/// Whose programs may use the session of a link.
struct SessionUser {
    session: Sha256Hex,
    user: u32,
}

/// A link that signs a person in, once.
#[derive(Default)]
pub(crate) struct SignInLink {
    unused: Mutex<Option<Unused>>,
    session_user: Option<SessionUser>,
}

impl std::fmt::Debug for SignInLink {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("SignInLink").finish_non_exhaustive()
    }
}

impl SignInLink {
    pub(crate) fn new(secret: &str, session: String, rules: LinkRules, now: Instant) -> Self {
        let digest = Sha256Hex::of(secret);
        let (expires_at, user) = (now + rules.lifetime, rules.user);
        let session_user = user.map(|user| SessionUser { session: Sha256Hex::of(&session), user });
        let unused = Mutex::new(Some(Unused { digest, session, expires_at, user }));
        Self { unused, session_user }
    }

    /// The session of the link. A wrong secret counts as a used link.
    pub(crate) fn take(
        &self,
        secret: &str,
        client: impl FnOnce() -> Option<u32>,
        now: Instant,
    ) -> Result<String, LinkRefusal> {
        let mut link = self.unused.lock().unwrap_or_else(PoisonError::into_inner);
        let unused = link.as_ref().filter(|unused| unused.digest == Sha256Hex::of(secret));
        let unused = unused.ok_or(LinkRefusal::Used)?;
        if now >= unused.expires_at {
            return Err(LinkRefusal::Expired);
        }
        if let Some(user) = unused.user {
            client().filter(|client| may_use(user, *client)).ok_or(LinkRefusal::OtherUser)?;
        }
        link.take().map(|unused| unused.session).ok_or(LinkRefusal::Used)
    }

    /// Whether a client may use a session. Only that of the link belongs to a user.
    pub(crate) fn allows_session(
        &self,
        session: &str,
        client: impl FnOnce() -> Option<u32>,
    ) -> bool {
        let own = self.session_user.as_ref();
        own.filter(|own| own.session == Sha256Hex::of(session))
            .is_none_or(|own| client().is_some_and(|client| may_use(own.user, client)))
    }
}

/// Forwarders that root runs, as that of Windows, connect as root.
fn may_use(user: u32, client: u32) -> bool {
    [user, ROOT].contains(&client)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    fn link(now: Instant) -> SignInLink {
        let rules = LinkRules { lifetime: MINUTE, user: Some(1000) };
        SignInLink::new("secret", "session".to_owned(), rules, now)
    }

    #[test]
    fn link_works_once_and_only_until_it_expires() {
        let now = Instant::now();
        let first = link(now);
        assert_eq!(first.take("wrong", || Some(1000), now), Err(LinkRefusal::Used));
        assert_eq!(first.take("secret", || Some(1000), now), Ok("session".to_owned()));
        assert_eq!(first.take("secret", || Some(1000), now), Err(LinkRefusal::Used));
        let second = link(now);
        assert_eq!(second.take("secret", || Some(1000), now + MINUTE), Err(LinkRefusal::Expired));
        let just_before_expiry = now + MINUTE - Duration::from_millis(1);
        assert!(
            second.take("secret", || Some(1000), just_before_expiry).is_ok(),
            "positive control"
        );
    }

    #[test]
    fn other_users_can_neither_use_nor_consume_a_link() {
        let now = Instant::now();
        let link = link(now);
        for other in [Some(1001), Some(65534), None] {
            assert_eq!(link.take("secret", || other, now), Err(LinkRefusal::OtherUser));
        }
        assert!(link.take("secret", || Some(1000), now).is_ok(), "positive control");
    }

    #[test]
    fn other_users_cannot_use_the_session_of_a_link() {
        let now = Instant::now();
        let link = link(now);
        link.take("secret", || Some(1000), now).unwrap();
        for other in [Some(1001), Some(65534), None] {
            assert!(!link.allows_session("session", || other), "{other:?}");
            assert!(link.allows_session("that of a token", || other), "{other:?}");
        }
        assert!(link.allows_session("session", || Some(1000)), "positive control");
        let rules = LinkRules { lifetime: MINUTE, user: None };
        let shared = SignInLink::new("secret", "session".to_owned(), rules, now);
        assert!(
            shared.allows_session("session", || None),
            "the user of the client is unknown on this system"
        );
    }
}
