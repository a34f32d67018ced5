//! Secrets are removed, all other text is kept.

use bailiwick_fleet::bundle::{PLACEHOLDER, Redacted, RedactionRules, Redactor};
use bailiwick_testkit::Depth;
use bailiwick_testkit::random::Random;

fn redact(text: &str) -> Redacted {
    Redactor::new(&RedactionRules::default()).unwrap().redact(text)
}

const TOKENS: [&str; 24] = [
    "sk-ant-api03-abcdefghijklmnopqrstuvwxyz0123456789",
    "sk-proj-abcdefghijklmnopqrst",
    "AKIAIOSFODNN7EXAMPLE",
    "ASIAIOSFODNN7EXAMPLE",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.SflKxwRJSMeKKF2QT4fwpM",
    "github_pat_11ABCDEFG0123456789_abcdefghijklmnop",
    "ghp_0123456789abcdefghij0123456789abcdef",
    "ghs_0123456789abcdefghij0123456789abcdef",
    "glpat-abcdefghij0123456789",
    "xoxe-1-abcdefghij0123456789",
    "xoxe.xoxp-1-abcdefghij0123456789",
    "xoxb-123456789012-abcdefghij",
    "AIzaSyA0123456789abcdefghijklmnopqrstuv",
    "npm_abcdefghijklmnopqrstuvwxyz0123456789",
    "pypi-AgEIcHlwaS5vcmcabcdefghijklmnop",
    "hf_abcdefghijklmnopqrstuvwx",
    "ya29.a0AfH6SMBabcdefghijklmnop",
    "GOCSPX-abcdefghijklmnopqrstuvwx",
    "sk_live_abcdefghijklmnop0123",
    "AGE-SECRET-KEY-1QQQQQQQQQQQQQQQQQQQQQQQQ",
    "bwk_0123456789abcdef0123456789abcdef",
    "bws_0123456789abcdef0123456789abcdef",
    "bwj_0123456789abcdef0123456789abcdef",
    "bwc_0123456789abcdef0123456789abcdef",
];

#[test]
fn every_known_token_is_removed_wherever_it_is() {
    for token in TOKENS {
        for text in [
            token.to_owned(),
            format!("use {token} here"),
            format!("\"{token}\""),
            format!("a={token}&b=1"),
            format!("https://x/{token}/y"),
            format!("{token}\n{token}"),
            format!("({token})"),
        ] {
            let redacted = redact(&text);
            assert!(!redacted.text.contains(token), "{text} -> {}", redacted.text);
            assert!(redacted.text.contains(PLACEHOLDER), "{text}");
            assert!(!redacted.counts.is_empty());
            assert!(!format!("{:?}", redacted.counts).contains(token), "counts contain no texts");
        }
    }
}

#[test]
fn fault_09_shas_paths_and_prose_are_kept() {
    for text in [
        "commit 0123456789abcdef0123456789abcdef01234567",
        "da39a3ee5e6b4b0d3255bfef95601890afd80709..0123456789abcdef0123456789abcdef01234567",
        "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
        "/home/runner/work/some/very/long/path/with/many/parts/that/goes/on/and/on/src/lib.rs:17:4",
        "crates/fleet/src/admission/conditions/stack_parts.rs",
        "0b9f2c5e-4a3d-4c1b-9a7e-1f2d3c4b5a69",
        "error[E0308]: mismatched types",
        "error: unexpected token: `}`",
        "basic understanding of the bearer of bad news",
        "the secret is out; rotate the password",
        "test tokens::parse ... FAILED",
        "risk-assessment-of-every-single-thing",
        "task-runner-configuration-options-here",
        "export TOKEN=$GITHUB_TOKEN and password: ${{ secrets.X }}",
        "password: ****",
        "https://example.org/a/b?c=d#e",
        "git@github.com:acme/web.git",
        "ssh://git@github.com/acme/web.git",
        "auth: AuthenticationProviderFactory",
        "QmFzZTY0IGlzIG5vIGNyZWRlbnRpYWwgYnkgaXRzZWxm",
    ] {
        assert_eq!(redact(text).text, text);
    }
}

