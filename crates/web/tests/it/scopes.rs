//! Which scope is offered which action, and that nothing else is accepted: every form of every page is tried with every
//! scope. The table of the guide is made from it.

use std::collections::{BTreeMap, BTreeSet};

use bailiwick_fleet::ports::TokenScope;

use crate::browser::{Browser, form};
use crate::fleet_pages::{POOL, addresses};
use crate::page_sources::{attribute, label, routes};
use crate::scripted_fleet::serve_fleet;
use crate::scripted_runs::TestServer;

const SCOPES: [TokenScope; 4] =
    [TokenScope::Viewer, TokenScope::Operator, TokenScope::Approver, TokenScope::Admin];
const FILTERS: &str = "/ui/runs/filters";
const SIGN_OUT: &str = "/ui/sign-out";
const COMMENTED: &str = "/ui/local/fix-42/changes?c=1n1";

/// A button that changes something.
#[derive(Debug, Clone)]
pub(crate) struct Offer {
    /// The page that it is on.
    pub(crate) page: String,
    /// Where its form is sent.
    pub(crate) action: String,
    /// What identifies it among the buttons for the same address.
    pub(crate) value: String,
    label: String,
    pub(crate) fields: Vec<(String, String)>,
}

impl Offer {
    fn key(&self) -> (String, String) {
        (self.action.clone(), self.value.clone())
    }

    pub(crate) fn body(&self) -> String {
        let fields: Vec<(&str, &str)> =
            self.fields.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        form(&fields)
    }
}

fn unescaped(text: &str) -> String {
    [("&#60;", "<"), ("&#62;", ">"), ("&#34;", "\""), ("&#39;", "'"), ("&#38;", "&")]
        .into_iter()
        .fold(text.to_owned(), |text, (escaped, plain)| text.replace(escaped, plain))
}

/// What a person writes into a field that is empty.
fn filled(name: &str, value: Option<String>) -> String {
    match (name, value) {
        (_, Some(value)) if !value.is_empty() => unescaped(&value),
        ("text", _) => POOL.to_owned(),
        ("delivery", _) => "wd-1".to_owned(),
        ("repository", _) => "o/n".to_owned(),
        _ => "because".to_owned(),
    }
}

/// The buttons of a page that change something.
fn offers(page: &str, html: &str) -> Vec<Offer> {
    let mut all = Vec::new();
    for part in html.split("<form ").skip(1) {
        let part = format!(" {}", part.split("</form>").next().unwrap());
        let head = part.split('>').next().unwrap();
        if attribute(head, "method").as_deref() != Some("post") {
            continue;
        }
        let tags = part.split('<').skip(1).map(|tag| tag.split('>').next().unwrap());
        let mut fields = BTreeMap::new();
        for tag in tags {
            let is_field =
                ["input ", "select ", "textarea "].iter().any(|one| tag.starts_with(one));
            let is_box = attribute(tag, "type").as_deref() == Some("checkbox");
            if let Some(name) = attribute(tag, "name").filter(|_| is_field && !is_box) {
                let value = filled(&name, attribute(tag, "value"));
                fields.insert(name, value);
            }
        }
        for button in part.split("<button").skip(1) {
            let tag = button.split('>').next().unwrap();
            if tag.contains(" disabled") {
                continue;
            }
            let mut fields = fields.clone();
            if let Some(name) = attribute(tag, "name") {
                fields.insert(name, unescaped(&attribute(tag, "value").unwrap()));
            }
            let action = attribute(tag, "formaction").or_else(|| attribute(head, "action"));
            let value = fields.get("action").or_else(|| fields.get("answer"));
            all.push(Offer {
                page: page.to_owned(),
                action: unescaped(&action.unwrap()),
                value: value.cloned().unwrap_or_default(),
                label: label(&format!("<{}", button.split("</button>").next().unwrap())),
                fields: fields.into_iter().collect(),
            });
        }
    }
    all
}

/// The route of an address.
fn route(path: &str) -> String {
    let parts: Vec<&str> = path.split('/').collect();
    let is_route = |pattern: &str| {
        let pattern: Vec<&str> = pattern.split('/').collect();
        let mut pairs = pattern.iter().zip(&parts);
        pattern.len() == parts.len()
            && pairs.all(|(one, other)| one.starts_with('{') || one == other)
    };
    let mut found = routes().into_iter().filter(|one| one.method == "POST" && is_route(&one.path));
    found.next().expect("a form is sent to a route").path
}

/// Every page that can have a form.
fn pages() -> Vec<String> {
    let own = ["/ui/runs", "/ui/runs?group=ended", "/ui/inbox", "/ui/local/fix-42", COMMENTED];
    own.map(str::to_owned).into_iter().chain(addresses()).collect()
}

