//! Verifies ID tokens: signature, issuer, audience, lifetime and nonce.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ED25519, RSA_PKCS1_2048_8192_SHA256, RSA_PSS_2048_8192_SHA256,
    RsaParameters, RsaPublicKeyComponents, UnparsedPublicKey, VerificationAlgorithm,
};
use serde::Deserialize;
use serde_json::{Map, Value};
use thiserror::Error;

/// How far the clocks of the provider and of this server may differ.
const CLOCK_SKEW_SECONDS: u64 = 60;

/// The claims of a person.
pub(crate) type Claims = Map<String, Value>;

#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub(crate) enum IdTokenError {
    #[error("the ID token is malformed")]
    Malformed,
    #[error("the ID token is signed with `{0}`; supported are RS256, PS256, ES256 and EdDSA")]
    Algorithm(String),
    #[error("the provider has no key for the ID token")]
    UnknownKey,
    #[error("the signature of the ID token is wrong")]
    Signature,
    #[error("the ID token is of another issuer")]
    Issuer,
    #[error("the ID token is for another client")]
    Audience,
    #[error("the ID token has expired")]
    Expired,
    #[error("the ID token is not valid yet")]
    NotYetValid,
    #[error("the ID token belongs to another sign-in")]
    Nonce,
}

/// A public key of the provider.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Key {
    kty: String,
    #[serde(default)]
    kid: Option<String>,
    #[serde(default, rename = "use")]
    usage: Option<String>,
    #[serde(default)]
    alg: Option<String>,
    #[serde(default)]
    crv: Option<String>,
    #[serde(default)]
    n: Option<String>,
    #[serde(default)]
    e: Option<String>,
    #[serde(default)]
    x: Option<String>,
    #[serde(default)]
    y: Option<String>,
}

/// What an ID token must say.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Expected<'a> {
    pub(crate) issuer: &'a str,
    pub(crate) client_id: &'a str,
    /// The nonce of the sign-in; none if the token was not requested by this server.
    pub(crate) nonce: Option<&'a str>,
    /// Seconds since the Unix epoch.
    pub(crate) now: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Algorithm {
    Rs256,
    Ps256,
    Es256,
    EdDsa,
}

impl Algorithm {
    /// Symmetric algorithms and `none` are not supported: anybody could sign with a public key or nothing.
    fn parse(name: &str) -> Result<Self, IdTokenError> {
        match name {
            "RS256" => Ok(Self::Rs256),
            "PS256" => Ok(Self::Ps256),
            "ES256" => Ok(Self::Es256),
            "EdDSA" => Ok(Self::EdDsa),
            other => Err(IdTokenError::Algorithm(other.chars().take(20).collect())),
        }
    }

    fn fits(self, key: &Key, name: &str) -> bool {
        let curve = key.crv.as_deref();
        let kind = match self {
            Self::Rs256 | Self::Ps256 => key.kty == "RSA",
            Self::Es256 => key.kty == "EC" && curve == Some("P-256"),
            Self::EdDsa => key.kty == "OKP" && curve == Some("Ed25519"),
        };
        kind && key.usage.as_deref().is_none_or(|usage| usage == "sig")
            && key.alg.as_deref().is_none_or(|alg| alg == name)
    }
}

#[derive(Deserialize)]
struct Header {
    alg: String,
    #[serde(default)]
    kid: Option<String>,
    #[serde(default)]
    crit: Option<Value>,
}

fn decode(text: &str) -> Result<Vec<u8>, IdTokenError> {
    URL_SAFE_NO_PAD.decode(text).map_err(|_| IdTokenError::Malformed)
}

fn parameter(text: Option<&String>) -> Result<Vec<u8>, IdTokenError> {
    let text = text.ok_or(IdTokenError::UnknownKey)?;
    URL_SAFE_NO_PAD.decode(text.trim_end_matches('=')).map_err(|_| IdTokenError::UnknownKey)
}

