//! What every page has: links, the person, the number of waiting questions, and the headers of the response.

use askama::Template;
use axum::body::Body;
use axum::response::Response;
use bailiwick_fleet::ports::TokenScope;
use bailiwick_server::Session;
use hyper::StatusCode;
use hyper::header::{
    CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName, HeaderValue, LOCATION, REFERRER_POLICY,
};

use crate::assets::ASSETS;
use crate::clock::now;

/// No inline code, no other origin, no frame around the pages, no text that becomes code.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
                      img-src 'self' data:; form-action 'self'; base-uri 'none'; frame-ancestors 'none'; \
                      require-trusted-types-for 'script'; trusted-types 'none'";
const OPENER_POLICY: HeaderName = HeaderName::from_static("cross-origin-opener-policy");
const RESOURCE_POLICY: HeaderName = HeaderName::from_static("cross-origin-resource-policy");

/// The part of the site that a page belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Section {
    Runs,
    Inbox,
    Board,
    Fleet,
    Numbers,
    None,
}

/// The frame of a page.
#[derive(Debug, Clone)]
pub(crate) struct Layout {
    /// The path of the pages, with the prefix of a proxy.
    pub(crate) base: String,
    pub(crate) title: String,
    pub(crate) section: Section,
    /// The person; none on the sign-in page.
    pub(crate) actor: Option<String>,
    pub(crate) scope: &'static str,
    /// Questions that wait.
    pub(crate) waiting: usize,
    /// When the page was made, in milliseconds: the clock of the browser may differ.
    pub(crate) now: u64,
    /// The query of the event stream that the page is brought up to date by; none if it stays as it is.
    pub(crate) live: Option<String>,
    /// The page that it is brought up to date from; empty if that is the page itself.
    pub(crate) updates: String,
}

impl Layout {
    pub(crate) fn new(base: &str, title: impl Into<String>, session: Option<&Session>) -> Self {
        Self {
            base: base.to_owned(),
            title: title.into(),
            section: Section::None,
            actor: session.map(|session| session.actor().to_owned()),
            scope: session.map_or("", |session| scope_name(session.scope())),
            waiting: 0,
            now: now().millis(),
            live: None,
            updates: String::new(),
        }
    }

    pub(crate) fn style(&self) -> String {
        format!("{}/static/{}", self.base, ASSETS.style.name)
    }

    pub(crate) fn script(&self) -> String {
        format!("{}/static/{}", self.base, ASSETS.script.name)
    }

    pub(crate) fn icon(&self) -> String {
        format!("{}/static/{}", self.base, ASSETS.icon.name)
    }

    /// The query of the event stream. Every page learns how much waits for a person.
    pub(crate) fn stream(&self) -> &str {
        self.live.as_deref().unwrap_or("topic=waiting")
    }

    pub(crate) fn is_runs(&self) -> bool {
        self.section == Section::Runs
    }

    pub(crate) fn is_inbox(&self) -> bool {
        self.section == Section::Inbox
    }

    pub(crate) fn is_board(&self) -> bool {
        self.section == Section::Board
    }

    pub(crate) fn is_numbers(&self) -> bool {
        self.section == Section::Numbers
    }

    pub(crate) fn is_fleet(&self) -> bool {
        self.section == Section::Fleet
    }

    /// Whether the person may do everything.
    pub(crate) fn is_admin(&self) -> bool {
        self.scope == scope_name(TokenScope::Admin)
    }
}

fn scope_name(scope: TokenScope) -> &'static str {
    match scope {
        TokenScope::Viewer => "viewer",
        TokenScope::Operator => "operator",
        TokenScope::Approver => "approver",
        TokenScope::Admin => "admin",
    }
}

/// A page as a response.
pub(crate) fn html(status: StatusCode, page: &impl Template) -> Response {
    let (status, text) = match page.render() {
        Ok(text) => (status, text),
        Err(_) => (StatusCode::INTERNAL_SERVER_ERROR, "the page cannot be shown".to_owned()),
    };
    let mut response = Response::new(Body::from(text));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("same-origin"));
    headers.insert(OPENER_POLICY, HeaderValue::from_static("same-origin"));
    headers.insert(RESOURCE_POLICY, HeaderValue::from_static("same-origin"));
    response
}

/// Sends the browser to another page, which it then reads.
pub(crate) fn see_other(location: &str) -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::SEE_OTHER;
    if let Ok(location) = HeaderValue::from_str(location) {
        response.headers_mut().insert(LOCATION, location);
    }
    response
}
