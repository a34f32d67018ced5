//! The modes that a program has switched on in a terminal, to switch them off if the program ends without doing so.

use std::collections::BTreeSet;

/// Modes that are on by default: the cursor is shown, lines wrap.
const USUALLY_ON: [u32; 2] = [7, 25];
/// Modes that a person would notice: keys, other screens, the mouse, reports and pasting.
const NOTICED: [u32; 16] =
    [1, 7, 9, 25, 47, 1000, 1002, 1003, 1004, 1005, 1006, 1015, 1047, 1049, 2004, 2026];

/// Reads what a program prints, for its modes alone.
#[derive(Debug, Default)]
pub(super) struct Modes {
    state: State,
    numbers: String,
    /// Modes that are not as they usually are.
    changed: BTreeSet<u32>,
    /// How many keyboard modes lie on the terminal's stack.
    keyboards: u32,
    /// Whether something was printed in a colour.
    coloured: bool,
}

#[derive(Debug, Default, Clone, Copy)]
enum State {
    #[default]
    Text,
    Escape,
    Bracket,
    /// Behind `ESC [` and one of `?`, `>`, `<`.
    Private(u8),
}

impl Modes {
    /// The program has printed this.
    pub(super) fn see(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.state = match (self.state, *byte) {
                (_, 0x1b) => State::Escape,
                (State::Escape, b'[') => {
                    self.numbers.clear();
                    State::Bracket
                }
                (State::Bracket, sign @ (b'?' | b'>' | b'<')) => State::Private(sign),
                (State::Bracket, b'm') => {
                    self.coloured = true;
                    State::Text
                }
                (state @ (State::Bracket | State::Private(_)), digit @ (b'0'..=b'9' | b';'))
                    if self.numbers.len() < 64 =>
                {
                    self.numbers.push(char::from(digit));
                    state
                }
                (State::Private(sign), last) => {
                    self.apply(sign, last);
                    State::Text
                }
                (State::Text | State::Escape | State::Bracket, _) => State::Text,
            };
        }
    }

    fn apply(&mut self, sign: u8, last: u8) {
        match (sign, last) {
            (b'?', b'h' | b'l') => {
                let numbers = std::mem::take(&mut self.numbers);
                for mode in numbers.split(';').filter_map(|number| number.parse().ok()) {
                    if (last == b'h') == USUALLY_ON.contains(&mode) {
                        self.changed.remove(&mode);
                    } else if NOTICED.contains(&mode) {
                        self.changed.insert(mode);
                    }
                }
            }
            (b'>', b'u') => self.keyboards = self.keyboards.saturating_add(1),
            (b'<', b'u') => self.keyboards = self.keyboards.saturating_sub(1),
            (_, _) => {}
        }
    }

    /// The sequence that resets the terminal; `None` if it is unchanged.
    pub(super) fn undone(&self) -> String {
        let one = |mode: &u32| {
            let last = if USUALLY_ON.contains(mode) { 'h' } else { 'l' };
            format!("\x1b[?{mode}{last}")
        };
        let mut text: String = self.changed.iter().map(one).collect();
        if self.keyboards > 0 {
            text += &format!("\x1b[<{}u", self.keyboards);
        }
        if self.coloured && !text.is_empty() {
            text += "\x1b[0m";
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reset_sequence(text: &str) -> String {
        let mut modes = Modes::default();
        // For every chunk size.
        for byte in text.as_bytes() {
            modes.see(&[*byte]);
        }
        modes.undone()
    }

    #[test]
    fn modes_that_stay_enabled_are_reset() {
        assert_eq!(reset_sequence("plain \x1b[31mred\x1b[0m"), "");
        assert_eq!(reset_sequence("\x1b[?1049h\x1b[?25lx\x1b[?25h\x1b[?1049l"), "");
        assert_eq!(reset_sequence("\x1b[?1049;2004h\x1b[?25l"), "\x1b[?25h\x1b[?1049l\x1b[?2004l");
        assert_eq!(reset_sequence("\x1b[>1u\x1b[>5u\x1b[<u"), "\x1b[<1u");
    }
}
