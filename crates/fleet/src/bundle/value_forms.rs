//! The forms that a known value has in texts: as it is, as in JSON, percent-encoded, and in base64, also as a part of
//! something longer that was encoded.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE};

/// The minimum length of a value that is looked for in base64: shorter ones occur in every encoded text.
const MIN_ENCODED_LENGTH: usize = 8;

/// How programs wrap base64, in characters.
const LINE_LENGTHS: [usize; 2] = [64, 76];
/// The minimum length of a wrapped line that is looked for.
const MIN_LINE_LENGTH: usize = 16;

/// What encoders leave as it is besides letters and digits: RFC 3986, `encodeURIComponent`, `encodeURI`, paths.
const LEFT_AS_IT_IS: [&[u8]; 4] = [b"-._~", b"-._~!*'()", b"-._~!*'();/?:@&=+$,#", b"-._~/"];

/// All forms of a value, the same one more than once.
pub(super) fn forms(value: &str) -> Vec<String> {
    let mut forms = vec![value.to_owned()];
    let trimmed = value.trim();
    if trimmed != value {
        forms.push(trimmed.to_owned());
    }
    let json = serde_json::Value::from(trimmed).to_string();
    if let Some(escaped) = json.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) {
        forms.push(escaped.to_owned());
    }
    forms.extend(percent_encoded(trimmed));
    forms.extend(in_base64(value));
    forms.extend(in_base64(trimmed));
    forms
}

fn percent_encoded(value: &str) -> Vec<String> {
    let mut forms: Vec<String> = LEFT_AS_IT_IS
        .iter()
        .flat_map(|kept| {
            let upper = encoded(value, kept, |byte| format!("%{byte:02X}"));
            [upper, encoded(value, kept, |byte| format!("%{byte:02x}"))]
        })
        .collect();
    // Forms write a blank as a plus.
    forms.push(form_urlencoded::byte_serialize(value.as_bytes()).collect());
    forms
}

fn encoded(value: &str, kept: &[u8], escape: impl Fn(u8) -> String) -> String {
    let one = |byte: u8| match byte.is_ascii_alphanumeric() || kept.contains(&byte) {
        true => char::from(byte).to_string(),
        false => escape(byte),
    };
    value.bytes().map(one).collect()
}

fn in_base64(value: &str) -> Vec<String> {
    let mut forms = Vec::new();
    if value.len() < MIN_ENCODED_LENGTH {
        return forms;
    }
    for engine in [STANDARD, URL_SAFE] {
        let whole = engine.encode(value);
        for length in LINE_LENGTHS.into_iter().filter(|length| whole.len() > *length) {
            let lines =
                whole.as_bytes().chunks(length).filter(|line| line.len() >= MIN_LINE_LENGTH);
            forms.extend(lines.map(|line| String::from_utf8_lossy(line).into_owned()));
        }
        forms.push(whole);
        // Behind something else, such as `user:`: three bytes are four characters, and those that are only partly of
        // the value are left out.
        for before in 0..3 {
            let bytes = std::iter::repeat_n(0, before).chain(value.bytes()).collect::<Vec<u8>>();
            let (start, end) = ((before * 8).div_ceil(6), bytes.len() * 8 / 6);
            forms.extend(engine.encode(&bytes).get(start..end).map(str::to_owned));
        }
    }
    forms
}
