//! One request of the program, from its first byte to the response.

use std::sync::Arc;
use std::time::Duration;

use bailiwick_policy::dialects::MAX_PAYLOAD_SIZE;
use bytes::{Bytes, BytesMut};
use http_body_util::{BodyExt as _, Limited};
use hyper::body::Incoming;
use hyper::header::{CONNECTION, CONTENT_ENCODING, CONTENT_LENGTH, HeaderMap, HeaderValue};
use hyper::http::request::Parts;
use hyper::{Method, Request, Response, StatusCode};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::bodies::{
    Body, BodyError, FRAMES, Shape, collect, empty, full, respond, whole, without,
};
use super::callers::{Caller, KnownCallers, Refusal};
use super::connect::{self, Tunnel};
use super::connections::ActiveRequest;
use super::frames::framed;
use super::limits::{Limits, is_json};
use super::model_apis::{RequestBody, Route, SyntheticAnswer, Target};
use super::observed_stream::{ObservedAnswer, ObservedStream, RequestOrigin};
use super::parsed_answer::Unreadable;
use super::upstream::{
    Model, OutgoingRequest, UpstreamError, clean_query, end_to_end, foreign_query, in_full,
};
use super::{Admission, GATE_PATH, HttpGate, ModelApi, ModelRequest, Observer, strict_json};

/// The maximum size of a request, and of a response that is not a stream.
const MAX_BODY: usize = 64 << 20;
/// The maximum size of other responses, such as an error or a list of models.
const MAX_ASIDE: usize = 16 << 20;
/// The maximum size of all buffered requests together: a program can send many at once, and they use memory outside
/// the sandbox.
const ROOM: usize = 128 << 20;
/// The maximum number of open gate questions, including those that wait for a person.
const QUESTIONS: usize = 64;
/// The maximum size of a gate question: the largest call, with JSON escapes.
const MAX_QUESTION: usize = 2 * MAX_PAYLOAD_SIZE;
/// The time limit for receiving a model request.
const ASKING_TIME: Duration = Duration::from_mins(10);
/// The time limit for receiving a gate question.
const QUESTION_TIME: Duration = Duration::from_secs(5);

/// The state that all requests share.
pub(super) struct Shared {
    pub(super) wire: ModelApi,
    pub(super) model: Option<Model>,
    pub(super) limits: Limits,
    pub(super) observer: Arc<dyn Observer>,
    callers: KnownCallers,
    http_gate: Option<Arc<dyn HttpGate>>,
    /// The free slots for gate questions.
    places: Semaphore,
    /// The free buffer space, in bytes.
    room: Arc<Semaphore>,
}

/// A request body and its share of the buffer space.
struct BufferedBody {
    text: Bytes,
    room: Option<OwnedSemaphorePermit>,
}

/// The error response to the program.
type ErrorResponse = Box<Response<Body>>;

impl Shared {
    pub(super) fn new(
        wire: ModelApi,
        model: Option<Model>,
        limits: Limits,
        observer: Arc<dyn Observer>,
        callers: KnownCallers,
        http_gate: Option<Arc<dyn HttpGate>>,
    ) -> Self {
        let (places, room) = (Semaphore::new(QUESTIONS), Arc::new(Semaphore::new(ROOM)));
        Self { wire, model, limits, observer, callers, http_gate, places, room }
    }

