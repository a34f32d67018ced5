//! Errors of the API, with one format for all of them.

use axum::body::Body;
use axum::response::Response;
use bailiwick_fleet::ports::{ActionError, ActionReason, FleetError};
use bailiwick_fleet::resources::DeclareError;
use bailiwick_resources::{Fault, ObjectError};
use hyper::StatusCode;
use hyper::header::{CONTENT_TYPE, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// An error that is returned to a client.
#[derive(Debug, Clone)]
pub(crate) struct Problem {
    pub(crate) status: StatusCode,
    pub(crate) code: &'static str,
    pub(crate) message: String,
    pub(crate) resource: String,
    pub(crate) reasons: Vec<ActionReason>,
    pub(crate) retry_after: Option<u64>,
}

/// The body of every error response.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ErrorBody {
    /// The error.
    pub error: ErrorDetail,
}

/// An error.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ErrorDetail {
    /// A stable code.
    pub code: String,
    /// What is wrong and how to fix it.
    pub message: String,
    /// The id of this response in the server's log.
    pub correlation_id: String,
    /// The resource, for example `AgentStack/default/mender`; can be empty.
    pub resource: String,
    /// The individual faults.
    pub reasons: Vec<ActionReason>,
}

impl Problem {
    pub(crate) fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        Self {
            status,
            code,
            message: message.into(),
            resource: String::new(),
            reasons: Vec::new(),
            retry_after: None,
        }
    }

    pub(crate) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "BAD_REQUEST", message)
    }

    pub(crate) fn not_found(message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "NOT_FOUND", message)
    }

    /// A path without a route: the client may be newer than the server.
    pub(crate) fn no_such_path() -> Self {
        let message = "there is no such path; /openapi.json lists all paths";
        Self::new(StatusCode::NOT_FOUND, "NO_SUCH_PATH", message)
    }

    pub(crate) fn forbidden(code: &'static str, message: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, code, message)
    }

    pub(crate) fn unauthorized(message: impl Into<String>) -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "UNAUTHORIZED", message)
    }

    pub(crate) fn conflict(code: &'static str, message: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, code, message)
    }

    pub(crate) fn unavailable(message: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "UNAVAILABLE", message)
    }

    pub(crate) fn too_many(message: impl Into<String>, seconds: u64) -> Self {
        let problem = Self::new(StatusCode::TOO_MANY_REQUESTS, "TOO_MANY_REQUESTS", message);
        Self { retry_after: Some(seconds), ..problem }
    }

    /// Unavailable; the client can retry after this many seconds.
    pub(crate) fn busy(message: impl Into<String>, seconds: u64) -> Self {
        Self { retry_after: Some(seconds), ..Self::unavailable(message) }
    }

    pub(crate) fn body_timed_out() -> Self {
        let message = "the body took too long to arrive";
        Self::new(StatusCode::REQUEST_TIMEOUT, "TOO_SLOW", message)
    }

    pub(crate) fn too_large(max_bytes: usize) -> Self {
        let message = format!("the body is larger than the limit of {max_bytes} bytes");
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "TOO_LARGE", message)
    }

    /// Well-formed input with invalid values.
    pub(crate) fn invalid(faults: &[Fault]) -> Self {
        let message = match faults {
            [fault] => format!("{}: {}", fault.field, fault.message),
            faults => format!("there are {} faults", faults.len()),
        };
        let reasons = faults
            .iter()
            .map(|fault| ActionReason {
                code: "Invalid".to_owned(),
                field: fault.field.clone(),
                message: fault.message.clone(),
            })
            .collect();
        let problem = Self::new(StatusCode::UNPROCESSABLE_ENTITY, "INVALID", message);
        Self { reasons, ..problem }
    }

    pub(crate) fn invalid_field(field: &str, message: impl Into<String>) -> Self {
        Self::invalid(&[Fault::new(field, message)])
    }

    #[must_use]
    pub(crate) fn with_resource(mut self, resource: impl Into<String>) -> Self {
        self.resource = resource.into();
        self
    }

    /// 400 for malformed JSON, 422 for JSON of another type.
    pub(crate) fn json(error: &serde_json::Error) -> Self {
        match error.classify() {
            serde_json::error::Category::Data => Self::invalid_field("", error.to_string()),
            serde_json::error::Category::Io
            | serde_json::error::Category::Syntax
            | serde_json::error::Category::Eof => {
                Self::bad_request(format!("the body is not JSON: {error}"))
            }
        }
    }

    pub(crate) fn response(self, correlation: &str) -> Response {
        let body = ErrorBody {
            error: ErrorDetail {
                code: self.code.to_owned(),
                message: self.message,
                correlation_id: correlation.to_owned(),
                resource: self.resource,
                reasons: self.reasons,
            },
        };
        let mut response = Response::new(Body::from(serde_json::to_vec(&body).unwrap_or_default()));
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if self.status == StatusCode::UNAUTHORIZED {
            headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if let Some(seconds) = self.retry_after {
            headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}

impl From<FleetError> for Problem {
    fn from(error: FleetError) -> Self {
        let message = error.to_string();
        match error {
            FleetError::NotFound { kind, namespace, name } => {
                Self::not_found(message).with_resource(format!("{kind}/{namespace}/{name}"))
            }
            FleetError::AlreadyExists { kind, namespace, name } => {
                Self::conflict("ALREADY_EXISTS", message)
                    .with_resource(format!("{kind}/{namespace}/{name}"))
            }
            FleetError::Conflict { kind, namespace, name, .. } => {
                Self::conflict("CONFLICT", message)
                    .with_resource(format!("{kind}/{namespace}/{name}"))
            }
            FleetError::Gone { .. } => Self::new(StatusCode::GONE, "GONE", message),
            FleetError::InvalidContinuation(_) => Self::bad_request(message),
            FleetError::Undecryptable { value, why } => {
                tracing::error!(what = value, why, "a secret value cannot be decrypted");
                Self::unavailable("a secret value cannot be decrypted (see the server log)")
            }
            FleetError::Unavailable(why) => {
                // The message of the store can name files: it goes to the log only.
                tracing::error!(why, "the store is unavailable");
                Self::unavailable("the store is unavailable (see the server log)")
            }
        }
    }
}

impl From<DeclareError> for Problem {
    fn from(error: DeclareError) -> Self {
        let message = error.to_string();
        match error {
            DeclareError::Store(error) => error.into(),
            DeclareError::Shape(error) => error.into(),
            DeclareError::Faulty { kind, name, faults } => {
                Self::invalid(&faults).with_resource(format!("{kind}/{name}"))
            }
            DeclareError::Recorded { .. } => Self::forbidden("KIND_DENIED", message),
            DeclareError::Secret { .. } => Self::invalid_field("kind", message),
            DeclareError::Twice { .. } => Self::invalid_field("documents", message),
        }
    }
}

impl From<ObjectError> for Problem {
    fn from(error: ObjectError) -> Self {
        let message = error.to_string();
        match error {
            ObjectError::Version { .. } => Self::invalid_field("apiVersion", message),
            ObjectError::Kind { .. } => Self::invalid_field("kind", message),
            ObjectError::Shape { kind, name, field, why } => {
                Self::invalid(&[Fault::new(field, why)]).with_resource(format!("{kind}/{name}"))
            }
        }
    }
}

impl From<ActionError> for Problem {
    fn from(error: ActionError) -> Self {
        match error {
            ActionError::Store(error) => error.into(),
            ActionError::NotFound(message) => Self::not_found(message),
            ActionError::Denied { message, reasons } => {
                Self { reasons, ..Self::forbidden("POLICY_DENIED", message) }
            }
            ActionError::Conflict { code, message } => {
                let reason = ActionReason { code, field: String::new(), message: message.clone() };
                Self { reasons: vec![reason], ..Self::conflict("CONFLICT", message) }
            }
            ActionError::Invalid(faults) => Self::invalid(&faults),
            ActionError::TooMany(message) => Self::too_many(message, 5),
            ActionError::Unavailable(message) => Self::unavailable(message),
        }
    }
}
