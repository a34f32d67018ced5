//! The gate on the standard streams of a program, where it has a control protocol.
//!
//! Both streams are socket pairs. No process in the sandbox can open them: unlike a pipe or a file, a
//! socket cannot be opened through `/proc`.

use std::io;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

use bailiwick_policy::dialects::{Dialect, MAX_PAYLOAD_SIZE};
use bailiwick_policy::protocol::{GateRequest, VERSION};
use tokio::io::AsyncWriteExt as _;
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::gate::{CallDecider, MAX_OPEN};
use crate::agents::adapter::{ControlMessage, ControlProtocol};

/// How long a program may take to read a line.
const TIMEOUT: Duration = Duration::from_secs(60);

/// The longest line: a question contains a whole call.
pub(super) const MAX_LINE: u64 = 2 * MAX_PAYLOAD_SIZE as u64;

/// The decider, and the runtime that it runs on.
#[derive(Clone)]
pub(super) struct DeciderHandle {
    pub(super) decider: Arc<dyn CallDecider>,
    pub(super) runtime: Handle,
}

/// Our side of the control protocol.
pub(super) struct ControlSession {
    protocol: Box<dyn ControlProtocol>,
    dialect: Dialect,
    answers: DeciderHandle,
    permits: Arc<Semaphore>,
    /// `None` once the input is closed.
    sender: Option<UnboundedSender<String>>,
}

impl ControlSession {
    /// Sends these lines first; the program reads from the returned end of the socket.
    pub(super) fn begin(
        protocol: Box<dyn ControlProtocol>,
        dialect: Dialect,
        answers: DeciderHandle,
        lines: Vec<String>,
    ) -> io::Result<(Self, UnixStream)> {
        let (ours, theirs) = UnixStream::pair()?;
        ours.set_nonblocking(true)?;
        let ours = {
            let _inside = answers.runtime.enter();
            tokio::net::UnixStream::from_std(ours)?
        };
        let (sender, receiver) = unbounded_channel();
        answers.runtime.spawn(write_lines(ours, receiver));
        for line in lines {
            // The other end was just created.
            let _ = sender.send(line);
        }
        let permits = Arc::new(Semaphore::new(MAX_OPEN));
        Ok((Self { protocol, dialect, answers, permits, sender: Some(sender) }, theirs))
    }

    /// The program printed a line.
    pub(super) fn on_line(&mut self, line: &str) {
        match self.protocol.parse(line) {
            None => {}
            Some(ControlMessage::Working) => self.answers.decider.set_only_background_work(false),
            Some(ControlMessage::Decide(payload, render)) => {
                // A CLI that asks is working again, whatever it left running.
                self.answers.decider.set_only_background_work(false);
                self.decide(payload, render);
            }
            Some(ControlMessage::Announce(answer)) => {
                self.answers.decider.on_gate_connected();
                self.send(answer);
            }
            Some(ControlMessage::Reply(answer)) => self.send(answer),
            Some(ControlMessage::Finished) => self.sender = None,
            Some(ControlMessage::OnlyBackgroundWork) => {
                self.answers.decider.set_only_background_work(true)
            }
        }
    }

    fn send(&self, line: String) {
        if let Some(sender) = &self.sender {
            // A program that exited needs no answer.
            let _ = sender.send(line);
        }
    }

    fn decide(
        &self,
        payload: String,
        render: Box<dyn FnOnce(&bailiwick_policy::Decision) -> String + Send>,
    ) {
        let Some(sender) = self.sender.clone() else { return };
        let (decider, permits) = (Arc::clone(&self.answers.decider), Arc::clone(&self.permits));
        let question = GateRequest {
            version: VERSION,
            dialect: self.dialect,
            // The payload has the directory of the program.
            directory: String::new(),
            payload,
            announces: false,
        };
        self.answers.runtime.spawn(async move {
            let Ok(_permit) = permits.acquire_owned().await else { return };
            let decision = decider.decide(question).await;
            if sender.send(render(&decision)).is_err() {
                decider.on_undelivered(&decision);
            }
        });
    }
}

/// Writes lines to the program until all senders are dropped. A line that cannot be delivered allows
/// nothing.
async fn write_lines(mut stream: tokio::net::UnixStream, mut lines: UnboundedReceiver<String>) {
    while let Some(mut line) = lines.recv().await {
        line.push('\n');
        let sender = tokio::time::timeout(TIMEOUT, stream.write_all(line.as_bytes())).await;
        if !matches!(sender, Ok(Ok(()))) {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bailiwick_policy::Decision;
    use std::future::Future;
    use std::pin::Pin;
    use std::sync::atomic::{AtomicBool, Ordering};

    #[derive(Default)]
    struct BackgroundFlag(AtomicBool);

    impl CallDecider for BackgroundFlag {
        fn on_gate_connected(&self) {}

        fn decide(&self, _: GateRequest) -> Pin<Box<dyn Future<Output = Decision> + Send + '_>> {
            Box::pin(std::future::ready(Decision::allow()))
        }

        fn set_only_background_work(&self, only_background: bool) {
            self.0.store(only_background, Ordering::SeqCst);
        }
    }

    /// Asks, pauses or does nothing, depending on the line.
    struct ScriptedProtocol;

    impl ControlProtocol for ScriptedProtocol {
        fn parse(&mut self, line: &str) -> Option<ControlMessage> {
            match line {
                "asks" => Some(ControlMessage::Decide(String::new(), Box::new(|_| String::new()))),
                "rests" => Some(ControlMessage::OnlyBackgroundWork),
                _ => None,
            }
        }
    }

    #[test]
    fn program_that_asks_is_active_again() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let decider = Arc::new(BackgroundFlag::default());
        let answers = DeciderHandle {
            decider: Arc::clone(&decider) as Arc<dyn CallDecider>,
            runtime: runtime.handle().clone(),
        };
        let (mut session, _program_end) =
            ControlSession::begin(Box::new(ScriptedProtocol), Dialect::Claude, answers, Vec::new())
                .unwrap();
        for (line, only_background) in
            [("rests", true), ("says", true), ("asks", false), ("rests", true), ("asks", false)]
        {
            session.on_line(line);
            assert_eq!(decider.0.load(Ordering::SeqCst), only_background, "{line}");
        }
    }
}
