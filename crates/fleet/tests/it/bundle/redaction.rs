//! Secrets are removed, all other text is kept.

use bailiwick_fleet::bundle::{PLACEHOLDER, Redacted, RedactionRules, Redactor};
use bailiwick_testkit::Depth;
use bailiwick_testkit::random::Random;
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE, URL_SAFE_NO_PAD};

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

/// A name, a text as people meet it, and what must not be left of it.
const SHAPES: [(&str, &str, &str); 29] = [
    ("our token", "bwk_0123456789abcdef0123456789abcdef", "0123456789abcdef"),
    ("our session", "bws_0123456789abcdef0123456789abcdef", "0123456789abcdef"),
    ("our token to join", "bwj_0123456789abcdef0123456789abcdef", "0123456789abcdef"),
    ("our worker", "bwc_0123456789abcdef0123456789abcdef", "0123456789abcdef"),
    ("Anthropic", "ANTHROPIC=sk-ant-api03-abcdefghijklmnopqrstuvwxyz0123456789", "abcdefghij"),
    ("OpenAI", "key sk-proj-abcdefghijklmnopqrst", "abcdefghij"),
    ("Hugging Face", "hf_abcdefghijklmnopqrstuvwx", "abcdefghij"),
    ("GitHub", "remote: ghp_0123456789abcdefghij0123456789abcdef", "abcdefghij"),
    ("GitHub, fine-grained", "github_pat_11ABCDEFG0123456789_abcdefghijklmnop", "abcdefghij"),
    ("GitHub App", "ghs_0123456789abcdefghij0123456789abcdef", "abcdefghij"),
    ("GitLab", "glpat-abcdefghij0123456789", "abcdefghij"),
    ("AWS key", "aws: AKIAIOSFODNN7EXAMPLE", "IOSFODNN7EXAMPLE"),
    ("AWS session", "aws: ASIAIOSFODNN7EXAMPLE", "IOSFODNN7EXAMPLE"),
    ("Google API", "?key=AIzaSyA0123456789abcdefghijklmnopqrstuv", "abcdefghij"),
    ("Google OAuth", "ya29.a0AfH6SMBabcdefghijklmnop", "abcdefghij"),
    ("Google client", "GOCSPX-abcdefghijklmnopqrstuvwx", "abcdefghij"),
    ("npm", "//packages.example/:x=npm_abcdefghijklmnopqrstuvwxyz0123456789", "abcdefghij"),
    ("PyPI", "pypi-AgEIcHlwaS5vcmcabcdefghijklmnop", "abcdefghij"),
    ("Slack", "xoxb-123456789012-abcdefghij", "abcdefghij"),
    ("Stripe", "sk_live_abcdefghijklmnop0123", "abcdefghij"),
    (
        "JSON Web Token",
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.SflKxwRJSMeKKF2Q",
        "SflKxwRJSMeKKF2Q",
    ),
    ("age", "AGE-SECRET-KEY-1QQQQQQQQQQQQQQQQQQQQQQQQ", "QQQQQQQQ"),
    ("password in a file", "DB_PASSWORD: hunter2", "hunter2"),
    ("basic authorization", "authorization: Basic dXNlcjpwYXNz", "dXNlcjpwYXNz"),
    ("cookie", "Cookie: session=abcdef", "abcdef"),
    ("URL", "https://me:hunter2@git.acme.dev/x", "hunter2"),
    (
        "registry login",
        r#"{"auths":{"r":{"auth":"dXNlcjpodW50ZXIyaHVudGVyMg=="}}}"#,
        "dXNlcjpodW50ZXIy",
    ),
    ("Azure storage", "AccountName=a;AccountKey=c2VjcmV0IGtleSBvZiBBenVyZQ==", "c2VjcmV0IGtleSBv"),
    (
        "private key",
        "-----BEGIN RSA PRIVATE KEY-----\nMIIEow\nabc\n-----END RSA PRIVATE KEY-----",
        "MIIEow",
    ),
];

#[test]
fn twenty_nine_shapes_of_secrets_are_removed() {
    for (name, text, secret) in SHAPES {
        assert!(text.contains(secret), "{name}");
        let redacted = redact(text);
        assert!(!redacted.text.contains(secret), "{name}: {}", redacted.text);
        assert!(redacted.text.contains(PLACEHOLDER), "{name}: {}", redacted.text);
    }
}

fn knowing(value: &str) -> Redactor {
    let rules = RedactionRules { known: vec![value.to_owned()], ..RedactionRules::default() };
    Redactor::new(&rules).unwrap()
}

/// The built-in patterns find none of these texts: only the value itself is known.
#[test]
fn known_values_are_removed_in_encoded_forms() {
    let value = "k9/Zq+ 7!w&x=Ä?Lp2#m";
    let percent = [
        "k9%2FZq%2B%207%21w%26x%3D%C3%84%3FLp2%23m",
        "k9%2fZq%2b%207%21w%26x%3d%c3%84%3fLp2%23m",
        "k9%2FZq%2B%207!w%26x%3D%C3%84%3FLp2%23m",
        "k9/Zq%2B%207%21w%26x%3D%C3%84%3FLp2%23m",
        "k9/Zq+%207!w&x=%C3%84?Lp2#m",
        "k9%2FZq%2B+7%21w%26x%3D%C3%84%3FLp2%23m",
    ];
    let encoded = [
        STANDARD.encode(value),
        URL_SAFE.encode(value),
        URL_SAFE_NO_PAD.encode(value),
        STANDARD.encode(format!("{value}\n")),
    ];
    for form in percent.into_iter().map(str::to_owned).chain(encoded) {
        let text = format!("see {form} there");
        assert_eq!(redact(&text).text, text, "the control: only the value is known");
        let redacted = knowing(value).redact(&text).text;
        let rest = redacted.replace(PLACEHOLDER, "");
        // Of the last characters of base64, a part can be left that tells less than a byte.
        assert!(rest.len() <= "see  there".len() + 4, "{form}: {redacted}");
    }
    // A longer key, wrapped as `base64` and PEM do.
    let key: String = (0..210).map(|at| char::from(b'!' + (at * 7 % 90) as u8)).collect();
    let encoded = STANDARD.encode(&key);
    for length in [64, 76] {
        let lines: Vec<&str> =
            encoded.as_bytes().chunks(length).map(|line| str::from_utf8(line).unwrap()).collect();
        let redacted = knowing(&key).redact(&lines.join("\n")).text;
        assert!(lines.iter().all(|line| !redacted.contains(line)), "{redacted}");
    }
}

/// Whatever was encoded together with a value, everything that is only of the value is removed.
#[test]
fn known_value_inside_of_base64_is_removed_at_every_place() {
    let mut random = Random::rotating("known_value_inside_of_base64_is_removed_at_every_place");
    for _ in 0..Depth::from_env().cases(300) {
        let mut text = |min: usize, below: usize| -> String {
            let length = min + random.below(below);
            (0..length).map(|_| char::from(b'!' + random.below(90) as u8)).collect()
        };
        let (before, value, after) = (text(0, 12), text(8, 40), text(0, 12));
        for engine in [STANDARD, URL_SAFE] {
            let encoded = engine.encode(format!("{before}{value}{after}"));
            let start = (before.len() * 8).div_ceil(6);
            let end = (before.len() + value.len()) * 8 / 6;
            let secret = encoded.get(start..end).unwrap();
            let redacted = knowing(&value).redact(&encoded).text;
            assert!(!redacted.contains(secret), "{before} {value} {after}: {redacted}");
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
