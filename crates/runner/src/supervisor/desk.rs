//! Answering a program that asks its gate over HTTP, beside its model: one message a request.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};

use bailiwick_policy::Decision;
use bailiwick_policy::dialects::Dialect;
use bailiwick_policy::protocol::{Question, VERSION};

use super::gate::Keeper;
use crate::agents::adapter::{Adapter, Talk, Wish};
use crate::proxy::Desk;

/// Our side of it.
pub(super) struct Asked {
    talk: Mutex<Box<dyn Talk>>,
    dialect: Dialect,
    keeper: Arc<dyn Keeper>,
}

/// Who answers a program at its model's address; nobody if it asks in another way.
pub(super) fn of(adapter: &dyn Adapter, keeper: Arc<dyn Keeper>) -> Option<Arc<dyn Desk>> {
    let (talk, dialect) = (adapter.posts()?, adapter.dialect()?);
    Some(Arc::new(Asked { talk: Mutex::new(talk), dialect, keeper }))
}

impl Asked {
    async fn answer(&self, posted: &[u8]) -> Option<String> {
        let message = std::str::from_utf8(posted).ok()?;
        let wish = self.talk.lock().unwrap_or_else(PoisonError::into_inner).hear(message)?;
        match wish {
            Wish::Decide(payload, words) => {
                let (keeper, question) = (Arc::clone(&self.keeper), self.question(payload));
                // Decided to its end, even if whoever asked has gone: a person may have been asked.
                let decided = tokio::spawn(async move { keeper.decide(question).await }).await;
                let failed = |_| Decision::unreadable("the supervisor failed");
                Some(words(&decided.unwrap_or_else(failed)))
            }
            Wish::Announce(answer) => {
                self.keeper.announced();
                Some(answer)
            }
            Wish::Hear(answer) => Some(answer),
            Wish::Begin | Wish::End | Wish::Linger => None,
        }
    }

    fn question(&self, payload: String) -> Question {
        Question {
            version: VERSION,
            dialect: self.dialect,
            // Where the program is, it says in the payload.
            directory: String::new(),
            payload,
            announces: false,
        }
    }
}

impl Desk for Asked {
    fn ask<'a>(
        &'a self,
        posted: &'a [u8],
    ) -> Pin<Box<dyn Future<Output = Option<String>> + Send + 'a>> {
        Box::pin(self.answer(posted))
    }
}
