//! Parses a glob exactly as the matcher reads it.

/// A set of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Bytes([u64; 4]);

impl Bytes {
    /// Every byte that a path can have.
    pub(super) fn any() -> Self {
        Self::of(|_| true)
    }

    /// Every byte of a name.
    pub(super) fn of_name() -> Self {
        Self::of(|byte| byte != b'/')
    }

    pub(super) fn one(byte: u8) -> Self {
        Self::of(|other| other == byte)
    }

    /// Those that fit; a path never has a zero byte.
    fn of(fits: impl Fn(u8) -> bool) -> Self {
        let mut words = [0; 4];
        for byte in (1..=u8::MAX).filter(|byte| fits(*byte)) {
            if let Some(word) = words.get_mut(usize::from(byte >> 6)) {
                *word |= 1 << (byte & 63);
            }
        }
        Self(words)
    }

    pub(super) fn has(&self, byte: u8) -> bool {
        self.0.get(usize::from(byte >> 6)).is_some_and(|word| word & (1 << (byte & 63)) != 0)
    }
}

/// A piece of a glob.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Piece {
    One(Bytes),
    /// `*`: as much of a name as one likes.
    Star,
    /// `**` at the end: as much as one likes.
    Deep,
    /// `**/`: nothing, or directories.
    Directories,
}

/// The meaning of a glob.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Reading {
    /// These, one after the other.
    Pieces(Vec<Piece>),
    /// It matches nothing.
    Never,
    /// The text does not determine what it matches.
    Unclear,
}

/// The matcher stops at deeper nesting, so more stars are unclear.
const STARS: usize = 60;

/// Parses a glob.
pub(super) fn read(text: &[u8]) -> Reading {
    let mut pieces = Vec::new();
    let (mut at, mut stars) = (0, 0);
    while let Some(byte) = text.get(at).copied() {
        at += 1;
        match byte {
            b'\\' => {
                let Some(byte) = text.get(at).copied() else { return Reading::Never };
                at += 1;
                pieces.push(Piece::One(Bytes::one(byte)));
            }
            b'?' => pieces.push(Piece::One(Bytes::of_name())),
            b'*' => {
                let begins = at < 2 || text.get(at - 2) == Some(&b'/');
                let first = at;
                while text.get(at) == Some(&b'*') {
                    at += 1;
                }
                stars += 1;
                let after = (text.get(at).copied(), text.get(at + 1).copied());
                pieces.push(match (begins && at > first, after) {
                    (true, (None, _) | (Some(b'\\'), Some(b'/'))) => Piece::Deep,
                    (true, (Some(b'/'), _)) => {
                        at += 1;
                        Piece::Directories
                    }
                    (true | false, _) => Piece::Star,
                });
            }
            b'[' => match class(text, at) {
                Class::Closed { bytes, behind } => {
                    pieces.push(Piece::One(bytes));
                    at = behind;
                }
                Class::Broken => return Reading::Never,
                Class::Unclear => return Reading::Unclear,
            },
            byte => pieces.push(Piece::One(Bytes::one(byte))),
        }
    }
    if stars > STARS { Reading::Unclear } else { Reading::Pieces(pieces) }
}

enum Class {
    Closed { bytes: Bytes, behind: usize },
    Broken,
    Unclear,
}

/// The class of a bracket that opened before `at`. The matcher parses it again for each byte that it tries; if its
/// end depends on the byte, it is unclear.
fn class(text: &[u8], at: usize) -> Class {
    let tried: Vec<ByteMatch> = (1..=u8::MAX).map(|byte| try_byte(text, at, byte)).collect();
    let behind = match tried.first() {
        Some(ByteMatch::Closed { behind, .. }) => *behind,
        Some(ByteMatch::Broken) if tried.iter().all(|tried| *tried == ByteMatch::Broken) => {
            return Class::Broken;
        }
        Some(ByteMatch::Broken | ByteMatch::Unclear) | None => return Class::Unclear,
    };
    let same = |tried: &ByteMatch| matches!(tried, ByteMatch::Closed { behind: other, .. } if *other == behind);
    if !tried.iter().all(same) {
        return Class::Unclear;
    }
    let fits = |byte: u8| {
        let how = usize::from(byte).checked_sub(1).and_then(|place| tried.get(place));
        byte != b'/' && matches!(how, Some(ByteMatch::Closed { fits: true, .. }))
    };
    Class::Closed { bytes: Bytes::of(fits), behind }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ByteMatch {
    Closed { fits: bool, behind: usize },
    Broken,
    Unclear,
}

fn try_byte(text: &[u8], mut at: usize, byte: u8) -> ByteMatch {
    let negated = matches!(text.get(at), Some(b'!' | b'^'));
    at += usize::from(negated);
    let (mut fits, mut from) = (false, 0);
    loop {
        let Some(shown) = text.get(at).copied() else { return ByteMatch::Broken };
        at += 1;
        let next = text.get(at).copied();
        match (shown, next) {
            (b'\\', None) => return ByteMatch::Broken,
            (b'\\', Some(escaped)) => {
                at += 1;
                // A byte that is found does not begin a range: so the matcher has it.
                if escaped == byte {
                    fits = true;
                } else {
                    from = escaped;
                }
            }
            (b'-', Some(mut to)) if from != 0 && to != b']' => {
                at += 1;
                if to == b'\\' {
                    let Some(escaped) = text.get(at).copied() else { return ByteMatch::Broken };
                    at += 1;
                    to = escaped;
                }
                fits |= (from..=to).contains(&byte);
                from = 0;
            }
            (b'[', Some(b':')) => {
                let rest = text.get(at + 1..).unwrap_or_default();
                let Some(end) = rest.iter().position(|byte| *byte == b']') else {
                    return ByteMatch::Broken;
                };
                let Some((b':', name)) = rest.get(..end).and_then(<[u8]>::split_last) else {
                    return ByteMatch::Unclear;
                };
                match named(name, byte) {
                    Some(has) => fits |= has,
                    None => return ByteMatch::Broken,
                }
                from = 0;
                at += end + 2;
            }
            (shown, _) => {
                from = shown;
                fits |= shown == byte;
            }
        }
        if text.get(at) == Some(&b']') {
            return ByteMatch::Closed { fits: fits != negated, behind: at + 1 };
        }
    }
}

fn named(name: &[u8], byte: u8) -> Option<bool> {
    Some(match name {
        b"alnum" => byte.is_ascii_alphanumeric(),
        b"alpha" => byte.is_ascii_alphabetic(),
        b"blank" => matches!(byte, b' ' | b'\t'),
        b"cntrl" => byte.is_ascii_control(),
        b"digit" => byte.is_ascii_digit(),
        b"graph" => byte.is_ascii_graphic(),
        b"lower" => byte.is_ascii_lowercase(),
        b"print" => (0x20..=0x7e).contains(&byte),
        b"punct" => byte.is_ascii_punctuation(),
        b"space" => matches!(byte, b' ' | b'\t' | b'\n' | b'\r'),
        b"upper" => byte.is_ascii_uppercase(),
        b"xdigit" => byte.is_ascii_hexdigit(),
        _ => return None,
    })
}
