//! A channel between two sandbox processes: one JSON text per line over a socket, with open files beside it.
//!
//! Only `sendmsg` and `recvmsg` are used: an agent's own sandbox, in which this may run, can forbid the other
//! calls on sockets together with the network.

use std::collections::VecDeque;
use std::io::{self, IoSlice, IoSliceMut, Read as _};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// One end of a channel.
#[derive(Debug)]
pub(super) struct Channel {
    socket: UnixStream,
    /// Received bytes that were not read yet.
    heard: Vec<u8>,
    files: VecDeque<OwnedFd>,
    /// A write to its other end interrupts a wait.
    interrupt: Option<UnixStream>,
}

impl Channel {
    pub(super) fn new(socket: UnixStream) -> Self {
        Self { socket, heard: Vec::new(), files: VecDeque::new(), interrupt: None }
    }

    /// The standard input of this process as the line to the one above.
    pub(super) fn above() -> io::Result<Self> {
        let input = io::stdin().as_fd().try_clone_to_owned()?;
        Ok(Self::new(UnixStream::from(input)))
    }

    pub(super) fn socket(&self) -> &UnixStream {
        &self.socket
    }

    /// From now on, a write to the result makes [`Self::receive_within`] return immediately.
    pub(super) fn interrupt(&mut self) -> io::Result<UnixStream> {
        let (own, other) = UnixStream::pair()?;
        own.set_nonblocking(true)?;
        other.set_nonblocking(true)?;
        self.interrupt = Some(own);
        Ok(other)
    }

    /// Sends one text, with an open file beside it or without.
    pub(super) fn send(
        &self,
        what: &impl Serialize,
        file: Option<BorrowedFd<'_>>,
    ) -> io::Result<()> {
        let mut text = serde_json::to_vec(what)?;
        text.push(b'\n');
        let (mut rest, mut file) = (text.as_slice(), file);
        while !rest.is_empty() {
            let sent = self.send_some(rest, file.take())?;
            rest = rest.get(sent..).unwrap_or_default();
        }
        Ok(())
    }

    /// Sends as much as possible; the file goes with the first part.
    fn send_some(&self, text: &[u8], file: Option<BorrowedFd<'_>>) -> io::Result<usize> {
        let files: Vec<BorrowedFd<'_>> = file.into_iter().collect();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut beside = SendAncillaryBuffer::new(&mut space);
        if !files.is_empty() && !beside.push(SendAncillaryMessage::ScmRights(&files)) {
            return Err(io::Error::other("an open file does not fit into a message"));
        }
        loop {
            let piece = [IoSlice::new(text)];
            match sendmsg(&self.socket, &piece, &mut beside, SendFlags::NOSIGNAL) {
                Err(rustix::io::Errno::INTR) => {}
                sent => return Ok(sent?),
            }
        }
    }