#[test]
fn passwords_headers_keys_signatures_and_kubeconfigs_are_removed() {
    for (text, secret) in [
        ("password=hunter2", "hunter2"),
        ("\"password\": \"correct horse\"", "correct horse"),
        ("DB_PASSWORD: hunter2", "hunter2"),
        ("api_key='abcd'", "abcd"),
        ("--client-secret s3cret -v", "s3cret"),
        ("GITHUB_TOKEN=abc123def", "abc123def"),
        ("\"access_token\":\"opaquevalue\"", "opaquevalue"),
        ("Authorization: Bearer abc.def", "abc.def"),
        ("authorization: Basic dXNlcjpwYXNz", "dXNlcjpwYXNz"),
        ("curl -H 'Authorization: token abcdef' x", "abcdef"),
        ("Cookie: session=abcdef", "abcdef"),
        ("X-Api-Key: abcdef", "abcdef"),
        (
            "X-Hub-Signature-256: sha256=0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
            "0123456789abcdef",
        ),
        ("X-Gitea-Signature: 0123456789abcdef", "0123456789abcdef"),
        ("https://me:hunter2@git.acme.dev/x", "hunter2"),
        ("https://4f7c21ab@git.acme.dev/x", "4f7c21ab"),
        ("https://4f7c21ab:@git.acme.dev/x", "4f7c21ab"),
        (
            r#"{"auths":{"r":{"auth":"dXNlcjpodW50ZXIyaHVudGVyMg=="}}}"#,
            "dXNlcjpodW50ZXIyaHVudGVyMg",
        ),
        ("AccountName=a;AccountKey=c2VjcmV0IGtleSBvZiBBenVyZQ==", "c2VjcmV0IGtleSBvZiBBenVyZQ"),
        ("    client-key-data: LS0tLS1CRUdJTiBQ", "LS0tLS1CRUdJTiBQ"),
        (
            "-----BEGIN RSA PRIVATE KEY-----\nMIIEow\nabc\n-----END RSA PRIVATE KEY-----\nafter",
            "MIIEow",
        ),
        ("-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXk", "b3BlbnNzaC1rZXk"),
    ] {
        let redacted = redact(text);
        assert!(!redacted.text.contains(secret), "{text} -> {}", redacted.text);
        assert!(redacted.text.contains(PLACEHOLDER), "{text}");
    }
    let after = redact("-----BEGIN EC PRIVATE KEY-----\nx\n-----END EC PRIVATE KEY-----\nafter");
    assert!(after.text.ends_with("after"), "{}", after.text);
}

#[test]
fn known_values_are_removed_before_patterns() {
    let rules = RedactionRules {
        known: vec!["tok".into(), "hunter2".into(), "hunter2-long\n".into()],
        repository: vec!["ACME-[0-9]{4}".into()],
        personal: vec!["(?i)project x".into()],
    };
    let redacted =
        Redactor::new(&rules).unwrap().redact("hunter2-long hunter2 tok ACME-1234 Project X");
    assert_eq!(redacted.text, "[secret] [secret] tok [secret] [secret]");
    let counts: Vec<(&str, u64)> = redacted.counts.iter().map(|(k, v)| (k.as_str(), *v)).collect();
    assert_eq!(counts, [("denied-value", 2), ("personal", 1), ("repository-policy", 1)]);
}

#[test]
fn invalid_pattern_is_an_error() {
    for bad in ["(", "a*", "", "(?P<x>"] {
        let rules = RedactionRules { repository: vec![bad.into()], ..RedactionRules::default() };
        assert!(Redactor::new(&rules).is_err(), "{bad}");
    }
}

#[test]
fn second_redaction_changes_nothing() {
    let mut random = Random::rotating("redaction");
    let words = [
        "password",
        "=",
        ": ",
        "token",
        " ",
        "\n",
        "\"",
        "abc1",
        "Authorization",
        "sha256=",
        "x",
        "--",
    ];
    for _ in 0..Depth::from_env().cases(500) {
        let mut text = String::new();
        for _ in 0..random.below(20) {
            match random.once_in(5) {
                true => text.push_str(TOKENS[random.below(TOKENS.len())]),
                false => text.push_str(words[random.below(words.len())]),
            }
        }
        let once = redact(&text).text;
        let second = redact(&once);
        assert_eq!(second.text, once, "{text:?}");
        assert!(second.counts.is_empty(), "{text:?} {:?}", second.counts);
    }
}

#[test]
fn single_line_of_a_key_file_is_removed() {
    let line = "bXkgdmVyeSBvd24ga2V5IG9mIG1pbmUK";
    let known = format!("header of it\n{line}\nshort\n");
    let rules = RedactionRules { known: vec![known], ..RedactionRules::default() };
    let text = Redactor::new(&rules).unwrap().redact(&format!("header of it: +{line}, short")).text;
    assert!(!text.contains(line), "{text}");
    assert!(text.contains("header of it") && text.contains("short"), "{text}");
}