    /// Answers a request. A tunnel starts after the connection is upgraded.
    pub(super) async fn answer(
        &self,
        request: Request<Incoming>,
        caller: &Caller,
        slot: &mut ActiveRequest,
        tunnel: &mut Option<Tunnel>,
    ) -> Response<Body> {
        let asks_gate = request.uri().authority().is_none() && request.uri().path() == GATE_PATH;
        if let Some(http_gate) = self.http_gate.as_deref().filter(|_| asks_gate) {
            let (parts, body) = request.into_parts();
            let answer = self.answer_gate_question(http_gate, &parts, body, slot).await;
            let mut answer = answer.unwrap_or_else(|refused| *refused);
            if !slot.may_stay_open() {
                answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
            }
            return answer;
        }
        if !slot.acquire_model_slot() {
            let why = "too much is asked at once; try again";
            return self.error(StatusCode::SERVICE_UNAVAILABLE, why);
        }
        if request.method() == Method::CONNECT {
            return connect::open(self, request, tunnel).await;
        }
        let method = request.method().clone();
        if let Some(authority) = request.uri().authority() {
            let host = authority.as_str();
            self.observer.on_connect(host, false);
            let why = format!("{host} cannot be reached this way");
            return self.error(StatusCode::FORBIDDEN, &why);
        }
        if let Err(Refusal { why, told }) = self.callers.admit(caller) {
            if let Some(what) = told {
                self.observer.on_rejected(&what, "only the agent program itself may ask its model");
            }
            return self.error(StatusCode::FORBIDDEN, &why);
        }
        let path = request.uri().path().to_owned();
        let (parts, body) = request.into_parts();
        if let Some(part) = foreign_query(self.wire, parts.uri.query()) {
            let why = format!("`{part}` is no parameter of a request to this model");
            self.observer.on_rejected(&format!("{method} {path}"), &why);
            return self.error(StatusCode::BAD_REQUEST, &why);
        }
        let answer = match self.wire.route(&method, &path) {
            Route::Here => Ok(Response::new(empty())),
            Route::Model(target) => self.ask_model(&parts, body, target).await,
            Route::Aside(path) => self.aside(&parts, body, &path).await,
            Route::Unknown => {
                let what = format!("{method} {path}");
                self.observer.on_rejected(&what, "it is no request to a model");
                let why = format!("{what} is not passed on");
                Ok(self.error(StatusCode::NOT_FOUND, &why))
            }
        };
        answer.unwrap_or_else(|refused| *refused)
    }

    /// An error in the format of the model API.
    pub(super) fn error(&self, status: StatusCode, message: &str) -> Response<Body> {
        let message = format!("bailiwick: {message}");
        whole(status, self.wire.error(status, &message).to_string(), "application/json")
    }

    fn refused(&self, status: StatusCode, message: &str) -> ErrorResponse {
        Box::new(self.error(status, message))
    }

    /// A gate question.
    async fn answer_gate_question(
        &self,
        http_gate: &dyn HttpGate,
        parts: &Parts,
        body: Incoming,
        slot: &ActiveRequest,
    ) -> Result<Response<Body>, ErrorResponse> {
        if parts.method != Method::POST {
            return Err(self.refused(StatusCode::METHOD_NOT_ALLOWED, "only questions are answered"));
        }
        // Excess and unreadable requests get no response: a program may take an error for permission.
        let place = self.places.acquire().await;
        let all = Limited::new(body, MAX_QUESTION).collect();
        let Ok(Ok(all)) = tokio::time::timeout(QUESTION_TIME, all).await else {
            self.observer.on_rejected("a question to the gate", "it cannot be read");
            drop(place);
            slot.mark_never_answered();
            return std::future::pending().await;
        };
        let text = all.to_bytes();
        Ok(match http_gate.ask(&text).await {
            Some(answer) => whole(StatusCode::OK, answer, "application/json"),
            None => respond(StatusCode::ACCEPTED, HeaderMap::new(), empty()),
        })
    }

    /// A request that is not a model turn: forwarded together with its response.
    async fn aside(
        &self,
        parts: &Parts,
        body: Incoming,
        path: &str,
    ) -> Result<Response<Body>, ErrorResponse> {
        let BufferedBody { text, room: _room } = self.body(parts, body).await?;
        let answer = self.send(parts, path, text).await?;
        self.as_it_is(answer).await
    }

