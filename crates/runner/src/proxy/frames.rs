//! Amazon's stream of frames, as it comes: a frame that is not yet whole is held back, and one whose
//! sums do not agree ends the answer. Each has an event of the wire in it, as text in base 64.

use aws_smithy_eventstream::frame::{read_message_from, write_message_to};
use aws_smithy_types::event_stream::{Header, HeaderValue, Message};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::{Bytes, BytesMut};
use serde_json::{Value, json};

use super::seen::Unreadable;
use super::sse::{Events, LONGEST_EVENT, Ready};

/// What every frame has besides what is in it.
const SHORTEST: usize = 16;

/// Splits a stream into frames.
#[derive(Debug, Default)]
pub(super) struct Frames {
    /// What has come and was not given out.
    held: BytesMut,
}

impl Frames {
    /// Takes more of the stream, and gives out all that is whole.
    pub(super) fn push(&mut self, chunk: &[u8]) -> Result<Ready, Unreadable> {
        self.held.extend_from_slice(chunk);
        let (mut bytes, mut data) = (BytesMut::new(), Vec::new());
        while let Some(length) = self.next_length()? {
            let frame = self.held.split_to(length).freeze();
            data.extend(event(frame.clone())?);
            bytes.extend_from_slice(&frame);
        }
        Ok(Ready { bytes: bytes.freeze(), data })
    }

    /// Nothing more comes.
    pub(super) fn end(&mut self) -> Result<Ready, Unreadable> {
        match self.held.is_empty() {
            true => Ok(Ready::default()),
            false => Err(Unreadable("it ends within a frame")),
        }
    }

    /// The length of the next frame, if all of it is here.
    fn next_length(&self) -> Result<Option<usize>, Unreadable> {
        let Some(begins) = self.held.first_chunk::<4>() else { return Ok(None) };
        let length = usize::try_from(u32::from_be_bytes(*begins)).unwrap_or(usize::MAX);
        if !(SHORTEST..=LONGEST_EVENT).contains(&length) {
            return Err(Unreadable("a frame of it has a length that none has"));
        }
        Ok((self.held.len() >= length).then_some(length))
    }
}

/// The event in a frame; nothing if it is an error of the host, or another message about the stream.
fn event(frame: Bytes) -> Result<Option<Vec<u8>>, Unreadable> {
    let message = read_message_from(frame).map_err(|_| Unreadable("a frame of it is broken"))?;
    let held: Value = match message.payload().is_empty() {
        true => return Ok(None),
        false => serde_json::from_slice(message.payload())
            .map_err(|_| Unreadable("a frame of it is no JSON"))?,
    };
    let Some(text) = held.get("bytes") else { return Ok(None) };
    let text = text.as_str().and_then(|text| STANDARD.decode(text).ok());
    text.map(Some).ok_or(Unreadable("what is in a frame of it cannot be read"))
}

/// Server-sent events as frames.
pub(super) fn framed(events: &str) -> Result<Bytes, Unreadable> {
    let unwritable = || Unreadable("an answer of ours cannot be written in frames");
    let events = Events::default().push(events.as_bytes()).map_err(|_| unwritable())?.data;
    let mut frames = Vec::new();
    for data in events {
        let payload = json!({ "bytes": STANDARD.encode(data) }).to_string();
        let mut message = Message::new(payload);
        for (name, value) in [
            (":event-type", "chunk"),
            (":content-type", "application/json"),
            (":message-type", "event"),
        ] {
            message = message.add_header(Header::new(name, HeaderValue::String(value.into())));
        }
        write_message_to(&message, &mut frames).map_err(|_| unwritable())?;
    }
    Ok(frames.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO: &str = "event: a\ndata: {\"n\":1}\n\nevent: b\ndata: {\"n\":2}\n\n";

    #[test]
    fn frames_are_given_out_whole_however_they_come_and_as_they_came() {
        let all = framed(TWO).unwrap();
        for size in 1..=all.len() {
            let mut frames = Frames::default();
            let (mut bytes, mut data) = (Vec::new(), Vec::new());
            for part in all.chunks(size) {
                let ready = frames.push(part).unwrap();
                bytes.extend_from_slice(&ready.bytes);
                data.extend(ready.data);
            }
            assert_eq!(frames.end(), Ok(Ready::default()));
            assert_eq!(
                (bytes, data),
                (all.to_vec(), vec![b"{\"n\":1}".into(), b"{\"n\":2}".into()])
            );
        }
    }

    #[test]
    fn a_frame_with_any_byte_changed_gives_nothing_out() {
        let all = framed("data: {\"n\":1}\n\n").unwrap();
        for place in 0..all.len() {
            let mut wrong = all.to_vec();
            wrong[place] ^= 1;
            let mut frames = Frames::default();
            let given = frames.push(&wrong).map(|ready| ready.bytes.len());
            let ended = given.and_then(|given| frames.end().map(|_| given));
            assert!(ended.is_err(), "byte {place}");
        }
    }

    #[test]
    fn half_a_frame_is_never_given_out_and_none_is_kept_for_ever() {
        let all = framed(TWO).unwrap();
        let mut frames = Frames::default();
        assert_eq!(frames.push(&all[..all.len() / 2 - 1]).unwrap(), Ready::default());
        assert!(frames.end().is_err());
        for length in [0, 15, u32::try_from(LONGEST_EVENT).unwrap() + 1, u32::MAX] {
            assert!(Frames::default().push(&length.to_be_bytes()).is_err(), "{length}");
        }
    }
}
