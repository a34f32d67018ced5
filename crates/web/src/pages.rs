//! The routes of the pages.

use std::sync::Arc;
use std::time::Instant;

use axum::Router;
use axum::extract::{Path, Request};
use axum::routing::{get, post};
use bailiwick_server::{Api, PAGES, Pages};

use crate::layout::see_other;
use crate::sign_in_link::{LinkRules, SignInLink};
use crate::site::{SharedWaiting, Site};
use crate::text::encoded;
use crate::{
    actions, approvals, artifacts, assets, board, changes, checks, comment, context, cost, fleet,
    inbox, limits, lineage, live, numbers, run, runs, saved_filters, sign_in, unknown_page,
};

/// The pages for browsers.
#[derive(Debug, Default)]
pub struct WebPages {
    path_prefix: String,
    link: Arc<SignInLink>,
}

impl WebPages {
    /// The pages of a server whose root is at this path, which is empty or starts with `/`.
    pub fn new(path_prefix: &str) -> Self {
        Self { path_prefix: path_prefix.to_owned(), link: Arc::default() }
    }

    /// Accepts a secret once, within these rules, and signs its bearer in with the token of a session.
    #[must_use]
    pub fn with_link(self, secret: &str, session: String, rules: LinkRules) -> Self {
        let link = SignInLink::new(secret, session, rules, Instant::now());
        Self { link: Arc::new(link), ..self }
    }

    /// The path of the link with this secret.
    pub fn link_path(&self, secret: &str) -> String {
        format!("{}{PAGES}/link/{}", self.path_prefix, encoded(secret))
    }
}

impl Pages for WebPages {
    fn router(&self, api: Api) -> Router {
        let site = Arc::new(Site {
            api,
            waiting: SharedWaiting::default(),
            base: format!("{}{PAGES}", self.path_prefix),
            link: self.link.clone(),
        });
        let home = format!("{}/runs", site.base);
        let list = home.clone();
        macro_rules! page {
            ($handler:path) => {{
                let site = site.clone();
                move |request: Request| {
                    let site = site.clone();
                    async move { $handler(&site, request).await }
                }
            }};
        }
        macro_rules! named {
            ($handler:path) => {{
                let site = site.clone();
                move |Path(name): Path<String>, request: Request| {
                    let site = site.clone();
                    async move { $handler(&site, &name, request).await }
                }
            }};
        }
        macro_rules! object {
            ($handler:path) => {{
                let site = site.clone();
                move |Path((namespace, name)): Path<(String, String)>, request: Request| {
                    let site = site.clone();
                    async move { $handler(&site, (&namespace, &name), request).await }
                }
            }};
        }
        let fleet_object = {
            let site = site.clone();
            move |Path((namespace, plural, name)): Path<(String, String, String)>,
                  request: Request| {
                let site = site.clone();
                async move { fleet::object::page(&site, (&namespace, &plural, &name), request).await }
            }
        };
        const RULE: &str = "/fleet/objects/{namespace}/agenttriggerrules/{name}/rule";
        const TEST: &str = "/fleet/objects/{namespace}/agenttriggerrules/{name}/test";
        const RUN: &str = "/fleet/objects/{namespace}/agentdispatchruns/{name}/run";
        const WORKSPACE: &str = "/fleet/objects/{namespace}/agentworkspaces/{name}/workspace";
        Router::new()
            .route("/", get(move || async move { see_other(&home) }))
            .route("/runs", get(page!(runs::page)))
            .route("/runs/filters", post(page!(saved_filters::submit)))
            .route("/local", get(move || async move { see_other(&list) }))
            .route("/local/{name}", get(named!(run::page)))
            .route("/local/{name}/changes", get(named!(changes::page)))
            .route("/local/{name}/comment", post(named!(comment::submit)))
            .route("/local/{name}/checks", get(named!(checks::page)))
            .route("/local/{name}/context", get(named!(context::page)))
            .route("/local/{name}/policy", get(named!(limits::page)))
            .route("/local/{name}/cost", get(named!(cost::page)))
            .route("/local/{name}/lineage", get(named!(lineage::page)))
            .route("/local/{name}/artifacts", get(named!(artifacts::page)))
            .route("/local/{name}/artifacts/{artifact}", get(object!(artifacts::download)))
            .route("/local/{name}/action", post(named!(actions::act)))
            .route("/inbox", get(page!(inbox::page)))
            .route("/inbox/answer", post(page!(inbox::answer)))
            .route("/inbox/decide", post(page!(approvals::decide)))
            .route("/live", get(page!(live::stream)))
            .route("/board", get(page!(board::page)))
            .route("/numbers", get(page!(numbers::page)))
            .route("/numbers.csv", get(page!(numbers::csv)))
            .route("/numbers.json", get(page!(numbers::json)))
            .route("/fleet", get(page!(fleet::kinds::page)))
            .route("/fleet/kinds/{plural}", get(named!(fleet::list::page)))
            .route("/fleet/objects/{namespace}/{plural}/{name}", get(fleet_object))
            .route(RULE, post(object!(fleet::rule::act)))
            .route(RUN, post(object!(fleet::dispatch::act)))
            .route(TEST, post(object!(fleet::trial::test)))
            .route(WORKSPACE, post(object!(fleet::workspaces::act)))
            .route("/fleet/permissions", get(page!(fleet::permissions::page)))
            .route(
                "/fleet/edit",
                get(page!(fleet::editor::page)).post(page!(fleet::editor::submit)),
            )
            .route("/fleet/audit", get(page!(fleet::audit::page)))
            .route("/workspaces", post(page!(fleet::workspaces::create)))
            .route("/sign-in", get(page!(sign_in::page)).post(page!(sign_in::submit)))
            .route("/sign-out", post(page!(sign_in::sign_out)))
            .route("/link/{secret}", get(named!(sign_in::link)))
            .fallback(page!(unknown_page::unknown))
            .route(
                "/static/{name}",
                get(|Path(name): Path<String>| async move { assets::serve(&name) }),
            )
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{LinkRules, WebPages};

    #[test]
    fn link_has_the_path_prefix_and_is_not_in_debug_output() {
        assert_eq!(WebPages::new("/a").link_path("x"), "/a/ui/link/x");
        let rules = LinkRules { lifetime: Duration::from_secs(60), user: None };
        let pages = WebPages::new("").with_link("s3cret", "s3ssion".to_owned(), rules);
        let debug_output = format!("{pages:?}");
        assert!(
            !debug_output.contains("s3cret") && !debug_output.contains("s3ssion"),
            "{debug_output}"
        );
    }
}