fn verify_signature(
    algorithm: Algorithm,
    key: &Key,
    message: &[u8],
    signature: &[u8],
) -> Result<(), IdTokenError> {
    let rsa = |parameters: &'static RsaParameters| {
        let (n, e) = (parameter(key.n.as_ref())?, parameter(key.e.as_ref())?);
        let significant = n.iter().position(|byte| *byte != 0).unwrap_or(n.len());
        let n = n.get(significant..).unwrap_or_default();
        RsaPublicKeyComponents { n, e: e.as_slice() }
            .verify(parameters, message, signature)
            .map_err(|_| IdTokenError::Signature)
    };
    let other = |algorithm: &'static dyn VerificationAlgorithm, key: Vec<u8>| {
        UnparsedPublicKey::new(algorithm, key)
            .verify(message, signature)
            .map_err(|_| IdTokenError::Signature)
    };
    match algorithm {
        Algorithm::Rs256 => rsa(&RSA_PKCS1_2048_8192_SHA256),
        Algorithm::Ps256 => rsa(&RSA_PSS_2048_8192_SHA256),
        Algorithm::Es256 => {
            let (x, y) = (parameter(key.x.as_ref())?, parameter(key.y.as_ref())?);
            other(&ECDSA_P256_SHA256_FIXED, [&[4], x.as_slice(), y.as_slice()].concat())
        }
        Algorithm::EdDsa => other(&ED25519, parameter(key.x.as_ref())?),
    }
}

/// The claims of a valid ID token.
pub(crate) fn verify(
    token: &str,
    keys: &[Key],
    expected: Expected<'_>,
) -> Result<Claims, IdTokenError> {
    let (message, signature) = token.rsplit_once('.').ok_or(IdTokenError::Malformed)?;
    let (header, payload) = message.split_once('.').ok_or(IdTokenError::Malformed)?;
    let header: Header =
        serde_json::from_slice(&decode(header)?).map_err(|_| IdTokenError::Malformed)?;
    if header.crit.is_some() {
        return Err(IdTokenError::Malformed);
    }
    let algorithm = Algorithm::parse(&header.alg)?;
    let signature = decode(signature)?;
    let fitting = keys.iter().filter(|key| algorithm.fits(key, &header.alg)).filter(|key| {
        // A token without a key id can be signed with any of the keys.
        header.kid.is_none() || key.kid == header.kid
    });
    let mut checked = Err(IdTokenError::UnknownKey);
    for key in fitting {
        checked = verify_signature(algorithm, key, message.as_bytes(), &signature);
        if checked.is_ok() {
            break;
        }
    }
    checked?;
    let claims: Claims =
        serde_json::from_slice(&decode(payload)?).map_err(|_| IdTokenError::Malformed)?;
    check_claims(&claims, expected)?;
    Ok(claims)
}

fn text<'a>(claims: &'a Claims, name: &str) -> Option<&'a str> {
    claims.get(name).and_then(Value::as_str)
}

/// A time in seconds; providers may send fractions.
fn seconds(claims: &Claims, name: &str) -> Result<Option<u64>, IdTokenError> {
    match claims.get(name) {
        None => Ok(None),
        Some(value) => value
            .as_u64()
            .or_else(|| {
                let seconds = value.as_f64().filter(|seconds| *seconds >= 0.0)?;
                std::time::Duration::try_from_secs_f64(seconds).ok().map(|time| time.as_secs())
            })
            .map(Some)
            .ok_or(IdTokenError::Malformed),
    }
}

