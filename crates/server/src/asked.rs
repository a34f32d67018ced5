//! A request as its handler sees it, and the answers that are made of JSON.

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

use crate::bodies::Part;
use crate::problem::Problem;
use crate::routes::Route;

pub(crate) type Answer = Result<Response, Problem>;

/// A request whose sender is known, with its whole body.
pub(crate) struct Asked {
    pub(crate) route: Arc<Route>,
    pub(crate) params: BTreeMap<String, String>,
    pub(crate) query: BTreeMap<String, String>,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    /// The body's part of what all bodies may take, until the request ends.
    pub(crate) _held: Option<Part>,
    pub(crate) token: Option<TokenRecord>,
    pub(crate) correlation: String,
    pub(crate) now: Moment,
}

/// The parameters behind the question mark; none may be there twice.
pub(crate) fn query(uri: &Uri) -> Result<BTreeMap<String, String>, Problem> {
    let pairs = axum::extract::Query::<Vec<(String, String)>>::try_from_uri(uri)
        .map_err(|error| Problem::bad(format!("the parameters cannot be read: {error}")))?;
    let mut query = BTreeMap::new();
    for (key, value) in pairs.0 {
        if query.insert(key.clone(), value).is_some() {
            return Err(Problem::bad(format!("`{key}` is there twice")));
        }
    }
    Ok(query)
}

impl Asked {
    /// Refuses parameters that mean nothing here.
    pub(crate) fn known_query(&self, known: &[&str]) -> Result<(), Problem> {
        match self.query.keys().find(|key| !known.contains(&key.as_str())) {
            Some(key) if known.is_empty() => {
                Err(Problem::bad(format!("`{key}` is no parameter of this: it has none")))
            }
            Some(key) => Err(Problem::bad(format!(
                "`{key}` is no parameter of this; it has {}",
                known.join(", ")
            ))),
            None => Ok(()),
        }
    }

    pub(crate) fn number(&self, key: &str) -> Result<Option<u64>, Problem> {
        let parse = |text: &String| {
            text.parse().map_err(|_| Problem::bad(format!("`{key}` must be a number")))
        };
        self.query.get(key).map(parse).transpose()
    }

    pub(crate) fn flag(&self, key: &str) -> Result<bool, Problem> {
        match self.query.get(key).map(String::as_str) {
            None | Some("0" | "false") => Ok(false),
            Some("1" | "true") => Ok(true),
            Some(other) => Err(Problem::bad(format!("`{key}={other}`: write 1 or 0"))),
        }
    }

    /// Whether nothing may be changed.
    pub(crate) fn dry_run(&self) -> Result<bool, Problem> {
        match self.query.get("dryRun").map(String::as_str) {
            None => Ok(false),
            Some("All") => Ok(true),
            Some(other) => Err(Problem::bad(format!("`dryRun={other}`: write dryRun=All"))),
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

    /// The namespace that was named, in the path or behind the question mark.
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
            "`{}/{}` cannot be the name of anything",
            target.namespace, target.name
        )))
    }

    /// The body as this type.
    pub(crate) fn json<T: DeserializeOwned>(&self) -> Result<T, Problem> {
        self.must_be_json()?;
        serde_json::from_slice(&self.body).map_err(|error| Problem::json(&error))
    }

    /// The same; nothing sent is the same as nothing said.
    pub(crate) fn json_or_default<T: DeserializeOwned + Default>(&self) -> Result<T, Problem> {
        if self.body.is_empty() { Ok(T::default()) } else { self.json() }
    }

    /// A page of the web can send forms and plain text across sites, but no JSON.
    fn must_be_json(&self) -> Result<(), Problem> {
        let given = self.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
        let essence = given.and_then(|text| text.split(';').next()).map(str::trim);
        match essence {
            Some("application/json" | "application/merge-patch+json") => Ok(()),
            Some(_) | None => Err(Problem::new(
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "UNSUPPORTED_MEDIA_TYPE",
                "send JSON, with `Content-Type: application/json`",
            )),
        }
    }

    /// Whether a stream of events is wanted.
    pub(crate) fn wants_stream(&self) -> Result<bool, Problem> {
        let accept = self.headers.get(ACCEPT).and_then(|value| value.to_str().ok());
        let stream = accept.is_some_and(|accept| accept.contains("text/event-stream"));
        Ok(self.flag("watch")? || stream)
    }

    /// Where a stream goes on.
    pub(crate) fn cursor(&self) -> Result<Option<u64>, Problem> {
        let header = self.headers.get("last-event-id").map(|value| {
            let text = value.to_str().unwrap_or_default();
            text.parse().map_err(|_| Problem::bad("`Last-Event-ID` must be a number"))
        });
        match header.transpose()? {
            Some(cursor) => Ok(Some(cursor)),
            None => self.number("resourceVersion"),
        }
    }

    pub(crate) fn caller(&self) -> Result<Caller, Problem> {
        let token = self.token.as_ref().ok_or_else(|| Problem::unauthorized("nobody asks"))?;
        Ok(Caller {
            actor: token.actor.clone(),
            scope: token.scope,
            token: token.id.clone(),
            correlation: self.correlation.clone(),
            request: crate::app::unique(self.now),
            at: self.now,
        })
    }

    /// A line of the audit log about what is done here.
    pub(crate) fn audit(&self, event: &str, subject: String, detail: Value) -> AuditEntry {
        let AuditActor { actor, correlation } = self.by();
        AuditEntry { at: self.now, actor, event: event.to_owned(), subject, correlation, detail }
    }

    /// Whoever asks, as the audit log names them.
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

/// As `AgentStack/default/mender`.
pub(crate) fn subject(object: &AnyObject) -> String {
    format!("{}/{}/{}", object.kind, object.metadata.namespace, object.metadata.name)
}

/// JSON with a status.
pub(crate) fn json(status: StatusCode, body: &impl Serialize) -> Answer {
    let bytes = serde_json::to_vec(body)
        .map_err(|error| Problem::unavailable(format!("the answer cannot be written: {error}")))?;
    let mut response = Response::new(Body::from(bytes));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    Ok(response)
}

pub(crate) fn ok(body: &impl Serialize) -> Answer {
    json(StatusCode::OK, body)
}

/// Plain text.
pub(crate) fn text(content_type: &'static str, body: impl Into<Body>) -> Response {
    let mut response = Response::new(body.into());
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}
