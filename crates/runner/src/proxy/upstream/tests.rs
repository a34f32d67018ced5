//! Tests of requests to the model.

use super::*;

#[test]
fn debug_output_contains_no_key() {
    let key = Key::new("authorization", "Bearer sk-very-secret").unwrap();
    let upstream = Upstream { base: "https://x".into(), key, origin: None };
    assert!(!format!("{upstream:?}").contains("secret"));
    assert_eq!(upstream.key.secrets(), [b"sk-very-secret"]);
    let signing = Key::signing("id", "very-secret", Some("secret-too"), "eu-west-1");
    assert!(!format!("{signing:?}").contains("secret"));
    assert_eq!(signing.secrets(), [b"very-secret".to_vec(), b"secret-too".to_vec()]);
    assert!(Key::new("a b", "c").is_err() && Key::new("a", "c\nd").is_err());
}

#[test]
fn key_is_removed_from_a_query() {
    assert_eq!(clean_query(Some("alt=sse&key=AIza")).as_deref(), Some("alt=sse"));
    assert_eq!(clean_query(Some("KEY=AIza&%6bey=AIza")), None);
    assert_eq!(clean_query(Some("beta=true")).as_deref(), Some("beta=true"));
    assert_eq!(clean_query(None), None);
}

#[test]
fn only_one_query_parameter_reaches_an_anthropic_model() {
    for (query, foreign) in [
        ("beta=true", None),
        ("alt=sse", Some("alt=sse")),
        ("beta=true&$alt=json", Some("$alt=json")),
        ("beta=true&%62eta=true", Some("%62eta=true")),
        ("Beta=true", Some("Beta=true")),
        ("beta", Some("beta")),
        ("beta=a%26userProject=b", Some("beta=a%26userProject=b")),
        ("", Some("")),
    ] {
        assert_eq!(foreign_query(ModelApi::Anthropic, Some(query)), foreign, "{query}");
    }
    assert_eq!(foreign_query(ModelApi::Anthropic, None), None);
    assert_eq!(foreign_query(ModelApi::Gemini, Some("alt=sse")), None);
}

#[test]
fn connection_headers_are_not_forwarded() {
    let headers: HeaderMap =
        [("connection", "close, X-Mine"), ("x-mine", "1"), ("keep-alive", "5"), ("x-yours", "2")]
            .into_iter()
            .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)))
            .collect();
    let forwarded = end_to_end(&headers);
    assert_eq!(forwarded.keys().map(HeaderName::as_str).collect::<Vec<_>>(), ["x-yours"]);
}

#[test]
fn base_url_contains_nothing_but_the_location() {
    let key = Key::new("x-api-key", "k").unwrap();
    let model =
        |base: &str| Model::new(&Upstream { base: base.into(), key: key.clone(), origin: None });
    assert!(model("http://127.0.0.1:1/prefix").is_ok());
    for bad in ["ftp://x", "x", "https://me:you@x", "https://x?key=1", "https://x#y"] {
        assert!(matches!(model(bad), Err(ProxyError::Base(_))), "{bad}");
    }
}
