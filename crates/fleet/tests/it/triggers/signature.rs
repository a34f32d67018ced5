//! Signatures: test vectors of RFC 4231, of GitHub's documentation and of openssl; everything else is refused.

use bailiwick_fleet::triggers::signature::{SignatureError, SignatureHeaders, sign, verify};
use bailiwick_resources::{ForgeKind, Moment};

const GITHUB_SECRET: &[u8] = b"It's a Secret to Everybody";
const GITHUB_BODY: &[u8] = b"Hello, World!";
const GITHUB_TAG: &str = "757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17";

const RFC_SECRET: &[u8] = b"Jefe";
const RFC_BODY: &[u8] = b"what do ya want for nothing?";
const RFC_TAG: &str = "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843";

/// printf '1794765600.{"a":1}' | openssl dgst -sha256 -hmac hush
const OPENSSL_TAG: &str = "7ae3cfbbc150ae35984427c3156744b0fbd750f9486b3f39a618122475e94175";
const SIGNED_AT: u64 = 1_794_765_600;

fn check(
    forge: ForgeKind,
    headers: SignatureHeaders<'_>,
    secret: &[u8],
    body: &[u8],
) -> Result<(), SignatureError> {
    verify(forge, headers, Some(secret), body, Moment::from_millis(SIGNED_AT * 1000))
}

fn hub(text: &str) -> SignatureHeaders<'_> {
    SignatureHeaders { hub_256: Some(text), ..SignatureHeaders::default() }
}

fn gitea(text: &str) -> SignatureHeaders<'_> {
    SignatureHeaders { gitea: Some(text), ..SignatureHeaders::default() }
}

fn generic(text: &str) -> SignatureHeaders<'_> {
    SignatureHeaders { bailiwick: Some(text), ..SignatureHeaders::default() }
}

#[test]
fn known_vectors_are_accepted() {
    for (secret, body, tag) in
        [(GITHUB_SECRET, GITHUB_BODY, GITHUB_TAG), (RFC_SECRET, RFC_BODY, RFC_TAG)]
    {
        let prefixed = format!("sha256={tag}");
        assert_eq!(check(ForgeKind::Github, hub(&prefixed), secret, body), Ok(()));
        assert_eq!(check(ForgeKind::Gitea, gitea(tag), secret, body), Ok(()));
        assert_eq!(check(ForgeKind::Gitea, hub(&prefixed), secret, body), Ok(()));
    }
    let header = format!("t={SIGNED_AT},v1={OPENSSL_TAG}");
    assert_eq!(check(ForgeKind::Generic, generic(&header), b"hush", br#"{"a":1}"#), Ok(()));
    let ours = sign(b"hush", br#"{"a":1}"#, Moment::from_millis(SIGNED_AT * 1000));
    assert_eq!(ours.as_deref(), Ok(header.as_str()));
}

#[test]
fn webhook_without_a_secret_is_refused() {
    let header = format!("sha256={GITHUB_TAG}");
    for secret in [None, Some(&b""[..])] {
        let result =
            verify(ForgeKind::Github, hub(&header), secret, GITHUB_BODY, Moment::default());
        assert_eq!(result, Err(SignatureError::NoSecret));
    }
}

#[test]
fn missing_signature_is_refused() {
    for forge in [ForgeKind::Github, ForgeKind::Gitea, ForgeKind::Generic] {
        let result = check(forge, SignatureHeaders::default(), GITHUB_SECRET, GITHUB_BODY);
        assert_eq!(result, Err(SignatureError::Missing), "{forge:?}");
    }
    // The header of another forge does not count.
    let header = format!("sha256={GITHUB_TAG}");
    let result = check(ForgeKind::Generic, hub(&header), GITHUB_SECRET, GITHUB_BODY);
    assert_eq!(result, Err(SignatureError::Missing));
}

#[test]
fn other_body_secret_or_digit_is_refused() {
    let header = format!("sha256={GITHUB_TAG}");
    let wrong = Err(SignatureError::Wrong);
    assert_eq!(check(ForgeKind::Github, hub(&header), GITHUB_SECRET, b"Hello, World"), wrong);
    assert_eq!(check(ForgeKind::Github, hub(&header), b"another", GITHUB_BODY), wrong);
    for place in 0..64 {
        let mut digits: Vec<char> = GITHUB_TAG.chars().collect();
        digits[place] = if digits[place] == '0' { '1' } else { '0' };
        let header = format!("sha256={}", digits.iter().collect::<String>());
        assert_eq!(check(ForgeKind::Github, hub(&header), GITHUB_SECRET, GITHUB_BODY), wrong);
    }
}

#[test]
fn malformed_signature_is_refused() {
    for header in ["", "sha256=", "sha1=757107ea", GITHUB_TAG, "sha256=zz", "sha256=75710é"] {
        let result = check(ForgeKind::Github, hub(header), GITHUB_SECRET, GITHUB_BODY);
        assert!(matches!(result, Err(SignatureError::Malformed { .. })), "{header}");
    }
    let long = format!("sha256={GITHUB_TAG}00");
    assert!(check(ForgeKind::Github, hub(&long), GITHUB_SECRET, GITHUB_BODY).is_err());
    for header in ["", "t=1", "v1=aa", "t=x,v1=aa", "t=-1,v1=aa", "t=+1,v1=aa"] {
        let result = check(ForgeKind::Generic, generic(header), b"hush", b"");
        assert!(matches!(result, Err(SignatureError::Malformed { .. })), "{header}");
    }
}

#[test]
fn generic_signature_is_valid_for_five_minutes() {
    let header = format!("t={SIGNED_AT},v1={OPENSSL_TAG}");
    let at = |seconds: u64| {
        let now = Moment::from_millis(seconds * 1000);
        verify(ForgeKind::Generic, generic(&header), Some(b"hush"), br#"{"a":1}"#, now)
    };
    assert_eq!(at(SIGNED_AT + 300), Ok(()));
    assert_eq!(at(SIGNED_AT - 300), Ok(()));
    assert_eq!(at(SIGNED_AT + 301), Err(SignatureError::OutOfTime));
    assert_eq!(at(SIGNED_AT - 301), Err(SignatureError::OutOfTime));
    // The time is part of the signed text, so it cannot be changed.
    let moved = format!("t={},v1={OPENSSL_TAG}", SIGNED_AT + 301);
    let now = Moment::from_millis((SIGNED_AT + 301) * 1000);
    let result = verify(ForgeKind::Generic, generic(&moved), Some(b"hush"), br#"{"a":1}"#, now);
    assert_eq!(result, Err(SignatureError::Wrong));
}
