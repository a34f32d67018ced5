//! The formats of keys and tokens that can be recognised without knowing their values.
//!
//! One table for everything that is stored, shown, sent to a model or written to a forge. Each line follows the
//! documentation of the issuer: the prefix of its tokens, and the minimum number of characters after it.

use std::ops::Range;

/// Which characters follow the prefix of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Alphabet {
    /// `0-9 a-f`
    Hex,
    /// `0-9 A-Z`
    Upper,
    /// Letters and digits.
    Alphanumeric,
    /// Letters, digits, `-` and `_`.
    Base64Url,
    /// The same, and the separators of tokens: `.`, `/`, `+`, `=`, `:`.
    Parts,
}

use Alphabet::{Alphanumeric, Base64Url, Hex, Parts, Upper};

const FORMATS: &[(&str, Alphabet, usize)] = &[
    // Bailiwick
    ("bwk_", Base64Url, 16),
    ("bws_", Base64Url, 16),
    ("bwj_", Base64Url, 16),
    ("bwc_", Base64Url, 16),
    // Models
    ("sk-", Base64Url, 16),
    ("gsk_", Alphanumeric, 20),
    ("xai-", Alphanumeric, 40),
    ("pplx-", Alphanumeric, 32),
    ("r8_", Alphanumeric, 30),
    ("hf_", Alphanumeric, 20),
    ("api_org_", Alphanumeric, 20),
    ("fw_", Alphanumeric, 20),
    ("tgp_v1_", Base64Url, 30),
    ("lsv2_pt_", Base64Url, 30),
    ("lsv2_sk_", Base64Url, 30),
    ("nvapi-", Base64Url, 40),
    // Forges and registries
    ("ghp_", Alphanumeric, 20),
    ("gho_", Alphanumeric, 20),
    ("ghu_", Alphanumeric, 20),
    ("ghs_", Alphanumeric, 20),
    ("ghr_", Alphanumeric, 20),
    ("github_pat_", Base64Url, 20),
    ("glpat-", Parts, 16),
    ("gldt-", Parts, 16),
    ("glrt-", Parts, 16),
    ("glcbt-", Parts, 16),
    ("glptt-", Parts, 16),
    ("glft-", Parts, 16),
    ("glimt-", Parts, 16),
    ("glagent-", Parts, 16),
    ("gloas-", Parts, 16),
    ("glsoat-", Parts, 16),
    ("ATBB", Alphanumeric, 24),
    ("ATATT3", Parts, 60),
    ("ATCTT3", Parts, 60),
    ("npm_", Alphanumeric, 30),
    ("pypi-", Base64Url, 30),
    ("rubygems_", Hex, 40),
    ("cio", Alphanumeric, 32),
    ("CLOJARS_", Hex, 40),
    ("oy2", Alphanumeric, 43),
    ("dckr_pat_", Base64Url, 20),
    ("dckr_oat_", Base64Url, 20),
    ("AKCp", Alphanumeric, 60),
    ("cmVmdGtuO", Alphanumeric, 50),
    // Clouds
    ("AKIA", Upper, 16),
    ("ASIA", Upper, 16),
    ("ABIA", Upper, 16),
    ("ACCA", Upper, 16),
    ("AIza", Base64Url, 30),
    ("ya29.", Base64Url, 20),
    ("GOCSPX-", Base64Url, 20),
    ("1//0", Base64Url, 20),
    ("dop_v1_", Hex, 40),
    ("doo_v1_", Hex, 40),
    ("dor_v1_", Hex, 40),
    ("HRKU-", Base64Url, 30),
    ("nfp_", Alphanumeric, 30),
    ("fo1_", Base64Url, 30),
    ("fm2_", Parts, 40),
    ("rnd_", Alphanumeric, 28),
    ("sbp_", Hex, 40),
    ("sb_secret_", Base64Url, 20),
    ("pscale_tkn_", Base64Url, 30),
    ("pscale_pw_", Base64Url, 30),
    ("pscale_oauth_", Base64Url, 30),
    ("dapi", Hex, 32),
    ("pul-", Hex, 40),
    ("hvs.", Base64Url, 20),
    ("hvb.", Base64Url, 20),
    ("hvr.", Base64Url, 20),
    ("dp.pt.", Alphanumeric, 30),
    ("dp.st.", Parts, 30),
    ("dp.sa.", Alphanumeric, 30),
    ("tskey-", Base64Url, 20),
    ("AGE-SECRET-KEY-1", Upper, 20),
    // Observability
    ("glsa_", Base64Url, 30),
    ("glc_", Parts, 30),
    ("NRAK-", Upper, 20),
    ("NRII-", Base64Url, 20),
    ("sntrys_", Parts, 40),
    ("sntryu_", Hex, 40),
    ("dt0c01.", Parts, 60),
    ("dt0s16.", Parts, 60),
    ("phc_", Alphanumeric, 40),
    ("phx_", Alphanumeric, 40),
    // Payment, messages and other services
    ("sk_live_", Alphanumeric, 16),
    ("sk_test_", Alphanumeric, 16),
    ("rk_live_", Alphanumeric, 16),
    ("rk_test_", Alphanumeric, 16),
    ("whsec_", Parts, 24),
    ("shpat_", Hex, 32),
    ("shpss_", Hex, 32),
    ("shpca_", Hex, 32),
    ("shppa_", Hex, 32),
    ("sq0atp-", Base64Url, 20),
    ("sq0csp-", Base64Url, 40),
    ("EAAA", Base64Url, 60),
    ("SG.", Parts, 40),
    ("key-", Hex, 32),
    ("SK", Hex, 32),
    ("xoxa-", Base64Url, 10),
    ("xoxb-", Base64Url, 10),
    ("xoxc-", Base64Url, 10),
    ("xoxd-", Base64Url, 10),
    ("xoxe-", Base64Url, 10),
    ("xoxe.xoxb-", Base64Url, 10),
    ("xoxe.xoxp-", Base64Url, 10),
    ("xoxo-", Base64Url, 10),
    ("xoxp-", Base64Url, 10),
    ("xoxr-", Base64Url, 10),
    ("xoxs-", Base64Url, 10),
    ("xapp-", Base64Url, 20),
    ("hooks.slack.com/services/", Parts, 20),
    ("discord.com/api/webhooks/", Parts, 40),
    ("discordapp.com/api/webhooks/", Parts, 40),
    ("lin_api_", Alphanumeric, 30),
    ("lin_oauth_", Alphanumeric, 30),
    ("ntn_", Alphanumeric, 40),
    ("figd_", Base64Url, 30),
    ("PMAK-", Parts, 40),
    ("dG9rO", Parts, 40),
    // JSON Web Tokens, and other JSON that was encoded
    ("eyJ", Parts, 20),
];