    async fn ask_model(
        &self,
        parts: &Parts,
        body: Incoming,
        target: Target,
    ) -> Result<Response<Body>, ErrorResponse> {
        let BufferedBody { text, room: _room } = self.body(parts, body).await?;
        let refusal = |why: &str| {
            self.observer.on_rejected("a request to the model", why);
            self.refused(StatusCode::BAD_REQUEST, &format!("the request cannot be read: {why}"))
        };
        if parts.headers.contains_key(CONTENT_ENCODING) {
            return Err(refusal("it is compressed"));
        }
        if !is_json(&parts.headers) {
            return Err(refusal("its content type is not application/json in UTF-8"));
        }
        let value = strict_json::parse(&text).map_err(|unreadable| refusal(unreadable.0))?;
        let found = self.wire.server_side(&value).map_err(|unreadable| refusal(unreadable.0))?;
        if let Some(why) = found.iter().find_map(|one| self.limits.refuses(one)) {
            self.observer.on_rejected("a request to the model", &why);
            return Err(self.refused(StatusCode::BAD_REQUEST, &why));
        }
        let question = self.wire.read(&value).map_err(|unreadable| refusal(unreadable.0))?;
        let RequestBody { model, streams, offers_tools, results } = question;
        // If the path names a model, the body must not name another one.
        for named in target.model.iter().chain(&model) {
            self.limits.models.admit(named, offers_tools).map_err(|error| {
                let why = error.to_string();
                self.observer.on_rejected(&format!("a request to the model {named}"), &why);
                self.refused(StatusCode::BAD_REQUEST, &why)
            })?;
        }
        let model = target.model.clone().or(model).ok_or_else(|| refusal("it names no model"))?;
        let agent = self.wire.agent(&parts.headers);
        let asking = RequestOrigin {
            agent: agent.clone(),
            model: model.clone(),
            by_path: target.model.is_some(),
            sent: text.len() as u64,
        };
        let shape = Shape::of(parts, target.shape, streams);
        let model_request = ModelRequest { agent, model, offers_tools, results };
        let text = self.wire.amended(&text, &value).map_or(text, Bytes::from);
        // It may wait for a person and does not need the buffer space.
        drop(value);
        match self.observer.admit(model_request).await {
            Admission::Pass => {
                // From here on it may cost money, even if the program disconnects.
                let reading = ObservedAnswer::new(self.wire, Arc::clone(&self.observer), asking);
                match self.send(parts, &target.path, text).await {
                    Ok(answer) => self.pass(answer, shape, reading).await,
                    Err(refused) => {
                        reading.dismiss();
                        Err(refused)
                    }
                }
            }
            Admission::Refuse(why) => Err(self.refused(StatusCode::BAD_REQUEST, &why)),
            Admission::Call(call) => {
                Ok(self.play(SyntheticAnswer::Call(&call), &asking.model, shape))
            }
            Admission::Say(words) => {
                Ok(self.play(SyntheticAnswer::Say(&words), &asking.model, shape))
            }
        }
    }

    fn play(&self, played: SyntheticAnswer<'_>, model: &str, shape: Shape) -> Response<Body> {
        let streams = matches!(shape, Shape::Events | Shape::Frames);
        let text = self.wire.play(played, model, streams);
        match shape {
            Shape::Events => whole(StatusCode::OK, text, "text/event-stream"),
            Shape::List => whole(StatusCode::OK, format!("[{text}]"), "application/json"),
            Shape::Whole => whole(StatusCode::OK, text, "application/json"),
            Shape::Frames => match framed(&text) {
                Ok(frames) => whole(StatusCode::OK, frames, FRAMES),
                Err(Unreadable(why)) => self.error(StatusCode::BAD_GATEWAY, why),
            },
        }
    }

