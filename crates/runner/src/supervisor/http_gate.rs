//! The gate over HTTP at the model's address: one message per request.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};

use bailiwick_policy::Decision;
use bailiwick_policy::dialects::Dialect;
use bailiwick_policy::protocol::{GateRequest, VERSION};

use super::gate::CallDecider;
use crate::agents::adapter::{Adapter, ControlMessage, ControlProtocol};
use crate::proxy::HttpGate;

/// Handles the posted messages of one program.
pub(super) struct HttpGateHandler {
    protocol: Mutex<Box<dyn ControlProtocol>>,
    dialect: Dialect,
    decider: Arc<dyn CallDecider>,
}

/// The HTTP gate of a CLI; `None` if it uses another protocol.
pub(super) fn of(
    adapter: &dyn Adapter,
    decider: Arc<dyn CallDecider>,
) -> Option<Arc<dyn HttpGate>> {
    let (protocol, dialect) = (adapter.http_gate()?, adapter.dialect()?);
    Some(Arc::new(HttpGateHandler { protocol: Mutex::new(protocol), dialect, decider }))
}

impl HttpGateHandler {
    async fn answer(&self, posted: &[u8]) -> Option<String> {
        let message = std::str::from_utf8(posted).ok()?;
        let message_kind =
            self.protocol.lock().unwrap_or_else(PoisonError::into_inner).parse(message)?;
        match message_kind {
            ControlMessage::Decide(payload, words) => {
                let (decider, question) = (Arc::clone(&self.decider), self.question(payload));
                // Completes even if the client is gone: a person may have been asked.
                let decided = tokio::spawn(async move { decider.decide(question).await }).await;
                let failed = |_| Decision::undecidable("the supervisor failed");
                Some(words(&decided.unwrap_or_else(failed)))
            }
            ControlMessage::Announce(answer) => {
                self.decider.on_gate_connected();
                Some(answer)
            }
            ControlMessage::Reply(answer) => Some(answer),
            ControlMessage::Working
            | ControlMessage::Finished
            | ControlMessage::OnlyBackgroundWork => None,
        }
    }

    fn question(&self, payload: String) -> GateRequest {
        GateRequest {
            version: VERSION,
            dialect: self.dialect,
            // The payload has the directory of the program.
            directory: String::new(),
            payload,
            announces: false,
        }
    }
}

impl HttpGate for HttpGateHandler {
    fn ask<'a>(
        &'a self,
        posted: &'a [u8],
    ) -> Pin<Box<dyn Future<Output = Option<String>> + Send + 'a>> {
        Box::pin(self.answer(posted))
    }
}
