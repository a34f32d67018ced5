//! Amazon's way to ask Anthropic's models: `POST /model/NAME/invoke-with-response-stream`, answered in
//! frames, asked with a signature. Written from the description of both, so that what is tested with it is
//! held against something else than itself.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::{Digest as _, Sha256};

use super::Request;

pub(super) const STREAM: &str = "/invoke-with-response-stream";
pub(super) const KIND: &str = "application/vnd.amazon.eventstream";

/// Server-sent events as frames.
pub(super) fn framed(events: &str) -> Vec<u8> {
    let data = events.lines().filter_map(|line| line.strip_prefix("data: "));
    data.flat_map(|data| {
        let payload = format!("{{\"bytes\":\"{}\",\"p\":\"abcd\"}}", STANDARD.encode(data));
        frame(&[(":event-type", "chunk"), (":message-type", "event")], payload.as_bytes())
    })
    .collect()
}

fn frame(headers: &[(&str, &str)], payload: &[u8]) -> Vec<u8> {
    let mut named = Vec::new();
    for (name, value) in headers {
        named.push(u8::try_from(name.len()).unwrap_or_default());
        named.extend_from_slice(name.as_bytes());
        // Type 7 is a string.
        named.push(7);
        named.extend_from_slice(&u16::try_from(value.len()).unwrap_or_default().to_be_bytes());
        named.extend_from_slice(value.as_bytes());
    }
    let length = |bytes: usize| u32::try_from(bytes).unwrap_or_default().to_be_bytes();
    let mut frame = length(12 + named.len() + payload.len() + 4).to_vec();
    frame.extend_from_slice(&length(named.len()));
    frame.extend_from_slice(&sum(&frame).to_be_bytes());
    frame.extend_from_slice(&named);
    frame.extend_from_slice(payload);
    frame.extend_from_slice(&sum(&frame).to_be_bytes());
    frame
}

/// The sum that is also in zip files, bit by bit.
fn sum(bytes: &[u8]) -> u32 {
    let each = |sum: u32, byte: &u8| {
        (0..8).fold(sum ^ u32::from(*byte), |sum, _| match sum & 1 {
            1 => (sum >> 1) ^ 0xEDB8_8320,
            _ => sum >> 1,
        })
    };
    !bytes.iter().fold(u32::MAX, each)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn keyed(key: &[u8], text: &str) -> Vec<u8> {
    let mut hmac = Hmac::<Sha256>::new_from_slice(key).unwrap_or_else(|_| unreachable!());
    hmac.update(text.as_bytes());
    hmac.finalize().into_bytes().to_vec()
}

impl Request {
    /// The value of a header.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(is, _)| is == name).map(|(_, value)| value.as_str())
    }

    /// Whether it was signed with this secret, for this region and service; or why not.
    pub fn signed_with(&self, secret: &str, region: &str, service: &str) -> Result<(), String> {
        let given = self.header("authorization").ok_or("it is not signed")?;
        let part = |name: &str| {
            let found = given.split([' ', ',']).find_map(|part| part.strip_prefix(name));
            found.ok_or_else(|| format!("no {name} in {given}"))
        };
        let (names, signature) = (part("SignedHeaders=")?, part("Signature=")?);
        let date = self.header("x-amz-date").ok_or("it has no date")?;
        let day = date.get(..8).ok_or("its date is none")?;
        let headers: String = names
            .split(';')
            .map(|name| format!("{name}:{}\n", self.header(name).unwrap_or_default()))
            .collect();
        // Encoded text is encoded again.
        let (path, query) = self.path.split_once('?').unwrap_or((&self.path, ""));
        let path = path.replace('%', "%25").replace(':', "%3A");
        let asked =
            format!("{}\n{path}\n{query}\n{headers}\n{names}\n{}", self.method, self.sha256);
        let scope = format!("{day}/{region}/{service}/aws4_request");
        let to_sign =
            format!("AWS4-HMAC-SHA256\n{date}\n{scope}\n{}", hex(&Sha256::digest(&asked)));
        let key = [day, region, service, "aws4_request"]
            .iter()
            .fold(format!("AWS4{secret}").into_bytes(), |key, part| keyed(&key, part));
        match hex(&keyed(&key, &to_sign)) == signature {
            true => Ok(()),
            false => Err(format!("it is signed with another key, or as another request:\n{asked}")),
        }
    }
}

/// The digest of a body.
pub(super) fn digest(body: &[u8]) -> String {
    hex(&Sha256::digest(body))
}
