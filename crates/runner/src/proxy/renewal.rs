//! A key that expires, and is renewed before that.

use std::fmt;
use std::sync::{Arc, Mutex as Plain, OnceLock, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use thiserror::Error;
use tokio::sync::Mutex;

use super::upstream::Key;

/// How long before its end a key is renewed.
const EARLY: Duration = Duration::from_mins(5);
/// The source is not asked again sooner than this, while the last key is valid or after a failure.
const PAUSE: Duration = Duration::from_secs(30);
/// The timeout for a source of keys. It has its own timeout, and this is longer.
const TIMEOUT: Duration = Duration::from_mins(2);

/// A key and its expiry time.
#[derive(Debug, Clone)]
pub struct RenewedKey {
    /// The key.
    pub key: Key,
    /// When it expires; `None` if it does not.
    pub until: Option<SystemTime>,
}

type Source = Arc<dyn Fn() -> Result<RenewedKey, NoKey> + Send + Sync>;
/// Why no new key could be obtained.
#[derive(Debug, Clone, Error)]
pub(super) enum NoKey {
    /// The error of the source.
    #[error("{0}")]
    Source(Arc<dyn std::error::Error + Send + Sync>),
    #[error("its source stopped")]
    Stopped,
    #[error("it took too long")]
    TimedOut,
}

impl NoKey {
    pub(super) fn source(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self::Source(Arc::from(error.into()))
    }
}

/// The key has expired and could not be renewed.
#[derive(Debug, Error)]
#[error("the login has expired and could not be renewed: {0}")]
pub(super) struct LoginExpired(NoKey);

type SecretCallback = Box<dyn Fn(String) + Send + Sync>;

/// A key that is renewed. Clones share it.
#[derive(Clone)]
pub(super) struct Renewal {
    source: Source,
    now: Arc<Mutex<KeyState>>,
    /// All secrets so far, which must never be shown.
    secrets: Arc<Plain<Vec<Vec<u8>>>>,
    /// Receives each new secret, to redact it elsewhere.
    hides: Arc<OnceLock<SecretCallback>>,
}

struct KeyState {
    fresh: RenewedKey,
    /// When the source was last asked, at the time of its answer.
    asked: SystemTime,
    /// Why there was none.
    failed: Option<NoKey>,
}

impl KeyState {
    /// Whether the source may be asked again. A request that waited for the last answer was earlier.
    fn rested(&self, now: SystemTime) -> bool {
        match now.duration_since(self.asked) {
            Ok(since) => since >= PAUSE,
            // No one waits that long: the clock was set back.
            Err(before) => before.duration() > TIMEOUT + PAUSE,
        }
    }
}

impl fmt::Debug for Renewal {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Renewal").finish_non_exhaustive()
    }
}

impl Renewal {
    pub(super) fn new(first: RenewedKey, source: Source) -> Self {
        let secrets = Arc::new(Plain::new(first.key.secrets()));
        let state = KeyState { fresh: first, asked: SystemTime::UNIX_EPOCH, failed: None };
        Self { source, now: Arc::new(Mutex::new(state)), secrets, hides: Arc::default() }
    }

    /// Reports every future secret before it is used, but not the known ones.
    pub(super) fn on_secret(&self, hides: impl Fn(String) + Send + Sync + 'static) {
        // The first callback stays.
        let _ = self.hides.set(Box::new(hides));
    }

