//! The context of a run: the texts that its prompt was made from, with digests, and the prompt.

use askama::Template;
use axum::extract::Request;
use axum::response::Response;
use bailiwick_fleet::ports::{LocalContextLayer, LocalRunContext};
use hyper::StatusCode;

use crate::layout::{Layout, html};
use crate::run::{RunHeader, Tab};
use crate::run_part::read;
use crate::site::Site;
use crate::text::{MAX_SHOWN, line, number, shortened, visible};

const MAX_NAME: usize = 200;

#[derive(Template)]
#[template(path = "context.html")]
struct ContextPage {
    layout: Layout,
    header: RunHeader,
    layers: Vec<LayerView>,
    missing: Option<String>,
    prompt: Option<LayerView>,
}

struct LayerView {
    kind: String,
    name: String,
    origin: String,
    digest: String,
    bytes: String,
    text: String,
    left_out: usize,
}

impl LayerView {
    fn new(layer: &LocalContextLayer) -> Self {
        let (text, left_out) = shortened(&layer.text, MAX_SHOWN);
        Self {
            kind: line(&layer.kind, MAX_NAME),
            name: line(&layer.name, MAX_NAME),
            origin: line(&layer.origin, MAX_NAME),
            digest: line(&layer.digest, MAX_NAME),
            bytes: number(layer.bytes),
            text,
            left_out,
        }
    }
}

pub(crate) async fn page(site: &Site, name: &str, request: Request) -> Response {
    let (parts, _) = request.into_parts();
    let session = match site.require_session(&parts).await {
        Ok(session) => session,
        Err(response) => return response,
    };
    let part = match read::<LocalRunContext>(site, &session, name, Tab::Context).await {
        Ok(part) => part,
        Err(error) => return site.error(Some(&session), &error),
    };
    let (context, missing) = match part.data {
        Ok(context) => {
            let missing = context.missing.as_deref().map(visible);
            (context, missing)
        }
        Err(gone) => (LocalRunContext::default(), Some(gone.to_string())),
    };
    let page = ContextPage {
        layout: part.layout,
        header: part.header,
        layers: context.layers.iter().map(LayerView::new).collect(),
        missing,
        prompt: context.prompt.as_ref().map(LayerView::new),
    };
    html(StatusCode::OK, &page)
}
