//! Server-sent events of a response.

use std::collections::VecDeque;

use reqwest::Response;

use super::transport::MAX_RESPONSE_BYTES;

/// One event. A heartbeat has no name.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Frame {
    pub(super) name: String,
    pub(super) id: Option<u64>,
    pub(super) data: String,
}

/// The stream has ended or broken off; its reader reconnects.
#[derive(Debug)]
pub(super) struct Disconnected;

pub(super) struct Frames {
    response: Response,
    buffer: FrameBuffer,
}

impl Frames {
    pub(super) fn new(response: Response) -> Self {
        Self { response, buffer: FrameBuffer::default() }
    }

    pub(super) async fn next(&mut self) -> Result<Frame, Disconnected> {
        loop {
            if let Some(frame) = self.buffer.ready.pop_front() {
                return Ok(frame);
            }
            match self.response.chunk().await {
                Ok(Some(bytes)) => self.buffer.push(&bytes)?,
                Ok(None) | Err(_) => return Err(Disconnected),
            }
        }
    }
}

#[derive(Default)]
struct FrameBuffer {
    rest: Vec<u8>,
    ready: VecDeque<Frame>,
}

impl FrameBuffer {
    fn push(&mut self, bytes: &[u8]) -> Result<(), Disconnected> {
        // Only the new bytes can end a frame, together with the last one before them.
        let mut from = self.rest.len().saturating_sub(1);
        self.rest.extend_from_slice(bytes);
        let mut taken = 0;
        while let Some(unread) = self.rest.get(from..) {
            let Some(end) = unread.windows(2).position(|pair| pair == b"\n\n") else { break };
            let end = from + end;
            let block = self.rest.get(taken..end).unwrap_or_default();
            self.ready.push_back(parse(&String::from_utf8_lossy(block)));
            taken = end + 2;
            from = taken;
        }
        self.rest.drain(..taken);
        if self.rest.len() > MAX_RESPONSE_BYTES { Err(Disconnected) } else { Ok(()) }
    }
}

fn parse(block: &str) -> Frame {
    let mut frame = Frame::default();
    for line in block.lines() {
        let Some((field, value)) = line.split_once(':') else { continue };
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "event" => value.clone_into(&mut frame.name),
            "id" => frame.id = value.parse().ok(),
            "data" => frame.data.push_str(value),
            // A comment, or a field of a newer server.
            _ => {}
        }
    }
    frame
}

#[cfg(test)]
mod tests {
    use super::{Frame, FrameBuffer};

    #[test]
    fn frames_do_not_depend_on_the_size_of_chunks() {
        let text = "id: 4\nevent: change\ndata: {\"a\":\"ü\"}\n\n: heartbeat\nid: 5\n\nevent: end\n\
                    data: {}\n\n";
        let assert_frames = |frames: &[Frame]| {
            assert_eq!(frames.len(), 3, "{frames:?}");
            assert_eq!((frames[0].name.as_str(), frames[0].id), ("change", Some(4)));
            assert_eq!(frames[0].data, "{\"a\":\"ü\"}");
            assert_eq!((frames[1].name.as_str(), frames[1].id), ("", Some(5)));
            assert_eq!((frames[2].name.as_str(), frames[2].id), ("end", None));
        };
        for size in [1, 2, 3, 7, 1_000] {
            let mut buffer = FrameBuffer::default();
            for chunk in text.as_bytes().chunks(size) {
                buffer.push(chunk).unwrap();
            }
            assert_frames(buffer.ready.make_contiguous());
            assert!(buffer.rest.is_empty());
        }
    }
}
