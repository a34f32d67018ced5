//! The socket of the gate: one question and one answer per connection.

use std::sync::Arc;
use std::time::Duration;

use bailiwick_policy::protocol::{GateReply, GateRequest, ProtocolError};
use bailiwick_policy::{Decision, dialects::MAX_PAYLOAD_SIZE};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::Semaphore;

use super::{CallDecider, MAX_OPEN};

/// How long a question may take to arrive.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Answers until the listener is closed.
pub(in crate::supervisor) async fn serve(listener: UnixListener, decider: Arc<dyn CallDecider>) {
    let permits = Arc::new(Semaphore::new(MAX_OPEN));
    loop {
        let Ok(permit) = Arc::clone(&permits).acquire_owned().await else { return };
        match listener.accept().await {
            Ok((stream, _)) => {
                let decider = Arc::clone(&decider);
                tokio::spawn(async move {
                    connection(decider.as_ref(), stream).await;
                    drop(permit);
                });
            }
            // Too many open files, for example: the gate denies at its own deadline.
            Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    }
}

async fn connection(decider: &dyn CallDecider, mut stream: UnixStream) {
    let decision = match tokio::time::timeout(TIMEOUT, receive(&mut stream)).await {
        Ok(Ok(question)) if question.announces => {
            decider.on_gate_connected();
            Decision::allow()
        }
        Ok(Ok(question)) => decider.decide(question).await,
        Ok(Err(error)) => Decision::undecidable(error.to_string()),
        Err(_) => Decision::undecidable("the question did not arrive in time"),
    };
    let line = GateReply::new(decision.clone()).line();
    // A gate that is gone denies the call itself.
    if stream.write_all(line.as_bytes()).await.is_err() {
        decider.on_undelivered(&decision);
    }
    let _ = stream.shutdown().await;
}

/// Why a question was not received.
#[derive(Debug, thiserror::Error)]
enum NotReceived {
    #[error(transparent)]
    Io(#[from] std::io::Error),
    #[error(transparent)]
    Protocol(#[from] ProtocolError),
}

async fn receive(stream: &mut UnixStream) -> Result<GateRequest, NotReceived> {
    // The payload is a string in JSON, so escapes make it longer.
    let most = u64::try_from(MAX_PAYLOAD_SIZE).unwrap_or(u64::MAX).saturating_mul(2);
    let mut bytes = Vec::new();
    stream.take(most).read_to_end(&mut bytes).await?;
    Ok(GateRequest::read(&bytes)?)
}
