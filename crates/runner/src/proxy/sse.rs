//! Server-sent events: an incomplete event is buffered.
//!
//! Returned events are complete and were parsed. So a CLI that acts on half an event, against the standard, never
//! sees a call before we do.

use bytes::{Bytes, BytesMut};

/// One event may not be longer than this.
pub(super) const MAX_EVENT: usize = 16 << 20;

/// An event grew past [`MAX_EVENT`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TooLong;

/// Splits a stream into events.
#[derive(Debug, Default)]
pub(super) struct Events {
    /// Received bytes that were not returned yet.
    held: BytesMut,
    /// How much of it was searched.
    looked_at: usize,
    /// The start of the current line.
    line: usize,
    /// The data of the event so far, one line below the other.
    data: Vec<u8>,
    has_data: bool,
    /// Whether the last line ended with a carriage return: a line feed then belongs to it.
    returned: bool,
    begun: bool,
}

/// Complete bytes to forward, with the data of their events.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct ReadyEvents {
    pub(super) bytes: Bytes,
    pub(super) data: Vec<Vec<u8>>,
}

impl Events {
    /// Adds a part of the stream, and returns all complete events.
    pub(super) fn push(&mut self, chunk: &[u8]) -> Result<ReadyEvents, TooLong> {
        self.held.extend_from_slice(chunk);
        let mut data = Vec::new();
        let mut whole = 0;
        while let Some(&byte) = self.held.get(self.looked_at) {
            self.looked_at += 1;
            let feeds_return = std::mem::take(&mut self.returned) && byte == b'\n';
            if feeds_return {
                if whole + 1 == self.looked_at {
                    whole = self.looked_at;
                }
                self.line = self.looked_at;
                continue;
            }
            if byte != b'\n' && byte != b'\r' {
                continue;
            }
            self.returned = byte == b'\r';
            if self.end_line(self.looked_at - 1) {
                data.extend(self.take_data());
                whole = self.looked_at;
            }
            self.line = self.looked_at;
        }
        if self.held.len() - whole > MAX_EVENT || self.data.len() > MAX_EVENT {
            return Err(TooLong);
        }
        self.looked_at -= whole;
        self.line = self.line.saturating_sub(whole);
        Ok(ReadyEvents { bytes: self.held.split_to(whole).freeze(), data })
    }

    /// The rest at the end of the stream: CLIs accept a last event without an empty line after it.
    pub(super) fn end(&mut self) -> ReadyEvents {
        self.end_line(self.held.len());
        let data = self.take_data().into_iter().collect();
        (self.looked_at, self.line) = (0, 0);
        ReadyEvents { bytes: self.held.split().freeze(), data }
    }

    /// Reads the line that ends here; true if it is empty, and so the event is whole.
    fn end_line(&mut self, end: usize) -> bool {
        let mut line = self.held.get(self.line..end).unwrap_or_default();
        if !std::mem::replace(&mut self.begun, true) {
            line = line.strip_prefix("\u{feff}".as_bytes()).unwrap_or(line);
        }
        if let Some(value) = line.strip_prefix(b"data") {
            let value = match value.strip_prefix(b":") {
                Some(value) => value.strip_prefix(b" ").unwrap_or(value),
                None if value.is_empty() => value,
                None => return false,
            };
            if std::mem::replace(&mut self.has_data, true) {
                self.data.push(b'\n');
            }
            self.data.extend_from_slice(value);
        }
        line.is_empty()
    }

    fn take_data(&mut self) -> Option<Vec<u8>> {
        let data = std::mem::take(&mut self.data);
        std::mem::take(&mut self.has_data).then_some(data)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Everything that was returned, and all data.
    fn read(parts: &[&[u8]]) -> (Vec<u8>, Vec<Vec<u8>>) {
        let mut events = Events::default();
        let (mut bytes, mut data) = (Vec::new(), Vec::new());
        let mut keep = |ready: ReadyEvents| {
            bytes.extend_from_slice(&ready.bytes);
            data.extend(ready.data);
        };
        for part in parts {
            keep(events.push(part).unwrap());
        }
        keep(events.end());
        (bytes, data)
    }

    const STREAMS: [&str; 5] = [
        "event: a\ndata: {\"x\":1}\n\n: a comment\n\ndata: two\ndata:lines\n\n",
        "data: one\r\n\r\ndata: two\r\n\r\n",
        "data: one\r\rdata: two\r\r",
        "\u{feff}data: first\n\ndata\n\ndatabase: none\n\ndata: the last has no end",
        "\n\n\ndata: é\u{1f600}\n\nid: 1\n\n",
    ];

    #[test]
    fn stream_reads_the_same_wherever_it_is_cut() {
        for stream in STREAMS {
            let expected = read(&[stream.as_bytes()]);
            assert_eq!(expected.0, stream.as_bytes());
            for cut in 0..=stream.len() {
                let (head, tail) = stream.as_bytes().split_at(cut);
                assert_eq!(read(&[head, tail]), expected, "{stream:?} cut at {cut}");
            }
            let bytes: Vec<&[u8]> = stream.as_bytes().chunks(1).collect();
            assert_eq!(read(&bytes), expected, "{stream:?} byte by byte");
        }
    }

    #[test]
    fn data_is_read_as_the_standard_requires() {
        let data = |stream: &str| {
            let data = read(&[stream.as_bytes()]).1;
            data.into_iter().map(|data| String::from_utf8(data).unwrap()).collect::<Vec<_>>()
        };
        assert_eq!(data(STREAMS[0]), ["{\"x\":1}", "two\nlines"]);
        assert_eq!(data(STREAMS[1]), ["one", "two"]);
        assert_eq!(data(STREAMS[2]), ["one", "two"]);
        assert_eq!(data(STREAMS[3]), ["first", "", "the last has no end"]);
        assert_eq!(data(STREAMS[4]), ["é\u{1f600}"]);
    }

    #[test]
    fn incomplete_event_is_not_returned() {
        let mut events = Events::default();
        let ready = events.push(b"data: one\n\ndata: tw").unwrap();
        assert_eq!(&ready.bytes[..], b"data: one\n\n");
        assert_eq!(ready.data, [b"one"]);
        let ready = events.push(b"o\n").unwrap();
        assert_eq!(ready, ReadyEvents::default());
        let ready = events.push(b"\n").unwrap();
        assert_eq!(&ready.bytes[..], b"data: two\n\n");
    }

    #[test]
    fn event_without_an_end_is_not_buffered_without_limit() {
        let mut events = Events::default();
        let chunk = vec![b'x'; 1 << 20];
        let pushed = (0..17).map(|_| events.push(&chunk)).find(Result::is_err);
        assert_eq!(pushed, Some(Err(TooLong)));
        let mut lines = Events::default();
        let line = [b"data: ".as_slice(), &chunk, b"\n"].concat();
        assert!((0..17).any(|_| lines.push(&line).is_err()));
    }
}