fn check_claims(claims: &Claims, expected: Expected<'_>) -> Result<(), IdTokenError> {
    if text(claims, "iss") != Some(expected.issuer) {
        return Err(IdTokenError::Issuer);
    }
    let audiences: Vec<&str> = match claims.get("aud") {
        Some(Value::String(one)) => vec![one],
        Some(Value::Array(all)) => all.iter().filter_map(Value::as_str).collect(),
        Some(Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_)) | None => {
            Vec::new()
        }
    };
    let authorized = text(claims, "azp");
    let is_ours = audiences.contains(&expected.client_id)
        && authorized.is_none_or(|party| party == expected.client_id)
        && (audiences.len() == 1 || authorized.is_some());
    if !is_ours {
        return Err(IdTokenError::Audience);
    }
    let expires = seconds(claims, "exp")?.ok_or(IdTokenError::Malformed)?;
    if expires.saturating_add(CLOCK_SKEW_SECONDS) <= expected.now {
        return Err(IdTokenError::Expired);
    }
    let latest = expected.now.saturating_add(CLOCK_SKEW_SECONDS);
    let issued = seconds(claims, "iat")?.ok_or(IdTokenError::Malformed)?;
    if issued > latest || seconds(claims, "nbf")?.is_some_and(|start| start > latest) {
        return Err(IdTokenError::NotYetValid);
    }
    match expected.nonce {
        Some(nonce) if text(claims, "nonce") != Some(nonce) => Err(IdTokenError::Nonce),
        Some(_) | None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use ring::rand::SystemRandom;
    use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair};
    use serde_json::json;

    use super::*;

    const NOW: u64 = 1_700_000_000;

    fn encode(bytes: impl AsRef<[u8]>) -> String {
        URL_SAFE_NO_PAD.encode(bytes)
    }

    /// A signer with a new P-256 key.
    struct Signer(EcdsaKeyPair, SystemRandom);

    impl Signer {
        fn new() -> Self {
            let random = SystemRandom::new();
            let algorithm = &ECDSA_P256_SHA256_FIXED_SIGNING;
            let document = EcdsaKeyPair::generate_pkcs8(algorithm, &random).unwrap();
            let pair = EcdsaKeyPair::from_pkcs8(algorithm, document.as_ref(), &random).unwrap();
            Self(pair, random)
        }

        fn key(&self, kid: &str) -> Key {
            let point = self.0.public_key().as_ref();
            let key = json!({
                "kty": "EC", "crv": "P-256", "kid": kid, "use": "sig",
                "x": encode(&point[1..33]), "y": encode(&point[33..]),
            });
            serde_json::from_value(key).unwrap()
        }

        fn sign(&self, header: &Value, claims: &Value) -> String {
            let message = format!("{}.{}", encode(header.to_string()), encode(claims.to_string()));
            let signature = self.0.sign(&self.1, message.as_bytes()).unwrap();
            format!("{message}.{}", encode(signature))
        }
    }

    fn claims() -> Value {
        json!({
            "iss": "https://id.example", "aud": "bailiwick", "sub": "ada", "nonce": "n-1",
            "iat": NOW - 5, "exp": NOW + 300,
        })
    }

    const EXPECTED: Expected<'_> = Expected {
        issuer: "https://id.example",
        client_id: "bailiwick",
        nonce: Some("n-1"),
        now: NOW,
    };

    #[test]
    fn valid_token_gives_its_claims() {
        let signer = Signer::new();
        let token = signer.sign(&json!({ "alg": "ES256", "kid": "a" }), &claims());
        let keys = [Signer::new().key("b"), signer.key("a")];
        assert_eq!(verify(&token, &keys, EXPECTED).unwrap()["sub"], "ada");
        let without_key_id = signer.sign(&json!({ "alg": "ES256" }), &claims());
        assert!(verify(&without_key_id, &keys, EXPECTED).is_ok(), "each key is tried");
    }

    #[test]
    fn token_of_another_key_is_refused() {
        let (signer, other) = (Signer::new(), Signer::new());
        let header = json!({ "alg": "ES256", "kid": "a" });
        let token = signer.sign(&header, &claims());
        assert_eq!(verify(&token, &[other.key("a")], EXPECTED), Err(IdTokenError::Signature));
        assert_eq!(verify(&token, &[signer.key("b")], EXPECTED), Err(IdTokenError::UnknownKey));
        assert_eq!(verify(&token, &[], EXPECTED), Err(IdTokenError::UnknownKey));
        let mut changed = claims();
        changed["sub"] = json!("root");
        let forged = format!("{}.{}", encode(header.to_string()), encode(changed.to_string()));
        let forged = format!("{forged}.{}", token.rsplit('.').next().unwrap());
        assert_eq!(verify(&forged, &[signer.key("a")], EXPECTED), Err(IdTokenError::Signature));
        let mut encryption = signer.key("a");
        encryption.usage = Some("enc".to_owned());
        assert_eq!(verify(&token, &[encryption], EXPECTED), Err(IdTokenError::UnknownKey));
    }

    #[test]
    fn weak_algorithms_are_refused() {
        let signer = Signer::new();
        for alg in ["none", "HS256", "RS1", "", "es256"] {
            let token = signer.sign(&json!({ "alg": alg, "kid": "a" }), &claims());
            let refused = verify(&token, &[signer.key("a")], EXPECTED);
            assert_eq!(refused, Err(IdTokenError::Algorithm(alg.to_owned())));
        }
        let unsigned = signer.sign(&json!({ "alg": "ES256", "kid": "a" }), &claims());
        let unsigned = format!("{}.", unsigned.rsplit_once('.').unwrap().0);
        let refused = verify(&unsigned, &[signer.key("a")], EXPECTED);
        assert_eq!(refused, Err(IdTokenError::Signature));
        let other_kind = signer.sign(&json!({ "alg": "RS256", "kid": "a" }), &claims());
        let refused = verify(&other_kind, &[signer.key("a")], EXPECTED);
        assert_eq!(refused, Err(IdTokenError::UnknownKey));
        let critical = signer.sign(&json!({ "alg": "ES256", "crit": ["b64"] }), &claims());
        assert_eq!(verify(&critical, &[signer.key("a")], EXPECTED), Err(IdTokenError::Malformed));
        for text in ["", ".", "..", "a.b", "a.b.c", "ä.ö.ü"] {
            assert_eq!(verify(text, &[signer.key("a")], EXPECTED), Err(IdTokenError::Malformed));
        }
    }

    #[test]
    fn each_claim_is_checked() {
        let signer = Signer::new();
        let check = |name: &str, value: Value| {
            let mut claims = claims();
            claims[name] = value;
            let token = signer.sign(&json!({ "alg": "ES256", "kid": "a" }), &claims);
            verify(&token, &[signer.key("a")], EXPECTED).map(drop)
        };
        use IdTokenError::{Audience, Expired, Issuer, Malformed, Nonce, NotYetValid};
        for (name, value, expected) in [
            ("iss", json!("https://id.example/"), Err(Issuer)),
            ("iss", Value::Null, Err(Issuer)),
            ("aud", json!("other"), Err(Audience)),
            ("aud", json!(["bailiwick"]), Ok(())),
            ("aud", json!(["bailiwick", "other"]), Err(Audience)),
            ("aud", Value::Null, Err(Audience)),
            ("azp", json!("other"), Err(Audience)),
            ("azp", json!("bailiwick"), Ok(())),
            ("exp", json!(NOW - 59), Ok(())),
            ("exp", json!(NOW - 60), Err(Expired)),
            ("exp", json!("soon"), Err(Malformed)),
            ("exp", json!(1.5), Err(Expired)),
            ("iat", json!(NOW + 60), Ok(())),
            ("iat", json!(NOW + 61), Err(NotYetValid)),
            ("nbf", json!(NOW + 61), Err(NotYetValid)),
            ("nonce", json!("n-2"), Err(Nonce)),
            ("nonce", Value::Null, Err(Nonce)),
        ] {
            assert_eq!(check(name, value.clone()), expected, "{name} {value}");
        }
        assert_eq!(check("sub", json!("ada")), Ok(()), "positive control");
    }

    #[test]
    fn ed25519_signature_is_accepted() {
        let random = SystemRandom::new();
        let document = Ed25519KeyPair::generate_pkcs8(&random).unwrap();
        let pair = Ed25519KeyPair::from_pkcs8(document.as_ref()).unwrap();
        let key = json!({ "kty": "OKP", "crv": "Ed25519", "x": encode(pair.public_key()) });
        let key: Key = serde_json::from_value(key).unwrap();
        let header = json!({ "alg": "EdDSA" });
        let message = format!("{}.{}", encode(header.to_string()), encode(claims().to_string()));
        let token = format!("{message}.{}", encode(pair.sign(message.as_bytes())));
        assert!(verify(&token, &[key], EXPECTED).is_ok());
    }
}