    /// All of the request's body.
    async fn body(&self, parts: &Parts, body: Incoming) -> Result<BufferedBody, ErrorResponse> {
        let length_header = parts.headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok());
        let length_header = length_header.and_then(|length| length.parse().ok());
        if length_header.is_some_and(|length: usize| length > MAX_BODY) {
            return Err(self.too_much(StatusCode::PAYLOAD_TOO_LARGE));
        }
        let late = |_| self.refused(StatusCode::REQUEST_TIMEOUT, "the request did not end");
        tokio::time::timeout(ASKING_TIME, self.read(body)).await.map_err(late)?
    }

    async fn read(&self, mut body: Incoming) -> Result<BufferedBody, ErrorResponse> {
        let mut text = BytesMut::new();
        let mut room: Option<OwnedSemaphorePermit> = None;
        while let Some(frame) = body.frame().await {
            let broken =
                |error: hyper::Error| self.refused(StatusCode::BAD_REQUEST, &in_full(&error));
            let Ok(data) = frame.map_err(broken)?.into_data() else { continue };
            if text.len().saturating_add(data.len()) > MAX_BODY {
                return Err(self.too_much(StatusCode::PAYLOAD_TOO_LARGE));
            }
            let length = u32::try_from(data.len()).unwrap_or(u32::MAX);
            let more = Arc::clone(&self.room).try_acquire_many_owned(length);
            // Buffer space will be free later: the program may retry.
            let more = more.map_err(|_| self.too_much(StatusCode::SERVICE_UNAVAILABLE))?;
            match &mut room {
                Some(room) => room.merge(more),
                None => room = Some(more),
            }
            text.extend_from_slice(&data);
        }
        Ok(BufferedBody { text: text.freeze(), room })
    }

    fn too_much(&self, status: StatusCode) -> ErrorResponse {
        let why = "the request is longer than can be read";
        self.observer.on_rejected("a request to the model", why);
        self.refused(status, why)
    }

    /// Forwards the request. A request without a response is not charged.
    async fn send(
        &self,
        parts: &Parts,
        path: &str,
        body: Bytes,
    ) -> Result<reqwest::Response, ErrorResponse> {
        let Some(model) = &self.model else {
            // Not a temporary error: the program would retry for ever.
            let why = "there is no model to ask";
            return Err(self.refused(StatusCode::BAD_REQUEST, why));
        };
        let query = clean_query(parts.uri.query());
        let query = query.as_deref();
        let (method, headers) = (parts.method.clone(), &parts.headers);
        let sent = model.send(OutgoingRequest { method, path, query, headers, body }).await;
        if let Ok(status @ (StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN)) =
            sent.as_ref().map(reqwest::Response::status)
        {
            self.observer.key_refused(status.as_u16());
        }
        sent.map_err(|UpstreamError { why, told }| {
            self.observer.on_rejected("a request to the model", &why);
            let told = format!("the model does not answer: {told}");
            self.refused(StatusCode::BAD_GATEWAY, &told)
        })
    }

    /// The model's response, read while it is forwarded. Other responses are forwarded unread.
    async fn pass(
        &self,
        answer: reqwest::Response,
        shape: Shape,
        reading: ObservedAnswer,
    ) -> Result<Response<Body>, ErrorResponse> {
        let status = answer.status();
        if !status.is_success() {
            reading.dismiss();
            return self.as_it_is(answer).await;
        }
        let mut headers = end_to_end(answer.headers());
        let encoded = headers.get(CONTENT_ENCODING).is_some_and(|value| value != "identity");
        if encoded {
            return Err(self.unreadable(reading, "it is compressed"));
        }
        if let Some(framing) = shape.framing(&headers) {
            // With a length, the program would see the end before it is reported.
            headers.remove(CONTENT_LENGTH);
            let watched = ObservedStream::new(Box::pin(answer.bytes_stream()), framing, reading);
            let body = watched.map_err(BodyError::from).boxed_unsync();
            return Ok(respond(status, headers, body));
        }
        self.whole(answer, headers, reading).await
    }

    /// A response that is not a stream is forwarded after it was read.
    async fn whole(
        &self,
        answer: reqwest::Response,
        headers: HeaderMap,
        mut reading: ObservedAnswer,
    ) -> Result<Response<Body>, ErrorResponse> {
        let status = answer.status();
        let body = match collect(answer, MAX_BODY).await {
            Ok(body) => body,
            Err(error) => return Err(self.unreadable(reading, &error.to_string())),
        };
        reading.received(body.len());
        match reading.whole(&body) {
            Ok(()) => Ok(respond(status, headers, full(body))),
            Err(unreadable) => Err(self.unreadable(reading, unreadable.0)),
        }
    }

    fn unreadable(&self, mut reading: ObservedAnswer, why: &str) -> ErrorResponse {
        reading.give_up(why);
        self.refused(StatusCode::BAD_GATEWAY, &format!("the answer cannot be read: {why}"))
    }

    /// A short response, usually an error. If the host repeats the key in it, the key is removed.
    async fn as_it_is(&self, answer: reqwest::Response) -> Result<Response<Body>, ErrorResponse> {
        let (status, mut headers) = (answer.status(), end_to_end(answer.headers()));
        let body = collect(answer, MAX_ASIDE).await;
        let body =
            body.map_err(|error| self.refused(StatusCode::BAD_GATEWAY, &error.to_string()))?;
        let secrets = self.model.as_ref().map(Model::secrets).unwrap_or_default();
        let clean = secrets.into_iter().fold(body, |body, secret| without(&body, &secret));
        headers.insert(CONTENT_LENGTH, HeaderValue::from(clean.len()));
        Ok(respond(status, headers, full(clean)))
    }
}
