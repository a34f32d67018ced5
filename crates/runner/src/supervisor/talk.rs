//! Talking with a program that asks its gate on its own standard streams.
//!
//! Both are sockets of ours, one for each direction. Nobody inside of the sandbox can open them: unlike
//! a pipe or a file, a socket cannot be opened through `/proc`.

use std::io;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

use bailiwick_policy::dialects::{Dialect, MAX_PAYLOAD_SIZE};
use bailiwick_policy::protocol::{Question, VERSION};
use tokio::io::AsyncWriteExt as _;
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::gate::{CallDecider, MAX_OPEN};
use crate::agents::adapter::{ControlMessage, Talk};

/// How long a program may take to read what it is told.
const TIMEOUT: Duration = Duration::from_secs(60);

/// The longest line that is read at once: a question holds the whole of a call.
pub(super) const LONGEST_LINE: u64 = 2 * MAX_PAYLOAD_SIZE as u64;

/// Who answers, and where.
#[derive(Clone)]
pub(super) struct Answers {
    pub(super) keeper: Arc<dyn CallDecider>,
    pub(super) runtime: Handle,
}

/// Our side of a talk.
pub(super) struct Talking {
    talk: Box<dyn Talk>,
    dialect: Dialect,
    answers: Answers,
    places: Arc<Semaphore>,
    /// Nothing once its input is closed.
    told: Option<UnboundedSender<String>>,
}

impl Talking {
    /// Begins with these lines, which the program reads from the other end of the socket.
    pub(super) fn begin(
        talk: Box<dyn Talk>,
        dialect: Dialect,
        answers: Answers,
        lines: Vec<String>,
    ) -> io::Result<(Self, UnixStream)> {
        let (ours, theirs) = UnixStream::pair()?;
        ours.set_nonblocking(true)?;
        let ours = {
            let _inside = answers.runtime.enter();
            tokio::net::UnixStream::from_std(ours)?
        };
        let (told, lines_to_tell) = unbounded_channel();
        answers.runtime.spawn(tell(ours, lines_to_tell));
        for line in lines {
            // The other end was just made.
            let _ = told.send(line);
        }
        let places = Arc::new(Semaphore::new(MAX_OPEN));
        Ok((Self { talk, dialect, answers, places, told: Some(told) }, theirs))
    }

    /// The program has printed a line.
    pub(super) fn hear(&mut self, line: &str) {
        match self.talk.hear(line) {
            None => {}
            Some(ControlMessage::Begin) => self.answers.keeper.lingers(false),
            Some(ControlMessage::Decide(payload, words)) => {
                // Whoever asks is at work again, whatever it left behind.
                self.answers.keeper.lingers(false);
                self.decide(payload, words);
            }
            Some(ControlMessage::Announce(answer)) => {
                self.answers.keeper.announced();
                self.tell(answer);
            }
            Some(ControlMessage::Hear(answer)) => self.tell(answer),
            Some(ControlMessage::End) => self.told = None,
            Some(ControlMessage::Linger) => self.answers.keeper.lingers(true),
        }
    }

    fn tell(&self, line: String) {
        if let Some(told) = &self.told {
            // A program that is gone needs no answer.
            let _ = told.send(line);
        }
    }

    fn decide(
        &self,
        payload: String,
        words: Box<dyn FnOnce(&bailiwick_policy::Decision) -> String + Send>,
    ) {
        let Some(told) = self.told.clone() else { return };
        let (keeper, places) = (Arc::clone(&self.answers.keeper), Arc::clone(&self.places));
        let question = Question {
            version: VERSION,
            dialect: self.dialect,
            // Where the program is, it says in the payload.
            directory: String::new(),
            payload,
            announces: false,
        };
        self.answers.runtime.spawn(async move {
            let Ok(_place) = places.acquire_owned().await else { return };
            let decision = keeper.decide(question).await;
            if told.send(words(&decision)).is_err() {
                keeper.on_undelivered(&decision);
            }
        });
    }
}

/// Tells the program what is to be told, until nobody has anything to tell any more. Whatever cannot be
/// told is no yes.
async fn tell(mut stream: tokio::net::UnixStream, mut lines: UnboundedReceiver<String>) {
    while let Some(mut line) = lines.recv().await {
        line.push('\n');
        let told = tokio::time::timeout(TIMEOUT, stream.write_all(line.as_bytes())).await;
        if !matches!(told, Ok(Ok(()))) {
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
    struct Lingers(AtomicBool);

    impl CallDecider for Lingers {
        fn announced(&self) {}

        fn decide(&self, _: Question) -> Pin<Box<dyn Future<Output = Decision> + Send + '_>> {
            Box::pin(std::future::ready(Decision::allow()))
        }

        fn lingers(&self, lingers: bool) {
            self.0.store(lingers, Ordering::SeqCst);
        }
    }

    /// Asks, rests or says nothing, as it is told.
    struct Told;

    impl Talk for Told {
        fn hear(&mut self, line: &str) -> Option<ControlMessage> {
            match line {
                "asks" => Some(ControlMessage::Decide(String::new(), Box::new(|_| String::new()))),
                "rests" => Some(ControlMessage::Linger),
                _ => None,
            }
        }
    }

    #[test]
    fn a_program_that_asks_is_at_work_again() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let keeper = Arc::new(Lingers::default());
        let answers = Answers {
            keeper: Arc::clone(&keeper) as Arc<dyn CallDecider>,
            runtime: runtime.handle().clone(),
        };
        let (mut talking, _theirs) =
            Talking::begin(Box::new(Told), Dialect::Claude, answers, Vec::new()).unwrap();
        for (line, lingers) in
            [("rests", true), ("says", true), ("asks", false), ("rests", true), ("asks", false)]
        {
            talking.hear(line);
            assert_eq!(keeper.0.load(Ordering::SeqCst), lingers, "{line}");
        }
    }
}
