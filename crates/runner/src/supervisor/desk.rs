//! Answering a program that asks its gate over HTTP, beside its model: one message a request.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};

use bailiwick_policy::Decision;
use bailiwick_policy::dialects::Dialect;
use bailiwick_policy::protocol::{Question, VERSION};

use super::gate::CallDecider;
use crate::agents::adapter::{Adapter, ControlMessage, Talk};
use crate::proxy::HttpGate;

/// Our side of it.
pub(super) struct Asked {
    talk: Mutex<Box<dyn Talk>>,
    dialect: Dialect,
    keeper: Arc<dyn CallDecider>,
}

/// Who answers a program at its model's address; nobody if it asks in another way.
pub(super) fn of(adapter: &dyn Adapter, keeper: Arc<dyn CallDecider>) -> Option<Arc<dyn HttpGate>> {
    let (talk, dialect) = (adapter.posts()?, adapter.dialect()?);
    Some(Arc::new(Asked { talk: Mutex::new(talk), dialect, keeper }))
}

impl Asked {
    async fn answer(&self, posted: &[u8]) -> Option<String> {
        let message = std::str::from_utf8(posted).ok()?;
        let wish = self.talk.lock().unwrap_or_else(PoisonError::into_inner).hear(message)?;
        match wish {
            ControlMessage::Decide(payload, words) => {
                let (keeper, question) = (Arc::clone(&self.keeper), self.question(payload));
                // Decided to its end, even if whoever asked has gone: a person may have been asked.
                let decided = tokio::spawn(async move { keeper.decide(question).await }).await;
                let failed = |_| Decision::unreadable("the supervisor failed");
                Some(words(&decided.unwrap_or_else(failed)))
            }
            ControlMessage::Announce(answer) => {
                self.keeper.announced();
                Some(answer)
            }
            ControlMessage::Hear(answer) => Some(answer),
            ControlMessage::Begin | ControlMessage::End | ControlMessage::Linger => None,
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

impl HttpGate for Asked {
    fn ask<'a>(
        &'a self,
        posted: &'a [u8],
    ) -> Pin<Box<dyn Future<Output = Option<String>> + Send + 'a>> {
        Box::pin(self.answer(posted))
    }
}
