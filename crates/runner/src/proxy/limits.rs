//! Limits on requests to the model: models, searches, and addresses that its host fetches.

use hyper::header::{CONTENT_TYPE, HeaderMap};

use super::connect::Hosts;
use super::model_apis::ServerSide;
use super::models::ModelLimit;

/// Limits on requests.
pub(super) struct Limits {
    /// Hosts that may be reached by any connection.
    pub(super) hosts: Hosts,
    pub(super) models: ModelLimit,
    /// Whether the model's host may search the web.
    pub(super) searches: bool,
}

impl Limits {
    /// Why the model's host must not do this, and what to change.
    pub(super) fn refuses(&self, requested: &ServerSide) -> Option<String> {
        match requested {
            ServerSide::Search(_) if self.searches => None,
            ServerSide::Search(tool) => Some(format!(
                "`{tool}` lets the model's host search the web, and the agent may not; to allow it, give \
                 its role the tool WebSearch"
            )),
            ServerSide::Address { what, url } => {
                let host = host_of(url);
                let allowed = host.as_deref().is_some_and(|host| self.hosts.names(host));
                (!allowed).then(|| {
                    let host = host.unwrap_or_else(|| url.chars().take(MAX_SHOWN).collect());
                    format!(
                        "the model's host would connect to {host} for {what}, which the task does not allow; \
                         to allow it, name it in `hosts` under [agent] in the task"
                    )
                })
            }
            ServerSide::Other(what) => Some(format!(
                "`{what}` runs or is kept on the model's host, where no limit of the task holds; use \
                 tools that the agent program runs itself"
            )),
        }
    }
}

/// The maximum length of an invalid address in a message.
const MAX_SHOWN: usize = 100;

/// The host and port of an address.
fn host_of(url: &str) -> Option<String> {
    let url = reqwest::Url::parse(url).ok()?;
    let port = matches!(url.scheme(), "http" | "https").then(|| url.port_or_known_default())??;
    Some(format!("{}:{port}", url.host_str()?))
}

/// Whether a body is JSON in the encoding that we read.
pub(super) fn is_json(headers: &HeaderMap) -> bool {
    let mut kinds = headers.get_all(CONTENT_TYPE).iter();
    let (kind, more) = (kinds.next(), kinds.next());
    let Some(kind) = kind else { return true };
    let kind = kind.to_str().unwrap_or_default().to_ascii_lowercase();
    let mut parts = kind.split(';').map(str::trim);
    more.is_none()
        && parts.next() == Some("application/json")
        && parts.all(|part| matches!(part, "" | "charset=utf-8" | "charset=\"utf-8\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_and_port_are_found_in_any_spelling_of_a_url() {
        for (url, host) in [
            ("https://a.example/x", Some("a.example:443")),
            ("http://A.example:8080", Some("a.example:8080")),
            ("https://a.example@b.example/", Some("b.example:443")),
            ("https:\\\\a.example", Some("a.example:443")),
            ("gs://bucket/x", None),
            ("/x", None),
            ("", None),
        ] {
            assert_eq!(host_of(url).as_deref(), host, "{url}");
        }
    }
}
