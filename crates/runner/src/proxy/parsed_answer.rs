//! The state of a response while it arrives, and how much of it is kept.

use bailiwick_model::event::Usage;
use serde_json::Value;

use super::ToolCall;

/// All calls of one answer together may not be longer than this.
pub(super) const MAX_CALLS: usize = 16 << 20;
/// Text beyond this size is not kept.
const MAX_TEXT_BYTES: usize = 1 << 20;
/// The estimated size of a token.
const BYTES_A_TOKEN: u64 = 4;

/// Why a response cannot be parsed, and therefore not be forwarded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Unreadable(pub(super) &'static str);

/// The part of a response that was parsed.
#[derive(Debug, Default)]
pub(super) struct ParsedAnswer {
    pub(super) calls: Vec<ToolCall>,
    pub(super) text: String,
    pub(super) usage: Usage,
    /// Whether the API's own end marker arrived.
    pub(super) ended: bool,
    /// Bytes that the model wrote: text, thoughts and calls.
    written: u64,
    /// Bytes of calls, whole and half.
    assembled: usize,
    /// How many of the calls were reported already.
    told: usize,
}

impl ParsedAnswer {
    /// The model wrote this text.
    pub(super) fn say(&mut self, text: &str) {
        self.wrote(text);
        self.keep(text);
    }

    /// Keeps text that was counted before.
    pub(super) fn keep(&mut self, text: &str) {
        let room = MAX_TEXT_BYTES.saturating_sub(self.text.len());
        let end = text.floor_char_boundary(room.min(text.len()));
        self.text.push_str(text.get(..end).unwrap_or_default());
    }

    /// The model wrote something that is not kept, such as a thought.
    pub(super) fn wrote(&mut self, text: &str) {
        self.written = self.written.saturating_add(text.len() as u64);
    }

    /// Another part of a call arrived.
    pub(super) fn assemble(&mut self, part: &str) -> Result<(), Unreadable> {
        self.wrote(part);
        // Even an empty call costs memory.
        self.assembled = self.assembled.saturating_add(part.len() + 64);
        if self.assembled > MAX_CALLS {
            return Err(Unreadable("the model asks for tools with more than can be kept"));
        }
        Ok(())
    }

    /// A call is whole.
    pub(super) fn call(&mut self, call: ToolCall) -> Result<(), Unreadable> {
        if self.ended {
            return Err(Unreadable("the model asks for a tool after its answer has ended"));
        }
        self.calls.push(call);
        Ok(())
    }

    /// A call is complete. It may have been added already.
    pub(super) fn call_once(&mut self, call: ToolCall) -> Result<(), Unreadable> {
        if self.calls.contains(&call) {
            return Ok(());
        }
        self.call(call)
    }

    /// The calls that were not reported yet.
    pub(super) fn unreported_calls(&mut self) -> &[ToolCall] {
        let reported = std::mem::replace(&mut self.told, self.calls.len());
        self.calls.get(reported..).unwrap_or_default()
    }

    /// Whether the model has written anything, or reported usage.
    pub(super) fn has_begun(&self) -> bool {
        self.written > 0 || !self.calls.is_empty() || self.usage.tokens() > 0
    }

    /// Its usage; missing numbers are estimated, and nothing is free.
    pub(super) fn usage(&self, asked_model: &str, sent: u64, received: u64) -> Usage {
        let mut usage = self.usage.clone();
        if usage.model.is_empty() {
            usage.model = asked_model.to_owned();
        }
        if usage.input.saturating_add(usage.cache_read).saturating_add(usage.cache_write) == 0 {
            usage.input = tokens(sent);
            usage.estimated = true;
        }
        let written = if self.written == 0 { received } else { self.written };
        if usage.output == 0 || !self.ended {
            usage.output = usage.output.max(tokens(written));
            usage.estimated = true;
        }
        usage
    }
}

fn tokens(bytes: u64) -> u64 {
    bytes.div_ceil(BYTES_A_TOKEN).max(1)
}

/// The input of a call. Text that is not JSON is kept as text: responses that are cut off by a limit contain such
/// calls.
pub(super) fn input(text: &str) -> Value {
    if text.trim().is_empty() {
        return Value::Object(serde_json::Map::new());
    }
    serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.to_owned()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn missing_usage_is_estimated() {
        let mut answer = ParsedAnswer::default();
        let usage = answer.usage("m", 401, 40);
        assert_eq!((usage.model.as_str(), usage.input, usage.output), ("m", 101, 10));
        assert!(usage.estimated);
        let usage = answer.usage("m", 0, 0);
        assert_eq!((usage.input, usage.output), (1, 1));
        answer.say("twelve bytes");
        assert_eq!(answer.usage("m", 0, 4000).output, 3);
        answer.usage = Usage { input: 7, output: 1, ..Usage::default() };
        assert_eq!(answer.usage("m", 4000, 4000).input, 7, "reported usage counts");
        assert_eq!(
            answer.usage("m", 0, 0).output,
            3,
            "the stream broke before it reported the output"
        );
        assert!(answer.usage("m", 0, 0).estimated);
        answer.ended = true;
        assert_eq!(answer.usage("m", 0, 0).output, 1);
        assert!(!answer.usage("m", 0, 0).estimated, "the answer reports everything");
    }

    #[test]
    fn stored_text_and_input_are_bounded() {
        let mut answer = ParsedAnswer::default();
        for _ in 0..3 {
            answer.say(&"é".repeat(400_000));
        }
        assert!(answer.text.len() <= MAX_TEXT_BYTES);
        let part = "x".repeat(1 << 20);
        assert!((0..17).any(|_| answer.assemble(&part).is_err()));
    }

    #[test]
    fn call_is_reported_once() {
        let mut answer = ParsedAnswer::default();
        let call = |id: &str| ToolCall { id: id.into(), tool: "t".into(), input: json!({}) };
        answer.call_once(call("a")).unwrap();
        answer.call_once(call("a")).unwrap();
        assert_eq!(answer.unreported_calls(), [call("a")]);
        answer.call(call("b")).unwrap();
        assert_eq!(answer.unreported_calls(), [call("b")]);
        assert!(answer.unreported_calls().is_empty());
        answer.ended = true;
        assert!(answer.call(call("c")).is_err());
    }

    #[test]
    fn input_is_kept_as_written() {
        assert_eq!(input(""), json!({}));
        assert_eq!(input("{\"a\":1}"), json!({"a": 1}));
        assert_eq!(input("{\"a\":"), json!("{\"a\":"));
    }
}
