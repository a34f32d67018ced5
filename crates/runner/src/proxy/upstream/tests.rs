//! Tests of requests to the model.

use super::*;

#[test]
fn nothing_shows_a_key() {
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
fn a_query_loses_its_key() {
    assert_eq!(clean_query(Some("alt=sse&key=AIza")).as_deref(), Some("alt=sse"));
    assert_eq!(clean_query(Some("KEY=AIza&%6bey=AIza")), None);
    assert_eq!(clean_query(Some("beta=true")).as_deref(), Some("beta=true"));
    assert_eq!(clean_query(None), None);
}

#[test]
fn a_model_of_anthropic_is_asked_with_one_parameter_alone() {
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
fn headers_of_a_connection_stay_on_it() {
    let headers: HeaderMap =
        [("connection", "close, X-Mine"), ("x-mine", "1"), ("keep-alive", "5"), ("x-yours", "2")]
            .into_iter()
            .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)))
            .collect();
    let kept = end_to_end(&headers);
    assert_eq!(kept.keys().map(HeaderName::as_str).collect::<Vec<_>>(), ["x-yours"]);
}

#[test]
fn a_base_says_where_and_nothing_else() {
    let key = Key::new("x-api-key", "k").unwrap();
    let model =
        |base: &str| Model::new(&Upstream { base: base.into(), key: key.clone(), origin: None });
    assert!(model("http://127.0.0.1:1/prefix").is_ok());
    for bad in ["ftp://x", "x", "https://me:you@x", "https://x?key=1", "https://x#y"] {
        assert!(matches!(model(bad), Err(ProxyError::Base(_))), "{bad}");
    }
}
