//! Each scope is offered and can use only its own actions: every form of every page is sent with every scope. The guide
//! contains the resulting table.

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
const COMMENT_PAGE: &str = "/ui/local/fix-42/changes?c=1n1";

/// A button that sends a form.
#[derive(Debug, Clone)]
pub(crate) struct ActionButton {
    /// The page that it is on.
    pub(crate) page: String,
    /// Where its form is sent.
    pub(crate) action: String,
    /// What identifies it among the buttons for the same address.
    pub(crate) value: String,
    label: String,
    pub(crate) fields: Vec<(String, String)>,
}

impl ActionButton {
    fn key(&self) -> (String, String) {
        (self.action.clone(), self.value.clone())
    }

    pub(crate) fn body(&self) -> String {
        let fields: Vec<(&str, &str)> =
            self.fields.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        form(&fields)
    }
}

fn unescape_html(text: &str) -> String {
    [("&#60;", "<"), ("&#62;", ">"), ("&#34;", "\""), ("&#39;", "'"), ("&#38;", "&")]
        .into_iter()
        .fold(text.to_owned(), |text, (escaped, plain)| text.replace(escaped, plain))
}

/// The value of a field; an empty field gets a valid one.
fn field_value(name: &str, value: Option<String>) -> String {
    match (name, value) {
        (_, Some(value)) if !value.is_empty() => unescape_html(&value),
        ("text", _) => POOL.to_owned(),
        ("delivery", _) => "wd-1".to_owned(),
        ("repository", _) => "o/n".to_owned(),
        _ => "because".to_owned(),
    }
}

/// The buttons of a page that send a form with POST.
fn action_buttons(page: &str, html: &str) -> Vec<ActionButton> {
    let mut buttons = Vec::new();
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
                let value = field_value(&name, attribute(tag, "value"));
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
                fields.insert(name, unescape_html(&attribute(tag, "value").unwrap()));
            }
            let action = attribute(tag, "formaction").or_else(|| attribute(head, "action"));
            let value = fields.get("action").or_else(|| fields.get("answer"));
            buttons.push(ActionButton {
                page: page.to_owned(),
                action: unescape_html(&action.unwrap()),
                value: value.cloned().unwrap_or_default(),
                label: label(&format!("<{}", button.split("</button>").next().unwrap())),
                fields: fields.into_iter().collect(),
            });
        }
    }
    buttons
}

/// The route of an address.
fn route_of(path: &str) -> String {
    let parts: Vec<&str> = path.split('/').collect();
    let is_route = |pattern: &str| {
        let pattern: Vec<&str> = pattern.split('/').collect();
        let mut pairs = pattern.iter().zip(&parts);
        pattern.len() == parts.len()
            && pairs.all(|(one, other)| one.starts_with('{') || one == other)
    };
    let mut matching =
        routes().into_iter().filter(|one| one.method == "POST" && is_route(&one.path));
    matching.next().expect("a form is sent to a route").path
}

/// Every page that can have a form.
fn pages() -> Vec<String> {
    let local_pages =
        ["/ui/runs", "/ui/runs?group=ended", "/ui/inbox", "/ui/local/fix-42", COMMENT_PAGE];
    local_pages.map(str::to_owned).into_iter().chain(addresses()).collect()
}

pub(crate) async fn save_filter(server: &TestServer) {
    let mut browser = server.signed_in(TokenScope::Admin).await;
    let fields = [("action", "save"), ("name", "kept"), ("query", "group=ended")];
    assert_eq!(browser.post(FILTERS, &form(&fields)).await.status, 303);
}

/// A person with a scope, and the buttons of the pages they opened.
struct Person {
    scope: TokenScope,
    browser: Browser,
    buttons_by_page: BTreeMap<String, Vec<ActionButton>>,
}

impl Person {
    async fn new(server: &TestServer, scope: TokenScope) -> Self {
        Self { scope, browser: server.signed_in(scope).await, buttons_by_page: BTreeMap::new() }
    }

    /// Whether the person may use the button. It must be offered exactly if its request is accepted.
    async fn is_permitted(&mut self, server: &TestServer, action_button: &ActionButton) -> bool {
        if action_button.action == FILTERS {
            save_filter(server).await;
        }
        if !self.buttons_by_page.contains_key(&action_button.page) {
            let page = self.browser.get(&action_button.page).await;
            self.buttons_by_page.insert(
                action_button.page.clone(),
                action_buttons(&action_button.page, &page.text),
            );
        }
        let is_offered = self.buttons_by_page[&action_button.page]
            .iter()
            .any(|one| one.key() == action_button.key());
        let reply = self.browser.post(&action_button.action, &action_button.body()).await;
        let is_accepted = [200, 303].contains(&reply.status);
        let scope = self.scope;
        assert!(is_accepted || reply.status == 403, "{scope:?} {action_button:?}: {}", reply.text);
        assert_eq!(
            is_offered, is_accepted,
            "offered and accepted must be the same: {scope:?} {action_button:?}"
        );
        if action_button.action == SIGN_OUT {
            self.browser = server.signed_in(scope).await;
        }
        is_offered
    }
}

/// Every button of every page, on a server where all actions are possible.
pub(crate) async fn all_action_buttons(server: &TestServer) -> Vec<ActionButton> {
    server.runs.permit_all_actions();
    server.add_approval().await;
    save_filter(server).await;
    let mut admin = server.signed_in(TokenScope::Admin).await;
    let mut buttons: Vec<ActionButton> = Vec::new();
    for page in pages() {
        for button in action_buttons(&page, &admin.get(&page).await.text) {
            if !buttons.iter().any(|one| one.key() == button.key()) {
                buttons.push(button);
            }
        }
    }
    buttons
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pages_offer_and_accept_only_actions_that_the_scope_permits() {
    let (server, fleet) = serve_fleet().await;
    let buttons = all_action_buttons(&server).await;
    let tested: BTreeSet<String> = buttons.iter().map(|button| route_of(&button.action)).collect();
    let post_routes = routes().into_iter().filter(|route| route.method == "POST");
    let mut post_routes: BTreeSet<String> = post_routes.map(|route| route.path).collect();
    // Before the sign-in there is no scope.
    assert!(post_routes.remove("/ui/sign-in"));
    assert_eq!(tested, post_routes, "every POST route is tested");

    let mut people = Vec::new();
    for scope in SCOPES {
        people.push(Person::new(&server, scope).await);
    }
    // Actions with the same address and scopes are one line.
    let mut lines: Vec<(String, [bool; 4], Vec<String>)> = Vec::new();
    for button in &buttons {
        let mut permitted = [false; 4];
        for (person, permitted) in people.iter_mut().zip(&mut permitted) {
            let count = || server.runs.changes().len() + fleet.calls().len();
            let before = count();
            *permitted = person.is_permitted(&server, button).await;
            if ["/action", "/comment"].iter().any(|end| button.action.ends_with(end)) {
                server.wait_for_jobs().await;
            }
            assert!(*permitted || count() == before, "refused but executed: {button:?}");
        }
        let path = route_of(&button.action);
        let line = lines.iter_mut().find(|(to, scopes, _)| (to, *scopes) == (&path, permitted));
        match line {
            Some((_, _, labels)) if labels.contains(&button.label) => {}
            Some((_, _, labels)) => labels.push(button.label.clone()),
            None => lines.push((path, permitted, vec![button.label.clone()])),
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
