//! The stylesheet, the script and the icon. Their names have their digests, so that browsers keep them for ever.

use std::sync::LazyLock;

use axum::body::Body;
use axum::response::Response;
use bailiwick_model::Sha256Hex;
use hyper::StatusCode;
use hyper::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue};

pub(crate) struct Asset {
    /// The file name with the digest.
    pub(crate) name: String,
    text: &'static str,
    content_type: &'static str,
}

/// Every asset, in the order style, script, icon.
pub(crate) struct Assets {
    pub(crate) style: Asset,
    pub(crate) script: Asset,
    pub(crate) icon: Asset,
}

pub(crate) static ASSETS: LazyLock<Assets> = LazyLock::new(|| Assets {
    style: asset("style", "css", include_str!("../assets/style.css"), "text/css; charset=utf-8"),
    script: asset(
        "page",
        "js",
        include_str!("../assets/page.js"),
        "text/javascript; charset=utf-8",
    ),
    icon: asset("icon", "svg", include_str!("../assets/icon.svg"), "image/svg+xml"),
});

fn asset(stem: &str, ending: &str, text: &'static str, content_type: &'static str) -> Asset {
    let digest = Sha256Hex::of(text);
    Asset { name: format!("{stem}-{}.{ending}", digest.prefix(16)), text, content_type }
}

/// The asset with this name; other names, such as those of older versions, are not found.
pub(crate) fn serve(name: &str) -> Response {
    let assets = &*ASSETS;
    let all = [&assets.style, &assets.script, &assets.icon];
    let Some(asset) = all.into_iter().find(|asset| asset.name == name) else {
        let mut response = Response::new(Body::from("not found\n"));
        *response.status_mut() = StatusCode::NOT_FOUND;
        return response;
    };
    let mut response = Response::new(Body::from(asset.text));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(asset.content_type));
    let forever = "public, max-age=31536000, immutable";
    headers.insert(CACHE_CONTROL, HeaderValue::from_static(forever));
    response
}