/// The places of all tokens in a text, in their order, none inside of another.
pub fn tokens(text: &str) -> Vec<Range<usize>> {
    let bytes = text.as_bytes();
    let mut found = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let starts_word = at
            .checked_sub(1)
            .and_then(|before| bytes.get(before))
            .is_none_or(|byte| !is_word(*byte));
        match starts_word.then(|| token_length(bytes.get(at..).unwrap_or_default())).flatten() {
            Some(length) => {
                found.push(at..at + length);
                at += length;
            }
            None => at += 1,
        }
    }
    found
}

/// The length of the token at the start of these bytes.
fn token_length(bytes: &[u8]) -> Option<usize> {
    let by_prefix = FORMATS.iter().filter_map(|(prefix, alphabet, min)| {
        let rest = bytes.strip_prefix(prefix.as_bytes())?;
        let follows = rest.iter().take_while(|byte| alphabet.contains(**byte)).count();
        (follows >= *min).then_some(prefix.len() + follows)
    });
    by_prefix
        .max()
        .or_else(|| telegram(bytes))
        .or_else(|| azure(bytes))
        .or_else(|| mailchimp(bytes))
}

/// A bot of Telegram: its number, a colon and 35 characters.
fn telegram(bytes: &[u8]) -> Option<usize> {
    let digits = bytes.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let rest = bytes.get(digits..)?.strip_prefix(b":AA")?;
    let follows = rest.iter().take_while(|byte| Base64Url.contains(**byte)).count();
    (digits >= 8 && follows >= 32).then_some(digits + 3 + follows)
}