    /// Receives one text within a time; [`io::ErrorKind::WouldBlock`] when it is over or interrupted.
    pub(super) fn receive_within<T: DeserializeOwned>(
        &mut self,
        timeout: Duration,
    ) -> io::Result<Option<T>> {
        let end = Instant::now() + timeout;
        loop {
            if let Some(text) = self.next_text() {
                return Ok(Some(serde_json::from_slice(&text)?));
            }
            // Rounded up, so that what is left is never polled without a pause.
            let left = end.saturating_duration_since(Instant::now()) + Duration::from_millis(1);
            let left = PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX);
            let sockets = [Some(&self.socket), self.interrupt.as_ref()].into_iter().flatten();
            let mut watched: Vec<PollFd> =
                sockets.map(|one| PollFd::new(one.as_fd(), PollFlags::POLLIN)).collect();
            match poll(&mut watched, left) {
                Ok(0) if Instant::now() >= end => return Err(io::ErrorKind::WouldBlock.into()),
                Ok(0) | Err(nix::errno::Errno::EINTR) => continue,
                Ok(_) => {}
                Err(error) => return Err(error.into()),
            }
            let is_readable = |at: usize| watched.get(at).and_then(PollFd::any).unwrap_or_default();
            let (heard, interrupted) = (is_readable(0), is_readable(1));
            if heard && self.fill_buffer()? == 0 {
                return Ok(None);
            }
            if interrupted && !heard {
                self.clear_interrupt();
                return Err(io::ErrorKind::WouldBlock.into());
            }
        }
    }

    /// Reads what was written to interrupt. An interrupt whose other end is closed has no effect.
    fn clear_interrupt(&mut self) {
        let read = self.interrupt.as_ref().map(|mut interrupt| interrupt.read(&mut [0; 64]));
        if matches!(read, Some(Ok(0))) {
            self.interrupt = None;
        }
    }

    /// The next whole text that was heard.
    fn next_text(&mut self) -> Option<Vec<u8>> {
        let end = self.heard.iter().position(|byte| *byte == b'\n')?;
        Some(self.heard.drain(..=end).collect())
    }

    /// Receives one text; none at the end. After a timeout, the received part is kept.
    pub(super) fn receive<T: DeserializeOwned>(&mut self) -> io::Result<Option<T>> {
        loop {
            if let Some(text) = self.next_text() {
                return Ok(Some(serde_json::from_slice(&text)?));
            }
            if self.fill_buffer()? == 0 {
                return Ok(None);
            }
        }
    }

    /// The next open file that was received.
    pub(super) fn file(&mut self) -> Option<OwnedFd> {
        self.files.pop_front()
    }

    fn fill_buffer(&mut self) -> io::Result<usize> {
        let mut piece = [0; 4096];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
        let mut beside = RecvAncillaryBuffer::new(&mut space);
        let heard = loop {
            let into = &mut [IoSliceMut::new(&mut piece)];
            match recvmsg(&self.socket, into, &mut beside, RecvFlags::CMSG_CLOEXEC) {
                Err(rustix::io::Errno::INTR) => {}
                heard => break heard?.bytes,
            }
        };
        for message in beside.drain() {
            if let RecvAncillaryMessage::ScmRights(files) = message {
                self.files.extend(files);
            }
        }
        self.heard.extend(piece.get(..heard).unwrap_or_default());
        Ok(heard)
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};

    use super::*;

    #[test]
    fn texts_and_file_descriptors_arrive_in_order() {
        let (near, remote) = UnixStream::pair().unwrap();
        let (sender, mut receiver) = (Channel::new(near), Channel::new(remote));
        let (reader, mut writer) = io::pipe().unwrap();
        // Longer than one read.
        let long = "x".repeat(20_000);
        sender.send(&long, Some(reader.as_fd())).unwrap();
        sender.send(&"second", None).unwrap();
        drop(reader);
        assert_eq!(receiver.receive::<String>().unwrap(), Some(long));
        assert_eq!(receiver.receive::<String>().unwrap().as_deref(), Some("second"));
        writer.write_all(b"through").unwrap();
        drop(writer);
        let mut text = String::new();
        std::fs::File::from(receiver.file().unwrap()).read_to_string(&mut text).unwrap();
        assert_eq!(text, "through");
        assert!(receiver.file().is_none());
        drop(sender);
        assert_eq!(receiver.receive::<String>().unwrap(), None);
    }

    #[test]
    fn partial_text_is_kept_until_the_rest_arrives() {
        let (mut sender, remote) = UnixStream::pair().unwrap();
        let mut receiver = Channel::new(remote);
        sender.write_all(b"\"ha").unwrap();
        let error = receiver.receive_within::<String>(Duration::from_millis(10)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
        sender.write_all(b"lf\"\n").unwrap();
        assert_eq!(receiver.receive::<String>().unwrap().as_deref(), Some("half"));
    }

    #[test]
    fn wait_is_interrupted_once_and_loses_nothing() {
        let (near, remote) = UnixStream::pair().unwrap();
        let (sender, mut receiver) = (Channel::new(near), Channel::new(remote));
        let mut interrupt = receiver.interrupt().unwrap();
        interrupt.write_all(&[0]).unwrap();
        let started = Instant::now();
        let early = receiver.receive_within::<String>(Duration::from_secs(600)).unwrap_err();
        assert_eq!(early.kind(), io::ErrorKind::WouldBlock);
        assert!(started.elapsed() < Duration::from_secs(300));
        let pause = Duration::from_millis(20);
        let started = Instant::now();
        assert!(receiver.receive_within::<String>(pause).is_err());
        assert!(started.elapsed() >= pause, "the interrupt has been used");
        interrupt.write_all(&[0]).unwrap();
        sender.send(&"text", None).unwrap();
        assert_eq!(receiver.receive_within::<String>(pause).unwrap().as_deref(), Some("text"));
        drop(interrupt);
        // The first call reads the interrupt, and the second one sees the closed end.
        assert!(receiver.receive_within::<String>(pause).is_err());
        assert!(receiver.receive_within::<String>(pause).is_err());
        let started = Instant::now();
        assert!(receiver.receive_within::<String>(pause).is_err());
        assert!(started.elapsed() >= pause, "no interrupt is possible");
    }
}
