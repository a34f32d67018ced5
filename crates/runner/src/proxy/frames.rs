//! Amazon's stream of frames: an incomplete frame is buffered, and one with a wrong checksum ends the response. Each
//! frame contains an event of the model's API in base64.
//!
//! A frame is: its length, the length of its headers, the CRC-32 of these two, headers, payload, and the CRC-32 of
//! all that. Numbers have four bytes in big-endian order.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::{Bytes, BytesMut};
use serde_json::{Value, json};

use super::parsed_answer::Unreadable;
use super::sse::{Events, MAX_EVENT, ReadyEvents};

/// Both lengths and their checksum.
const PRELUDE: usize = 12;
const CHECKSUM: usize = 4;
/// A frame without headers and payload.
const MIN_FRAME: usize = PRELUDE + CHECKSUM;
/// In a header: its value is a text.
const TEXT: u8 = 7;

/// Splits a stream into frames.
#[derive(Debug, Default)]
pub(super) struct Frames {
    /// Received bytes that were not returned yet.
    held: BytesMut,
}

impl Frames {
    /// Adds a part of the stream, and returns all complete frames.
    pub(super) fn push(&mut self, chunk: &[u8]) -> Result<ReadyEvents, Unreadable> {
        self.held.extend_from_slice(chunk);
        let (mut bytes, mut data) = (BytesMut::new(), Vec::new());
        while let Some(length) = self.next_length()? {
            let frame = self.held.split_to(length).freeze();
            data.extend(event(&frame)?);
            bytes.extend_from_slice(&frame);
        }
        Ok(ReadyEvents { bytes: bytes.freeze(), data })
    }

    /// The stream has ended.
    pub(super) fn end(&mut self) -> Result<ReadyEvents, Unreadable> {
        match self.held.is_empty() {
            true => Ok(ReadyEvents::default()),
            false => Err(Unreadable("it ends within a frame")),
        }
    }

    /// The length of the next frame, if all of it is here.
    fn next_length(&self) -> Result<Option<usize>, Unreadable> {
        let Some(begins) = self.held.first_chunk::<4>() else { return Ok(None) };
        let length = usize::try_from(u32::from_be_bytes(*begins)).unwrap_or(usize::MAX);
        if !(MIN_FRAME..=MAX_EVENT).contains(&length) {
            return Err(Unreadable("a frame of it has a length that none has"));
        }
        Ok((self.held.len() >= length).then_some(length))
    }
}

/// The event in a frame; `None` if it is an error of the host, or another message about the stream.
fn event(frame: &[u8]) -> Result<Option<Vec<u8>>, Unreadable> {
    let payload = payload(frame).ok_or(Unreadable("a frame of it is broken"))?;
    let wrapper: Value = match payload.is_empty() {
        true => return Ok(None),
        false => {
            serde_json::from_slice(payload).map_err(|_| Unreadable("a frame of it is no JSON"))?
        }
    };
    let Some(text) = wrapper.get("bytes") else { return Ok(None) };
    let text = text.as_str().and_then(|text| STANDARD.decode(text).ok());
    text.map(Some).ok_or(Unreadable("what is in a frame of it cannot be read"))
}

/// The payload of a frame whose checksums are right.
fn payload(frame: &[u8]) -> Option<&[u8]> {
    let (checked, checksum) = frame.split_last_chunk::<CHECKSUM>()?;
    let (prelude, _) = checked.split_first_chunk::<PRELUDE>()?;
    let (lengths, prelude_checksum) = prelude.split_last_chunk::<CHECKSUM>()?;
    let headers = usize::try_from(u32::from_be_bytes(*lengths.last_chunk::<4>()?)).ok()?;
    let intact = u32::from_be_bytes(*prelude_checksum) == crc32fast::hash(lengths)
        && u32::from_be_bytes(*checksum) == crc32fast::hash(checked);
    checked.get(PRELUDE.checked_add(headers)?..).filter(|_| intact)
}

fn frame(headers: &[(&str, &str)], payload: &[u8]) -> Option<Vec<u8>> {
    let mut encoded = Vec::new();
    for (name, value) in headers {
        encoded.push(u8::try_from(name.len()).ok()?);
        encoded.extend_from_slice(name.as_bytes());
        encoded.push(TEXT);
        encoded.extend_from_slice(&u16::try_from(value.len()).ok()?.to_be_bytes());
        encoded.extend_from_slice(value.as_bytes());
    }
    let length = u32::try_from(MIN_FRAME + encoded.len() + payload.len()).ok()?;
    let mut frame = length.to_be_bytes().to_vec();
    frame.extend_from_slice(&u32::try_from(encoded.len()).ok()?.to_be_bytes());
    frame.extend_from_slice(&crc32fast::hash(&frame).to_be_bytes());
    frame.extend_from_slice(&encoded);
    frame.extend_from_slice(payload);
    frame.extend_from_slice(&crc32fast::hash(&frame).to_be_bytes());
    Some(frame)
}

/// Server-sent events as frames.
pub(super) fn framed(events: &str) -> Result<Bytes, Unreadable> {
    let unwritable = || Unreadable("the proxy's own response cannot be encoded in frames");
    let events = Events::default().push(events.as_bytes()).map_err(|_| unwritable())?.data;
    let mut frames = Vec::new();
    for data in events {
        let payload = json!({ "bytes": STANDARD.encode(data) }).to_string();
        let headers = [
            (":event-type", "chunk"),
            (":content-type", "application/json"),
            (":message-type", "event"),
        ];
        frames.extend(frame(&headers, payload.as_bytes()).ok_or_else(unwritable)?);
    }
    Ok(frames.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO: &str = "event: a\ndata: {\"n\":1}\n\nevent: b\ndata: {\"n\":2}\n\n";

    #[test]
    fn complete_frames_are_returned_unchanged_for_any_chunk_size() {
        let all = framed(TWO).unwrap();
        for size in 1..=all.len() {
            let mut frames = Frames::default();
            let (mut bytes, mut data) = (Vec::new(), Vec::new());
            for part in all.chunks(size) {
                let ready = frames.push(part).unwrap();
                bytes.extend_from_slice(&ready.bytes);
                data.extend(ready.data);
            }
            assert_eq!(frames.end(), Ok(ReadyEvents::default()));
            assert_eq!(
                (bytes, data),
                (all.to_vec(), vec![b"{\"n\":1}".into(), b"{\"n\":2}".into()])
            );
        }
    }

    #[test]
    fn frame_with_a_changed_byte_is_never_returned() {
        let all = framed("data: {\"n\":1}\n\n").unwrap();
        for place in 0..all.len() {
            let mut wrong = all.to_vec();
            wrong[place] ^= 1;
            let mut frames = Frames::default();
            let released = frames.push(&wrong).map(|ready| ready.bytes.len());
            let result = released.and_then(|released| frames.end().map(|_| released));
            assert!(result.is_err(), "byte {place}");
        }
    }

    #[test]
    fn partial_frame_is_never_returned_and_too_long_ones_are_refused() {
        let all = framed(TWO).unwrap();
        let mut frames = Frames::default();
        assert_eq!(frames.push(&all[..all.len() / 2 - 1]).unwrap(), ReadyEvents::default());
        assert!(frames.end().is_err());
        for length in [0, 15, u32::try_from(MAX_EVENT).unwrap() + 1, u32::MAX] {
            assert!(Frames::default().push(&length.to_be_bytes()).is_err(), "{length}");
        }
    }
}