pub(crate) async fn save_filter(server: &TestServer) {
    let mut browser = server.signed_in(TokenScope::Admin).await;
    let fields = [("action", "save"), ("name", "kept"), ("query", "group=ended")];
    assert_eq!(browser.post(FILTERS, &form(&fields)).await.status, 303);
}

/// A person with a scope, and what the pages that were read offer.
struct Person {
    scope: TokenScope,
    browser: Browser,
    offered: BTreeMap<String, Vec<Offer>>,
}

impl Person {
    async fn new(server: &TestServer, scope: TokenScope) -> Self {
        Self { scope, browser: server.signed_in(scope).await, offered: BTreeMap::new() }
    }

    /// Whether the button is offered to the person and accepted from them, which must be the same.
    async fn may(&mut self, server: &TestServer, offer: &Offer) -> bool {
        if offer.action == FILTERS {
            save_filter(server).await;
        }
        if !self.offered.contains_key(&offer.page) {
            let page = self.browser.get(&offer.page).await;
            self.offered.insert(offer.page.clone(), offers(&offer.page, &page.text));
        }
        let offered = self.offered[&offer.page].iter().any(|one| one.key() == offer.key());
        let reply = self.browser.post(&offer.action, &offer.body()).await;
        let done = [200, 303].contains(&reply.status);
        let scope = self.scope;
        assert!(done || reply.status == 403, "{scope:?} {offer:?}: {}", reply.text);
        assert_eq!(offered, done, "offered and accepted must be the same: {scope:?} {offer:?}");
        if offer.action == SIGN_OUT {
            self.browser = server.signed_in(scope).await;
        }
        offered
    }
}

/// Every button that changes something, of every page, on a server where all of them are possible.
pub(crate) async fn all_offers(server: &TestServer) -> Vec<Offer> {
    server.runs.permit_everything();
    server.add_approval().await;
    save_filter(server).await;
    let mut admin = server.signed_in(TokenScope::Admin).await;
    let mut all: Vec<Offer> = Vec::new();
    for page in pages() {
        for offer in offers(&page, &admin.get(&page).await.text) {
            if !all.iter().any(|one| one.key() == offer.key()) {
                all.push(offer);
            }
        }
    }
    all
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_page_offers_and_accepts_exactly_what_the_scope_permits() {
    let (server, fleet) = serve_fleet().await;
    let all = all_offers(&server).await;
    let tried: BTreeSet<String> = all.iter().map(|offer| route(&offer.action)).collect();
    let changing = routes().into_iter().filter(|route| route.method == "POST");
    let mut changing: BTreeSet<String> = changing.map(|route| route.path).collect();
    // A person who signs in has no scope yet.
    assert!(changing.remove("/ui/sign-in"));
    assert_eq!(tried, changing, "every route that changes something is tried");

    let mut people = Vec::new();
    for scope in SCOPES {
        people.push(Person::new(&server, scope).await);
    }
    // Actions with the same address and scopes are one line.
    let mut lines: Vec<(String, [bool; 4], Vec<String>)> = Vec::new();
    for offer in &all {
        let mut permitted = [false; 4];
        for (person, permitted) in people.iter_mut().zip(&mut permitted) {
            let count = || server.runs.changes().len() + fleet.calls().len();
            let before = count();
            *permitted = person.may(&server, offer).await;
            if ["/action", "/comment"].iter().any(|end| offer.action.ends_with(end)) {
                server.wait_for_jobs().await;
            }
            assert!(*permitted || count() == before, "refused, and done all the same: {offer:?}");
        }
        let path = route(&offer.action);
        let line = lines.iter_mut().find(|(to, scopes, _)| (to, *scopes) == (&path, permitted));
        match line {
            Some((_, _, labels)) if labels.contains(&offer.label) => {}
            Some((_, _, labels)) => labels.push(offer.label.clone()),
            None => lines.push((path, permitted, vec![offer.label.clone()])),
        }
    }
    let refused = lines.iter().filter(|(_, scopes, _)| scopes.contains(&false)).count();
    assert!(refused > 5, "positive control: {lines:?}");
    let mut table = "| action | sent to | viewer | operator | approver | admin |\n\
                     |---|---|---|---|---|---|\n"
        .to_owned();
    for (path, scopes, labels) in &lines {
        let words: Vec<&str> =
            scopes.iter().map(|permitted| if *permitted { "yes" } else { "no" }).collect();
        table += &format!("| {} | `{path}` | {} |\n", labels.join(", "), words.join(" | "));
    }
    let guide = include_str!("../../../../docs/guides/web.md");
    assert!(guide.contains(&format!("{table}\n")), "docs/guides/web.md must have:\n{table}");
}
