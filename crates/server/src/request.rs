//! A request as handlers see it, and JSON responses.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::body::Body;
use axum::response::Response;
use bailiwick_fleet::ports::{AuditEntry, Caller, Target, TokenRecord, TokenScope};
use bailiwick_fleet::resources::AuditActor;
use bailiwick_resources::{AnyObject, DEFAULT_NAMESPACE, Kind, Moment, is_object_name};
use bytes::Bytes;
use hyper::header::{ACCEPT, CONTENT_TYPE, HeaderValue};
use hyper::{HeaderMap, StatusCode, Uri};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::bodies::BodyReservation;
use crate::problem::Problem;
use crate::routes::Route;

pub(crate) type HandlerResult = Result<Response, Problem>;

/// An authorized request with its whole body.
pub(crate) struct ApiRequest {
    pub(crate) route: Arc<Route>,
    pub(crate) params: BTreeMap<String, String>,
    pub(crate) query: BTreeMap<String, String>,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    /// The part of the body budget that the body uses until the request ends.
    pub(crate) _reservation: Option<BodyReservation>,
    pub(crate) token: Option<TokenRecord>,
    pub(crate) correlation: String,
    pub(crate) now: Moment,
}

/// The query parameters; duplicates are refused.
pub(crate) fn query(uri: &Uri) -> Result<BTreeMap<String, String>, Problem> {
    let pairs =
        axum::extract::Query::<Vec<(String, String)>>::try_from_uri(uri).map_err(|error| {
            Problem::bad_request(format!("the query parameters are invalid: {error}"))
        })?;
    let mut query = BTreeMap::new();
    for (key, value) in pairs.0 {
        if query.insert(key.clone(), value).is_some() {
            return Err(Problem::bad_request(format!("the query parameter `{key}` is duplicated")));
        }
    }
    Ok(query)
}

impl ApiRequest {
    /// Refuses unknown query parameters.
    pub(crate) fn allow_query(&self, known: &[&str]) -> Result<(), Problem> {
        match self.query.keys().find(|key| !known.contains(&key.as_str())) {
            Some(key) if known.is_empty() => Err(Problem::bad_request(format!(
                "`{key}` is not supported: this path has no query parameters"
            ))),
            Some(key) => Err(Problem::bad_request(format!(
                "`{key}` is not supported; the query parameters are {}",
                known.join(", ")
            ))),
            None => Ok(()),
        }
    }

    pub(crate) fn number(&self, key: &str) -> Result<Option<u64>, Problem> {
        let parse = |text: &String| {
            text.parse().map_err(|_| Problem::bad_request(format!("`{key}` must be a number")))
        };
        self.query.get(key).map(parse).transpose()
    }

    pub(crate) fn flag(&self, key: &str) -> Result<bool, Problem> {
        match self.query.get(key).map(String::as_str) {
            None | Some("0" | "false") => Ok(false),
            Some("1" | "true") => Ok(true),
            Some(other) => Err(Problem::bad_request(format!("`{key}={other}`: write 1 or 0"))),
        }
    }

    pub(crate) fn dry_run(&self) -> Result<bool, Problem> {
        match self.query.get("dryRun").map(String::as_str) {
            None => Ok(false),
            Some("All") => Ok(true),
            Some(other) => Err(Problem::bad_request(format!("`dryRun={other}`: write dryRun=All"))),
        }
    }

    pub(crate) fn param(&self, key: &str) -> &str {
        self.params.get(key).map_or("", String::as_str)
    }

    pub(crate) fn kind(&self) -> Result<Kind, Problem> {
        if let Some(kind) = self.route.kind {
            return Ok(kind);
        }
        let text = self.param("plural");
        text.parse().map_err(|error: bailiwick_resources::UnknownKind| {
            Problem::not_found(error.to_string())
        })
    }

    /// The namespace in the path or in the query.
    pub(crate) fn named_namespace(&self) -> Option<&str> {
        self.params.get("namespace").or_else(|| self.query.get("namespace")).map(String::as_str)
    }

    pub(crate) fn namespace(&self) -> &str {
        self.named_namespace().unwrap_or(DEFAULT_NAMESPACE)
    }

    pub(crate) fn target(&self) -> Result<Target, Problem> {
        let target =
            Target { namespace: self.namespace().to_owned(), name: self.param("name").to_owned() };
        if is_object_name(&target.name) && is_object_name(&target.namespace) {
            return Ok(target);
        }
        Err(Problem::not_found(format!(
            "`{}/{}` is not a valid name",
            target.namespace, target.name
        )))
    }

