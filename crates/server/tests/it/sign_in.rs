//! Sign-in with OpenID Connect and a real provider: with a browser, a device code, or an ID token.

use std::time::Duration;

use bailiwick_fleet::ports::{FleetStore, TokenScope};
use bailiwick_server::{
    DeviceAnswer, DeviceSignInError, Settings, SignInSettings, sign_in_by_device,
};
use bailiwick_testkit::oidc::OidcProvider;
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use serde_json::{Value, json};

use crate::client::{Events, HttpRequest, HttpResponse};
use crate::test_server::{TestServer, start};

/// The address that browsers use; the tests send these requests to the server themselves.
const PUBLIC_URL: &str = "http://127.0.0.1:1";
const RUNS: &str = "/api/v1alpha1/runs";

fn provider() -> OidcProvider {
    OidcProvider::start(&format!("{PUBLIC_URL}/auth/callback"))
}

fn settings(issuer: &str) -> SignInSettings {
    SignInSettings {
        issuer: issuer.to_owned(),
        client_id: OidcProvider::CLIENT_ID.to_owned(),
        client_secret: Some(OidcProvider::CLIENT_SECRET.to_owned()),
        public_url: PUBLIC_URL.to_owned(),
        username_claim: "sub".to_owned(),
        groups_claim: "groups".to_owned(),
        requested_scopes: vec!["groups".to_owned()],
        group_scopes: vec![
            ("platform".to_owned(), TokenScope::Admin),
            ("reviewers".to_owned(), TokenScope::Approver),
        ],
        default_scope: None,
        lifetime: Duration::from_secs(3_600),
    }
}

async fn server(sign_in: SignInSettings) -> TestServer {
    let mut settings = Settings {
        address: "127.0.0.1:0".parse().unwrap(),
        sign_in: Some(sign_in),
        ..Settings::default()
    };
    settings.limits.failed_auth_cost = 0.0;
    start(settings).await
}

/// A browser and the person who uses it.
struct Browser {
    person: &'static str,
    /// The host, path, name and value of each cookie.
    cookies: Vec<(String, String, String, String)>,
}

impl Browser {
    fn of(person: &'static str) -> Self {
        Self { person, cookies: Vec::new() }
    }

    async fn request(&mut self, method: &str, url: &str, form: Option<&str>) -> HttpResponse {
        let (host, path) = url.strip_prefix("http://").unwrap().split_once('/').unwrap();
        let path = format!("/{path}");
        let mut request = HttpRequest::new(method, &path).header("x-person", self.person);
        let fitting = self.cookies.iter().filter(|(cookie_host, cookie_path, ..)| {
            cookie_host == host && path.starts_with(cookie_path)
        });
        let sent: Vec<String> =
            fitting.map(|(.., name, value)| format!("{name}={value}")).collect();
        if !sent.is_empty() {
            request = request.header("cookie", sent.join("; "));
        }
        if let Some(form) = form {
            request =
                request.header("content-type", "application/x-www-form-urlencoded").bytes(form);
        }
        let response = request.send(host.parse().unwrap()).await;
        for cookie in response.headers.get("set-cookie").iter().flat_map(|all| all.lines()) {
            let (pair, attributes) = cookie.split_once(';').unwrap();
            let (name, value) = pair.split_once('=').unwrap();
            let path = attributes.split(';').find_map(|one| {
                let (name, value) = one.trim().split_once('=')?;
                name.eq_ignore_ascii_case("path").then(|| value.to_owned())
            });
            let path = path.unwrap_or_else(|| "/".to_owned());
            self.cookies.retain(|(cookie_host, cookie_path, known, _)| {
                (cookie_host.as_str(), cookie_path, known.as_str()) != (host, &path, name)
            });
            self.cookies.push((host.to_owned(), path, name.to_owned(), value.to_owned()));
        }
        response
    }

