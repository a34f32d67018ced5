//! Responses of GitHub that are asked for again only if they have changed: those that have not do not count against
//! the rate limit.

use std::collections::BTreeMap;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use bailiwick_model::Sha256Hex;

/// The responses of this process. Clients are opened for each use, so that they cannot keep them.
pub(super) static RESPONSES: LazyLock<Responses> = LazyLock::new(Responses::default);

/// Of all responses together.
const MAX_BYTES: usize = 16 << 20;
/// A longer response is not kept.
const MAX_RESPONSE_BYTES: usize = 1 << 20;

/// A response, and the tag by which its forge names this content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct KnownResponse {
    pub(super) tag: String,
    pub(super) body: Vec<u8>,
    pub(super) has_next: Option<bool>,
    pub(super) next_cursor: Option<String>,
}

#[derive(Debug, Default)]
pub(super) struct Responses(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    /// By a digest of account and address, with the turn in which each was used last.
    all: BTreeMap<String, (u64, KnownResponse)>,
    bytes: usize,
    turn: u64,
}

impl Responses {
    pub(super) fn get(&self, request: &str) -> Option<KnownResponse> {
        let mut kept = self.kept();
        kept.turn += 1;
        let turn = kept.turn;
        let (used, known) = kept.all.get_mut(&key(request))?;
        *used = turn;
        Some(known.clone())
    }

    pub(super) fn keep(&self, request: &str, response: KnownResponse) {
        let (mut kept, key) = (self.kept(), key(request));
        kept.remove(&key);
        if response.body.len() > MAX_RESPONSE_BYTES {
            return;
        }
        kept.turn += 1;
        let turn = kept.turn;
        kept.bytes += response.body.len();
        kept.all.insert(key, (turn, response));
        while kept.bytes > MAX_BYTES {
            let oldest = kept.all.iter().min_by_key(|(_, (used, _))| *used);
            let Some(oldest) = oldest.map(|(key, _)| key.clone()) else { return };
            kept.remove(&oldest);
        }
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kept {
    fn remove(&mut self, key: &str) {
        if let Some((_, gone)) = self.all.remove(key) {
            self.bytes = self.bytes.saturating_sub(gone.body.len());
        }
    }
}

fn key(request: &str) -> String {
    Sha256Hex::of(request).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recently_used_responses_stay_and_memory_is_bounded() {
        let responses = Responses::default();
        let response = |length: usize| KnownResponse {
            tag: "\"a\"".to_owned(),
            body: vec![b' '; length],
            has_next: Some(true),
            next_cursor: None,
        };
        responses.keep("first", response(1 << 20));
        responses.keep("too long", response((1 << 20) + 1));
        assert_eq!(responses.get("too long"), None);
        for number in 0..40 {
            responses.keep(&number.to_string(), response(1 << 20));
            assert!(responses.get("first").is_some(), "{number}");
        }
        assert!(responses.kept().bytes <= MAX_BYTES);
        assert_eq!(responses.get("0"), None);
        assert!(responses.get("39").is_some());
        responses.keep("39", response(1));
        assert_eq!(responses.get("39").map(|known| known.body.len()), Some(1));
    }
}
