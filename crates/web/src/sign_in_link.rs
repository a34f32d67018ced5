//! The link that signs a person in: once, for a short time, and only the user who started the page.
//!
//! A program that opens a browser has the link among its arguments, which every user of the machine can read. So the
//! secret alone is not enough.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use bailiwick_model::Sha256Hex;
use thiserror::Error;

/// Who may use a link, and for how long.
#[derive(Debug, Clone, Copy)]
pub struct LinkRules {
    pub lifetime: Duration,
    /// The user of this machine whose programs may use it; everybody if unset.
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

/// A link that signs a person in, once.
#[derive(Default)]
pub(crate) struct SignInLink(Mutex<Option<Unused>>);

impl std::fmt::Debug for SignInLink {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("SignInLink").finish_non_exhaustive()
    }
}

impl SignInLink {
    pub(crate) fn new(secret: &str, session: String, rules: LinkRules, now: Instant) -> Self {
        let digest = Sha256Hex::of(secret);
        let (expires_at, user) = (now + rules.lifetime, rules.user);
        Self(Mutex::new(Some(Unused { digest, session, expires_at, user })))
    }

    /// The session of the link. A wrong secret counts as a used link.
    pub(crate) fn take(
        &self,
        secret: &str,
        client: impl FnOnce() -> Option<u32>,
        now: Instant,
    ) -> Result<String, LinkRefusal> {
        let mut link = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let unused = link.as_ref().filter(|unused| unused.digest == Sha256Hex::of(secret));
        let unused = unused.ok_or(LinkRefusal::Used)?;
        if now >= unused.expires_at {
            return Err(LinkRefusal::Expired);
        }
        if let Some(user) = unused.user {
            // Forwarders that root runs, as that of Windows, connect as root.
            client()
                .filter(|client| [user, ROOT].contains(client))
                .ok_or(LinkRefusal::OtherUser)?;
        }
        link.take().map(|unused| unused.session).ok_or(LinkRefusal::Used)
    }
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
    fn a_link_works_once_and_not_after_its_time() {
        let now = Instant::now();
        let first = link(now);
        assert_eq!(first.take("wrong", || Some(1000), now), Err(LinkRefusal::Used));
        assert_eq!(first.take("secret", || Some(1000), now), Ok("session".to_owned()));
        assert_eq!(first.take("secret", || Some(1000), now), Err(LinkRefusal::Used));
        let late = link(now);
        assert_eq!(late.take("secret", || Some(1000), now + MINUTE), Err(LinkRefusal::Expired));
        let almost = now + MINUTE - Duration::from_millis(1);
        assert!(late.take("secret", || Some(1000), almost).is_ok(), "positive control");
    }

    #[test]
    fn other_users_cannot_use_a_link_or_use_it_up() {
        let now = Instant::now();
        let link = link(now);
        for other in [Some(1001), Some(65534), None] {
            assert_eq!(link.take("secret", || other, now), Err(LinkRefusal::OtherUser));
        }
        assert!(link.take("secret", || Some(1000), now).is_ok(), "positive control");
    }
}
