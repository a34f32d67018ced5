//! Names of records, derived from their subject: the same thing recorded twice has one name.

use bailiwick_model::digest::Sha256Hex;
use bailiwick_resources::Moment;

const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";

/// A prefix and 26 characters: 48 bits of time, so that names sort by it, and 80 bits of a digest.
pub(super) fn timed_name(prefix: &str, at: Moment, key: &str) -> String {
    let digest = Sha256Hex::of(key);
    let digest = u128::from_str_radix(digest.prefix(20), 16).unwrap_or_default();
    let time = u128::from(at.millis()) & ((1 << 48) - 1);
    let mut left = time << 80 | digest;
    let mut characters = [b'0'; 26];
    for character in characters.iter_mut().rev() {
        let index = usize::try_from(left & 31).unwrap_or_default();
        *character = ALPHABET.get(index).copied().unwrap_or(b'0');
        left >>= 5;
    }
    format!("{prefix}-{}", String::from_utf8_lossy(&characters))
}

/// The name of a `WebhookDelivery`: one for each id that a sender gives in a repository.
pub fn delivery_name(repository: &str, delivery_id: &str) -> String {
    let key = format!("{}\n{delivery_id}", repository.to_lowercase());
    format!("whd-{}", Sha256Hex::of(key).prefix(40))
}
