//! The event stream of a tab: it says that something changed, and the page reads the change itself.
//!
//! A message has the version of what it is about. A page that was disconnected learns the newest version at once, so
//! that nothing is lost or shown twice.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::extract::{Query, Request};
use axum::response::Response;
use bailiwick_fleet::ports::{LocalJobs, LocalRunEvents};
use bailiwick_model::Sha256Hex;
use bailiwick_server::{ApiError, RunList, Session, StreamPermit, StreamRefusal};
use bytes::Bytes;
use futures_util::stream;
use hyper::StatusCode;
use hyper::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use serde::Deserialize;

use crate::runs::PAGE_SIZE;
use crate::session::session;
use crate::site::{JOBS, Site};
use crate::text::encoded;

/// Changes are collected for this long.
const INTERVAL: Duration = Duration::from_millis(250);
/// Lists are read less often than a single run.
const LIST_INTERVAL: Duration = Duration::from_secs(1);
const HEARTBEAT: Duration = Duration::from_secs(15);
/// The session is looked up again this often.
const MAX_STREAM: Duration = Duration::from_secs(10 * 60);
const BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");

#[derive(Debug, Clone, Deserialize)]
struct Subscription {
    topic: Topic,
    #[serde(default)]
    run: String,
    /// The query of the list, without a cursor.
    #[serde(default)]
    filter: String,
    #[serde(default)]
    after: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Topic {
    Runs,
    Run,
    Inbox,
    /// Only the number of things that wait, for a page that stays as it is.
    Waiting,
}

struct Follower {
    site: Arc<Site>,
    session: Session,
    wanted: Subscription,
    version: Option<String>,
    waiting: Option<usize>,
    started: Instant,
    spoken: Instant,
    is_first: bool,
    ended: bool,
    permit: StreamPermit,
}

pub(crate) async fn stream(site: &Arc<Site>, request: Request) -> Response {
    let (parts, _) = request.into_parts();
    let plain = |status: StatusCode, text: &'static str| {
        let mut response = Response::new(Body::from(text));
        *response.status_mut() = status;
        response
    };
    // 204 tells the browser not to reconnect.
    let Some(session) = session(&site.api, &site.link, &parts).await else {
        return plain(StatusCode::NO_CONTENT, "");
    };
    let Ok(Query(wanted)) = Query::<Subscription>::try_from_uri(&parts.uri) else {
        return plain(StatusCode::BAD_REQUEST, "unknown topic\n");
    };
    let permit = match site.api.open_stream(&session) {
        Ok(permit) => permit,
        Err(refusal) => return refused(refusal),
    };
    let last = parts.headers.get("last-event-id").and_then(|id| id.to_str().ok());
    let now = Instant::now();
    let follower = Follower {
        site: site.clone(),
        session,
        version: Some(last.map_or_else(|| wanted.after.to_string(), str::to_owned)),
        waiting: None,
        wanted,
        started: now,
        spoken: now,
        is_first: true,
        ended: false,
        permit,
    };
    let stream = stream::unfold(follower, |mut follower| async {
        let bytes = follower.next().await?;
        Some((Ok::<Bytes, Infallible>(bytes), follower))
    });
    event_stream(Body::from_stream(stream))
}

/// Says why there is no stream: a page cannot read the status of a stream.
fn refused(refusal: StreamRefusal) -> Response {
    let data = serde_json::json!({ "message": refusal.to_string() });
    event_stream(Body::from(format!("event: refused\ndata: {data}\n\n")))
}

fn event_stream(body: Body) -> Response {
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(BUFFERING, HeaderValue::from_static("no"));
    response
}

impl Follower {
    async fn next(&mut self) -> Option<Bytes> {
        if self.ended || self.started.elapsed() > MAX_STREAM {
            // The browser reconnects; then the session is checked again.
            return None;
        }
        if self.is_first {
            self.is_first = false;
            return Some(Bytes::from_static(b"retry: 1000\nevent: hello\ndata: {}\n\n"));
        }
        loop {
            let interval = match self.wanted.topic {
                Topic::Run => INTERVAL,
                Topic::Runs | Topic::Inbox | Topic::Waiting => LIST_INTERVAL,
            };
            tokio::select! {
                () = self.site.api.shutdown() => {
                    self.ended = true;
                    return Some(Bytes::from_static(b"event: bye\ndata: {}\n\n"));
                }
                // The browser reconnects once, and learns that it is signed out.
                () = self.permit.revoked() => return None,
                () = tokio::time::sleep(interval) => {}
            }
            let read = self.read().await;
            let Ok((version, waiting)) = read else {
                // The page shows that the connection is lost, and the browser tries again.
                return None;
            };
            let changed = self.version.as_ref() != Some(&version);
            if changed || self.waiting != Some(waiting) {
                self.version = Some(version.clone());
                self.waiting = Some(waiting);
                self.spoken = Instant::now();
                let data = serde_json::json!({ "waiting": waiting, "changed": changed });
                let text = format!("id: {version}\nevent: change\ndata: {data}\n\n");
                return Some(Bytes::from(text));
            }
            if self.spoken.elapsed() > HEARTBEAT {
                self.spoken = Instant::now();
                return Some(Bytes::from_static(b": still here\n\n"));
            }
        }
    }

    /// The version of what the page shows, and the number of things that wait.
    async fn read(&self) -> Result<(String, usize), ApiError> {
        let waiting = self.site.recent_waiting(&self.session).await?;
        let (api, session, wanted) = (&self.site.api, &self.session, &self.wanted);
        let version = match wanted.topic {
            Topic::Run => {
                let known = self.version.as_deref().and_then(|text| text.split('.').next());
                let after = known.and_then(|text| text.parse::<u64>().ok()).unwrap_or(wanted.after);
                let run = encoded(&wanted.run);
                let path = format!("/api/v1alpha1/local/runs/{run}/events?after={after}&limit=1");
                let read: LocalRunEvents = api.get(session, &path).await?;
                let jobs: LocalJobs =
                    api.get(session, &format!("/api/v1alpha1/local/jobs?run={run}")).await?;
                let mut version = read.last.to_string();
                if !jobs.items.is_empty() {
                    version += &format!(".{}", digest(&jobs));
                }
                if read.ended { format!("{version}.ended") } else { version }
            }
            Topic::Runs => {
                let mut path = format!("/api/v1alpha1/all-runs?limit={PAGE_SIZE}");
                if !wanted.filter.is_empty() {
                    path += &format!("&{}", wanted.filter);
                }
                digest(&api.get::<RunList>(session, &path).await?)
            }
            Topic::Inbox => {
                let jobs: LocalJobs = api.get(session, JOBS).await?;
                digest(&(&*waiting, jobs))
            }
            Topic::Waiting => wanted.after.to_string(),
        };
        Ok((version, waiting.count()))
    }
}

fn digest(value: &impl serde::Serialize) -> String {
    let text = serde_json::to_string(value).unwrap_or_default();
    Sha256Hex::of(text).prefix(16).to_owned()
}