    /// Follows redirects until the provider redirects to the server; `None` if it shows a page instead.
    async fn follow(&mut self, mut response: HttpResponse, host: &str) -> Option<String> {
        for _ in 0..10 {
            let location = response.headers.get("location")?.clone();
            if location.starts_with(PUBLIC_URL) {
                return Some(location.strip_prefix(PUBLIC_URL)?.to_owned());
            }
            let url =
                if location.starts_with('/') { format!("{host}{location}") } else { location };
            response = self.request("GET", &url, None).await;
        }
        panic!("too many redirects");
    }

    /// Signs in at the provider; returns the path to which the provider redirects.
    async fn sign_in(&mut self, server: &TestServer, path: &str) -> String {
        let started = self.request("GET", &format!("http://{}{path}", server.address), None).await;
        let started = started.expect(303);
        let host = started.headers["location"].split("/auth").next().unwrap().to_owned();
        let opened = self.request("GET", &started.headers["location"], None).await;
        self.follow(opened, &host).await.expect("the provider redirects to the server")
    }

    async fn open(&mut self, server: &TestServer, path: &str) -> HttpResponse {
        self.request("GET", &format!("http://{}{path}", server.address), None).await
    }

    fn cookie(&mut self, name: &str) -> &mut String {
        let found = self.cookies.iter_mut().find(|(_, _, known, _)| known == name);
        &mut found.expect("a cookie").3
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn person_signs_in_with_a_browser() {
    let provider = provider();
    let server = server(settings(&provider.issuer)).await;
    let mut browser = Browser::of("ada");
    let back = browser.sign_in(&server, "/auth/login?next=/api/agents/runs").await;
    assert!(back.starts_with("/auth/callback?"), "{back}");
    // A redirect would come from the provider's site, and the strict cookie would not be sent with it.
    let done = browser.open(&server, &back).await.expect(200);
    assert!(done.text().contains("content=\"0; url=/api/agents/runs\""), "{}", done.text());
    let cookies = &done.headers["set-cookie"];
    let session = cookies.lines().find(|line| line.starts_with("bailiwick_session=bws_")).unwrap();
    for attribute in ["HttpOnly", "SameSite=Strict", "Path=/", "Max-Age=3600"] {
        assert!(session.contains(attribute), "{session}");
    }
    assert!(!session.contains("Secure"), "there is no TLS on a loopback address: {session}");
    browser.open(&server, RUNS).await.expect(200);
    // It is not an API token.
    let bearer = HttpRequest::get(RUNS).token(browser.cookie("bailiwick_session"));
    server.execute(bearer).await.expect(401);
    // The session and the groups are in the store.
    let tokens = server.store.tokens().await.unwrap();
    let record = tokens.iter().find(|token| token.actor == "ada").unwrap();
    assert!(record.id.starts_with("session-") && record.expires_at.is_some(), "{record:?}");
    assert_eq!(record.scope, TokenScope::Admin);
    let people = server.store.people().await.unwrap();
    assert_eq!(people[0].groups, ["platform", "reviewers"]);
    assert_eq!(Some(people[0].valid_until), record.expires_at);
    let audit = server.audit().await;
    assert_eq!((audit[0].0.as_str(), audit[0].1.as_str()), ("ada", "SignedIn"));
    // Other sites can make the browser send the cookie, but not with the headers of this server's pages.
    let cookie = format!("bailiwick_session={}", browser.cookie("bailiwick_session"));
    let logout = HttpRequest::new("POST", "/auth/logout").header("cookie", &cookie);
    let refused = server.execute(logout.clone()).await.expect(403);
    assert_eq!(refused.code(), "ORIGIN_DENIED");
    let foreign = logout.clone().header("sec-fetch-site", "cross-site");
    server.execute(foreign).await.expect(403);
    let watch = HttpRequest::get("/api/v1alpha1/events").header("cookie", &cookie);
    let mut events = Events::open(server.address, watch).await;
    assert_eq!(events.next().await.unwrap().name, "sync");
    let out = server.execute(logout.header("sec-fetch-site", "same-origin")).await.expect(200);
    assert!(out.headers["set-cookie"].contains("Max-Age=0"), "{:?}", out.headers);
    assert_eq!(events.next().await.unwrap().name, "end", "the logout ends streams");
    server.execute(HttpRequest::get(RUNS).header("cookie", &cookie)).await.expect(401);
    let cookies = [cookie.as_str(), "bailiwick_session=bws_wrong", "bailiwick_session="];
    for cookie in cookies {
        server.execute(HttpRequest::get(RUNS).header("cookie", cookie)).await.expect(401);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_the_browser_that_started_a_sign_in_can_complete_it_once() {
    let provider = provider();
    let server = server(settings(&provider.issuer)).await;
    let mut ada = Browser::of("ada");
    let back = ada.sign_in(&server, "/auth/login").await;
    // An attacker sends the victim's browser the response of another sign-in.
    Browser::of("eve").open(&server, &back).await.expect(401);
    let mut other = Browser::of("eve");
    other.open(&server, "/auth/login").await.expect(303);
    other.open(&server, &back).await.expect(401);
    let other_issuer = back.replace("iss=http", "iss=https");
    ada.open(&server, &other_issuer).await.expect(401);
    let pending = ada.cookie("bailiwick_sign_in").clone();
    let change = |field: &str| {
        let mut state: Value =
            serde_json::from_slice(&URL_SAFE_NO_PAD.decode(&pending).unwrap()).unwrap();
        state[field] = json!("0".repeat(64));
        URL_SAFE_NO_PAD.encode(state.to_string())
    };
    *ada.cookie("bailiwick_sign_in") = change("state");
    ada.open(&server, &back).await.expect(401);
    // The provider refuses a wrong verifier, and revokes the code.
    *ada.cookie("bailiwick_sign_in") = change("verifier");
    ada.open(&server, &back).await.expect(401);
    let back = ada.sign_in(&server, "/auth/login").await;
    let pending = ada.cookie("bailiwick_sign_in").clone();
    let mut state: Value =
        serde_json::from_slice(&URL_SAFE_NO_PAD.decode(&pending).unwrap()).unwrap();
    state["nonce"] = json!("0".repeat(64));
    *ada.cookie("bailiwick_sign_in") = URL_SAFE_NO_PAD.encode(state.to_string());
    let refused = ada.open(&server, &back).await.expect(401);
    assert!(refused.text().contains("belongs to another sign-in"), "{}", refused.text());
    assert!(server.store.people().await.unwrap().is_empty());
    let back = ada.sign_in(&server, "/auth/login").await;
    let before = ada.cookies.clone();
    ada.open(&server, &back).await.expect(200);
    ada.cookies = before;
    ada.open(&server, &back).await.expect(401);
    assert_eq!(server.store.people().await.unwrap().len(), 1);
    for next in ["//evil.example", "https://evil.example/", "/%5Cevil.example"] {
        let path = format!("/auth/login?next={next}");
        ada.open(&server, &path).await.expect(400);
    }
    let mut refusing = Browser::of("");
    let back = refusing.sign_in(&server, "/auth/login").await;
    assert!(back.contains("error=access_denied"), "{back}");
    refusing.open(&server, &back).await.expect(401);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn scope_follows_from_the_groups() {
    let provider = provider();
    let strict = server(settings(&provider.issuer)).await;
    let mut eve = Browser::of("eve");
    let back = eve.sign_in(&strict, "/auth/login").await;
    let refused = eve.open(&strict, &back).await.expect(403);
    assert_eq!(refused.code(), "SIGN_IN_DENIED");
    assert!(strict.store.people().await.unwrap().is_empty());
    let open =
        SignInSettings { default_scope: Some(TokenScope::Viewer), ..settings(&provider.issuer) };
    let open = server(open).await;
    for (person, scope) in [("eve", TokenScope::Viewer), ("grace", TokenScope::Approver)] {
        let mut browser = Browser::of(person);
        let back = browser.sign_in(&open, "/auth/login").await;
        browser.open(&open, &back).await.expect(200);
        let tokens = open.store.tokens().await.unwrap();
        assert_eq!(tokens.iter().find(|one| one.actor == person).unwrap().scope, scope);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn person_signs_in_with_a_device_code() {
    let provider = provider();
    let server = server(settings(&provider.issuer)).await;
    let started = server.execute(HttpRequest::new("POST", "/auth/device")).await.expect(200).json();
    let request = HttpRequest::new("POST", "/auth/device/token")
        .json(&json!({ "deviceCode": started["deviceCode"] }));
    let pending = server.execute(request.clone()).await.expect(400);
    assert_eq!(pending.code(), "AUTHORIZATION_PENDING");
    assert!(started["interval"].as_u64().unwrap() >= 1, "{started}");
    confirm(&provider.issuer, &serde_json::from_value(started).unwrap()).await;
    let created = server.execute(request.clone()).await.expect(201).json();
    assert_eq!(created["record"]["actor"], "grace");
    assert_eq!(created["record"]["scope"], "approver");
    assert!(created["record"]["expiresAt"].is_string() || created["record"]["expiresAt"].is_u64());
    let token = created["token"].as_str().unwrap();
    server.execute(HttpRequest::get(RUNS).token(token)).await.expect(200);
    server.execute(request).await.expect(401);
    server.execute(HttpRequest::new("POST", "/auth/logout").token(token)).await.expect(200);
    server.execute(HttpRequest::get(RUNS).token(token)).await.expect(401);
    let unknown = json!({ "deviceCode": "unknown" });
    server.execute(HttpRequest::new("POST", "/auth/device/token").json(&unknown)).await.expect(401);
}

/// A person opens the address and confirms the code.
async fn confirm(issuer: &str, started: &DeviceAnswer) {
    let mut browser = Browser::of("grace");
    let address = started.verification_uri_complete.as_ref().unwrap();
    let page = browser.request("GET", address, None).await.expect(200).text();
    let xsrf = page.split("name=\"xsrf\" value=\"").nth(1).unwrap().split('"').next().unwrap();
    let form = format!("xsrf={xsrf}&user_code={}&confirm=yes", started.user_code);
    let confirmed = browser.request("POST", &started.verification_uri, Some(&form)).await;
    assert_eq!(browser.follow(confirmed, issuer).await, None, "the provider shows a page");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn program_waits_until_the_person_has_confirmed() {
    let provider = provider();
    let server = server(settings(&provider.issuer)).await;
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let address = format!("http://{}", server.address).parse().unwrap();
    let issuer = provider.issuer.clone();
    let created = sign_in_by_device(&client, &address, |started| {
        let started = started.clone();
        tokio::spawn(async move { confirm(&issuer, &started).await });
    });
    let created = created.await.unwrap();
    assert_eq!(created.record.actor, "grace");
    server.execute(HttpRequest::get(RUNS).token(&created.token)).await.expect(200);
    let none = crate::test_server::start_server().await;
    let address = format!("http://{}", none.address).parse().unwrap();
    let refused = sign_in_by_device(&client, &address, |_| {}).await.unwrap_err();
    assert_eq!(refused, DeviceSignInError::NotOffered, "this server accepts tokens only");
}

/// An ID token of the provider for a client.
async fn id_token(provider: &OidcProvider, client: &str, secret: &str) -> String {
    let verifier = "v".repeat(64);
    let challenge = URL_SAFE_NO_PAD.encode(sha256(&verifier));
    let query = format!(
        "response_type=code&client_id={client}&redirect_uri=http%3A%2F%2F127.0.0.1%3A1%2Fauth%2Fcallback\
         &scope=openid&state=s&nonce=n&code_challenge={challenge}&code_challenge_method=S256"
    );
    let mut browser = Browser::of("ada");
    let opened = browser.request("GET", &format!("{}/auth?{query}", provider.issuer), None).await;
    let back = browser.follow(opened, &provider.issuer).await.unwrap();
    let code = back.split("code=").nth(1).unwrap().split('&').next().unwrap();
    let form = format!(
        "grant_type=authorization_code&code={code}&code_verifier={verifier}\
         &redirect_uri=http%3A%2F%2F127.0.0.1%3A1%2Fauth%2Fcallback"
    );
    let host = provider.issuer.strip_prefix("http://").unwrap();
    let reply = HttpRequest::new("POST", "/token")
        .header("content-type", "application/x-www-form-urlencoded")
        .header("authorization", format!("Basic {}", STANDARD.encode(format!("{client}:{secret}"))))
        .bytes(form)
        .send(host.parse().unwrap())
        .await
        .expect(200);
    reply.json()["id_token"].as_str().unwrap().to_owned()
}

/// The digest as bytes.
fn sha256(text: &str) -> Vec<u8> {
    let hex = bailiwick_model::Sha256Hex::of(text).to_string();
    let pair = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    hex.as_bytes().chunks(2).map(pair).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn id_token_is_exchanged_for_a_token() {
    let provider = provider();
    let open =
        SignInSettings { default_scope: Some(TokenScope::Viewer), ..settings(&provider.issuer) };
    let server = server(open).await;
    let secret = "only+for+tests%3A+a%2Bb%2Fc";
    let token = id_token(&provider, OidcProvider::CLIENT_ID, secret).await;
    let request_with =
        |token: &str| HttpRequest::new("POST", "/auth/token").json(&json!({ "idToken": token }));
    let created = server.execute(request_with(&token)).await.expect(201).json();
    assert_eq!(
        (&created["record"]["actor"], &created["record"]["scope"]),
        (&json!("ada"), &json!("viewer"))
    );
    let other = id_token(&provider, "other", "other").await;
    let refused = server.execute(request_with(&other)).await.expect(401);
    assert!(refused.text().contains("for another client"), "{}", refused.text());
    let (message, signature) = token.rsplit_once('.').unwrap();
    let mut bytes = URL_SAFE_NO_PAD.decode(signature).unwrap();
    bytes[10] ^= 1;
    let forged = format!("{message}.{}", URL_SAFE_NO_PAD.encode(bytes));
    for bad in [forged.as_str(), "", "a.b.c", token.get(1..).unwrap()] {
        server.execute(request_with(bad)).await.expect(401);
    }
    assert_eq!(server.store.people().await.unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cookies_are_secure_if_the_public_url_uses_tls() {
    let provider = provider();
    let secure = SignInSettings {
        public_url: "https://bailiwick.example".to_owned(),
        ..settings(&provider.issuer)
    };
    let server = server(secure).await;
    let started = server.execute(HttpRequest::get("/auth/login")).await.expect(303);
    let cookie = &started.headers["set-cookie"];
    assert!(
        cookie.starts_with("__Host-bailiwick_sign_in=") && cookie.ends_with("; Secure"),
        "{cookie}"
    );
    let redirect = &started.headers["location"];
    assert!(
        redirect.contains("redirect_uri=https%3A%2F%2Fbailiwick.example%2Fauth%2Fcallback"),
        "{redirect}"
    );
    assert!(redirect.contains("code_challenge_method=S256"), "{redirect}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_provider_tokens_still_work() {
    let stopped = {
        let provider = provider();
        provider.issuer.clone()
    };
    let server = server(settings(&stopped)).await;
    for (method, path) in [("GET", "/auth/login"), ("POST", "/auth/device")] {
        let refused = server.execute(HttpRequest::new(method, path)).await.expect(503);
        assert!(refused.text().contains("see the server log"), "{}", refused.text());
    }
    server.get(RUNS).await.expect(200);
    let none = crate::test_server::start_server().await;
    let refused = none.execute(HttpRequest::get("/auth/login")).await.expect(503);
    assert!(refused.text().contains("--oidc-issuer"), "{}", refused.text());
    assert_eq!(refused.code(), "SIGN_IN_NOT_OFFERED");
    none.execute(HttpRequest::get("/auth/callback")).await.expect(503);
}