    pub(super) fn secrets(&self) -> Vec<Vec<u8>> {
        self.secrets.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The key that is good now. While it is renewed, everyone who needs it waits for that.
    pub(super) async fn current(&self, now: SystemTime) -> Result<Key, LoginExpired> {
        let mut state = self.now.lock().await;
        let Some(until) = state.fresh.until else { return Ok(state.fresh.key.clone()) };
        let is_valid = now < until;
        let rested = state.rested(now);
        if is_valid && (now + EARLY < until || !rested) {
            return Ok(state.fresh.key.clone());
        }
        if let (false, Some(why)) = (rested, &state.failed) {
            return Err(LoginExpired(why.clone()));
        }
        match self.fetch(&mut state, now).await {
            Ok(key) => Ok(key),
            Err(_) if is_valid => Ok(state.fresh.key.clone()),
            Err(why) => Err(LoginExpired(why)),
        }
    }

    /// Another key in place of one that the model has refused; `None` if there is none.
    pub(super) async fn instead_of(&self, refused: &Key, now: SystemTime) -> Option<Key> {
        let mut state = self.now.lock().await;
        let other = |key: &Key| key.secrets() != refused.secrets();
        // Another request was refused before and had it renewed.
        if other(&state.fresh.key) {
            return Some(state.fresh.key.clone());
        }
        if !state.rested(now) {
            return None;
        }
        self.fetch(&mut state, now).await.ok().filter(other)
    }

    async fn fetch(&self, state: &mut KeyState, now: SystemTime) -> Result<Key, NoKey> {
        state.asked = now;
        let begun = Instant::now();
        let source = Arc::clone(&self.source);
        let fetched = tokio::task::spawn_blocking(move || source());
        let fetched = match tokio::time::timeout(TIMEOUT, fetched).await {
            Ok(Ok(fetched)) => fetched,
            Ok(Err(_)) => Err(NoKey::Stopped),
            Err(_) => Err(NoKey::TimedOut),
        };
        state.asked = now + begun.elapsed();
        state.failed = fetched.as_ref().err().cloned();
        state.fresh = fetched?;
        let new = state.fresh.key.secrets();
        if let Some(hides) = self.hides.get() {
            new.iter().for_each(|secret| hides(String::from_utf8_lossy(secret).into_owned()));
        }
        self.secrets.lock().unwrap_or_else(PoisonError::into_inner).extend(new);
        Ok(state.fresh.key.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};

    const HOUR: Duration = Duration::from_hours(1);

    fn key(number: u64, until: SystemTime) -> RenewedKey {
        let key = Key::new("authorization", &format!("Bearer token-{number}")).unwrap();
        RenewedKey { key, until: Some(until) }
    }

    fn last(key: &Key) -> String {
        String::from_utf8(key.secrets().concat()).unwrap()
    }

    #[tokio::test]
    async fn key_is_renewed_before_it_expires_and_not_too_often() {
        let start = SystemTime::now();
        let requests = Arc::new(AtomicU64::new(0));
        let count = Arc::clone(&requests);
        let source = move || match count.fetch_add(1, Ordering::SeqCst) {
            0 => Ok(key(1, start + 2 * HOUR)),
            _ => Err(NoKey::source("nobody is there")),
        };
        let renewal = Renewal::new(key(0, start + HOUR), Arc::new(source));
        let at = |minutes: u64| start + Duration::from_mins(minutes);
        for (minutes, token, calls) in [
            (0, Some("token-0"), 0),
            (50, Some("token-0"), 0),
            (56, Some("token-1"), 1),
            (90, Some("token-1"), 1),
            // It expires soon and the source fails: it is still valid.
            (116, Some("token-1"), 2),
            (116, Some("token-1"), 2),
            (121, None, 3),
        ] {
            let found = renewal.current(at(minutes)).await;
            assert_eq!(found.as_ref().ok().map(last).as_deref(), token, "{minutes}");
            assert_eq!(requests.load(Ordering::SeqCst), calls, "{minutes}");
        }
        let why = renewal.current(at(122)).await.unwrap_err().to_string();
        assert!(why.contains("nobody is there"), "{why}");
        // A caller soon after that, or one that waited for it, gets the same answer without another wait.
        for soon in [at(122), at(122) - Duration::from_secs(5), at(122) + Duration::from_secs(20)] {
            let why = renewal.current(soon).await.unwrap_err().to_string();
            assert!(why.contains("nobody is there"), "{why}");
            assert_eq!(requests.load(Ordering::SeqCst), 4);
        }
        assert!(renewal.current(at(123)).await.is_err());
        assert_eq!(requests.load(Ordering::SeqCst), 5, "a later request tries again");
        let secrets = renewal.secrets();
        assert_eq!(secrets, [b"token-0".to_vec(), b"token-1".to_vec()], "every key is redacted");
        assert!(!format!("{renewal:?}").contains("token"));
    }

    #[tokio::test]
    async fn refused_key_is_renewed_once_for_all_callers() {
        let now = SystemTime::now();
        let requests = Arc::new(AtomicU64::new(0));
        let count = Arc::clone(&requests);
        let source = move || {
            let number = count.fetch_add(1, Ordering::SeqCst) + 1;
            // The third key is the second again.
            Ok(key(number.min(2), now + HOUR))
        };
        let renewal = Renewal::new(key(0, now + HOUR), Arc::new(source));
        let reported: Arc<Plain<Vec<String>>> = Arc::default();
        let renewals = Arc::clone(&reported);
        renewal.on_secret(move |secret| renewals.lock().unwrap().push(secret));
        let first = renewal.current(now).await.unwrap();
        for _ in 0..2 {
            let second = renewal.instead_of(&first, now).await.unwrap();
            assert_eq!((last(&second).as_str(), requests.load(Ordering::SeqCst)), ("token-1", 1));
        }
        let second = renewal.current(now).await.unwrap();
        assert!(
            renewal.instead_of(&second, now).await.is_none(),
            "the source is not asked again so soon"
        );
        let later = now + Duration::from_mins(1);
        let third = renewal.instead_of(&second, later).await.unwrap();
        assert_eq!(last(&third), "token-2");
        let latest = later + Duration::from_mins(1);
        assert!(renewal.instead_of(&third, latest).await.is_none(), "it is the same key");
        assert_eq!(*reported.lock().unwrap(), ["token-1", "token-2", "token-2"]);
    }
}