/// A client secret of Azure: four characters, `Q~` and 31 more.
fn azure(bytes: &[u8]) -> Option<usize> {
    let head = bytes.get(..4)?;
    let rest = bytes.get(4..)?.strip_prefix(b"Q~")?;
    let follows =
        rest.iter().take_while(|byte| Base64Url.contains(**byte) || b".~".contains(byte)).count();
    (head.iter().all(u8::is_ascii_alphanumeric) && follows >= 31).then_some(6 + follows)
}

/// A key of Mailchimp: 32 hexadecimal digits and its data centre.
fn mailchimp(bytes: &[u8]) -> Option<usize> {
    let digits = bytes.iter().take_while(|byte| Hex.contains(**byte)).count();
    let rest = bytes.get(digits..)?.strip_prefix(b"-us")?;
    let centre = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    (digits == 32 && centre > 0).then_some(digits + 3 + centre)
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

impl Alphabet {
    fn contains(self, byte: u8) -> bool {
        match self {
            Self::Hex => matches!(byte, b'0'..=b'9' | b'a'..=b'f'),
            Self::Upper => matches!(byte, b'0'..=b'9' | b'A'..=b'Z'),
            Self::Alphanumeric => byte.is_ascii_alphanumeric(),
            Self::Base64Url => is_word(byte) || byte == b'-',
            Self::Parts => is_word(byte) || b"-./+=:".contains(&byte),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<&str> {
        tokens(text).into_iter().filter_map(|range| text.get(range)).collect()
    }

    /// A token of each format is found: alone, between quotes, after `=` and in a URL. A token that is one
    /// character too short is not found.
    #[test]
    fn every_format_is_found_in_typical_contexts() {
        for (prefix, alphabet, min) in FORMATS {
            let body: String = match alphabet {
                Hex => "0123456789abcdef",
                Upper => "0A1B2C3D4E5F6G7H",
                Alphanumeric | Base64Url | Parts => "aB3dE6gH9jK2mN5p",
            }
            .chars()
            .cycle()
            .take(*min)
            .collect();
            let token = format!("{prefix}{body}");
            for text in [
                token.clone(),
                format!("KEY={token}"),
                format!("\"{token}\""),
                format!("see https://x/?t={token} now"),
                format!("日本{token}語"),
            ] {
                assert_eq!(found(&text), [token.as_str()], "{text}");
            }
            let short = token.get(..token.len() - 1).unwrap();
            assert!(!found(short).contains(&short), "{short}");
        }
    }

    #[test]
    fn formats_without_a_prefix_are_found() {
        for token in [
            "110201543:AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsawx",
            "abc8Q~0123456789012345678901234567890123",
            "0123456789abcdef0123456789abcdef-us12",
        ] {
            assert_eq!(found(&format!("x='{token}'")), [token]);
        }
    }

    #[test]
    fn ordinary_text_has_no_tokens() {
        for text in [
            "task-runner sk-learn skip keys npm_config_cache hf_hub_download",
            "fn key_for(SK: u8) -> eyJ",
            "https://example.com/a/b?c=d",
            "0123456789abcdef0123456789abcdef01234567",
            "key-value pairs, glpat- is a prefix, AKIA is another",
        ] {
            assert!(found(text).is_empty(), "{:?}", found(text));
        }
    }
}