    pub(crate) fn json<T: DeserializeOwned>(&self) -> Result<T, Problem> {
        self.require_json()?;
        serde_json::from_slice(&self.body).map_err(|error| Problem::json(&error))
    }

    /// An empty body stands for the default.
    pub(crate) fn json_or_default<T: DeserializeOwned + Default>(&self) -> Result<T, Problem> {
        if self.body.is_empty() { Ok(T::default()) } else { self.json() }
    }

    /// A web page of another site can send forms and plain text, but not JSON.
    fn require_json(&self) -> Result<(), Problem> {
        let content_type = self.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
        let essence = content_type.and_then(|text| text.split(';').next()).map(str::trim);
        match essence {
            Some("application/json" | "application/merge-patch+json") => Ok(()),
            Some(_) | None => Err(Problem::new(
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "UNSUPPORTED_MEDIA_TYPE",
                "send JSON, with `Content-Type: application/json`",
            )),
        }
    }

    /// Whether the client wants a stream of events.
    pub(crate) fn wants_stream(&self) -> Result<bool, Problem> {
        let accept = self.headers.get(ACCEPT).and_then(|value| value.to_str().ok());
        let stream = accept.is_some_and(|accept| accept.contains("text/event-stream"));
        Ok(self.flag("watch")? || stream)
    }

    /// The version after which a stream continues.
    pub(crate) fn cursor(&self) -> Result<Option<u64>, Problem> {
        let header = self.headers.get("last-event-id").map(|value| {
            let text = value.to_str().unwrap_or_default();
            text.parse().map_err(|_| Problem::bad_request("`Last-Event-ID` must be a number"))
        });
        match header.transpose()? {
            Some(cursor) => Ok(Some(cursor)),
            None => self.number("resourceVersion"),
        }
    }

    pub(crate) fn caller(&self) -> Result<Caller, Problem> {
        let token = self.token.as_ref().ok_or_else(|| Problem::unauthorized("send a token"))?;
        Ok(Caller {
            actor: token.actor.clone(),
            scope: token.scope,
            token: token.id.clone(),
            correlation: self.correlation.clone(),
            request: crate::ids::unique_id(self.now),
            at: self.now,
        })
    }

    /// An entry of the audit log.
    pub(crate) fn audit(&self, event: &str, subject: String, detail: Value) -> AuditEntry {
        let AuditActor { actor, correlation } = self.by();
        AuditEntry { at: self.now, actor, event: event.to_owned(), subject, correlation, detail }
    }

    /// The actor and the correlation for the audit log.
    pub(crate) fn by(&self) -> AuditActor {
        let (actor, scope) = match &self.token {
            Some(token) => (token.actor.clone(), Some((token.id.clone(), token.scope))),
            None => ("nobody".to_owned(), None),
        };
        let mut correlation =
            BTreeMap::from([("correlationId".to_owned(), self.correlation.clone())]);
        if let Some((id, scope)) = scope {
            correlation.insert("token".to_owned(), id);
            correlation.insert("scope".to_owned(), scope_name(scope).to_owned());
        }
        AuditActor { actor, correlation }
    }
}

pub(crate) fn scope_name(scope: TokenScope) -> &'static str {
    match scope {
        TokenScope::Viewer => "viewer",
        TokenScope::Operator => "operator",
        TokenScope::Approver => "approver",
        TokenScope::Admin => "admin",
    }
}

/// The name of an object in the audit log, as `AgentStack/default/mender`.
pub(crate) fn subject(object: &AnyObject) -> String {
    format!("{}/{}/{}", object.kind, object.metadata.namespace, object.metadata.name)
}

pub(crate) fn json(status: StatusCode, body: &impl Serialize) -> HandlerResult {
    let bytes = serde_json::to_vec(body).map_err(|error| {
        Problem::unavailable(format!("the response cannot be serialized: {error}"))
    })?;
    let mut response = Response::new(Body::from(bytes));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    Ok(response)
}

pub(crate) fn ok(body: &impl Serialize) -> HandlerResult {
    json(StatusCode::OK, body)
}

pub(crate) fn text(content_type: &'static str, body: impl Into<Body>) -> Response {
    let mut response = Response::new(body.into());
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}
